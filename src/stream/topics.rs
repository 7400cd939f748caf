//! The streams of one endpoint, by topic, and whose turn it is to ask its replay endpoint.
//!
//! A topic may end in an epoch (`\0sgl-kv-epoch=…`), which names the life of its publisher: the stream is what
//! stands before. Before anything came, there is one stream whose topic is not known yet; the first topic
//! that is heard of is its own. One request is under way at a time, so replies that name no topic belong to
//! the stream that asked.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::sequence::Tracker;
use super::trust::{Action, Numbered, Place, Reason, Trust};
use crate::limits::{HOLD_BYTES, STREAM_TOPICS, TOPIC_BYTES};

/// What an epoch begins with; it goes to the end of the topic, or to the next zero byte.
const EPOCH: &[u8] = b"\0sgl-kv-epoch=";

/// Splits a topic into the stream that it names and its epoch.
pub fn split(topic: &[u8]) -> (&[u8], Option<&[u8]>) {
    if topic.len() < EPOCH.len() {
        return (topic, None);
    }
    let Some(at) = memchr::memmem::rfind(topic, EPOCH) else { return (topic, None) };
    let epoch = &topic[at + EPOCH.len()..];
    (&topic[..at], Some(epoch.split(|&byte| byte == 0).next().unwrap_or(epoch)))
}

/// One topic.
#[derive(Debug)]
struct Stream<M> {
    topic: Option<Vec<u8>>,
    epoch: Option<Vec<u8>>,
    tracker: Tracker<M>,
    /// Waits to ask from this number.
    wants: Option<u64>,
}

impl<M> Stream<M> {
    fn new(replay: Option<Duration>) -> Self {
        Self { topic: None, epoch: None, tracker: Tracker::new(replay), wants: None }
    }
}

/// The request that is under way.
#[derive(Clone, Copy, Debug)]
struct Asking {
    stream: usize,
    ticket: u64,
}

/// All streams of one endpoint. Everything that returns a number names the stream that the actions are for;
/// only [`Action::AskReplay`] may be for another one, and goes by its ticket. That a stream new here waits for
/// its first replay is no action; [`Self::trust`] knows.
#[derive(Debug)]
pub struct Topics<M> {
    replay: Option<Duration>,
    streams: Vec<Stream<M>>,
    known: HashMap<Vec<u8>, usize>,
    /// The stream of the last message that simply followed: most likely that of the next one.
    latest: usize,
    asking: Option<Asking>,
    waiting: VecDeque<usize>,
    tickets: u64,
    held_bytes: usize,
    refused: u64,
}

impl<M> Topics<M> {
    /// An endpoint of which nothing is known. With a replay endpoint, `replay` is how long it may stay silent.
    pub fn new(replay: Option<Duration>) -> Self {
        Self {
            replay,
            streams: Vec::new(),
            known: HashMap::new(),
            latest: 0,
            asking: None,
            waiting: VecDeque::new(),
            tickets: 0,
            held_bytes: 0,
            refused: 0,
        }
    }

    /// Asks for everything that was published, where there is a replay endpoint and nothing came yet, or after a
    /// reconnect for a comparison: call it once the subscription is made, and whenever it is connected.
    pub fn begin(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        if self.replay.is_some() && self.streams.is_empty() {
            self.streams.push(Stream::new(self.replay));
        }
        (0..self.streams.len()).for_each(|index| self.start(index, now, out));
    }

    /// Takes a message that simply follows, see [`Tracker::advance`]: its stream and place, to be applied.
    pub fn advance(&mut self, topic: &[u8], sequence: u64, content: u64) -> Option<(usize, Place)> {
        let (base, epoch) = split(topic);
        let again = self.streams.get(self.latest).is_some_and(|stream| stream.topic.as_deref() == Some(base));
        if !again {
            self.latest = *self.known.get(base)?;
        }
        let index = self.latest;
        let stream = &mut self.streams[index];
        let same = stream.epoch.as_deref() == epoch;
        (same && stream.tracker.advance(sequence, content)).then(|| (index, stream.tracker.place(sequence)))
    }

    /// A message came from the subscription. `None` when its topic is one too many, or too long.
    pub fn live(
        &mut self,
        topic: &[u8],
        message: Numbered<M>,
        now: Instant,
        out: &mut Vec<Action<M>>,
    ) -> Option<usize> {
        let (base, epoch) = split(topic);
        let index = self.stream(base, epoch, now, out)?;
        self.on(index, now, out, |stream, out| {
            if stream.epoch.as_deref() != epoch {
                stream.epoch = epoch.map(<[u8]>::to_vec);
                stream.tracker.restarted(out);
            }
            stream.tracker.live(message, now, out);
        });
        if self.held_bytes > HOLD_BYTES {
            self.on(index, now, out, |stream, out| stream.tracker.overflow(now, out));
        }
        Some(index)
    }

    /// A reply came to the request `ticket`. Whether more of the answer is wanted says [`Self::wants`].
    pub fn replayed(
        &mut self,
        ticket: u64,
        topic: Option<&[u8]>,
        reply: Numbered<M>,
        now: Instant,
        out: &mut Vec<Action<M>>,
    ) -> Option<usize> {
        let Some(asking) = self.asking.filter(|asking| asking.ticket == ticket) else {
            out.push(Action::Drop(reply.message));
            return None;
        };
        if let Some(topic) = topic {
            let (base, epoch) = split(topic);
            let owner = self.stream(base, epoch, now, out);
            if owner != Some(asking.stream) || self.streams[asking.stream].epoch.as_deref() != epoch {
                // Of another topic, which asks for itself, or of a life that no message has shown yet.
                out.push(Action::Drop(reply.message));
                return Some(asking.stream);
            }
        }
        self.on(asking.stream, now, out, |stream, out| stream.tracker.replayed(reply, now, out));
        Some(asking.stream)
    }

    /// Whether the answer to `ticket` is still wanted.
    pub fn wants(&self, ticket: u64) -> bool {
        self.asking.is_some_and(|asking| asking.ticket == ticket)
    }

    /// The answer to `ticket` is complete.
    pub fn replay_end(&mut self, ticket: u64, now: Instant, out: &mut Vec<Action<M>>) -> Option<usize> {
        let alone = self.is_alone();
        self.over(ticket, now, out, |tracker, out| {
            // another stream may have brought something while the first one's memory was read
            if tracker.is_mending() && !alone {
                tracker.replay_failed(now, out);
            } else {
                tracker.replay_end(now, out);
            }
        })
    }

    /// The answer to `ticket` will not be complete: silence, or an error of the socket.
    pub fn replay_failed(&mut self, ticket: u64, now: Instant, out: &mut Vec<Action<M>>) -> Option<usize> {
        self.over(ticket, now, out, |tracker, out| tracker.replay_failed(now, out))
    }

    /// Time has passed: a replay that brings nothing new for too long has failed, and what stayed wrong may be put
    /// right.
    /// `free` says whether memory may be taken to read everything again.
    pub fn tick(&mut self, free: bool, now: Instant, out: &mut Vec<Action<M>>) -> Option<usize> {
        let index = match self.asking {
            Some(asking) => asking.stream,
            None => self.due(free, now)?,
        };
        self.on(index, now, out, |stream, out| stream.tracker.tick(now, out));
        Some(index)
    }

    /// Whether everything of a stream is being read again.
    pub fn is_mending(&self) -> bool {
        self.streams.iter().any(|stream| stream.tracker.is_mending())
    }

    /// The connection was lost and came back.
    pub fn reconnected(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.tracker.reconnected());
    }

    /// Something of a batch of a stream is missing, or may be.
    pub fn spoiled(&mut self, stream: usize, place: Place, why: Reason, out: &mut Vec<Action<M>>) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.tracker.spoiled(place, why, out);
        }
    }

    /// A stream that has brought something, and the place that it has come to.
    pub fn latest(&self) -> Option<(usize, Place)> {
        let mut all = self.streams.iter().enumerate();
        all.find_map(|(at, stream)| Some((at, stream.tracker.place(stream.tracker.last()?))))
    }

    /// One stream began anew, and what others had brought went with it. Only requests come out.
    pub fn swept(&mut self, others: impl Iterator<Item = usize>, now: Instant, out: &mut Vec<Action<M>>) {
        let mut all = Vec::new();
        for index in others {
            if index >= self.streams.len() {
                continue;
            }
            self.on(index, now, &mut all, |stream, out| stream.tracker.swept(now, out));
        }
        out.extend(all.into_iter().filter(|action| matches!(action, Action::AskReplay { .. })));
    }

    /// What the streams brought is no longer kept.
    pub fn forgotten(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        for index in 0..self.streams.len() {
            self.on(index, now, out, |stream, out| stream.tracker.forgotten(out));
        }
    }

    /// The batch at `place` of a stream cleared everything.
    pub fn cleared(&mut self, stream: usize, place: Place, out: &mut Vec<Action<M>>) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.tracker.cleared(place, out);
        }
    }

    /// How far the endpoint can be trusted: as far as the worst of its streams.
    pub fn trust(&self) -> Trust {
        let rank = |trust: &Trust| match trust {
            Trust::Live => 0,
            Trust::Connecting => 1,
            Trust::Replaying => 2,
            Trust::Partial(_) => 3,
        };
        let trusts = self.streams.iter().map(|stream| stream.tracker.trust());
        trusts.max_by_key(rank).unwrap_or(Trust::Connecting)
    }

    /// The streams so far: topic, as far as known, and tracker.
    pub fn streams(&self) -> impl Iterator<Item = (Option<&[u8]>, &Tracker<M>)> {
        self.streams.iter().map(|stream| (stream.topic.as_deref(), &stream.tracker))
    }

    /// Messages and replies whose topic was one too many, or too long.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl<M> Topics<M> {
    fn is_alone(&self) -> bool {
        self.streams.iter().filter(|stream| stream.tracker.last().is_some()).count() <= 1
    }

    /// A stream that is to be asked for once more. One that would start over must be the only one, for the others'
    /// publishers may no longer remember what would go with it.
    fn due(&mut self, free: bool, now: Instant) -> Option<usize> {
        let free = free && self.is_alone();
        let mut trackers = self.streams.iter_mut().map(|stream| &mut stream.tracker);
        trackers.position(|tracker| tracker.is_due(now) && (free || !tracker.would_start_over()))
    }

    /// The stream of a topic, which may be a new one.
    fn stream(
        &mut self,
        base: &[u8],
        epoch: Option<&[u8]>,
        now: Instant,
        out: &mut Vec<Action<M>>,
    ) -> Option<usize> {
        if let Some(&index) = self.known.get(base) {
            return Some(index);
        }
        let nameless = self.streams.first().is_some_and(|stream| stream.topic.is_none());
        if base.len() + epoch.map_or(0, <[u8]>::len) > TOPIC_BYTES
            || !nameless && self.streams.len() == STREAM_TOPICS
        {
            self.refused += 1;
            return None;
        }
        let index = if nameless { 0 } else { self.streams.len() };
        if !nameless {
            self.streams.push(Stream::new(self.replay));
            self.start(index, now, out);
        }
        self.streams[index].topic = Some(base.to_vec());
        self.streams[index].epoch = epoch.map(<[u8]>::to_vec);
        self.known.insert(base.to_vec(), index);
        Some(index)
    }

    fn start(&mut self, index: usize, now: Instant, out: &mut Vec<Action<M>>) {
        let mut first = Vec::new();
        self.on(index, now, &mut first, |stream, out| stream.tracker.begin(now, out));
        // It is not the stream that the caller's other actions are for.
        out.extend(first.into_iter().filter(|action| matches!(action, Action::AskReplay { .. })));
    }

    fn over(
        &mut self,
        ticket: u64,
        now: Instant,
        out: &mut Vec<Action<M>>,
        how: impl FnOnce(&mut Tracker<M>, &mut Vec<Action<M>>),
    ) -> Option<usize> {
        let asking = self.asking.filter(|asking| asking.ticket == ticket)?;
        self.on(asking.stream, now, out, |stream, out| how(&mut stream.tracker, out));
        Some(asking.stream)
    }

    /// Lets something happen to a stream; its requests wait for their turn.
    fn on<T>(
        &mut self,
        index: usize,
        now: Instant,
        out: &mut Vec<Action<M>>,
        what: impl FnOnce(&mut Stream<M>, &mut Vec<Action<M>>) -> T,
    ) -> T {
        let stream = &mut self.streams[index];
        let (before, begin) = (stream.tracker.held_bytes(), out.len());
        let result = what(stream, out);
        self.held_bytes = self.held_bytes - before + stream.tracker.held_bytes();
        let newest = out.extract_if(begin.., |action| matches!(action, Action::AskReplay { .. })).last();
        if let Some(Action::AskReplay { from, .. }) = newest {
            stream.wants = Some(from);
            if !self.waiting.contains(&index) {
                self.waiting.push_back(index);
            }
        }
        if !stream.tracker.asking() {
            stream.wants = None;
        }
        if stream.wants.is_some() || !stream.tracker.asking() {
            self.asking = self.asking.filter(|asking| asking.stream != index);
        }
        self.next(now, out);
        result
    }

    /// Sends the next request, when none is under way.
    fn next(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        while self.asking.is_none() {
            let Some(index) = self.waiting.pop_front() else { return };
            let stream = &mut self.streams[index];
            let Some(from) = stream.wants.take() else { continue };
            stream.tracker.asked(now);
            self.tickets += 1;
            self.asking = Some(Asking { stream: index, ticket: self.tickets });
            out.push(Action::AskReplay { from, ticket: self.tickets });
        }
    }
}
