//! Choices that a number decides.

/// A small deterministic stream of choices.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.roll(n) == 0
    }

    pub(crate) fn path(&mut self, most: usize, symbols: usize) -> Vec<u8> {
        let mut path = Vec::new();
        for _ in 0..=self.roll(most) {
            // no symbol twice: a name without chaining must not stand above itself
            let symbol = self.roll(symbols) as u8;
            if !path.contains(&symbol) {
                path.push(symbol);
            }
        }
        path
    }
}
