//! Set-up: reactors with idle, busy, half-sent and stuck connections, told to stop. Claim: answers in flight
//! are finished, also when they need another reactor; idle connections end at once;
//! new ones are refused; what is stuck is cut after the drain time; no descriptor or thread is left.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{
    Client, Playground, alone, descriptors, driver, drivers, eventually, play, request, settings,
};
use kvatlas::reactor::{Listen, Settings, StartError, start};

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("reactor-"))
        .count()
}

#[test]
fn what_is_in_flight_is_answered_and_nothing_is_left() {
    let _alone = alone();
    for driver in drivers() {
        let before = descriptors();
        let reactors = play(Settings { reactors: 2, ..settings(driver) });
        let address = reactors.addresses[0];
        let mut idle: Vec<_> = (0..20).map(|_| Client::connect(address)).collect();
        for client in &mut idle {
            assert_eq!(client.get("/ping").0, 200);
        }
        let mut busy: Vec<_> = (0..8).map(|_| Client::connect(address)).collect();
        for client in &mut busy {
            client.send(&request("/sleep?300"));
        }
        let mut half = Client::connect(address);
        let begun = "POST /echo HTTP/1.1\r\nhost: t\r\ncontent-length: 4\r\n\r\nab";
        half.send(begun);
        let mut worker = Client::connect(address);
        worker.send(&request("/work?500"));
        let bytes = || reactors.counters.iter().map(|of| of.bytes_in.get()).sum::<u64>();
        let sent = 20 * request("/ping").len() + 8 * request("/sleep?300").len();
        let sent = sent + begun.len() + request("/work?500").len();
        eventually("all was read", || bytes() == sent as u64);
        reactors.stop();
        for client in &mut idle {
            assert!(client.ends());
        }
        eventually("nobody accepts", || TcpStream::connect(address).is_err());
        half.send("cd");
        assert_eq!(half.receive().unwrap().1, b"abcd");
        for client in &mut busy {
            assert_eq!(client.receive().unwrap().1, b"slept");
            assert!(client.ends());
        }
        assert_eq!(worker.receive().unwrap().1, b"worked");
        assert!(worker.ends() && half.ends());
        let counters = reactors.counters.clone();
        drop((idle, busy, half, worker));
        reactors.join().unwrap();
        assert_eq!(counters.iter().map(|of| of.connections_open.get()).sum::<u64>(), 0);
        // A ring is torn down by the kernel in its own time.
        eventually("all descriptors are closed", || descriptors() == before);
        // so is a thread that was joined
        eventually("all threads are gone", || threads() == 0);
    }
}

#[test]
fn a_stopping_reactor_still_answers_the_others() {
    let _alone = alone();
    for driver in drivers() {
        let reactors = play(Settings { reactors: 3, ..settings(driver) });
        let address = reactors.addresses[0];
        let mut clients: Vec<_> = (0..9).map(|_| Client::connect(address)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&(request("/sleep?200") + &request(&format!("/ask?{}", number % 3))));
        }
        let bytes = || reactors.counters.iter().map(|of| of.bytes_in.get()).sum::<u64>();
        let sent = 9 * (request("/sleep?200").len() + request("/ask?0").len()) as u64;
        eventually("all was read", || bytes() == sent);
        reactors.stop();
        for (number, mut client) in clients.into_iter().enumerate() {
            let square = (number % 3 + 7) * (number % 3 + 7);
            assert_eq!(client.receive().unwrap().1, b"slept");
            assert_eq!(client.receive().unwrap().1, square.to_string().into_bytes());
            assert!(client.ends(), "its last answer");
        }
        reactors.join().unwrap();
    }
}

#[test]
fn what_is_stuck_is_cut_after_the_drain_time() {
    let _alone = alone();
    for driver in drivers() {
        let before = descriptors();
        let drain = Duration::from_millis(200);
        let reactors = play(Settings { drain, ..settings(driver) });
        let address = reactors.addresses[0];
        let mut half = Client::connect(address);
        half.send("GET /pi");
        let mut deaf = Client::connect(address);
        deaf.send(&request("/bytes?67108864"));
        let counters = reactors.counters[0].clone();
        let sent = ("GET /pi".len() + request("/bytes?67108864").len()) as u64;
        eventually("all was read", || counters.bytes_in.get() == sent);
        let begun = Instant::now();
        reactors.stop();
        assert!(half.ends());
        assert!(begun.elapsed() >= drain);
        reactors.join().unwrap();
        drop((half, deaf));
        eventually("all descriptors are closed", || descriptors() == before);
    }
}

#[test]
fn starting_and_stopping_again_and_again_leaves_nothing() {
    let _alone = alone();
    for driver in drivers() {
        let before = descriptors();
        for _ in 0..10 {
            let reactors = play(Settings { reactors: 2, ..settings(driver) });
            assert_eq!(Client::connect(reactors.addresses[0]).get("/ping").0, 200);
            drop(reactors);
        }
        eventually("all descriptors are closed", || descriptors() == before);
        // so is a thread that was joined
        eventually("all threads are gone", || threads() == 0);
    }
}

#[test]
fn what_cannot_start_says_why_and_leaves_nothing() {
    let _alone = alone();
    let before = descriptors();
    assert!(matches!(
        start(Settings { reactors: 0, ..settings(driver()) }, Playground::new),
        Err(StartError::Reactors(0))
    ));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = vec![Listen::Tcp(taken.local_addr().unwrap())];
    let error = start(Settings { listen, ..settings(driver()) }, Playground::new).err().unwrap();
    assert!(error.to_string().contains("cannot listen on 127.0.0.1"), "{error}");
    drop(taken);
    eventually("all descriptors are closed", || descriptors() == before);
    eventually("all threads are gone", || threads() == 0);
}

#[test]
fn a_reactor_that_dies_takes_the_others_along_and_is_named() {
    let _alone = alone();
    let mut settings = settings(driver());
    settings.reactors = 2;
    let reactors = start(settings, |seat| {
        let service = Playground::new(seat);
        let id = service.seat.id;
        kvatlas::rt::spawn(async move {
            kvatlas::rt::sleep(Duration::from_millis(20)).await;
            assert_ne!(id, 1, "shard 1 is broken");
        });
        service
    })
    .unwrap();
    assert_eq!(reactors.join().unwrap_err(), "reactor 1 panicked");
}
