//! Set-up: `kvatlas bench ingest` against a daemon that it starts, and against a running one.
//! Claim: as many batches are sent as are due, every event and block of them is counted as applied, removals and what
//! is held included; the parts by reactor add up; and the histogram has every batch.

use crate::bench::{self, PATIENT, number, passed};
use crate::fleet::{Ask, Daemon};
use serde_json::Value;

const LOAD: [&str; 16] = [
    "ingest",
    "--publishers",
    "3",
    "--rate",
    "40",
    "--seconds",
    "1",
    "--events",
    "3",
    "--blocks",
    "4",
    "--tokens",
    "8",
    "--capacity",
    "200",
    "--replay",
];

fn check(report: &Value) {
    for gate in ["generator valid", "kept up"] {
        assert!(passed(report, gate), "{}", report["gates"]);
    }
    let batches = 3 * 40;
    assert_eq!(number(report, "/sent/batches"), batches);
    assert_eq!(number(report, "/sent/blocks_stored"), batches * 3 * 4);
    assert_eq!(report["sent"], report["applied"]);
    assert!(number(report, "/applied/blocks_removed") > 0);
    let held = number(report, "/applied/blocks_held");
    assert!(held <= 3 * 200);
    assert_eq!(held, number(report, "/sent/blocks_stored") - number(report, "/sent/blocks_removed"));
    for lost in ["/missed", "/gaps", "/skipped"] {
        assert_eq!(number(report, lost), 0);
    }
    assert_eq!((number(report, "/lag/count"), number(report, "/lateness/count")), (batches, batches));
    let reactors = report["per_reactor"].as_array().unwrap();
    let sum = |name: &str| reactors.iter().map(|reactor| reactor[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((reactors.len(), sum("streams"), sum("batches")), (2, 3, batches));
    assert_eq!(
        sum("blocks"),
        number(report, "/applied/blocks_stored") + number(report, "/applied/blocks_removed")
    );
    assert!(sum("turns") > 0);
}

#[test]
fn of_a_daemon_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lag.hgrm");
    let own = ["--reactors", "2", "--driver", "epoll", "--histogram", file.to_str().unwrap()];
    let (code, report, said) = bench::bench(&[&LOAD[..], &PATIENT, &own].concat());
    assert_eq!(code, 0, "{said}");
    check(&report);
    assert_eq!(report["daemon"]["target"], Value::Null);
    assert!(report["daemon"]["cpu_seconds"].as_f64().is_some() && number(&report, "/daemon/rss_after") > 0);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(&format!("Total count    = {:>12}]", 120)), "{text}");
}

#[test]
fn of_a_running_daemon() {
    let daemon = Daemon::start(2);
    let url = format!("http://{}", daemon.address());
    let (code, report, said) = bench::bench(&[&LOAD[..], &PATIENT, &["--target", &url]].concat());
    assert_eq!(code, 0, "{said}");
    check(&report);
    assert_eq!(report["daemon"]["target"], url);
    assert_eq!(report["daemon"]["cpu_seconds"], Value::Null, "nobody told which process it is");
    assert_eq!(daemon.get("/services").json()["count"], 0, "nothing is left registered");
}

#[test]
fn as_fast_as_possible_loses_nothing() {
    let load = ["ingest", "--publishers", "2", "--rate", "max", "--seconds", "0.5", "--capacity", "1000"];
    let (code, report, said) = bench::bench(&[&load[..], &PATIENT].concat());
    assert_eq!(code, 0, "{said}: {}", report["gates"]);
    assert_eq!(report["sent"], report["applied"]);
    assert!(number(&report, "/sent/batches") > 0);
    assert_eq!(report["lateness"], Value::Null, "there is no schedule");
}
