//! Set-up: an engine stores long chains, each of which takes the reactor many turns, and another thread looks at the
//! stream all the while. Claim: the last number that a stream tells is of a batch that has been applied to its end.

use std::time::Instant;

use crate::fleet::{Ask, Daemon, Engine, LOST, Source, join, nothing};

/// Blocks of a batch: some ten turns and more.
const BLOCKS: usize = 2048;
const BLOCK: usize = 4;

#[test]
fn the_last_number_is_of_a_batch_that_is_applied() {
    let daemon = Daemon::patient(1);
    let engine = Engine::new(1, BLOCK as u32, 0);
    daemon.register(&engine.registration("i"));
    join(&[&daemon], &[&engine]);
    let listing = daemon.directory.books().publishers.values().next().unwrap().clone();
    let stats = &listing.stats;
    for round in 0..20 {
        let before = engine.publisher().send(nothing()).unwrap();
        let prompt: Vec<u32> = (0..BLOCKS * BLOCK).map(|at| (round * BLOCKS * BLOCK + at) as u32).collect();
        engine.store(&prompt, 0..BLOCKS, "GPU");
        let sent = Instant::now();
        let told = loop {
            let told = stats.last_sequence();
            if told > Some(before) {
                break told;
            }
            assert!(sent.elapsed() < LOST, "never applied");
            std::hint::spin_loop();
        };
        let held = stats.publisher.blocks_held.get();
        assert_eq!((told, held), (Some(before + 1), ((round + 1) * BLOCKS) as u64));
    }
}
