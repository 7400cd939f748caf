//! The questions that compare the shard with the model.

use std::collections::BTreeMap;

use super::model::{Filter, Hit};
use super::{BLOCK, SALTS, SEED, Symbols, World, seqs, tokens};
use kvatlas::index::context::{ContextKey, Lora};
use kvatlas::index::hash::Path;
use kvatlas::index::walk;

impl World {
    pub(crate) fn check(&mut self) {
        let filter = self.filter();
        let paths: Vec<Symbols> = (0..6).map(|_| self.dice.path(9, 5)).collect();
        let hashes: Vec<Vec<u64>> = paths.iter().map(|path| seqs(path)).collect();
        let each: Vec<_> = (0..SALTS.len()).map(|salt| self.model.query(salt, &hashes, &filter)).collect();
        for (salt, expected) in each.iter().enumerate() {
            for (path, expected) in paths.iter().zip(expected) {
                let got = self.ask(path, &[salt], &filter);
                assert_eq!(got, *expected, "path {path:?} salt {salt} {filter:?}");
            }
        }
        for (path, (one, other)) in paths.iter().zip(each[0].iter().zip(&each[1])) {
            let mut expected = one.clone();
            for (instance, hit) in other {
                if one.get(instance).is_none_or(|own| own.longest < hit.longest) {
                    expected.insert(instance.clone(), hit.clone());
                }
            }
            let got = self.ask(path, &[0, 1], &filter);
            assert_eq!(got, expected, "path {path:?} both {filter:?}");
        }
        for at in 0..self.senders.len() {
            let held = self.senders[at].stats.blocks_held.get();
            assert_eq!(held as usize, self.model.held(at), "blocks held by publisher {at}");
        }
    }

    fn filter(&mut self) -> Filter {
        let mut filter = Filter::default();
        if self.dice.one_in(4) {
            filter.instance = Some(["i0", "i1", "i9"][self.dice.roll(3)].to_owned());
        }
        if self.dice.one_in(4) {
            let media = ["GPU", "CPU", "DISK", "MARS"];
            filter.media = Some((0..2).map(|_| media[self.dice.roll(4)].to_owned()).collect());
        }
        if self.dice.one_in(6) {
            filter.rank = Some(self.dice.roll(3) as u32);
        }
        filter
    }

    fn ask(&mut self, path: &[u8], salts: &[usize], filter: &Filter) -> BTreeMap<String, Hit> {
        let key = |salt: usize| ContextKey {
            tenant: "default".into(),
            model: "m".into(),
            lora: Lora::Base,
            block_size: BLOCK as u32,
            additional_salt: String::new(),
            cache_salt: SALTS[salt].into(),
        };
        let contexts: Vec<u32> =
            salts.iter().filter_map(|salt| self.shard.find_context(&key(*salt))).collect();
        let instance = match &filter.instance {
            None => None,
            Some(name) => match self.shard.find_instance(name) {
                Some(number) => Some(number),
                None => return BTreeMap::new(),
            },
        };
        let media = filter
            .media
            .as_ref()
            .map_or(u64::MAX, |media| self.shard.media_set(|medium| media.contains(medium.name())));
        let filter = walk::Filter { instance, media, rank: filter.rank };
        let (tokens, mut scratch) = (tokens(path), Vec::new());
        let mut asked = Path::of_tokens(&tokens, &[], BLOCK as u32, SEED, &mut scratch);
        self.shard.query(&contexts, &mut asked, filter);
        let answer = self.shard.answer();
        let mut hits = BTreeMap::new();
        for (number, hit) in answer.hits().enumerate() {
            let number = number as u32;
            let media = answer
                .media(number)
                .map(|(medium, blocks)| (self.shard.medium_name(medium).to_owned(), blocks));
            let found =
                Hit { longest: hit.longest, media: media.collect(), ranks: answer.ranks(number).collect() };
            hits.insert(self.shard.instance_name(hit.instance).to_owned(), found);
        }
        hits
    }
}
