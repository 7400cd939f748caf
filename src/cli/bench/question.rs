//! Questions with their right answers, and what was heard.

use std::collections::HashMap;
use std::time::Duration;

use crate::bench::ask::{About, Encoding};
use crate::bench::schedule::Punctuality;
use crate::bench::times::Times;

/// A prompt to ask for, and what is right.
pub(super) struct Question {
    pub(super) request: Vec<u8>,
    pub(super) truth: HashMap<String, u64>,
    /// An answer that was found right, byte for byte.
    pub(super) known: Vec<u8>,
}

/// What one connection found, or all of them.
pub(super) struct Heard {
    pub(super) times: Times,
    pub(super) punctuality: Punctuality,
    pub(super) wrong: u64,
    /// What was wrong first.
    pub(super) example: Option<String>,
}

impl Question {
    /// Whether an answer is right; what is wrong with it is noted.
    pub(super) fn check(&self, answer: &[u8], about: &About, encoding: Encoding, heard: &mut Heard) -> bool {
        if !self.known.is_empty() && answer == self.known {
            return true;
        }
        let found = encoding.answer(&about.tenant, answer);
        if found.as_ref() == Some(&self.truth) {
            return true;
        }
        heard.wrong += 1;
        heard.example.get_or_insert_with(|| self.difference(found.as_ref()));
        false
    }

    fn difference(&self, found: Option<&HashMap<String, u64>>) -> String {
        let Some(found) = found else { return "it cannot be read".to_owned() };
        let mut names: Vec<_> = self.truth.keys().chain(found.keys()).collect();
        names.sort();
        let wrong = names.into_iter().find(|name| self.truth.get(*name) != found.get(*name));
        let tokens = |of: Option<&u64>| of.map_or("nothing".to_owned(), |tokens| format!("{tokens} tokens"));
        wrong.map_or_else(String::new, |name| {
            let (said, truth) = (tokens(found.get(name)), tokens(self.truth.get(name)));
            format!("{name} is said to hold {said}, and holds {truth}")
        })
    }
}

impl Heard {
    /// Nothing yet; a question sent later than `late` after it could be is late.
    pub(super) fn new(late: Duration) -> Self {
        Self { times: Times::new(), punctuality: Punctuality::new(late), wrong: 0, example: None }
    }

    /// Adds what another one heard.
    pub(super) fn add(&mut self, other: &Self) {
        self.times.add(&other.times);
        self.punctuality.add(&other.punctuality);
        self.wrong += other.wrong;
        if self.example.is_none() {
            self.example.clone_from(&other.example);
        }
    }
}
