//! Set-up: `kvatlas bench query` against a daemon, and against the same daemon behind a proxy that changes one figure of
//! every answer.
//! Claim: the daemon's answers are all right, in every encoding, with a rate and without; each changed answer is found
//! wrong and named, and `--no-gate` does not excuse it.

use crate::bench::{self, lie, number, passed};
use crate::fleet::{Ask, Daemon};

const LOAD: [&str; 13] = [
    "query",
    "--depth",
    "5,40",
    "--hit",
    "0,60,100",
    "--block-size",
    "4",
    "--owners",
    "3",
    "--prompts",
    "6",
    "--seconds",
    "0.3",
];

#[test]
fn right_answers_are_found_right() {
    let daemon = Daemon::start(2);
    let url = format!("http://{}", daemon.address());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.hgrm");
    let closed = ["--binary", "--connections", "3", "--histogram", file.to_str().unwrap()];
    let open = ["--rate", "50", "--connections", "2", "--late-ms", "60000"];
    for (more, cells) in [(&closed[..], 18), (&open[..], 6)] {
        let (code, report, said) = bench::bench(&[&LOAD[..], &["--target", &url], more].concat());
        assert_eq!(code, 0, "{said}: {}", report["gates"]);
        let found = report["cells"].as_array().unwrap();
        assert_eq!(found.len(), cells);
        for cell in found {
            assert!(number(cell, "/requests") > 0);
            assert_eq!(number(cell, "/wrong"), 0);
            assert_eq!(cell["latency"]["count"], cell["requests"]);
        }
        assert!(passed(&report, "answers right"));
        // what is held: the held share of each prompt, less up to 3 blocks by owner and prompt
        let held = |depth: f64, share: f64| -> u64 {
            let each = (0..6).flat_map(|prompt| (0..3).map(move |owner| (prompt + owner) % 4));
            each.map(|less| ((depth * share).round() as u64).saturating_sub(less)).sum()
        };
        let all: u64 = [0.0, 0.6, 1.0].iter().map(|share| held(5.0, *share) + held(40.0, *share)).sum();
        assert_eq!(number(&report, "/blocks_held"), all);
        assert_eq!(daemon.get("/services").json()["count"], 0, "nothing is left registered");
    }
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 18, "a histogram a cell");
    assert!(folder.path().join("answers.40-60-msgpack.hgrm").is_file());
}

#[test]
fn a_changed_answer_is_found_wrong() {
    let daemon = Daemon::start(1);
    let url = bench::proxy(daemon.address(), lie);
    for more in [&[][..], &["--no-gate"][..]] {
        let load = [
            "query",
            "--depth",
            "20",
            "--block-size",
            "4",
            "--owners",
            "2",
            "--prompts",
            "3",
            "--seconds",
            "0.2",
        ];
        let (code, report, said) = bench::bench(&[&load[..], &["--target", &url], more].concat());
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("answers right"), "{said}");
        let cell = &report["cells"][0];
        // the answers that warm both ends up count as well
        assert_eq!(number(cell, "/wrong"), number(cell, "/requests") + 3);
    }
    let load = [
        "query",
        "--depth",
        "20",
        "--block-size",
        "4",
        "--owners",
        "2",
        "--seconds",
        "0.2",
        "--target",
        &url,
    ];
    let output = bench::command(&load).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("is said to hold") && text.contains("NO: "), "{text}");
}
