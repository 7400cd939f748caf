//! What a walk found: per instance the blocks walked, and within them the blocks per medium and per rank.

/// Media that every answer names: GPU, CPU, DISK, EXTERNAL by their numbers.
const COMMON: usize = 4;

/// One instance's part of an answer, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Instance, numbered within the shard.
    pub instance: u32,
    /// Blocks walked.
    pub longest: u32,
    media: [u32; COMMON],
    first_rank: (u32, u32),
    more: bool,
}

/// What a walk found.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    hits: Vec<Hit>,
    /// (hit, medium, blocks) beyond the common media.
    media: Vec<(u32, u8, u32)>,
    /// (hit, rank, blocks) beyond the first rank of a hit.
    ranks: Vec<(u32, u32, u32)>,
}

impl Answer {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.hits.clear();
        self.media.clear();
        self.ranks.clear();
    }

    /// The instances that hold at least the first block.
    pub fn hits(&self) -> &[Hit] {
        &self.hits
    }

    /// Starts a hit; returns its number.
    pub(super) fn start(&mut self, instance: u32) -> u32 {
        self.hits.push(Hit { instance, first_rank: (0, u32::MAX), ..Hit::default() });
        self.hits.len() as u32 - 1
    }

    /// Makes room for so many hits.
    pub(super) fn reserve(&mut self, hits: usize) {
        self.hits.reserve(hits);
    }

    /// Starts a hit of an instance with one owner; returns its number.
    #[inline]
    pub(super) fn start_with(&mut self, instance: u32, blocks: u32, medium: u8, rank: Option<u32>) -> u32 {
        // one store a field: what is written in pieces and copied as a whole stalls
        let on = |number| if medium == number { blocks } else { 0 };
        let first_rank = rank.map_or((0, u32::MAX), |rank| (rank, blocks));
        let media = [on(0), on(1), on(2), on(3)];
        self.hits.push(Hit { instance, longest: blocks, media, first_rank, more: false });
        let number = self.hits.len() as u32 - 1;
        if usize::from(medium) >= COMMON {
            self.add_medium(number, medium, blocks);
        }
        number
    }

    pub(super) fn hit_mut(&mut self, hit: u32) -> &mut Hit {
        &mut self.hits[hit as usize]
    }

    #[inline]
    pub(super) fn add_medium(&mut self, hit: u32, medium: u8, blocks: u32) {
        let at = &mut self.hits[hit as usize];
        if let Some(common) = at.media.get_mut(usize::from(medium)) {
            *common += blocks;
            return;
        }
        at.more = true;
        match self.media.iter_mut().find(|(of, other, _)| *of == hit && *other == medium) {
            Some((_, _, known)) => *known += blocks,
            None => self.media.push((hit, medium, blocks)),
        }
    }

    #[inline]
    pub(super) fn add_rank(&mut self, hit: u32, rank: u32, blocks: u32) {
        let at = &mut self.hits[hit as usize];
        if at.first_rank.1 == u32::MAX {
            at.first_rank = (rank, blocks);
        } else if at.first_rank.0 == rank {
            at.first_rank.1 += blocks;
        } else {
            at.more = true;
            match self.ranks.iter_mut().find(|(of, other, _)| *of == hit && *other == rank) {
                Some((_, _, known)) => *known += blocks,
                None => self.ranks.push((hit, rank, blocks)),
            }
        }
    }

    /// The hit of an instance.
    pub fn find(&self, instance: u32) -> Option<u32> {
        self.hits.iter().position(|hit| hit.instance == instance).map(|at| at as u32)
    }

    /// Blocks on one of the common media (0 GPU, 1 CPU, 2 DISK, 3 EXTERNAL).
    pub fn on(&self, hit: u32, medium: u8) -> u32 {
        self.hits[hit as usize].media[usize::from(medium)]
    }

    /// (medium, blocks) for every medium with blocks.
    pub fn media(&self, hit: u32) -> impl Iterator<Item = (u8, u32)> {
        let at = &self.hits[hit as usize];
        let common = at.media.iter().enumerate().map(|(medium, blocks)| (medium as u8, *blocks));
        let more = if at.more { self.media.as_slice() } else { &[] };
        let more =
            more.iter().filter(move |(of, ..)| *of == hit).map(|(_, medium, blocks)| (*medium, *blocks));
        common.chain(more).filter(|(_, blocks)| *blocks > 0)
    }

    /// (rank, blocks) for every rank with blocks, in no order.
    pub fn ranks(&self, hit: u32) -> impl Iterator<Item = (u32, u32)> {
        let at = &self.hits[hit as usize];
        let first = (at.first_rank.1 != u32::MAX).then_some(at.first_rank);
        let more = if at.more { self.ranks.as_slice() } else { &[] };
        let more = more.iter().filter(move |(of, ..)| *of == hit).map(|(_, rank, blocks)| (*rank, *blocks));
        first.into_iter().chain(more).filter(|(_, blocks)| *blocks > 0)
    }

    /// Takes over the hits of `other` that are longer than ours.
    pub fn take_longer(&mut self, other: &Answer) {
        for (from, hit) in other.hits.iter().enumerate() {
            let to = match self.find(hit.instance) {
                Some(ours) if self.hits[ours as usize].longest >= hit.longest => continue,
                Some(ours) => ours,
                None => self.start(hit.instance),
            };
            self.media.retain(|(of, ..)| *of != to);
            self.ranks.retain(|(of, ..)| *of != to);
            self.hits[to as usize] = Hit {
                instance: hit.instance,
                longest: hit.longest,
                first_rank: (0, u32::MAX),
                ..Hit::default()
            };
            for (medium, blocks) in other.media(from as u32) {
                self.add_medium(to, medium, blocks);
            }
            for (rank, blocks) in other.ranks(from as u32) {
                self.add_rank(to, rank, blocks);
            }
        }
    }
}
