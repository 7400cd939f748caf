//! A publisher leaves: it counts for nobody at once, and what it holds is taken away in bounded steps.

use super::name::Name;
use super::publisher::Publisher;
use super::shard::Shard;

/// A publisher that left, on the way out.
pub(super) struct Leaving {
    publisher: Box<Publisher>,
    segment: usize,
    names: Vec<Name>,
}

impl Leaving {
    /// Heap bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.publisher.bytes() + self.names.capacity() * size_of::<Name>()
    }
}

impl Shard {
    /// A publisher leaves: neither what it sends nor what it holds counts any more, and [`Shard::purge`] takes
    /// that away.
    pub fn remove_publisher(&mut self, number: u32) {
        if let Some(mut publisher) = self.publishers[number as usize].take() {
            publisher.orphans = super::orphan::Orphans::default();
            self.resolver.forget(number, |_, _| true);
            for (context, owner) in publisher.lanes.iter().flat_map(super::publisher::Lane::owners) {
                self.contexts.retire(context, owner);
            }
            self.leaving.push_back(Leaving { publisher, segment: 0, names: Vec::new() });
        }
    }

    /// Takes away about `budget` blocks of publishers that left; returns whether all are gone.
    pub fn purge(&mut self, budget: usize) -> bool {
        let mut done = 0;
        while let Some(mut leaving) = self.leaving.pop_front() {
            let gone = self.purge_one(&mut leaving, budget, &mut done);
            if !gone {
                self.leaving.push_front(leaving);
                return false;
            }
            self.dialects.leave(leaving.publisher.speech);
            self.forget_publisher(&leaving.publisher);
        }
        done < budget
            && self.purge_orphaned(budget - done)
            && self.dialects.purge(&mut self.runs, budget - done)
    }

    /// First its own names, then what it holds by those of its dialect.
    fn purge_one(&mut self, leaving: &mut Leaving, budget: usize, done: &mut usize) -> bool {
        let Leaving { publisher, segment, names: drained } = leaving;
        let (names, mut ledger) = self.ledger(publisher);
        loop {
            while let Some(name) = drained.pop() {
                if *done >= budget {
                    drained.push(name);
                    return false;
                }
                names.purge(name, &mut ledger);
                *done += 1;
            }
            if *segment >= names.segments() {
                break;
            }
            names.drain_segment(*segment, drained);
            *segment += 1;
        }
        while let Some(run) = ledger.books.recent.forget_oldest(ledger.runs) {
            ledger.trim(run);
            *done += 1;
            if *done >= budget {
                return false;
            }
        }
        for lane in 0..ledger.books.lanes.len() as u8 {
            loop {
                if *done >= budget {
                    return false;
                }
                match ledger.strip(lane, budget - *done) {
                    0 => break,
                    taken => *done += taken,
                }
            }
        }
        true
    }

    fn forget_publisher(&mut self, publisher: &Publisher) {
        if let Some(count) = self.contexts.bases.get_mut(&publisher.base) {
            *count -= 1;
            if *count == 0 {
                self.contexts.bases.remove(&publisher.base);
            }
        }
        self.contexts.drop_if_idle(publisher.base);
        let instance = publisher.instance as usize;
        if let Some(slot) = self.instances[instance].as_mut() {
            slot.publishers -= 1;
            if slot.publishers == 0 {
                self.instance_numbers.remove(&slot.name);
                self.instances[instance] = None;
            }
        }
        while self.publishers.last().is_some_and(Option::is_none) && self.leaving.is_empty() {
            self.publishers.pop();
        }
    }
}
