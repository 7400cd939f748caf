//! What publishers call their blocks, for whoever wants to see it.

use super::context::ContextKey;
use super::cover::Cover;
use super::publisher::Publisher;
use super::run::Place;
use super::shard::Shard;
use crate::limits::DUMP_NAMES_PER_MAPPING;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one instance's publishers call their blocks in one context.
pub struct Mappings {
    /// The context.
    pub context: Arc<ContextKey>,
    /// The instance.
    pub instance: String,
    /// (engine hash, rolling hash).
    pub mappings: Vec<(u64, u64)>,
}

impl Shard {
    /// For every context and instance that holds blocks there, at most `limit` mappings from engine hash to
    /// rolling hash; contexts where nobody holds anything come with their registrations.
    pub fn mappings(&self, limit: usize) -> Vec<Mappings> {
        let mut found: BTreeMap<(u32, u32), Vec<(u64, u64)>> = BTreeMap::new();
        // a dump must not stop the reactor for the sake of a large index
        let most = limit.saturating_mul(DUMP_NAMES_PER_MAPPING);
        for publisher in self.publishers.iter().flatten() {
            found.entry((publisher.base, publisher.instance)).or_default();
            let own = (0..publisher.names.segments()).flat_map(|segment| publisher.names.held(segment));
            for (name, place) in own.chain(self.held_plainly(publisher)).take(most) {
                let context = self.runs.get(place.run).context;
                let mappings = found.entry((context, publisher.instance)).or_default();
                if mappings.len() < limit {
                    mappings.push((name, self.runs.hash(place)));
                }
            }
        }
        let named = |((context, instance), mappings): ((u32, u32), Vec<(u64, u64)>)| Mappings {
            context: self.contexts.get(context).key.clone(),
            instance: self.instance_name(instance).to_owned(),
            mappings,
        };
        found.into_iter().map(named).collect()
    }

    /// The blocks that a publisher holds by its dialect's names, once a lane.
    fn held_plainly(&self, publisher: &Publisher) -> impl Iterator<Item = (u64, Place)> {
        let lanes = publisher.lanes.iter().zip(0_u8..).filter(|(lane, _)| lane.base.is_none());
        let owners = lanes.flat_map(|(lane, number)| lane.owners().map(move |owner| (number, owner)));
        let runs = owners.flat_map(|(lane, (context, owner))| {
            let known = self.contexts.get(context).owners[owner as usize].as_ref();
            known.into_iter().flat_map(move |known| known.runs.iter().map(move |run| (lane, owner, *run)))
        });
        runs.flat_map(move |(lane, owner, number)| {
            let run = self.runs.get(number);
            let cover = run.cover_of(publisher.instance, owner).ok().map(|at| run.covers.at(at));
            let positions = cover.into_iter().flat_map(Cover::spans).flat_map(|span| span.start..span.end);
            let dialect = publisher.speech.dialect();
            positions.filter_map(move |at| {
                let place = Place { run: number, at };
                let plain = !publisher.names.is_odd(place, lane);
                Some((run.labels(dialect.filter(|_| plain)?).get(usize::from(at)), place))
            })
        })
    }
}
