//! Set-up: a daemon, and a pool whose events name more tenants than the directory keeps, each with one block.
//! Claim: what the directory remembers stays bounded, and yet every tenant is answered for.

use crate::fleet::{Ask, Daemon, MODEL, Pool, Source, settle};
use kvatlas::index::hash::{DEFAULT_SEED, sequence_hashes};
use kvatlas::limits::{LEARNED_FAMILIES, POOL_BATCH_EVENTS};
use kvatlas::wire::pool::PoolEvent;
use serde_json::json;

#[test]
fn the_directory_keeps_so_many_and_misses_none() {
    for reactors in [1, 3] {
        let daemon = Daemon::start(reactors);
        let pool = Pool::new("pool-0", 2);
        daemon.register(&pool.registration("a"));
        pool.joined();
        let key = |at: usize| sequence_hashes(&[1, at as u32], 2, DEFAULT_SEED)[0].to_string();
        let tenants: Vec<(String, String)> =
            (0..LEARNED_FAMILIES + 200).map(|at| (format!("tenant-{at}"), key(at))).collect();
        for some in tenants.chunks(POOL_BATCH_EVENTS) {
            let events: Vec<PoolEvent<'_>> =
                some.iter().map(|(tenant, key)| PoolEvent { tenant, ..PoolEvent::stored(key) }).collect();
            pool.send(pool.master.clone().encode(1, &events).unwrap());
        }
        settle(&[&daemon], &[&pool]);
        assert_eq!(daemon.directory.books().learned.len(), LEARNED_FAMILIES);
        for (at, (tenant, _)) in
            tenants.iter().enumerate().filter(|(at, _)| at % 97 == 0 || at + 1 == tenants.len())
        {
            let question =
                json!({ "model": MODEL, "block_size": 2, "token_ids": [1, at], "tenant_id": tenant });
            assert_eq!(daemon.ask(&question)[tenant]["a"]["longest_matched"], 2, "{tenant}");
        }
        let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2], "tenant_id": "none" });
        assert_eq!(daemon.ask(&question), json!({}));
    }
}
