//! Set-up: threads that post to a reactor's mailbox with pauses of all sizes, both drivers. Claim: every letter
//! arrives, those of a thread in order, without a further one to push it. Control: a reader that takes the bell
//! back after it looked at the list sleeps on a letter.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{LOST, alone, descriptors, drivers, eventually};
use kvatlas::fleet::mailbox::Post;
use kvatlas::rt::{Driver, Readable, Wake, run, sleep, spawn};
use std::os::fd::AsFd;

const THREADS: usize = 4;
const LETTERS: usize = 20_000;

/// Reads `count` letters on a reactor; each batch is handed on.
fn read(driver: Driver, post: Post<(usize, usize)>, count: usize) -> mpsc::Receiver<Vec<(usize, usize)>> {
    let (sender, batches) = mpsc::channel();
    thread::spawn(move || {
        run(driver, |_| async move {
            let mailbox = post.open().unwrap();
            let mut left = count;
            while left > 0 {
                mailbox.wait().await.unwrap();
                let letters = mailbox.take();
                assert!(!letters.is_empty(), "a wait ends with a letter");
                left -= letters.len();
                sender.send(letters).unwrap();
            }
        })
        .unwrap();
    });
    batches
}

#[test]
fn every_letter_arrives_in_order() {
    let _alone = alone();
    for driver in drivers() {
        let post = Post::new().unwrap();
        let batches = read(driver, post.clone(), THREADS * LETTERS);
        for from in 0..THREADS {
            let post = post.clone();
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(from as u64);
                for number in 0..LETTERS {
                    post.post((from, number));
                    if random.u32(..50) == 0 {
                        thread::sleep(Duration::from_micros(random.u64(..300)));
                    }
                }
            });
        }
        let mut next = [0; THREADS];
        while next.iter().sum::<usize>() < THREADS * LETTERS {
            for (from, number) in batches.recv_timeout(LOST).expect("a letter is lost") {
                assert_eq!(number, next[from]);
                next[from] += 1;
            }
        }
    }
}

#[test]
fn a_letter_wakes_its_reader_each_time() {
    let _alone = alone();
    for driver in drivers() {
        let post = Post::new().unwrap();
        // one that comes before the mailbox is opened
        post.post((0, 0));
        let batches = read(driver, post.clone(), 2000);
        for number in 0..2000 {
            assert_eq!(batches.recv_timeout(LOST).expect("nobody woke"), [(0, number)]);
            // nothing more comes until the reader has it
            post.post((0, number + 1));
        }
    }
}

#[test]
fn a_dropped_wait_loses_nothing_and_a_mailbox_leaves_nothing() {
    let _alone = alone();
    for driver in drivers() {
        let before = descriptors();
        let done = thread::spawn(move || {
            run(driver, |_| async move {
                let post = Post::new().unwrap();
                let mailbox = post.open().unwrap();
                for number in 0..50 {
                    let begun = kvatlas::rt::Signal::new();
                    begun.set();
                    // polled once, then dropped
                    assert!(begun.wait_at_most(mailbox.wait()).await.is_none());
                    let other = post.clone();
                    let thread = thread::spawn(move || other.post(number));
                    mailbox.wait().await.unwrap();
                    assert_eq!(mailbox.take(), [number]);
                    thread.join().unwrap();
                    assert!(mailbox.take().is_empty());
                }
            })
            .unwrap();
        });
        done.join().unwrap();
        eventually("all descriptors are closed", || descriptors() == before);
    }
}

#[test]
fn a_reader_that_takes_the_bell_back_last_sleeps_on_a_letter() {
    let _alone = alone();
    for driver in drivers() {
        let bell = Wake::new().unwrap();
        let list = Arc::new(Mutex::new(Vec::new()));
        let got = Arc::new(Mutex::new(0));
        let (naive_bell, naive_list, count) = (bell.clone(), list.clone(), got.clone());
        let naive = thread::spawn(move || {
            run(driver, |_| async move {
                let readable = Readable::new(naive_bell.as_fd()).unwrap();
                let reading = spawn(async move {
                    loop {
                        readable.wait().await.unwrap();
                        let letters: Vec<u32> = std::mem::take(&mut *naive_list.lock().unwrap());
                        *count.lock().unwrap() += letters.len();
                        // here a letter comes in and rings
                        thread::sleep(Duration::from_millis(50));
                        naive_bell.clear();
                    }
                });
                // bounded: the test is about a hang
                sleep(Duration::from_millis(800)).await;
                drop(reading);
            })
            .unwrap();
        });
        for letter in 0..2 {
            list.lock().unwrap().push(letter);
            bell.notify();
            let end = std::time::Instant::now() + LOST;
            while letter == 0 && *got.lock().unwrap() == 0 && std::time::Instant::now() < end {
                thread::yield_now();
            }
        }
        naive.join().unwrap();
        assert_eq!(*got.lock().unwrap(), 1, "it saw both: then this control proves nothing");
    }
}
