//! Set-up: the program, told of 600,000 keys in batches of 20,000 events, then that all are gone, and again.
//! Claim: it needs at most 120 MB for them, and no more the second time.

use std::fmt::Write as _;

use crate::fleet_process::Process;

const KEYS: u64 = 600_000;
const BATCH: u64 = 20_000;
const MOST: u64 = 120_000_000;
/// What an allocator may keep or give back from one round to the next.
const SLACK: u64 = 16_000_000;

fn report(process: &Process, kind: &str) {
    for first in (0..KEYS).step_by(BATCH as usize) {
        let mut body = String::from("{\"instance_id\":\"a\",\"seq\":1,\"tier\":\"l2\",\"events\":[");
        for number in first..first + BATCH {
            // hashes are spread like those of tokens
            let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let comma = if number == first { "" } else { "," };
            write!(
                body,
                "{comma}{{\"type\":\"{kind}\",\"key\":{{\"chunk_hash_hex\":\"{spread:016x}{number:048x}\",\
                 \"model_name\":\"meta-llama/Llama-3.1-70B-Instruct\",\"kv_rank\":{},\"object_group_id\":0,\
                 \"cache_salt\":\"tenant-{}\"}},\"bytes\":1048576}}",
                67_109_888 + number % 4 * 65_537,
                number % 10
            )
            .unwrap();
        }
        body.push_str("]}");
        let answer = process.call("POST", "/quota/events", &body);
        assert_eq!((answer.status, answer.text()), (200, "{\"recorded\":20000}"));
    }
}

fn keys(process: &Process) -> u64 {
    let page = process.call("GET", "/metrics", "");
    let line =
        page.text().lines().find_map(|line| line.strip_prefix("kvatlas_fleet_keys ")).unwrap().to_owned();
    line.parse().unwrap()
}

#[test]
fn six_hundred_thousand_keys_need_little_memory_and_no_more_of_it_later() {
    let process = Process::start(&["--eviction-check-interval", "0"], &[("ENABLE_STARTUP_RESYNC", "false")]);
    let before = process.resident();
    let mut rounds = Vec::new();
    for _ in 0..3 {
        report(&process, "store");
        assert_eq!(keys(&process), KEYS);
        rounds.push(process.resident().saturating_sub(before));
        report(&process, "delete");
        assert_eq!(keys(&process), 0);
    }
    println!("bytes of memory for {KEYS} keys, round by round: {rounds:?}");
    assert!(rounds.iter().all(|round| *round <= MOST), "{rounds:?}");
    assert!(rounds[2] <= rounds[1] + SLACK, "{rounds:?}");
}
