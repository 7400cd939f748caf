//! The hash of a chunk wherever it stands: a polynomial of its tokens, modulo 2^64.
//!
//! The hash of tokens `t0 … tk-1` is `t0·B^(k-1) + … + tk-1`. Moving the window by one token costs two
//! multiplications.

/// `B`; the same in the whole fleet.
pub const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// The hash of one chunk.
pub fn hash<T: Copy + Into<u64>>(chunk: &[T]) -> u64 {
    chunk.iter().fold(0, |hash, &token| push(hash, token.into()))
}

fn push(hash: u64, token: u64) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(token)
}

/// The window of a fixed size that moves over tokens.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    size: usize,
    /// `B^size`: what the token has become that falls out when another one is pushed.
    out: u64,
    hash: u64,
    /// Tokens seen.
    seen: usize,
}

impl Window {
    /// A window of `size` tokens, at least one, before any token.
    pub fn new(size: usize) -> Self {
        let (mut out, mut factor, mut left) = (1u64, BASE, size);
        while left > 0 {
            if left & 1 == 1 {
                out = out.wrapping_mul(factor);
            }
            factor = factor.wrapping_mul(factor);
            left >>= 1;
        }
        Self { size: size.max(1), out, hash: 0, seen: 0 }
    }

    /// Tokens seen.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Takes in the next of `tokens`, which are those that were seen and more. Gives the position and the hash of the
    /// window that ends with it, once it is full; `None` too where there is no next token.
    pub fn advance<T: Copy + Into<u64>>(&mut self, tokens: &[T]) -> Option<(usize, u64)> {
        let next: u64 = (*tokens.get(self.seen)?).into();
        self.hash = push(self.hash, next);
        if let Some(first) = self.seen.checked_sub(self.size) {
            let gone: u64 = tokens[first].into();
            self.hash = self.hash.wrapping_sub(gone.wrapping_mul(self.out));
        }
        self.seen += 1;
        self.seen.checked_sub(self.size).map(|position| (position, self.hash))
    }
}
