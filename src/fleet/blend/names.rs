//! Texts that stand for numbers while something uses them.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Numbers of texts.
#[derive(Debug, Default)]
pub(super) struct Names {
    slots: Vec<Slot>,
    free: Vec<u32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    text: Arc<str>,
    uses: u32,
}

impl Names {
    /// The number of a text that is in use.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        let is_it = |number: &u32| &*self.slots[*number as usize].text == text;
        self.table.find(self.hasher.hash_one(text), is_it).copied()
    }

    /// The number of a text, with one use more.
    pub(super) fn take(&mut self, text: &str) -> u32 {
        if let Some(number) = self.find(text) {
            self.slots[number as usize].uses += 1;
            return number;
        }
        let slot = Slot { text: text.into(), uses: 1 };
        self.bytes += text.len();
        let number = if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            number
        } else {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash_of = |number: &u32| hasher.hash_one(&*slots[*number as usize].text);
        self.table.insert_unique(hasher.hash_one(text), number, hash_of);
        number
    }

    /// Ends one use of a number; the last one ends the number.
    pub(super) fn give_back(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.uses -= 1;
        if slot.uses > 0 {
            return;
        }
        let text = std::mem::replace(&mut slot.text, Arc::from(""));
        self.bytes -= text.len();
        if let Ok(found) = self.table.find_entry(self.hasher.hash_one(&*text), |other| *other == number) {
            found.remove();
        }
        self.free.push(number);
    }

    /// The text of a number in use.
    pub(super) fn text(&self, number: u32) -> &Arc<str> {
        &self.slots[number as usize].text
    }

    /// Bytes of all texts in use.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
