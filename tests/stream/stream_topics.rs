//! Set-up: the table of one endpoint's topics, no sockets. Claim: numbers belong to their topic; one request is
//! under way at a time, and what it brings goes to the topic that asked or that is named; an epoch that changes
//! is a restart of its topic alone; topics, and what is held for them, are bounded.

use std::time::{Duration, Instant};

use kvatlas::limits::{HOLD_BYTES, STREAM_TOPICS, TOPIC_BYTES};
use kvatlas::stream::topics::{Topics, split};
use kvatlas::stream::trust::{Action, Numbered, Reason, Trust};

const IDLE: Duration = Duration::from_secs(2);

struct Endpoint {
    topics: Topics<u64>,
    now: Instant,
    /// What each stream brought, since its last restart.
    applied: Vec<Vec<u64>>,
    asked: Vec<(u64, u64)>,
}

impl Endpoint {
    fn new(replay: bool) -> Self {
        let topics = Topics::new(replay.then_some(IDLE));
        let mut endpoint = Self { topics, now: Instant::now(), applied: Vec::new(), asked: Vec::new() };
        endpoint.with(|topics, now, out| {
            topics.begin(now, out);
            None
        });
        endpoint
    }

    fn with(
        &mut self,
        what: impl FnOnce(&mut Topics<u64>, Instant, &mut Vec<Action<u64>>) -> Option<usize>,
    ) -> Option<usize> {
        let mut out = Vec::new();
        let stream = what(&mut self.topics, self.now, &mut out);
        for action in out {
            let of = |applied: &mut Vec<Vec<u64>>| {
                let stream = stream.expect("an action of no stream");
                applied.resize(applied.len().max(stream + 1), Vec::new());
                stream
            };
            match action {
                Action::Apply(_, content) => {
                    let stream = of(&mut self.applied);
                    self.applied[stream].push(content);
                }
                Action::Restart | Action::StartOver => {
                    let stream = of(&mut self.applied);
                    self.applied[stream].clear();
                }
                Action::AskReplay { from, ticket } => self.asked.push((from, ticket)),
                Action::Drop(_) | Action::Trust(_) => {}
            }
        }
        stream
    }

    fn live(&mut self, topic: &str, contents: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut stream = None;
        for content in contents {
            let message = numbered(content);
            if let Some((index, place)) = self.topics.advance(topic.as_bytes(), message.sequence, content) {
                assert_eq!(place.sequence, message.sequence);
                self.applied[index].push(content);
                stream = Some(index);
            } else {
                stream = self.with(|topics, now, out| topics.live(topic.as_bytes(), message, now, out));
            }
        }
        stream
    }

    fn replies(&mut self, topic: Option<&str>, contents: impl IntoIterator<Item = u64>) {
        let ticket = self.asked.last().unwrap().1;
        let topic = topic.map(str::as_bytes);
        for content in contents {
            self.with(|topics, now, out| topics.replayed(ticket, topic, numbered(content), now, out));
        }
    }

    fn end(&mut self) {
        let ticket = self.asked.last().unwrap().1;
        self.with(|topics, now, out| topics.replay_end(ticket, now, out));
    }

    fn wait(&mut self) {
        self.now += IDLE;
        self.with(|topics, now, out| topics.tick(true, now, out));
    }

    fn asked(&self) -> Vec<u64> {
        self.asked.iter().map(|&(from, _)| from).collect()
    }
}

fn numbered(content: u64) -> Numbered<u64> {
    Numbered { sequence: content % 100, content, bytes: 8, message: content }
}

#[test]
fn a_topic_is_split_into_stream_and_epoch() {
    let both = (&b"kv@a"[..], Some(&b"12"[..]));
    assert_eq!(split(b"kv@a"), (&b"kv@a"[..], None));
    assert_eq!(split(b"kv@a\0sgl-kv-epoch=12"), both);
    assert_eq!(split(b"kv@a\0sgl-kv-epoch=12\0sgl-kv-snapshot=7"), both);
    assert_eq!(split(b"\0sgl-kv-epoch="), (&b""[..], Some(&b""[..])));
    assert_eq!(split(b"sgl-kv-epoch=12"), (&b"sgl-kv-epoch=12"[..], None));
}

#[test]
fn numbers_belong_to_their_topic() {
    let mut endpoint = Endpoint::new(false);
    assert_eq!(endpoint.live("a", [0, 1]), Some(0));
    assert_eq!(endpoint.live("b", [100, 101, 102]), Some(1));
    endpoint.live("a", [2]);
    assert_eq!(endpoint.applied, [vec![0, 1, 2], vec![100, 101, 102]]);
    assert_eq!(endpoint.topics.trust(), Trust::Live);
    endpoint.live("a", [4]);
    assert_eq!(endpoint.topics.trust(), Trust::Partial(Reason::Gap));
    let trusts: Vec<_> = endpoint.topics.streams().map(|(_, tracker)| tracker.trust()).collect();
    assert_eq!(trusts, [Trust::Partial(Reason::Gap), Trust::Live]);
}

#[test]
fn the_first_topic_owns_the_first_replay() {
    for named in [None, Some("a")] {
        let mut endpoint = Endpoint::new(true);
        assert_eq!(endpoint.topics.trust(), Trust::Replaying);
        endpoint.replies(named, 0..3);
        endpoint.live("a", [2, 3]);
        endpoint.end();
        assert_eq!((&endpoint.applied[0], endpoint.asked()), (&vec![0, 1, 2, 3], vec![0]));
        assert_eq!(endpoint.topics.trust(), Trust::Live);
    }
}

#[test]
fn topics_ask_one_after_the_other() {
    let mut endpoint = Endpoint::new(true);
    endpoint.live("a", [2]);
    endpoint.live("b", [103]);
    assert_eq!(endpoint.asked(), [0]);
    endpoint.replies(Some("b"), 100..103);
    endpoint.replies(Some("a"), 0..3);
    assert_eq!(endpoint.applied, [vec![0, 1, 2]], "replies of another topic are its own business");
    let old = endpoint.asked[0].1;
    endpoint.end();
    // No message has shown yet what topic a is at.
    assert_eq!(endpoint.asked(), [0, 0]);
    endpoint.replies(None, 100..104);
    let late = endpoint.with(|topics, now, out| topics.replayed(old, None, numbered(7), now, out));
    assert_eq!(late, None, "a reply to an older request");
    endpoint.end();
    assert_eq!(endpoint.applied, [vec![0, 1, 2], vec![100, 101, 102, 103]]);
    assert_eq!(endpoint.topics.trust(), Trust::Live);
    // A quiet topic is known by its replies alone.
    let mut endpoint = Endpoint::new(true);
    endpoint.replies(Some("a"), [0]);
    endpoint.replies(Some("b"), [100]);
    endpoint.end();
    endpoint.replies(Some("b"), [100]);
    endpoint.end();
    assert_eq!(endpoint.applied, [vec![0], vec![100]]);
}

#[test]
fn a_topic_that_never_gets_an_answer_does_not_block_the_others() {
    let mut endpoint = Endpoint::new(true);
    endpoint.live("a", [0, 2]);
    endpoint.live("b", [103]);
    endpoint.wait();
    // The gap of a is to be asked for now, but b was there before.
    endpoint.replies(None, 100..104);
    endpoint.end();
    assert_eq!(endpoint.applied, [vec![0], vec![100, 101, 102, 103]]);
    endpoint.wait();
    assert_eq!(endpoint.applied, [vec![0, 2], vec![100, 101, 102, 103]]);
    assert_eq!(endpoint.topics.trust(), Trust::Partial(Reason::ReplayFailed));
    assert_eq!(endpoint.asked(), [0, 0, 0]);
    assert!(endpoint.topics.streams().all(|(_, tracker)| tracker.held() == 0));
}

#[test]
fn a_changed_epoch_is_a_restart_of_its_topic_alone() {
    let mut endpoint = Endpoint::new(false);
    endpoint.live("a\0sgl-kv-epoch=x", [0, 1]);
    endpoint.live("b\0sgl-kv-epoch=x", [0, 1]);
    // The number follows, but it is another life.
    endpoint.live("a\0sgl-kv-epoch=y", [2]);
    assert_eq!(endpoint.applied, [vec![2], vec![0, 1]]);
    assert_eq!(endpoint.topics.trust(), Trust::Partial(Reason::JoinedLate));
    endpoint.live("a", [0]);
    assert_eq!(endpoint.applied, [vec![0], vec![0, 1]]);
    assert_eq!(endpoint.topics.trust(), Trust::Live);
}

#[test]
fn what_went_with_another_topic_is_asked_for_again_or_missing() {
    for replay in [true, false] {
        let mut endpoint = Endpoint::new(replay);
        endpoint.live("a", [0, 1]);
        let other = endpoint.live("b", [0, 1, 2]).unwrap();
        while let Some((_, ticket)) = endpoint.asked.pop() {
            endpoint.with(|topics, now, out| topics.replay_end(ticket, now, out));
        }
        assert_eq!(endpoint.topics.trust(), Trust::Live);
        endpoint.with(|topics, now, out| {
            topics.swept([other, 99].into_iter(), now, out);
            None
        });
        if replay {
            assert_eq!(endpoint.topics.trust(), Trust::Replaying);
            assert_eq!(endpoint.asked.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [0]);
            let ticket = endpoint.asked[0].1;
            for content in 0..3 {
                endpoint.with(|topics, now, out| topics.replayed(ticket, None, numbered(content), now, out));
            }
            endpoint.with(|topics, now, out| topics.replay_end(ticket, now, out));
            assert_eq!(endpoint.applied[other], [0, 1, 2, 0, 1, 2]);
            assert_eq!(endpoint.topics.trust(), Trust::Live);
        } else {
            endpoint.live("b", [3]);
            assert_eq!(endpoint.topics.trust(), Trust::Partial(Reason::Swept));
        }
    }
}

#[test]
fn replies_of_another_epoch_are_not_taken() {
    let mut endpoint = Endpoint::new(true);
    endpoint.live("a\0sgl-kv-epoch=x", [0, 2]);
    endpoint.replies(Some("a\0sgl-kv-epoch=y"), [0, 1, 2]);
    assert_eq!(endpoint.applied, [vec![0]]);
    endpoint.live("a\0sgl-kv-epoch=y", [2]);
    assert_eq!(endpoint.asked(), [0, 0]);
    endpoint.replies(Some("a\0sgl-kv-epoch=y"), [0, 1, 2]);
    endpoint.end();
    assert_eq!(endpoint.applied, [vec![0, 1, 2]]);
    assert_eq!(endpoint.topics.trust(), Trust::Live);
}

#[test]
fn topics_and_what_they_hold_are_bounded() {
    let mut endpoint = Endpoint::new(false);
    for index in 0..STREAM_TOPICS {
        assert_eq!(endpoint.live(&format!("topic {index}"), [0]), Some(index));
    }
    assert_eq!(endpoint.live("one more", [0]), None);
    assert_eq!(endpoint.live(&"x".repeat(TOPIC_BYTES + 1), [0]), None);
    assert_eq!((endpoint.live("topic 7", [1]), endpoint.topics.refused()), (Some(7), 2));

    let mut endpoint = Endpoint::new(true);
    let large = |sequence| Numbered { bytes: HOLD_BYTES / 2, ..numbered(sequence) };
    for topic in [&b"a"[..], b"b", b"c"] {
        endpoint.with(|topics, now, out| topics.live(topic, large(5), now, out));
    }
    let held: Vec<_> = endpoint.topics.streams().map(|(_, tracker)| tracker.held()).collect();
    assert_eq!(held, [1, 1, 0], "the one that was too much is let go");
    assert_eq!(endpoint.topics.trust(), Trust::Partial(Reason::HoldFull));
}
