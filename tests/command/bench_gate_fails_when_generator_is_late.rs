//! Set-up: `kvatlas bench ingest` with a schedule that no machine holds: a hundred thousand batches a second of 16,384
//! tokens each, from one thread.
//! Claim: the gate says so and the exit code is 2, the batches that were never sent count, and what was sent is still
//! accounted for; `--no-gate` only changes the exit code.

use crate::bench::{self, number, passed};

const TOO_MUCH: [&str; 17] = [
    "ingest",
    "--publishers",
    "1",
    "--rate",
    "100000",
    "--seconds",
    "0.3",
    "--events",
    "16",
    "--blocks",
    "64",
    "--tokens",
    "16",
    "--capacity",
    "1024",
    "--reactors",
    "1",
];

#[test]
fn the_generator_is_found_late() {
    for (more, expected) in [(&[][..], 2), (&["--no-gate"][..], 0)] {
        let (code, report, said) = bench::bench(&[&TOO_MUCH[..], more].concat());
        assert_eq!(code, expected, "{said}");
        assert!(!passed(&report, "generator valid"));
        assert_eq!(said.contains("generator valid"), expected == 2, "{said}");
        let words = report["gates"][0]["words"].as_str().unwrap();
        assert!(words.contains("of 30,000 batches") && words.contains("not at all"), "{words}");
        assert!(number(&report, "/sent/batches") < 30_000);
        assert_eq!(number(&report, "/sent/events") % 16, 0, "removals come in step with stores");
    }
}
