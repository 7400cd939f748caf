//! Prompts of which it is known who holds how much.

use super::{VOCABULARY, mix};

/// By how many blocks the holders of a prompt differ, so that an answer that mixes them up is seen.
const STAGGER: u32 = 4;

/// One point of the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Blocks of a prompt.
    pub depth: u32,
    /// Share of them that is held, 0 to 1.
    pub hit: f64,
}

/// The prompts of a bench, and who holds what of them.
#[derive(Clone, Copy, Debug)]
pub struct Prompts {
    /// Everything follows from it.
    pub seed: u64,
    /// Tokens a block.
    pub block_size: u32,
    /// Prompts a cell.
    pub prompts: u32,
    /// Instances that hold them.
    pub owners: u32,
}

impl Prompts {
    /// Tokens of a prompt of the cell with this number: all of it, held or not.
    pub fn tokens(&self, cell: u32, depth: u32, prompt: u32) -> Vec<u32> {
        let start = mix(self.seed ^ mix(u64::from(cell) << 32 | u64::from(prompt)));
        let len = u64::from(depth) * u64::from(self.block_size);
        (0..len).map(|place| (mix(start.wrapping_add(place)) % VOCABULARY) as u32).collect()
    }

    /// Blocks of a prompt that an owner holds: the held share, less up to 3 by owner and prompt.
    pub fn held(&self, cell: Cell, prompt: u32, owner: u32) -> u32 {
        let share = (f64::from(cell.depth) * cell.hit).round() as u32;
        share.saturating_sub(prompt.wrapping_add(owner) % STAGGER)
    }

    /// Tokens that each owner holds of a prompt, in the owners' order: the right answer.
    pub fn truth(&self, cell: Cell, prompt: u32) -> Vec<u64> {
        let tokens = |owner| u64::from(self.held(cell, prompt, owner)) * u64::from(self.block_size);
        (0..self.owners).map(tokens).collect()
    }
}
