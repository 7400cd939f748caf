//! Set-up: one shard and payloads written out as maps. Claim: what an event means for those of another group, tenant,
//! backend, rank or adapter than its own is nothing, and what it does not say comes from its parent or registration.

use crate::shard::registration;
use kvatlas::event::{self, Batch, Skip};
use kvatlas::index::apply::Cursor;
use kvatlas::index::context::{ContextKey, Lora};
use kvatlas::index::hash::{DEFAULT_SEED, Path};
use kvatlas::index::publisher::{Class, Registration};
use kvatlas::index::shard::Shard;
use kvatlas::index::walk::Filter;
use kvatlas::metrics::PublisherStats;
use serde_json::{Value, json};
use std::sync::Arc;

const BLOCK: u32 = 4;
const TOKENS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

struct Fleet {
    shard: Shard,
    number: u32,
    stats: Arc<PublisherStats>,
}

impl Fleet {
    fn new(change: impl Fn(&mut Registration)) -> Self {
        let (shard, stats) = (Shard::new(DEFAULT_SEED), Arc::default());
        let mut fleet = Self { shard, number: 0, stats };
        fleet.number = fleet.register(fleet.stats.clone(), change);
        fleet
    }

    fn pool(change: impl Fn(&mut Registration)) -> Self {
        Self::new(|registration| {
            registration.class = Class::Pool;
            change(registration);
        })
    }

    fn register(&mut self, stats: Arc<PublisherStats>, change: impl Fn(&mut Registration)) -> u32 {
        let mut registration = Registration { block_size: BLOCK, ..registration("i") };
        change(&mut registration);
        self.shard.add_publisher(Arc::new(registration), stats).expect("registers")
    }

    fn send_as(&mut self, publisher: u32, event: &Value) {
        let payload = rmp_serde::to_vec_named(&json!([1.5, [event]])).expect("encodes");
        let (mut batch, mut cursor) = (Batch::default(), Cursor::default());
        event::decode(&payload, &mut batch).expect("decodes");
        while !self.shard.apply(publisher, &payload, &batch, &mut cursor, 1) {}
    }

    fn send(&mut self, event: &Value) -> &mut Self {
        self.send_as(self.number, event);
        self
    }

    /// Tokens matched in a context of the model that is like this.
    fn matched(&mut self, change: impl Fn(&mut ContextKey)) -> u32 {
        let mut key = ContextKey {
            tenant: "default".into(),
            model: "m".into(),
            lora: Lora::Base,
            block_size: BLOCK,
            additional_salt: String::new(),
            cache_salt: String::new(),
        };
        change(&mut key);
        let Some(context) = self.shard.find_context(&key) else { return 0 };
        let mut hashes = Vec::new();
        let mut path = Path::of_tokens(&TOKENS, &[], BLOCK, DEFAULT_SEED, &mut hashes);
        self.shard.query(&[context], &mut path, Filter::ALL);
        self.shard.answer().hits().next().map_or(0, |hit| hit.longest * BLOCK)
    }

    fn of_tenant(&mut self, tenant: &str) -> u32 {
        self.matched(|key| tenant.clone_into(&mut key.tenant))
    }

    fn skipped(&self, why: Skip) -> u64 {
        self.stats.skipped[why as usize].get()
    }
}

fn hashes() -> Vec<u64> {
    let mut hashes = Vec::new();
    Path::of_tokens(&TOKENS, &[], BLOCK, DEFAULT_SEED, &mut hashes).first(2).to_vec()
}

fn with(mut event: Value, more: &Value) -> Value {
    let more = more.as_object().expect("an object").clone();
    event.as_object_mut().expect("an object").extend(more);
    event
}

/// An engine's store of the first block under the name 1.
fn stored(more: &Value) -> Value {
    let first = &TOKENS[..BLOCK as usize];
    let event = json!({"type": "BlockStored", "block_hashes": [1], "parent_block_hash": null, "token_ids": first,
        "block_size": BLOCK, "medium": "GPU"});
    with(event, more)
}

/// A pool's event on the first block.
fn pooled(what: &str, more: &Value) -> Value {
    let event = json!({"event_type": what, "medium": "cpu", "backend_id": "b", "seq_hashes": [hashes()[0]]});
    with(event, more)
}

#[test]
fn what_is_wrong_in_another_group_is_its_groups_matter() {
    let sliding = json!({"group_idx": 0, "kv_cache_spec_kind": "sliding_window"});
    let removed = json!({"type": "BlockRemoved", "block_hashes": [1], "group_idx": 0});
    for wrong in [
        json!({"token_ids": (0..16).collect::<Vec<u32>>(), "extra_keys": [null, null, null, null]}),
        json!({"block_size": 0}),
        json!({"block_size": 1 << 21}),
        json!({"block_mm_infos": [[], []]}),
    ] {
        let mut fleet = Fleet::new(|_| {});
        fleet.send(&with(stored(&sliding), &wrong));
        assert_eq!((fleet.skipped(Skip::Group), fleet.skipped(Skip::BadField)), (1, 0), "{wrong}");
        fleet.send(&stored(&json!({"group_idx": 1, "kv_cache_spec_kind": "full_attention"})));
        // its kind is known all the same
        fleet.send(&removed).send(&with(removed.clone(), &json!({"remaining_copy_counts": [0, 0]})));
        assert_eq!((fleet.skipped(Skip::Group), fleet.matched(|_| {})), (3, 4), "{wrong}");
    }
}

#[test]
fn what_is_wrong_in_the_own_group_is_said() {
    for (wrong, why) in [
        (json!({"extra_keys": [null, null]}), Skip::BadField),
        (json!({"block_size": 0}), Skip::BadField),
        (json!({"block_size": 1 << 21}), Skip::BlockSizeMismatch),
        (json!({"block_size": 8, "extra_keys": [null, null]}), Skip::BlockSizeMismatch),
    ] {
        let mut fleet = Fleet::new(|_| {});
        fleet.send(&stored(&wrong));
        assert_eq!((fleet.skipped(why), fleet.matched(|_| {})), (1, 0), "{wrong}");
    }
    let mut fleet = Fleet::new(|_| {});
    let removed = json!({"type": "BlockRemoved", "block_hashes": [1], "remaining_copy_counts": [0, 0]});
    fleet.send(&stored(&json!({}))).send(&removed);
    assert_eq!((fleet.skipped(Skip::BadField), fleet.matched(|_| {})), (1, 4));
}

#[test]
fn a_pools_clear_is_its_tenants() {
    let mut fleet = Fleet::pool(|_| {});
    for tenant in [json!("ta"), json!("tb"), Value::Null] {
        fleet.send(&pooled("stored", &json!({"tenant_id": tenant})));
    }
    assert_eq!(["ta", "tb", "default"].map(|tenant| fleet.of_tenant(tenant)), [4, 4, 4]);
    // none is the registered one, as in a store
    fleet.send(&json!({"event_type": "cleared", "medium": "cpu", "backend_id": "b", "tenant_id": null}));
    assert_eq!(["ta", "tb", "default"].map(|tenant| fleet.of_tenant(tenant)), [4, 4, 0]);
    fleet.send(&json!({"event_type": "cleared", "medium": "cpu", "backend_id": "b", "tenant_id": "ta"}));
    assert_eq!(["ta", "tb", "default"].map(|tenant| fleet.of_tenant(tenant)), [0, 4, 0]);
}

#[test]
fn a_pools_clear_leaves_what_waits_for_another_tenant() {
    let mut fleet = Fleet::pool(|_| {});
    for tenant in ["ta", "tb"] {
        let key = "m@tp_rank:0@group:0@0000000000000001";
        fleet.send(&pooled("stored", &json!({"tenant_id": tenant, "object_key": key, "seq_hashes": []})));
    }
    fleet.send(&json!({"event_type": "cleared", "medium": "cpu", "backend_id": "b", "tenant_id": "ta"}));
    for tenant in ["ta", "tb"] {
        let engine =
            fleet.register(Arc::default(), |registration| tenant.clone_into(&mut registration.tenant));
        fleet.send_as(engine, &stored(&json!({})));
    }
    let held = fleet.stats.blocks_held.get();
    assert_eq!(held, 1, "that of tb");
}

#[test]
fn no_rank_is_all_ranks() {
    let mut fleet = Fleet::pool(|registration| registration.tp_size = Some(2));
    for rank in [u32::MAX, 0, u32::MAX] {
        fleet.send(&pooled("stored", &json!({"tp_rank": rank})));
    }
    assert_eq!((fleet.skipped(Skip::BadField), fleet.matched(|_| {})), (2, 0));
    fleet.send(&pooled("stored", &json!({"tp_rank": 1})));
    fleet.send(&pooled("removed", &json!({"tp_rank": u32::MAX})));
    assert_eq!(fleet.matched(|_| {}), 4);
    fleet.send(&pooled("removed", &json!({"tp_rank": 1})));
    assert_eq!((fleet.matched(|_| {}), fleet.stats.blocks_held.get()), (0, 0));
}

#[test]
fn a_child_stands_where_its_parent_does() {
    let [first, second] = hashes()[..] else { panic!("two blocks") };
    let lora = |key: &mut ContextKey| key.lora = Lora::Name("sql".into());
    let salt = |key: &mut ContextKey| key.cache_salt = "s".into();
    let of_hashes = |parent: Option<u64>, hash: u64, more: &Value| {
        let event = json!({"type": "BlockStored", "block_hashes": [hash], "parent_block_hash": parent,
            "token_ids": [], "block_size": BLOCK, "medium": "GPU"});
        with(event, more)
    };
    let mut engine = Fleet::new(|registration| registration.standard_hashes = true);
    engine.send(&of_hashes(None, first, &json!({"lora_name": "sql"})));
    engine.send(&of_hashes(Some(first), second, &json!({})));
    assert_eq!((engine.matched(lora), engine.matched(|_| {})), (8, 0));
    let mut pool = Fleet::pool(|_| {});
    for (said, of) in [("lora_name", lora as fn(&mut ContextKey)), ("cache_salt", salt)] {
        pool.send(&pooled("stored", &json!({said: if said == "lora_name" { "sql" } else { "s" }})));
        pool.send(&pooled("stored", &json!({"seq_hashes": [second], "parent_hash": first})));
        assert_eq!((pool.matched(of), pool.matched(|_| {})), (8, 0), "{said}");
        pool.send(&json!({"event_type": "cleared", "medium": "cpu", "backend_id": "b"}));
    }
    // what it says itself goes before
    pool.send(&pooled("stored", &json!({"lora_name": "sql"})));
    pool.send(&pooled(
        "stored",
        &json!({"seq_hashes": [second], "parent_hash": first, "lora_name": "other"}),
    ));
    assert_eq!(pool.matched(lora), 4);
}

#[test]
fn an_adapter_that_a_child_only_inherits_is_no_extra_key() {
    let mut fleet = Fleet::new(|_| {});
    fleet.send(&stored(&json!({"lora_name": "sql", "extra_keys": [["sql"]]})));
    let child = json!({"block_hashes": [2], "parent_block_hash": 1, "token_ids": TOKENS[BLOCK as usize..],
        "extra_keys": [["sql"]]});
    fleet.send(&stored(&child));
    assert_eq!(fleet.matched(|key| key.lora = Lora::Name("sql".into())), 8);
}
