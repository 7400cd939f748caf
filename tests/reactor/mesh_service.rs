//! Set-up: several reactors whose services ask each other, and a control thread that asks them. Claim: every
//! question is answered, by the reactor that was asked, on both drivers, with busy-polling and without, and
//! no bell is rung needlessly often.

use std::thread;

use crate::support::{Client, Message, drivers, eventually, play, settings};
use kvatlas::reactor::Settings;

#[test]
fn reactors_answer_each_other() {
    for driver in drivers() {
        for (reactors, busy_poll_us) in [(1, 0), (1, 50), (3, 0), (2, 0)] {
            let reactors = play(Settings { reactors, busy_poll_us, ..settings(driver) });
            let address = reactors.addresses[0];
            let count = reactors.counters.len();
            let clients: Vec<_> = (0..6)
                .map(|_| {
                    thread::spawn(move || {
                        let mut client = Client::connect(address);
                        for round in 0..200 {
                            let to = round % count;
                            let square = (to + 7) * (to + 7);
                            assert_eq!(
                                client.get(&format!("/ask?{to}")),
                                (200, square.to_string().into_bytes())
                            );
                        }
                    })
                })
                .collect();
            for client in clients {
                client.join().unwrap();
            }
            let sent: u64 = reactors.counters.iter().map(|of| of.mesh_sent.get()).sum();
            let rung: u64 = reactors.counters.iter().map(|of| of.mesh_rung.get()).sum();
            assert_eq!(sent, 6 * 200 * 2, "a question and an answer each");
            assert!(rung <= sent);
            let unknown = Client::connect(address).get("/ask?63");
            assert_eq!(unknown.0, 503, "nobody has that number");
        }
    }
}

#[test]
fn the_control_thread_asks_too() {
    for driver in drivers() {
        let reactors = play(Settings { reactors: 2, ..settings(driver) });
        for to in 0..2 {
            assert!(reactors.port.send(to, Message::Ask { ticket: 5, number: 12 }).is_ok());
        }
        reactors.port.flush();
        let mut answers = 0;
        eventually("both answer", || {
            reactors.port.drain(10, |_, message| {
                assert!(matches!(message, Message::Told { ticket: 5, square: 144 }));
                answers += 1;
            });
            answers == 2
        });
    }
}
