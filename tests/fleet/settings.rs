//! Set-up: settings loaded from a made-up environment and from command lines as the program parses them.
//! Claim: defaults < environment < flags; a number that is none warns and leaves the default, read as Python reads
//! numbers; one outside its range ends the start and names the variable or the flag, also where a flag would replace
//! it; only blake3 is a hash.

use std::time::Duration;

use clap::Parser;
use kvatlas::cli::coordinator::CoordinatorArgs;
use kvatlas::fleet::settings::number::{real, truth, whole};
use kvatlas::fleet::settings::{Flags, Settings, SettingsError};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: CoordinatorArgs,
}

type Loaded = Result<(Settings, Vec<String>), SettingsError>;

/// Variables without their prefix, unless they have one of ours.
fn load(env: &[(&str, &str)], flags: &[&str]) -> Loaded {
    let cli = Cli::try_parse_from(["coordinator"].iter().chain(flags)).unwrap();
    cli.args.load(|name| {
        let short = name.strip_prefix("LMCACHE_MP_COORDINATOR_").unwrap_or(name);
        env.iter().find(|(key, _)| *key == short).map(|(_, value)| (*value).to_owned())
    })
}

fn settings(env: &[(&str, &str)], flags: &[&str]) -> Settings {
    let (settings, warnings) = load(env, flags).unwrap();
    assert_eq!(warnings, [""; 0]);
    settings
}

fn refused(env: &[(&str, &str)], flags: &[&str]) -> String {
    load(env, flags).unwrap_err().to_string()
}

#[test]
fn without_anything_the_defaults_stand() {
    let wanted = json!({"host": "0.0.0.0", "port": 9300, "instance_timeout": 30.0, "health_check_interval": 10.0,
        "eviction_check_interval": 5.0, "eviction_ratio": 0.2, "trigger_watermark": 1.0, "chunk_size": 256,
        "hash_algorithm": "blake3", "blend_probe_stride": 1, "timeout_keep_alive": 10,
        "enable_startup_resync": true, "resync_poll_interval": 1.0, "resync_max_wait": 60.0,
        "resync_page_size": 1000, "evict_whole_chunks": false, "dry_run_eviction": false, "state_dir": null,
        "body_limit": 268_435_456});
    assert_eq!(serde_json::to_value(settings(&[], &[])).unwrap(), wanted);
    assert_eq!(Settings::load(|_| None, &Flags::default()), Ok((Settings::default(), vec![])));
}

/// Every number: variable, its field, a good value for the environment, another one for the flag.
const NUMBERS: [(&str, &str, &str, Option<&str>); 13] = [
    ("PORT", "port", "9400", Some("9500")),
    ("INSTANCE_TIMEOUT", "instance_timeout", "120.5", Some("0.25")),
    ("HEALTH_CHECK_INTERVAL", "health_check_interval", "0", Some("3.5")),
    ("EVICTION_CHECK_INTERVAL", "eviction_check_interval", "0", Some("0.125")),
    ("EVICTION_RATIO", "eviction_ratio", "0", Some("1")),
    ("TRIGGER_WATERMARK", "trigger_watermark", "0.5", Some("0.75")),
    ("CHUNK_SIZE", "chunk_size", "1", Some("512")),
    ("BLEND_PROBE_STRIDE", "blend_probe_stride", "16", Some("4")),
    ("TIMEOUT_KEEP_ALIVE", "timeout_keep_alive", "65", Some("1")),
    ("RESYNC_POLL_INTERVAL", "resync_poll_interval", "0.5", None),
    ("RESYNC_MAX_WAIT", "resync_max_wait", "0", None),
    ("RESYNC_PAGE_SIZE", "resync_page_size", "5000", None),
    ("HOST", "host", "127.0.0.1", Some("::1")),
];

/// A field as text, whole numbers without a point.
fn field(settings: &Settings, name: &str) -> String {
    match &serde_json::to_value(settings).unwrap()[name] {
        Value::String(text) => text.clone(),
        other => other.as_f64().unwrap().to_string(),
    }
}

fn flag_of(name: &str) -> String {
    format!("--{}", name.to_lowercase().replace('_', "-"))
}

#[test]
fn every_variable_counts_and_its_flag_wins() {
    for (name, key, in_env, in_flag) in NUMBERS {
        assert_eq!(field(&settings(&[(name, in_env)], &[]), key), in_env, "{name}");
        if let Some(in_flag) = in_flag {
            let flag = flag_of(name);
            assert_eq!(field(&settings(&[(name, in_env)], &[&flag, in_flag]), key), in_flag, "{flag}");
        }
    }
}

#[test]
fn a_number_that_is_none_warns_and_leaves_the_default() {
    let plain = settings(&[], &[]);
    for (name, key, ..) in NUMBERS.iter().filter(|(name, ..)| *name != "HOST") {
        let fraction = if field(&plain, key) == "0.2" || name.contains("TIMEOUT") { "abc" } else { "1..5" };
        for bad in ["abc", "", " ", "1.5.5", "0x10", "1_", "_1", "1__0", "5s", "--5", fraction] {
            let (loaded, warnings) = load(&[(name, bad)], &[]).unwrap();
            assert_eq!(loaded, plain, "{name}={bad}");
            assert_eq!(warnings.len(), 1);
            assert!(
                warnings[0].starts_with(&format!("LMCACHE_MP_COORDINATOR_{name}: \"{bad}\"")),
                "{}",
                warnings[0]
            );
        }
    }
    for name in ["PORT", "CHUNK_SIZE", "BLEND_PROBE_STRIDE", "TIMEOUT_KEEP_ALIVE", "RESYNC_PAGE_SIZE"] {
        for bad in ["1.5", "1e3", "inf", "nan", "10."] {
            let (loaded, warnings) = load(&[(name, bad)], &[]).unwrap();
            assert_eq!((loaded, warnings.len()), (plain.clone(), 1), "{name}={bad}");
        }
    }
}

#[test]
fn all_warnings_are_told() {
    let (_, warnings) = load(&[("PORT", "x"), ("CHUNK_SIZE", "y"), ("EVICTION_RATIO", "z")], &[]).unwrap();
    assert_eq!(warnings.len(), 3);
}

/// What each number must not be.
const OUTSIDE: [(&str, &[&str]); 12] = [
    ("PORT", &["-1", "65536", "99999999999999999999999"]),
    ("INSTANCE_TIMEOUT", &["0", "-0.0", "-1", "-inf"]),
    ("HEALTH_CHECK_INTERVAL", &["-0.5", "-inf", "nan"]),
    ("EVICTION_CHECK_INTERVAL", &["-1", "nan"]),
    ("EVICTION_RATIO", &["-0.1", "1.01", "inf", "nan"]),
    ("TRIGGER_WATERMARK", &["0", "1.01", "nan"]),
    ("CHUNK_SIZE", &["0", "-1", "-99999999999999999999999"]),
    ("BLEND_PROBE_STRIDE", &["0"]),
    ("TIMEOUT_KEEP_ALIVE", &["0", "-5"]),
    ("RESYNC_POLL_INTERVAL", &["0", "-1", "nan"]),
    ("RESYNC_MAX_WAIT", &["-1", "nan"]),
    ("RESYNC_PAGE_SIZE", &["0", "-1"]),
];

#[test]
fn a_number_outside_its_range_is_named() {
    for (name, values) in OUTSIDE {
        let flag = flag_of(name);
        let has_flag = NUMBERS.iter().any(|(number, .., in_flag)| *number == name && in_flag.is_some());
        for value in values {
            let message = refused(&[(name, value)], &[]);
            assert!(message.starts_with(&format!("LMCACHE_MP_COORDINATOR_{name}: must be ")), "{message}");
            if has_flag {
                let good = NUMBERS.iter().find(|(number, ..)| *number == name).unwrap().2;
                assert_eq!(refused(&[(name, value)], &[&flag, good]), message, "a flag makes it no better");
                let message = refused(&[], &[&format!("{flag}={value}")]);
                assert!(message.starts_with(&format!("{flag}: must be ")), "{message}");
            }
        }
    }
}

#[test]
fn the_edges_of_the_ranges_are_inside() {
    for (name, value) in [
        ("PORT", "0"),
        ("PORT", "65535"),
        ("INSTANCE_TIMEOUT", "1e-9"),
        ("INSTANCE_TIMEOUT", "nan"),
        ("INSTANCE_TIMEOUT", "inf"),
        ("HEALTH_CHECK_INTERVAL", "-0.0"),
        ("EVICTION_RATIO", "1"),
        ("EVICTION_RATIO", "0"),
        ("TRIGGER_WATERMARK", "1"),
        ("TRIGGER_WATERMARK", "1e-300"),
        ("RESYNC_MAX_WAIT", "1e400"),
        ("CHUNK_SIZE", "99999999999999999999999"),
    ] {
        load(&[(name, value)], &[]).unwrap();
    }
}

#[test]
fn names_of_numbers_are_shown() {
    let odd = settings(&[("INSTANCE_TIMEOUT", "nan"), ("RESYNC_MAX_WAIT", "Infinity")], &[]);
    assert!(odd.instance_timeout.is_nan());
    let shown = serde_json::to_value(&odd).unwrap();
    assert_eq!((&shown["instance_timeout"], &shown["resync_max_wait"]), (&json!("NaN"), &json!("inf")));
}

#[test]
fn resync_is_wanted_unless_the_variable_says_no() {
    for (text, wanted) in [
        ("1", true),
        ("TRUE", true),
        (" yes ", true),
        ("On", true),
        ("", false),
        ("maybe", false),
        ("0", false),
        ("false", false),
        ("2", false),
    ] {
        assert_eq!(settings(&[("ENABLE_STARTUP_RESYNC", text)], &[]).enable_startup_resync, wanted, "{text}");
        assert_eq!(truth(text), wanted);
    }
}

#[test]
fn only_blake3_is_a_hash() {
    assert_eq!(
        settings(&[("HASH_ALGORITHM", "blake3")], &["--hash-algorithm", "blake3"]).hash_algorithm,
        "blake3"
    );
    let message = refused(&[("HASH_ALGORITHM", "sha256_cbor")], &[]);
    assert!(message.starts_with(
        "LMCACHE_MP_COORDINATOR_HASH_ALGORITHM: only blake3 is supported (got \"sha256_cbor\")"
    ));
    assert!(message.contains("cannot be reproduced"), "{message}");
    let message = refused(&[("HASH_ALGORITHM", "blake3")], &["--hash-algorithm", "builtin"]);
    assert!(message.starts_with("--hash-algorithm: only blake3 is supported (got \"builtin\")"), "{message}");
    assert_eq!(
        settings(&[("HASH_ALGORITHM", "builtin")], &["--hash-algorithm=blake3"]).hash_algorithm,
        "blake3"
    );
    for message in [
        refused(&[("HASH_ALGORITHM", "")], &["--hash-algorithm=blake3"]),
        refused(&[], &["--hash-algorithm="]),
    ] {
        assert!(message.ends_with(": must name a hash (got an empty text)"), "{message}");
    }
}

#[test]
fn what_is_ours_has_variables_and_flags() {
    let all = [
        ("KVATLAS_EVICT_WHOLE_CHUNKS", "1"),
        ("KVATLAS_DRY_RUN_EVICTION", "yes"),
        ("KVATLAS_STATE_DIR", "there"),
    ];
    let ours =
        |settings: Settings| (settings.evict_whole_chunks, settings.dry_run_eviction, settings.state_dir);
    assert_eq!(ours(settings(&all, &[])), (true, true, Some("there".into())));
    assert_eq!(ours(settings(&all, &["--state-dir", "here"])).2, Some("here".into()));
    let flags = ["--evict-whole-chunks", "--dry-run-eviction", "--state-dir", "here"];
    assert_eq!(ours(settings(&[], &flags)), (true, true, Some("here".into())));
    let off = all.map(|(name, _)| (name, ""));
    let (unset, warnings) = load(&off, &[]).unwrap();
    assert_eq!(ours(unset), (false, false, None));
    assert!(
        matches!(warnings.as_slice(), [one] if one.starts_with("KVATLAS_STATE_DIR is empty")),
        "{warnings:?}"
    );
    assert_eq!(settings(&[], &["--body-limit", "4096"]).body_limit, 4096);
}

#[test]
fn flags_that_are_no_numbers_are_a_bad_command_line() {
    for flags in [
        ["--port", "x"],
        ["--instance-timeout", "soon"],
        ["--chunk-size", "1.5"],
        ["--body-limit", "1"],
        ["--driver", "kqueue"],
        ["--no-such-flag", "1"],
    ] {
        let error = Cli::try_parse_from(["coordinator"].iter().chain(&flags)).unwrap_err();
        assert!(error.to_string().contains(flags[0]), "{error}");
    }
}

#[test]
fn addresses_of_both_kinds_can_be_listened_on() {
    let listen = |host: &str| settings(&[("HOST", host)], &["--port", "1"]).listen().to_string();
    assert_eq!(listen("10.0.0.1"), "10.0.0.1:1");
    assert_eq!(listen("::"), "[::]:1");
    assert_eq!(listen("[::1]"), "[::1]:1");
    assert_eq!(listen("localhost"), "localhost:1");
    assert_eq!(listen(""), "0.0.0.0:1", "every interface");
}

#[test]
fn pauses_are_times_or_none() {
    let odd = settings(&[("HEALTH_CHECK_INTERVAL", "0"), ("EVICTION_CHECK_INTERVAL", "0.5")], &[]);
    assert_eq!((odd.health_pause(), odd.eviction_pause()), (None, Some(Duration::from_millis(500))));
    assert_eq!(odd.keep_alive(), Duration::from_secs(10));
    let rules = odd.resync_rules();
    assert_eq!((rules.enabled, rules.page_size), (true, 1000));
    assert_eq!((rules.poll_interval, rules.max_wait), (Duration::from_secs(1), Duration::from_mins(1)));
    let endless = settings(
        &[
            ("EVICTION_CHECK_INTERVAL", "inf"),
            ("RESYNC_MAX_WAIT", "1e300"),
            ("TIMEOUT_KEEP_ALIVE", "9223372036854775807"),
        ],
        &[],
    );
    let year = Duration::from_hours(365 * 24);
    for time in [endless.eviction_pause().unwrap(), endless.resync_rules().max_wait, endless.keep_alive()] {
        assert!(time > year && std::time::Instant::now().checked_add(time).is_some(), "{time:?}");
    }
}

#[test]
fn numbers_are_read_as_python_reads_them() {
    for (text, value) in [
        ("80", 80),
        (" 80\n", 80),
        ("+5", 5),
        ("-5", -5),
        ("1_000", 1000),
        ("007", 7),
        ("-0", 0),
        ("\u{a0}7\u{2003}", 7),
        ("99999999999999999999", i64::MAX),
        ("-99999999999999999999", i64::MIN),
    ] {
        assert_eq!(whole(text), Some(value), "{text}");
    }
    for text in ["", "+", "-", "1.0", "1e3", "0x1", "1 0", "1_", "_1", "1__0", "+_1", "++1", "nan", "½"] {
        assert_eq!(whole(text), None, "{text}");
    }
    for (text, value) in [
        ("1e3", 1000.0),
        ("1_0.0_1e1_0", 10.01e10),
        (" .5 ", 0.5),
        ("5.", 5.0),
        ("+1", 1.0),
        ("INF", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        ("1e400", f64::INFINITY),
        ("1E-3", 0.001),
    ] {
        assert_eq!(real(text), Some(value), "{text}");
    }
    assert!(real("NaN").unwrap().is_nan() && real("+nan").unwrap().is_nan());
    for text in ["", ".", "e5", "1e", "1_e5", "1._5", "1e_5", "infinit", "in_f", "0x1p3", "1,5", "5s", "1 e5"]
    {
        assert_eq!(real(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn whole_numbers_come_back(number: i64, blanks in " {0,2}") {
        prop_assert_eq!(whole(&format!("{blanks}{number}{blanks}")), Some(number));
    }

    #[test]
    fn real_numbers_come_back(number: f64) {
        let read = real(&format!(" {number:e}")).unwrap();
        prop_assert!(read.to_bits() == number.to_bits() || read.is_nan() && number.is_nan());
    }

    #[test]
    fn no_text_hurts(text in ".{0,20}", digits in "[-+_.0-9eE]{0,12}") {
        for text in [&text, &digits] {
            let _ = (whole(text), real(text), truth(text));
            let _ = load(&[("PORT", text), ("INSTANCE_TIMEOUT", text)], &[]);
        }
    }
}

#[test]
fn help_tells_every_flag_and_variable() {
    let help = Cli::try_parse_from(["coordinator", "--help"]).unwrap_err().to_string();
    for (name, _, _, in_flag) in NUMBERS {
        assert!(help.contains(name), "{name}");
        assert!(in_flag.is_none() || help.contains(&flag_of(name)), "{name}");
    }
    for word in
        ["--hash-algorithm", "HASH_ALGORITHM", "ENABLE_STARTUP_RESYNC", "KVATLAS_STATE_DIR", "--check-config"]
    {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn our_own_switches_are_clearly_on_or_off() {
    for name in ["KVATLAS_DRY_RUN_EVICTION", "KVATLAS_EVICT_WHOLE_CHUNKS"] {
        let with = |text: &str| {
            Settings::load(|asked| (asked == name).then(|| text.to_owned()), &Flags::default())
                .map(|(settings, _)| settings.dry_run_eviction || settings.evict_whole_chunks)
        };
        for (text, on) in [("true", true), (" On ", true), ("0", false), ("no", false), ("", false)] {
            assert_eq!(with(text).ok(), Some(on), "{text:?}");
        }
        for text in ["y", "2", "maybe"] {
            assert!(with(text).unwrap_err().to_string().contains(name), "{text:?}");
        }
    }
}
