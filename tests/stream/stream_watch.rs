//! Set-up: a watched subscription whose publisher is not there yet, comes, goes and comes back at the same
//! address. Claim: that nobody is there is heard, and each change, in order, and messages arrive once the connection is up; the sockets
//! of both count against their context.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{LOST, drivers};
use kvatlas::limits::{ZMQ_MESSAGE_BYTES, ZMQ_RECEIVE_HWM};
use kvatlas::rt::{Line, Signal, Turn, run, sleep, spawn};
use kvatlas::stream::contexts::Contexts;
use kvatlas::stream::endpoint;
use kvatlas::stream::subscription::{Link, Settings, Subscription};

fn bind(context: &zmq::Context, at: &str) -> zmq::Socket {
    let socket = context.socket(zmq::PUB).unwrap();
    socket.set_linger(0).unwrap();
    socket.bind(at).unwrap();
    socket
}

#[test]
fn coming_and_going_is_heard() {
    assert_eq!(
        Settings::default(),
        Settings { receive_hwm: ZMQ_RECEIVE_HWM, message_bytes: ZMQ_MESSAGE_BYTES }
    );
    for driver in drivers() {
        let folder = tempfile::tempdir().unwrap();
        let at = format!("ipc://{}", folder.path().join("events").display());
        let checked = endpoint::check(&at).unwrap();
        let (tell, hear) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let subscriber = thread::spawn(move || {
            run(driver, |_| async move {
                let contexts = Contexts::with_limit(4).unwrap();
                let (mut subscription, mut watch) =
                    Subscription::open_watched(&contexts, &checked, Settings::default()).unwrap();
                let (turn, close) = (Turn::new(Line::Ingest), Signal::new());
                let watching = spawn({
                    let (turn, tell) = (turn.clone(), tell.clone());
                    async move {
                        watch
                            .run(&turn, |link| {
                                let _ = tell.send(format!("{link:?}"));
                            })
                            .await
                            .unwrap();
                    }
                });
                let draining = spawn({
                    let close = close.clone();
                    async move {
                        let on = async |frames: &[zmq::Message]| {
                            tell.send(frames[0].as_str().unwrap().to_owned()).unwrap();
                        };
                        subscription.drain(&turn, &close, on).await.unwrap();
                    }
                });
                assert_eq!(contexts.count(), 1);
                let further = contexts.watched(zmq::SUB, 0).unwrap();
                assert_eq!(contexts.count(), 2, "three places of four are taken");
                drop(further);
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    sleep(Duration::from_millis(2)).await;
                }
                close.set();
                draining.await;
                watching.await;
            })
            .unwrap();
        });
        let context = zmq::Context::new();
        let unreached = format!("{:?}", Link::Unreached);
        for round in 0..2 {
            // nobody is there: that is heard again and again, and only that
            for _ in 0..2 {
                assert_eq!(hear.recv_timeout(LOST).unwrap(), unreached);
            }
            let publisher = bind(&context, &at);
            let next = || hear.recv_timeout(LOST).unwrap();
            let change = std::iter::repeat_with(next).find(|heard| *heard != unreached);
            assert_eq!(change.unwrap(), format!("{:?}", Link::Up));
            let text = format!("message {round}");
            // Up is the connection, not yet the subscription at the publisher's side.
            let heard = (0..2000).find_map(|_| {
                publisher.send(&text, 0).unwrap();
                hear.recv_timeout(Duration::from_millis(10)).ok()
            });
            assert_eq!(heard.unwrap(), text);
            drop(publisher);
            let down = hear.iter().find(|heard| *heard != text).unwrap();
            assert_eq!(down, format!("{:?}", Link::Down));
        }
        drop(stop);
        subscriber.join().unwrap();
    }
}
