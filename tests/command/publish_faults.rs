//! Set-up: `kvatlas publish` as a process that misbehaves on demand, and a daemon that is registered with it.
//! Claim: each fault leads to the state, the counters and the answers that the rules of streams promise, and the
//! last line of output says what was done.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::fleet::{self, Ask, Daemon, MODEL, eventually};
use kvatlas::wire::cache::{Cache, Load};
use serde_json::{Value, json};

/// Tokens a block, and blocks a batch, of every publisher here.
const BLOCK: usize = 4;
const BLOCKS: usize = 2;
/// Tokens that a batch stores.
const STEP: usize = BLOCK * BLOCKS;

/// A publisher that runs.
struct Publish {
    child: Child,
    out: BufReader<ChildStdout>,
    endpoints: Value,
}

impl Publish {
    /// Every prompt has four batches to itself.
    fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
        command.args(["publish", "--bind", "tcp://127.0.0.1:0", "--stay", "600", "--prefixes", "0"]);
        command.args(["--block-size", "4", "--blocks-per-event", "2", "--instance", "a", "--model", MODEL]);
        let mut child = command.args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut publish = Self { child, out, endpoints: Value::Null };
        publish.endpoints = publish.line();
        publish
    }

    /// One that the daemon hears from its first batch on.
    fn heard(daemon: &Daemon, flags: &[&str]) -> Self {
        let url = format!("http://{}", daemon.address());
        Self::start(&[&["--register", &url, "--wait-subscriber"], flags].concat())
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// What `/services` says of it.
    fn stream(&self, daemon: &Daemon) -> Value {
        let services = || daemon.services(self.endpoints["endpoint"].as_str().unwrap());
        // its endpoint is said before it registers
        eventually("one registration", || services().len() == 1);
        services()[0]["stream"].clone()
    }

    /// Waits until the counters and the state are these.
    fn settles(&self, daemon: &Daemon, wanted: &Value) {
        let mut stream = Value::Null;
        let right = |stream: &Value| wanted.as_object().unwrap().iter().all(|(key, is)| stream[key] == *is);
        let end = std::time::Instant::now() + fleet::LOST;
        while !right(&stream) {
            assert!(std::time::Instant::now() < end, "{wanted} wanted: {stream}");
            std::thread::sleep(std::time::Duration::from_millis(2));
            stream = self.stream(daemon);
        }
    }
}

impl Drop for Publish {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The prompt that the batch `number` of a life stores a part of.
fn prompt(seed: u64, number: usize, capacity: Option<usize>) -> Vec<u32> {
    let load = Load { seed, block_size: BLOCK, blocks_per_step: BLOCKS, prefixes: 0, capacity };
    let mut cache = Cache::new(load);
    let step = (0..=number).map(|_| cache.step()).last().unwrap();
    cache.prompt(step.prompt, 4 * BLOCKS)
}

fn matched(daemon: &Daemon, tokens: &[u32]) -> usize {
    let question = json!({ "model": MODEL, "block_size": BLOCK, "token_ids": tokens });
    daemon.ask(&question)["default"]["a"]["longest_matched"].as_u64().unwrap() as usize
}

const REPLAY: [&str; 2] = ["--replay", "tcp://127.0.0.1:0"];
const QUICK: [&str; 4] = ["--rate", "200", "--batches", "40"];

#[test]
fn a_loss_is_replayed() {
    let daemon = Daemon::patient(1);
    let mut publish = Publish::heard(&daemon, &[&REPLAY[..], &QUICK, &["--lose", "21,22"]].concat());
    let said = publish.line();
    assert_eq!(said["faults"]["lost"], json!([21, 22]));
    assert_eq!((&said["batches"], &said["next_seq"]), (&json!(40), &json!(40)));
    let held = 40 * BLOCKS;
    publish
        .settles(&daemon, &json!({ "state": "live", "last_sequence": 39, "missed": 0, "blocks_held": held }));
    let stream = publish.stream(&daemon);
    assert!(stream["replayed"].as_u64() >= Some(2) && stream["replays_failed"] == 0, "{stream}");
    assert_eq!(stream["messages"], 38, "the lost ones were never sent");
    assert_eq!(matched(&daemon, &prompt(1, 21, None)), 4 * STEP);
}

#[test]
fn a_loss_without_replay_is_a_gap() {
    let daemon = Daemon::patient(1);
    let publish = Publish::heard(&daemon, &[&QUICK[..], &["--lose", "21,22"]].concat());
    publish.settles(&daemon, &json!({ "state": "partial", "last_sequence": 39, "gaps": 1, "missed": 2 }));
    let stream = publish.stream(&daemon);
    assert!(stream["last_error"]["message"].as_str().unwrap().contains("no replay endpoint"), "{stream}");
    assert_eq!(matched(&daemon, &prompt(1, 21, None)), STEP, "what stands behind the gap waits");
    assert_eq!(matched(&daemon, &prompt(1, 39, None)), 4 * STEP, "what came later counts");
}

#[test]
fn a_hole_is_not_filled_and_holds_nothing_up() {
    let daemon = Daemon::patient(1);
    let mut publish = Publish::heard(&daemon, &[&REPLAY[..], &QUICK, &["--hole", "21,30"]].concat());
    assert_eq!(publish.line()["faults"]["holes"], json!([21, 30]));
    publish.settles(&daemon, &json!({ "state": "partial", "last_sequence": 39, "missed": 2, "batches": 38 }));
    let stream = publish.stream(&daemon);
    assert!(stream["last_error"]["message"].as_str().unwrap().contains("did not have all"), "{stream}");
    assert!(stream["replays"].as_u64() <= Some(5), "one request a gap: {stream}");
    assert_eq!(matched(&daemon, &prompt(1, 21, None)), STEP);
    assert_eq!(matched(&daemon, &prompt(1, 39, None)), 4 * STEP);
}

#[test]
fn a_repeat_counts_once() {
    let daemon = Daemon::patient(1);
    let flags = ["--repeat", "0,1,2,3,37", "--evict-after", "32"];
    let mut publish = Publish::heard(&daemon, &[&QUICK[..], &flags].concat());
    let said = publish.line();
    assert_eq!(said["faults"]["repeated"], json!([0, 1, 2, 3, 37]));
    assert_eq!(said["blocks_held"], 32);
    publish.settles(&daemon, &json!({ "state": "live", "last_sequence": 39, "repeats": 5, "messages": 45 }));
    publish.settles(&daemon, &json!({ "restarts": 0, "gaps": 0, "batches": 40, "blocks_held": 32 }));
    // two stores would need two removals
    assert_eq!(matched(&daemon, &prompt(1, 0, Some(32))), 0);
    assert_eq!(matched(&daemon, &prompt(1, 39, Some(32))), 4 * STEP);
}

#[test]
fn a_restart_takes_the_old_prompts_with_it() {
    let daemon = Daemon::patient(1);
    for replay in [&REPLAY[..], &[]] {
        let mut publish = Publish::heard(&daemon, &[replay, &QUICK, &["--restart-after", "24"]].concat());
        let said = publish.line();
        assert_eq!((&said["faults"]["restarted_after"], &said["next_seq"]), (&json!(24), &json!(16)));
        let held = said["blocks_held"].as_u64().unwrap();
        assert_eq!(held, 16 * BLOCKS as u64);
        publish
            .settles(&daemon, &json!({ "state": "live", "last_sequence": 15, "restarts": 1, "missed": 0 }));
        publish.settles(&daemon, &json!({ "disconnects": 1, "blocks_held": held }));
        assert_eq!(matched(&daemon, &prompt(1, 0, None)), 0, "the old life");
        for number in [0, 15] {
            assert_eq!(matched(&daemon, &prompt(2, number, None)), 4 * STEP, "the new life, batch {number}");
        }
        let gone = json!({ "instance_id": "a", "dp_rank": 0 });
        assert_eq!(daemon.post("/unregister", &gone).status, 200);
    }
}

#[test]
fn a_mute_replay_is_waited_for_and_then_gone_without() {
    let daemon = Daemon::start(1);
    let flags = [&REPLAY[..], &QUICK, &["--mute-replay"]].concat();
    let mut publish = Publish::heard(&daemon, &flags);
    assert_eq!(publish.line()["faults"]["mute_replay"], true);
    publish.settles(&daemon, &json!({ "state": "live", "batches": 40, "replays_failed": 1, "replayed": 0 }));
    assert_eq!(matched(&daemon, &prompt(1, 39, None)), 4 * STEP, "it was heard from the start");
    drop(publish);
    let publish = Publish::heard(&daemon, &[&flags[..], &["--lose", "21"]].concat());
    let wanted = json!({ "state": "partial", "batches": 39, "missed": 1, "gaps": 1, "replayed": 0 });
    publish.settles(&daemon, &wanted);
    assert_eq!(matched(&daemon, &prompt(1, 21, None)), STEP);
    assert_eq!(matched(&daemon, &prompt(1, 39, None)), 4 * STEP);
}

#[test]
fn what_a_failed_replay_left_out_comes_later() {
    let daemon = Daemon::start(1);
    let flags = [&REPLAY[..], &QUICK, &["--mute-replay", "2", "--lose", "21"]].concat();
    let mut publish = Publish::heard(&daemon, &flags);
    assert_eq!(publish.line()["faults"]["mute_replay"], 2);
    publish.settles(&daemon, &json!({ "state": "partial", "reason": "replay_failed", "missed": 1 }));
    assert_eq!(matched(&daemon, &prompt(1, 21, None)), STEP);
    let whole = json!({ "state": "live", "reason": null, "rereads": 1, "restarts": 0, "replays_failed": 2,
        "blocks_held": 40 * BLOCKS });
    publish.settles(&daemon, &whole);
    assert_eq!(matched(&daemon, &prompt(1, 21, None)), 4 * STEP);
    assert_eq!(matched(&daemon, &prompt(1, 39, None)), 4 * STEP);
}

#[test]
fn a_replay_without_end_brings_what_it_has() {
    let daemon = Daemon::patient(1);
    let flags = [&REPLAY[..], &QUICK, &["--no-replay-end", "--lose", "21"]].concat();
    let mut publish = Publish::heard(&daemon, &flags);
    assert_eq!(publish.line()["faults"]["no_replay_end"], true);
    publish.settles(
        &daemon,
        &json!({ "state": "live", "batches": 40, "missed": 0, "blocks_held": 40 * BLOCKS }),
    );
    let stream = publish.stream(&daemon);
    assert!(
        stream["replays_failed"].as_u64() >= Some(1) && stream["replayed"].as_u64() >= Some(1),
        "{stream}"
    );
    // nothing shows that the answer is all there was
    drop(publish);
    let mut publish =
        Publish::start(&[&REPLAY[..], &["--rate", "0", "--batches", "40", "--no-replay-end"]].concat());
    publish.line();
    daemon.register(&registration(&publish));
    publish.settles(&daemon, &json!({ "state": "partial", "batches": 40, "replayed": 40, "missed": 0 }));
    assert_eq!(matched(&daemon, &prompt(1, 39, None)), 4 * STEP);
}

#[test]
fn a_slow_replay_is_waited_for() {
    let daemon = Daemon::patient(1);
    let flags = ["--rate", "0", "--batches", "8", "--slow-replay", "100"];
    let mut publish = Publish::start(&[&REPLAY[..], &flags].concat());
    assert_eq!(publish.line()["faults"]["slow_replay_ms"], 100);
    daemon.register(&registration(&publish));
    let tokens = prompt(1, 0, None);
    eventually("a part of the answer", || (STEP..4 * STEP).contains(&matched(&daemon, &tokens)));
    assert_eq!(publish.stream(&daemon)["state"], "replaying");
    publish.settles(&daemon, &json!({ "state": "live", "batches": 8, "replayed": 8, "replays_failed": 0 }));
}

#[test]
fn faults_that_make_no_sense() {
    for (flags, words) in [
        (vec!["--lose", "1,2", "--hole", "2"], "batch 2 cannot be both"),
        (vec!["--repeat", "7", "--hole", "7"], "batch 7 cannot be both"),
        (vec!["--lose", "x"], "--lose"),
        (vec!["--restart-after", "0"], "--restart-after"),
        (vec!["--mute-replay"], "--replay"),
        (vec!["--slow-replay", "5"], "--replay"),
        (vec!["--replay", "tcp://127.0.0.1:0", "--mute-replay", "--no-replay-end"], "--no-replay-end"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kvatlas")).arg("publish").args(&flags).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{flags:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(words), "{flags:?}: {said}");
    }
}

fn registration(publish: &Publish) -> Value {
    json!({
        "endpoint": publish.endpoints["endpoint"], "replay_endpoint": publish.endpoints["replay_endpoint"],
        "type": "vLLM", "modelname": MODEL, "instance_id": "a", "block_size": BLOCK, "dp_rank": 0,
    })
}
