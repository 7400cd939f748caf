//! The media of one shard, by number.

use crate::event::Skip;
use crate::event::medium::{Medium, canonical};

/// Media of one shard; a set of them is one word.
pub const MEDIA: usize = 64;

/// All media that events named so far.
#[derive(Debug)]
pub struct Media {
    known: Vec<Medium>,
    /// How the last event spelled its medium, whether its publisher was a pool, and which it was: the next one mostly
    /// says the same.
    spelled: Vec<u8>,
    by_pool: bool,
    latest: Option<u8>,
}

impl Default for Media {
    /// The media that every answer names.
    fn default() -> Self {
        let known = vec![Medium::Gpu, Medium::Cpu, Medium::Disk, Medium::External];
        Self { known, spelled: Vec::new(), by_pool: false, latest: None }
    }
}

impl Media {
    /// Number of the medium that a publisher means by these bytes; `pool` tells what it means by none.
    /// [`Skip::Bound`] when there are too many.
    pub fn number(&mut self, said: Option<&[u8]>, pool: bool) -> Result<u8, Skip> {
        let said = said.unwrap_or_default();
        if let Some(latest) = self.latest.filter(|_| said == self.spelled && pool == self.by_pool) {
            return Ok(latest);
        }
        let number = self.number_of(canonical(std::str::from_utf8(said).ok(), pool))?;
        said.clone_into(&mut self.spelled);
        (self.by_pool, self.latest) = (pool, Some(number));
        Ok(number)
    }

    fn number_of(&mut self, medium: Medium) -> Result<u8, Skip> {
        if let Some(at) = self.known.iter().position(|known| *known == medium) {
            return Ok(at as u8);
        }
        if self.known.len() >= MEDIA {
            return Err(Skip::Bound);
        }
        self.known.push(medium);
        Ok(self.known.len() as u8 - 1)
    }

    /// The name behind a number.
    pub fn name(&self, number: u8) -> &str {
        self.known[usize::from(number)].name()
    }

    /// Those that `accept` accepts, as a set of numbers.
    pub fn set(&self, accept: impl Fn(&Medium) -> bool) -> u64 {
        let accepted = self.known.iter().enumerate().filter(|(_, medium)| accept(medium));
        accepted.fold(0, |set, (at, _)| set | 1 << at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spelling() -> impl Strategy<Value = Option<Vec<u8>>> {
        let known = prop::sample::select(vec!["", "GPU", "gpu", "cuda:0", "CPU", "SSD", "obj", "NPU", "npu"]);
        prop_oneof![
            Just(None),
            known.prop_map(|name| Some(name.as_bytes().to_vec())),
            prop::collection::vec(any::<u8>(), 0..3).prop_map(Some),
        ]
    }

    proptest! {
        #[test]
        fn a_spelling_means_what_it_means_alone(
            said in prop::collection::vec((spelling(), any::<bool>()), 1..200),
        ) {
            let mut media = Media::default();
            for (said, pool) in &said {
                let meant = canonical(said.as_deref().and_then(|said| std::str::from_utf8(said).ok()), *pool);
                if let Ok(number) = media.number(said.as_deref(), *pool) {
                    prop_assert_eq!(media.name(number), meant.name());
                } else {
                    prop_assert_eq!(media.known.len(), MEDIA);
                }
            }
        }
    }
}
