//! Set-up: a daemon, two ranks of one engine and a pool, each with a publisher of its own, and the worked example
//! of the contract: six tokens in three blocks, whose copies lie on GPU, CPU and DISK.
//! Claim: the answers are the ones that the contract works out, by tokens and by hashes, for every medium that
//! a query can be restricted to, and the long answer adds what it should.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Pool, Source, settle};
use kvatlas::index::hash::{DEFAULT_SEED, sequence_hashes};
use serde_json::{Value, json};

const TOKENS: [u32; 6] = [11, 12, 13, 14, 15, 16];
const INSTANCE: &str = "vllm-prefill-node1";

struct Example {
    daemon: Daemon,
    // they must live as long as the daemon is asked
    _sources: (Engine, Engine, Pool),
}

/// H1 on GPU (ranks 0 and 1), CPU and DISK; H2 on GPU (rank 0) and CPU; H3 on DISK.
fn example(reactors: usize) -> Example {
    let daemon = Daemon::start(reactors);
    let (zero, one, mut pool) = (Engine::new(1, 2, 0), Engine::new(2, 2, 1), Pool::new("pool-0", 2));
    daemon.register(&zero.registration(INSTANCE));
    daemon.register(&one.registration(INSTANCE));
    daemon.register(&pool.registration(INSTANCE));
    zero.joined();
    one.joined();
    pool.joined();
    zero.store(&TOKENS, 0..2, "GPU");
    one.store(&TOKENS, 0..1, "GPU");
    pool.store(&TOKENS, 0..2, "cpu", "");
    pool.store(&TOKENS, 0..1, "disk", "");
    pool.store(&TOKENS, 2..3, "disk", "");
    settle(&[&daemon], &[&zero, &one, &pool]);
    Example { daemon, _sources: (zero, one, pool) }
}

fn question() -> Value {
    json!({ "model": MODEL, "block_size": 2, "token_ids": TOKENS })
}

fn with(name: &str, value: Value) -> Value {
    let mut question = question();
    question[name] = value;
    question
}

fn of(answer: &Value) -> &Value {
    &answer["default"][INSTANCE]
}

#[test]
fn the_answer_is_the_contracts() {
    for reactors in [1, 2] {
        let example = example(reactors);
        let expected = json!({ "default": { INSTANCE: {
            "longest_matched": 6, "GPU": 4, "DP": { "0": 4, "1": 2 }, "CPU": 4, "DISK": 4
        } } });
        assert_eq!(example.daemon.ask(&question()), expected);
        assert_eq!(example.daemon.ask(&with("instance_id", json!(INSTANCE))), expected);
        let hashes = sequence_hashes(&TOKENS, 2, DEFAULT_SEED);
        let signed: Vec<i64> = hashes.iter().map(|hash| *hash as i64).collect();
        let texts: Vec<String> = hashes.iter().map(u64::to_string).collect();
        for (name, spelled) in
            [("seq_hashes", json!(hashes)), ("block_hash", json!(texts)), ("block_hashes", json!(signed))]
        {
            let question = json!({ "model": MODEL, "block_size": 2, name: spelled });
            assert_eq!(example.daemon.ask(&question), expected, "{name}");
        }
    }
}

#[test]
fn only_complete_blocks_count() {
    let example = example(1);
    for (tokens, longest) in [(1, 0), (2, 2), (3, 2), (5, 4), (6, 6)] {
        let answer = example.daemon.ask(&with("token_ids", json!(TOKENS[..tokens])));
        assert_eq!(of(&answer)["longest_matched"], longest, "{tokens} tokens");
    }
    let longer: Vec<u32> = TOKENS.into_iter().chain([17, 18, 19]).collect();
    assert_eq!(of(&example.daemon.ask(&with("token_ids", json!(longer))))["longest_matched"], 6);
}

#[test]
fn a_medium_restricts_what_is_walked() {
    let example = example(1);
    let table = [
        (json!("GPU"), (4, 4, 0, 0)),
        (json!("gpu"), (4, 4, 0, 0)),
        (json!("L1"), (4, 4, 0, 0)),
        (json!("G1"), (4, 4, 0, 0)),
        (json!("G2"), (4, 0, 4, 0)),
        (json!("L2"), (4, 0, 4, 0)),
        (json!("DRAM"), (4, 0, 4, 0)),
        // H2 is not on disk, and H3 comes after it
        (json!("DISK"), (2, 0, 0, 2)),
        (json!(["G3"]), (2, 0, 0, 2)),
        (json!(["GPU", "CPU"]), (4, 4, 4, 0)),
        (json!(["L1", "DISK"]), (6, 4, 0, 4)),
        (json!(["GPU", "CPU", "DISK"]), (6, 4, 4, 4)),
        (json!("NPU"), (0, 0, 0, 0)),
        (json!([]), (6, 4, 4, 4)),
        (json!(null), (6, 4, 4, 4)),
    ];
    for (medium, (longest, gpu, cpu, disk)) in table {
        let answer = example.daemon.ask(&with("medium", medium.clone()));
        let found = of(&answer);
        let got = ["longest_matched", "GPU", "CPU", "DISK"].map(|key| found[key].as_u64().unwrap());
        assert_eq!(got, [longest, gpu, cpu, disk], "{medium}");
        let ranks = if gpu > 0 { json!({ "0": 4, "1": 2 }) } else { json!({ "0": 0, "1": 0 }) };
        assert_eq!(found["DP"], ranks, "{medium}");
    }
}

#[test]
fn the_long_answer_adds_prefixes_and_streams() {
    let example = example(2);
    let answer = example.daemon.ask(&with("detail", json!(true)));
    let found = of(&answer);
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["CPU", "DISK", "DP", "GPU", "longest_matched", "prefix", "streams"]);
    // on disk the run from the first block ends before H2
    let prefix = json!({
        "GPU": 4, "CPU": 4, "DISK": 2, "ranks": { "0": { "GPU": 4 }, "1": { "GPU": 2 } }
    });
    assert_eq!(found["prefix"], prefix);
    let streams = found["streams"].as_array().unwrap();
    let told: Vec<(&str, u64, &str)> = streams
        .iter()
        .map(|stream| {
            let text = |key: &str| stream[key].as_str().unwrap();
            assert_eq!(text("tenant_id"), "default");
            assert!(stream["since"].is_u64() && stream["endpoint"].is_string(), "{stream}");
            (text("type"), stream["dp_rank"].as_u64().unwrap(), text("state"))
        })
        .collect();
    assert_eq!(told, [("vLLM", 0, "live"), ("Mooncake", 0, "live"), ("vLLM", 1, "live")]);
}
