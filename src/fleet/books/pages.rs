//! A slab in pages: what stands in it never moves, growing copies nothing, and an empty page is given back.

/// `N` items a page, at most `u16::MAX`; a vacated place holds the default.
pub(super) struct Pages<T, const N: usize> {
    all: Vec<Page<T>>,
    /// Every page with room, once.
    open: Vec<u32>,
    /// The memory of the page that was emptied last, so that growth and decline at a boundary cost nothing.
    spare: Vec<T>,
    allocated: usize,
}

struct Page<T> {
    items: Vec<T>,
    free: Vec<u16>,
}

impl<T> Page<T> {
    fn used(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T: Default, const N: usize> Pages<T, N> {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), open: Vec::new(), spare: Vec::new(), allocated: 0 }
    }

    /// Heap bytes, without what items own.
    pub(super) fn bytes(&self) -> usize {
        self.allocated * N * size_of::<T>()
            + self.all.capacity() * size_of::<Page<T>>()
            + self.all.iter().map(|page| page.free.capacity() * size_of::<u16>()).sum::<usize>()
            + self.open.capacity() * size_of::<u32>()
    }

    /// One more than the highest place.
    pub(super) fn end(&self) -> u32 {
        (self.all.len() * N) as u32
    }

    pub(super) fn put(&mut self, item: T) -> u32 {
        if self.open.is_empty() {
            self.open.push(self.all.len() as u32);
            self.all.push(Page { items: Vec::new(), free: Vec::new() });
        }
        let number = self.open[self.open.len() - 1];
        let page = &mut self.all[number as usize];
        if page.items.capacity() == 0 {
            page.items = std::mem::take(&mut self.spare);
            if page.items.capacity() == 0 {
                page.items.reserve_exact(N);
                self.allocated += 1;
            }
        }
        let at = if let Some(at) = page.free.pop() {
            page.items[usize::from(at)] = item;
            usize::from(at)
        } else {
            page.items.push(item);
            page.items.len() - 1
        };
        if page.used() == N {
            self.open.pop();
        }
        number * N as u32 + at as u32
    }

    pub(super) fn take(&mut self, at: u32) -> T {
        let (number, inner) = (at as usize / N, at as usize % N);
        let page = &mut self.all[number];
        let item = std::mem::take(&mut page.items[inner]);
        if page.used() == N {
            self.open.push(number as u32);
        }
        page.free.push(inner as u16);
        if page.used() == 0 {
            page.free = Vec::new();
            page.items.clear();
            let mut empty = std::mem::take(&mut page.items);
            std::mem::swap(&mut self.spare, &mut empty);
            self.allocated -= usize::from(empty.capacity() > 0);
        }
        item
    }

    /// What stands there, if anything ever did since its page was last empty.
    pub(super) fn look(&self, at: u32) -> Option<&T> {
        self.all.get(at as usize / N)?.items.get(at as usize % N)
    }
}

impl<T, const N: usize> std::ops::Index<u32> for Pages<T, N> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        &self.all[at as usize / N].items[at as usize % N]
    }
}

impl<T, const N: usize> std::ops::IndexMut<u32> for Pages<T, N> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.all[at as usize / N].items[at as usize % N]
    }
}
