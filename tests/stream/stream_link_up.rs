//! Set-up: engines with a replay endpoint behind a wire that can be cut; after a cut either the same engine is
//! there again or another one at the same address, and none of them publishes anything from then on.
//! Claim: the comparison at link-up finds out a restart, and fetches what was missed, without any message; of an
//! engine that has published nothing yet it is not said that the stream is live. A stream whose entries were
//! dropped because it stayed away has them all again, or says that it has not.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::fleet::{Ask, Daemon, Engine, MODEL, Source, eventually, with};
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use serde_json::{Value, json};

/// Where a wire leads, if anywhere, and its connections.
type Ends = Arc<Mutex<(Option<SocketAddr>, Vec<TcpStream>)>>;

/// A wire to an address that may change.
struct Wire {
    address: SocketAddr,
    ends: Ends,
}

impl Wire {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, ends) = (listener.local_addr().unwrap(), Ends::default());
        let of_thread = ends.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                let mut ends = of_thread.lock().unwrap();
                // a wire that leads nowhere is cut at once
                let Some(far) = ends.0.and_then(|far| TcpStream::connect(far).ok()) else { continue };
                let near = near.unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                ends.1.extend([near, far]);
            }
        });
        Self { address, ends }
    }

    fn cut(&self) {
        let mut ends = self.ends.lock().unwrap();
        ends.0 = None;
        ends.1.drain(..).for_each(|end| _ = end.shutdown(Shutdown::Both));
    }

    fn lead_to(&self, endpoint: &str) {
        self.ends.lock().unwrap().0 = Some(endpoint.strip_prefix("tcp://").unwrap().parse().unwrap());
    }

    fn endpoint(&self) -> String {
        format!("tcp://{}", self.address)
    }
}

/// The wires to an engine, and who listens at the other end.
struct Line {
    daemon: Daemon,
    events: Wire,
    replay: Wire,
}

impl Line {
    fn new(daemon: Daemon, engine: &Engine, asks: bool) -> Self {
        let line = Self { daemon, events: Wire::new(), replay: Wire::new() };
        line.join(engine);
        let registration = json!({ "endpoint": line.events.endpoint(), "replay_endpoint":
            if asks { json!(line.replay.endpoint()) } else { json!(null) } });
        line.daemon.register(&with(engine.registration("a"), registration));
        engine.joined();
        line
    }

    fn cut(&self) {
        self.events.cut();
        self.replay.cut();
        self.reaches("disconnected");
    }

    fn join(&self, engine: &Engine) {
        self.replay.lead_to(engine.publisher.replay_endpoint().unwrap());
        self.events.lead_to(engine.endpoint());
    }

    fn stream(&self) -> Value {
        self.daemon.services(&self.events.endpoint())[0]["stream"].clone()
    }

    fn reaches(&self, state: &str) {
        eventually(state, || self.stream()["state"] == state);
    }

    fn matched(&self, tokens: &[u32]) -> Value {
        let question = json!({ "model": MODEL, "block_size": 2, "token_ids": tokens });
        self.daemon.ask(&question)["default"]["a"]["longest_matched"].take()
    }

    fn holds(&self, tokens: &[u32], count: u32) {
        eventually("the blocks", || self.matched(tokens) == count && self.stream()["state"] == "live");
    }
}

fn engine(secret: u64) -> Engine {
    let options = PublisherOptions {
        replay: Some("tcp://127.0.0.1:0".to_owned()),
        ..PublisherOptions::new("tcp://127.0.0.1:0")
    };
    Engine { publisher: Publisher::bind(options).unwrap(), ..Engine::new(secret, 2, 0) }
}

const ONE: [u32; 4] = [1, 2, 3, 4];
const OTHER: [u32; 4] = [5, 6, 7, 8];

/// A line to an engine that has stored [`ONE`].
fn lines(check: impl Fn(Line, Engine)) {
    for reactors in [1, 2] {
        let engine = engine(1);
        let line = Line::new(Daemon::patient(reactors), &engine, true);
        engine.store(&ONE, 0..2, "GPU");
        line.holds(&ONE, 4);
        check(line, engine);
    }
}

#[test]
fn a_restart_is_found_without_a_message() {
    lines(|line, _first| {
        line.cut();
        let second = engine(2);
        second.store(&OTHER, 0..2, "GPU");
        line.join(&second);
        line.holds(&OTHER, 4);
        assert_eq!(line.matched(&ONE), 0);
        assert_eq!(line.stream()["restarts"], 1);
    });
}

#[test]
fn what_was_missed_is_fetched_without_a_message() {
    lines(|line, engine| {
        line.cut();
        engine.store(&OTHER, 0..2, "GPU");
        engine.remove(&ONE, 1..2, "GPU");
        line.join(&engine);
        line.holds(&OTHER, 4);
        assert_eq!(line.matched(&ONE), 2);
        let stream = line.stream();
        assert_eq!((&stream["restarts"], &stream["disconnects"]), (&json!(0), &json!(1)), "{stream}");
        // one request for the registration and one for the connection
        assert!(stream["replays"].as_u64() <= Some(3), "{stream}");
    });
}

#[test]
fn an_engine_that_has_published_nothing_is_not_called_live() {
    lines(|line, _first| {
        line.cut();
        let second = engine(2);
        line.join(&second);
        line.reaches("partial");
        assert_eq!(line.matched(&ONE), 4, "nothing shows that it is another one");
        second.joined();
        second.store(&OTHER, 0..1, "GPU");
        line.holds(&OTHER, 2);
        assert_eq!(line.matched(&ONE), 0);
    });
}

#[test]
fn who_stayed_away_too_long_is_learned_anew() {
    for asks in [true, false] {
        let engine = engine(1);
        let line = Line::new(Daemon::forgetful(1, Duration::from_millis(50)), &engine, asks);
        engine.store(&ONE, 0..1, "GPU");
        engine.store(&ONE, 1..2, "GPU");
        line.holds(&ONE, 4);
        line.events.cut();
        line.reaches("stale");
        assert_eq!((line.matched(&ONE), line.stream()["expired"].clone()), (json!(0), json!(1)));
        line.join(&engine);
        if asks {
            line.holds(&ONE, 4);
        } else {
            line.reaches("connecting");
            engine.joined();
            engine.store(&OTHER, 0..1, "GPU");
            line.reaches("partial");
            assert_eq!((line.matched(&ONE), line.matched(&OTHER)), (json!(0), json!(2)));
        }
    }
}
