//! Set-up: `kvatlas bench trace` on a made-up trace whose requests share fronts, against daemons, and against one
//! behind a proxy that changes one figure of every answer.
//! Claim: the true hit rate is that of a naive look at the trace, no answer is wrong with evictions, outputs and
//! either routing, once all is quiet every figure is exact, and changed figures are found.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::bench::{self, PATIENT, lie, number};
use crate::fleet::{Ask, Daemon};
use serde_json::Value;
use tempfile::TempDir;

/// Ids and lengths of prompts: fronts of some families of texts, each with an end of its own.
fn requests() -> Vec<(Vec<u64>, u64)> {
    (0..60_u64)
        .map(|number| {
            let (family, shared) = (number % 4, 1 + number * 7 % 3);
            let mut ids: Vec<u64> = (0..shared).map(|depth| 10 * family + depth).collect();
            ids.push(1000 + number);
            let input = ids.len() as u64 * 512 - number * 13 % 500;
            match number {
                // a prompt of nothing, and one of less than a block
                30 => (Vec::new(), 0),
                31 => (vec![1031], 20),
                _ => (ids, input),
            }
        })
        .collect()
}

fn trace() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for (number, (ids, input)) in requests().into_iter().enumerate() {
        let stamp = number * 20;
        writeln!(text, "{{\"timestamp\": {stamp}, \"input_length\": {input}, \"output_length\": 40, \"hash_ids\": {ids:?}}}")
            .unwrap();
    }
    let file = folder.path().join("trace.jsonl");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

/// Tokens of whole blocks of 32 that a cache without bounds has when each request comes.
fn naive_hits() -> u64 {
    let requests = requests();
    let hit = |(at, (ids, input)): (usize, &(Vec<u64>, u64))| {
        let shared = |(other, length): &(Vec<u64>, u64)| {
            let same = ids.iter().zip(other).take_while(|(one, other)| one == other).count() as u64 * 512;
            same.min(*input / 32 * 32).min(*length / 32 * 32)
        };
        requests[..at].iter().map(shared).max().unwrap_or(0)
    };
    requests.iter().enumerate().map(hit).sum()
}

fn play(file: &Path, more: &[&str]) -> (i32, Value, String) {
    let load = ["trace", file.to_str().unwrap(), "--block-size", "32"];
    bench::bench(&[&load[..], &PATIENT, more].concat())
}

#[test]
fn one_endless_worker_hits_what_was_there_before() {
    let (_folder, file) = trace();
    let (code, report, said) = play(&file, &["--workers", "1", "--speed", "2"]);
    assert_eq!(code, 0, "{said}: {}", report["gates"]);
    assert_eq!(number(&report, "/hit_tokens_true"), naive_hits());
    assert!(naive_hits() > 0);
    assert_eq!(number(&report, "/requests"), 60);
    assert_eq!(number(&report, "/blocks_evicted"), 0);
    let prompts: u64 = requests().iter().map(|(_, input)| input).sum();
    assert_eq!(number(&report, "/prompt_tokens"), prompts);
    // what is under way may not be known yet; nothing is known that is not there
    assert!(number(&report, "/hit_tokens_answered") <= naive_hits());
    assert_eq!(number(&report, "/latency/count"), 60);
}

#[test]
fn no_answer_is_wrong_while_workers_evict() {
    let daemon = Daemon::start(2);
    let url = format!("http://{}", daemon.address());
    let (_folder, file) = trace();
    for more in [&["--route", "best", "--binary"][..], &["--route", "round-robin", "--outputs"][..]] {
        let load = ["--workers", "3", "--capacity", "150", "--speed", "max", "--target", &url];
        let (code, report, said) = play(&file, &[&load[..], more].concat());
        assert_eq!(code, 0, "{said}: {}", report["gates"]);
        let answers = |name: &str| number(&report, &format!("/answers/{name}"));
        assert_eq!((answers("wrong"), answers("quiet_wrong")), (0, 0));
        assert_eq!(answers("exact") + answers("under_way"), 60 * 3);
        assert_eq!(answers("quiet_exact"), 60 * 3);
        assert!(number(&report, "/blocks_evicted") > 0);
        assert_eq!(daemon.get("/services").json()["count"], 0, "nothing is left registered");
    }
}

#[test]
fn a_changed_figure_is_found() {
    let daemon = Daemon::start(1);
    let url = bench::proxy(daemon.address(), lie);
    let (_folder, file) = trace();
    let (code, report, said) =
        play(&file, &["--workers", "2", "--speed", "max", "--target", &url, "--no-gate"]);
    assert_eq!(code, 2, "{said}");
    // once all is quiet each answer has one figure that is wrong, unless the whole prompt is held by nobody
    assert!(number(&report, "/answers/quiet_wrong") > 0);
}
