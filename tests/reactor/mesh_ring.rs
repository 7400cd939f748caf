//! Set-up: a ring of random capacity, pushed and popped at random, beside a `VecDeque`; then one writer and
//! one reader on two threads. Claim: nothing is lost, doubled, reordered or leaked, and a full ring gives the
//! message back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use kvatlas::mesh::ring::ring;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_ring_is_a_bounded_queue(capacity in 1usize..20, steps in prop::collection::vec(any::<bool>(), 0..400)) {
        let (mut writer, mut reader) = ring(capacity);
        let bound = capacity.next_power_of_two();
        let witness = Arc::new(());
        let mut queue = VecDeque::new();
        for (number, push) in steps.into_iter().enumerate() {
            if push {
                let result = writer.push((number, witness.clone()));
                if queue.len() == bound {
                    prop_assert_eq!(result.unwrap_err().0, number);
                } else {
                    prop_assert!(result.is_ok());
                    queue.push_back(number);
                }
            } else {
                prop_assert_eq!(reader.pop().map(|(number, _)| number), queue.pop_front());
            }
            prop_assert_eq!(reader.is_empty(), queue.is_empty());
            prop_assert_eq!(Arc::strong_count(&witness), queue.len() + 1);
        }
        drop((writer, reader));
        prop_assert_eq!(Arc::strong_count(&witness), 1, "unread messages are dropped with the ring");
    }
}

#[test]
fn two_threads_hand_over_everything_in_order() {
    const COUNT: u64 = 300_000;
    for capacity in [1, 2, 64] {
        let (mut writer, mut reader) = ring(capacity);
        let sender = thread::spawn(move || {
            for number in 0..COUNT {
                let mut message = Box::new(number);
                while let Err(back) = writer.push(message) {
                    message = back;
                    thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < COUNT {
            match reader.pop() {
                Some(number) => {
                    assert_eq!(*number, expected);
                    expected += 1;
                }
                None => thread::yield_now(),
            }
        }
        assert!(reader.is_empty());
        sender.join().unwrap();
    }
}

#[test]
fn a_side_that_leaves_drops_what_is_unread_with_the_other() {
    let witness = Arc::new(());
    let (mut writer, reader) = ring(8);
    for _ in 0..5 {
        writer.push(witness.clone()).unwrap();
    }
    let other = thread::spawn(move || drop(reader));
    other.join().unwrap();
    assert_eq!(Arc::strong_count(&witness), 6);
    drop(writer);
    assert_eq!(Arc::strong_count(&witness), 1);
}
