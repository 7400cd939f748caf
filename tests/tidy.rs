//! Set-up: the sources of this repository.
//! Claim: files are short, unsafe code is explained and confined, nothing is left unfinished, every bound is in
//! force, and nothing names a place on somebody's machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest file under `src`, lines.
const LINES: usize = 500;

/// Files under a folder of the repository with one of these endings, by their path in it.
fn files(folders: &[&str], endings: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file()
            && (folders.iter().any(|folder| path == root.join(folder)) || ends(&path, endings))
        {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn ends(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one))
}

fn sources() -> Vec<(String, String)> {
    let found = files(&["src"], &["rs"]);
    assert!(found.len() > 50, "{}", found.len());
    found
}

/// What stands before a comment; good enough for code in which `//` is in no string with words that matter.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

/// Whether `word` stands alone in the code of a line.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code(line).match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(part) && !after.starts_with(part)
    })
}

#[test]
fn files_are_short() {
    let long: Vec<String> = sources()
        .iter()
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES)
        .map(|(name, lines)| format!("{name}: {lines}"))
        .collect();
    assert!(long.is_empty(), "longer than {LINES} lines: {long:?}");
}

#[test]
fn unsafe_code_is_explained_and_confined() {
    let mut seen = 0;
    for (name, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !has_word(line, "unsafe") {
                continue;
            }
            seen += 1;
            assert!(text.contains("#![allow(unsafe_code)]"), "{name}:{}: its module forbids it", at + 1);
            // the comment stands on the line, or above the statement or chain of calls that it belongs to
            let above = lines[..at].iter().rev().take_while(|line| {
                let line = line.trim();
                line.starts_with("//")
                    || line.starts_with('#')
                    || !(line.is_empty() || line.ends_with([';', '}']))
            });
            let explained = line.contains("SAFETY:") || above.take(8).any(|line| line.contains("SAFETY:"));
            assert!(explained, "{name}:{}: no SAFETY comment", at + 1);
        }
    }
    assert!(seen > 5, "the search itself finds nothing");
}

#[test]
fn nothing_is_unfinished() {
    for (name, text) in files(&["src", "benches", "fuzz/fuzz_targets"], &["rs"]) {
        for (at, line) in text.lines().enumerate() {
            for word in ["todo!", "unimplemented!", "dbg!"] {
                assert!(!code(line).contains(word), "{name}:{}: {word}", at + 1);
            }
            for word in ["TODO", "FIXME", "XXX"] {
                assert!(!line.contains(word), "{name}:{}: {word}", at + 1);
            }
        }
    }
}

#[test]
fn every_bound_is_in_force() {
    let sources = sources();
    let limits = &sources.iter().find(|(name, _)| name == "src/limits.rs").unwrap().1;
    let mut seen = 0;
    for line in limits.lines() {
        let Some(rest) = line.strip_prefix("pub const ") else { continue };
        let bound = rest.split(':').next().unwrap();
        seen += 1;
        let used = sources.iter().filter(|(name, _)| name != "src/limits.rs").any(|(_, text)| {
            text.lines().any(|line| has_word(line, bound) && !line.trim_start().starts_with("use "))
        });
        assert!(used, "{bound} bounds nothing");
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn every_bound_is_explained() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/limits.rs")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("pub const ") {
            assert!(at > 0 && lines[at - 1].starts_with("///"), "src/limits.rs:{}", at + 1);
        }
    }
}

#[test]
fn nothing_names_a_place_on_a_machine() {
    let folders =
        ["src", "tests", "benches", "fuzz/fuzz_targets", "scripts", ".ci", "README.md", "Cargo.toml"];
    // spelled apart, so that this file passes its own test
    let places =
        [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
    for (name, text) in files(&folders, &["rs", "md", "toml", "json", "jsonl", "", "sh"]) {
        for (at, line) in text.lines().enumerate() {
            for place in places {
                assert!(!line.contains(place), "{name}:{}: {place}", at + 1);
            }
        }
    }
}

#[test]
fn every_test_file_states_its_claim() {
    for (name, text) in files(&["tests"], &["rs"]) {
        assert!(text.starts_with("//!"), "{name} says nothing of what it holds");
    }
}
