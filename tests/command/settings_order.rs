//! Set-up: the program itself, started with `serve --check-config` under every mixture of settings file,
//! environment and flags.
//! Claim: defaults < file < environment < flags; a file that was asked for must be there, the default one need
//! not; a bad setting ends with the code of its kind and a message that names it.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A home folder with nothing in it, and a program that sees nothing of the real one.
struct Machine {
    home: TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn run(&self, env: &[(&str, &str)], flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
        command.env_clear().env("HOME", self.home.path()).envs(env.iter().copied());
        command.args(["serve", "--check-config"]).args(flags).output().unwrap()
    }

    fn settings(&self, env: &[(&str, &str)], flags: &[&str]) -> Value {
        let output = self.run(env, flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Exit code and message of a start that must fail.
    fn failure(&self, env: &[(&str, &str)], flags: &[&str]) -> (i32, String) {
        let output = self.run(env, flags);
        assert!(output.stdout.is_empty());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn without_anything_the_defaults_stand() {
    let settings = Machine::new().settings(&[], &[]);
    let wanted = json!({"listen": ["127.0.0.1:13333"], "reactors": null, "driver": "auto", "hash_seed": 1337,
        "log_level": "info", "log_format": "text", "body_limit": 67_108_864, "idle_seconds": 75,
        "connections": 4096, "zmq_hwm": 20_000, "drain_seconds": 5, "busy_poll_us": 0, "stream_ttl": 0,
        "replay_idle_ms": 2000, "port_file": null, "config_file": null, "publishers": [], "fleet": null});
    assert_eq!(settings, wanted);
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let machine = Machine::new();
    let file = machine.write("c.json", r#"{"http_server_port": 1111}"#);
    let env = [("KVATLAS_LISTEN", "127.0.0.1:2222"), ("KVATLAS_CONFIG", file.as_str())];
    let flags = ["--listen", "127.0.0.1:3333", "--listen", "unix:/run/k.sock"];
    let listen = |env: &[(&str, &str)], flags: &[&str]| machine.settings(env, flags)["listen"].clone();
    assert_eq!(listen(&env, &flags), json!(["127.0.0.1:3333", "unix:/run/k.sock"]));
    assert_eq!(listen(&env, &[]), json!(["127.0.0.1:2222"]));
    assert_eq!(listen(&env[1..], &[]), json!(["0.0.0.0:1111"]), "the Conductor's port is on all interfaces");
    assert_eq!(listen(&[], &[]), json!(["127.0.0.1:13333"]));
}

#[test]
fn every_setting_has_a_variable_and_a_flag_that_wins() {
    let machine = Machine::new();
    let all = [
        ("reactors", "2", "3"),
        ("driver", "epoll", "io_uring"),
        ("hash-seed", "1", "18446744073709551615"),
        ("log-level", "WARN", "error"),
        ("log-format", "json", "text"),
        ("body-limit", "2048", "4096"),
        ("idle-seconds", "1", "2"),
        ("connections", "1", "2"),
        ("zmq-hwm", "0", "7"),
        ("drain-seconds", "0", "30"),
        ("busy-poll-us", "20", "50"),
        ("stream-ttl", "60", "0"),
        ("replay-idle-ms", "100", "200"),
        ("port-file", "/tmp/a", "/tmp/b"),
    ];
    let shown =
        |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned).to_lowercase();
    for (flag, in_env, in_flag) in all {
        let key = flag.replace('-', "_");
        let name = format!("KVATLAS_{}", key.to_uppercase());
        let from_env = machine.settings(&[(&name, in_env)], &[]);
        assert_eq!(shown(&from_env[&key]), in_env.to_lowercase(), "{name}");
        let flag = format!("--{flag}");
        let from_flag = machine.settings(&[(&name, in_env)], &[&flag, in_flag]);
        assert_eq!(shown(&from_flag[&key]), in_flag, "{flag}");
    }
}

#[test]
fn the_environment_can_list_addresses() {
    let settings = Machine::new().settings(&[("KVATLAS_LISTEN", "127.0.0.1:1,unix:/run/k.sock")], &[]);
    assert_eq!(settings["listen"], json!(["127.0.0.1:1", "unix:/run/k.sock"]));
}

#[test]
fn the_file_is_looked_for_in_three_places() {
    let machine = Machine::new();
    let port = |env: &[(&str, &str)], flags: &[&str]| machine.settings(env, flags)["listen"][0].clone();
    machine.write(".mooncake/conductor_config.json", r#"{"http_server_port": 1}"#);
    assert_eq!(port(&[], &[]), "0.0.0.0:1");
    let second = machine.write("second.json", r#"{"http_server_port": 2}"#);
    let env = [("CONDUCTOR_CONFIG_PATH", second.as_str())];
    assert_eq!(port(&env, &[]), "0.0.0.0:2");
    let third = machine.write("third.json", r#"{"http_server_port": 3}"#);
    assert_eq!(port(&env, &["--config", &third]), "0.0.0.0:3");
    let portless = machine.write("fourth.json", "{}");
    assert_eq!(port(&[], &["--config", &portless]), "127.0.0.1:13333", "no port opens no interface");
}

#[test]
fn publishers_of_the_file_are_in_the_settings() {
    let machine = Machine::new();
    let text = json!({"unheard_of": 1, "kvevent_instance": {
        "good": {"endpoint": "tcp://h:1", "type": "vLLM", "modelname": "m", "block_size": 16},
        "bad": {"endpoint": "tcp://h:2", "type": "vLLM", "modelname": "m"}}});
    let file = machine.write("c.json", &text.to_string());
    let output = machine.run(&[], &["--config", &file, "--log-level", "debug"]);
    assert!(output.status.success());
    let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(settings["config_file"], file);
    assert_eq!(settings["publishers"].as_array().unwrap().len(), 1);
    assert_eq!(settings["publishers"][0]["instance_id"], "good");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("kvevent_instance.bad.block_size: is required"), "{log}");
    assert!(log.contains("unheard_of"), "{log}");
    let quiet = machine.run(&[], &["--config", &file]);
    assert!(
        !String::from_utf8(quiet.stderr).unwrap().contains("unheard_of"),
        "unknown keys are for debugging"
    );
}

#[test]
fn an_entry_that_would_be_skipped_is_reported_and_left_out() {
    let machine = Machine::new();
    let entry = |endpoint: &str, replay: &str| json!({"endpoint": endpoint, "replay_endpoint": replay, "type": "vLLM", "modelname": "m", "block_size": 16});
    let text = json!({"kvevent_instance": {
        "good": entry("tcp://h:1", "tcp://h:2"), "wild": entry("tcp://*:1", ""), "odd": entry("tcp://h:1", "h:2")}});
    let file = machine.write("c.json", &text.to_string());
    let output = machine.run(&[], &["--config", &file]);
    assert!(output.status.success());
    let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(settings["publishers"].as_array().unwrap().len(), 1);
    let log = String::from_utf8(output.stderr).unwrap();
    let line = |entry: &str| log.lines().find(|line| line.contains(entry)).unwrap_or_default().to_owned();
    assert!(line("wild").contains("endpoint: ") && line("wild").contains("publisher binds"), "{log}");
    assert!(line("odd").contains("replay_endpoint: "), "{log}");
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let machine = Machine::new();
    let nowhere = machine.home.path().join("nowhere.json");
    let nowhere = nowhere.to_str().unwrap();
    let flags: &[&str] = &["--config", nowhere];
    for (env, flags) in [(vec![], flags), (vec![("CONDUCTOR_CONFIG_PATH", nowhere)], &[])] {
        let (code, message) = machine.failure(&env, flags);
        assert_eq!(code, 66);
        assert!(message.contains(nowhere), "{message}");
    }
}

#[test]
fn broken_json_is_a_bad_command_line_with_its_place() {
    let machine = Machine::new();
    let file = machine.write("c.json", "{\n \"http_server_port\": }");
    let (code, message) = machine.failure(&[], &["--config", &file]);
    assert_eq!(code, 64);
    assert!(message.contains(&format!("{file}:2:")), "{message}");
    // the default file need not be there, but what is there must be right
    machine.write(".mooncake/conductor_config.json", "[");
    assert_eq!(machine.failure(&[], &[]).0, 64);
}

#[test]
fn a_bad_setting_is_named() {
    let machine = Machine::new();
    let bad = [
        ("--listen", "localhost"),
        ("--reactors", "0"),
        ("--reactors", "65"),
        ("--driver", "kqueue"),
        ("--hash-seed", "-1"),
        ("--log-level", "loud"),
        ("--log-format", "xml"),
        ("--body-limit", "1"),
        ("--zmq-hwm", "-1"),
        ("--busy-poll-us", "1001"),
    ];
    for (flag, value) in bad {
        let (code, message) = machine.failure(&[], &[&format!("{flag}={value}")]);
        assert_eq!(code, 64, "{flag} {value}");
        assert!(message.contains(flag), "{message}");
    }
    assert_eq!(machine.failure(&[], &["--no-such-flag"]).0, 64);
    let (code, message) = machine.failure(&[("KVATLAS_REACTORS", "many")], &[]);
    assert_eq!((code, message.contains("--reactors")), (64, true));
}

#[test]
fn the_conductors_log_level_counts_where_ours_is_not_set() {
    let machine = Machine::new();
    let level = |env: &[(&str, &str)]| machine.settings(env, &[])["log_level"].clone();
    assert_eq!(level(&[("CONDUCTOR_LOG_LEVEL", "DEBUG")]), "debug");
    assert_eq!(level(&[("CONDUCTOR_LOG_LEVEL", "warning")]), "warn");
    assert_eq!(level(&[("CONDUCTOR_LOG_LEVEL", "debug"), ("KVATLAS_LOG_LEVEL", "error")]), "error");
    assert_eq!(
        level(&[("CONDUCTOR_LOG_LEVEL", "chatty")]),
        "info",
        "another program's variable stops nothing"
    );
}

#[test]
fn help_and_version_are_no_errors() {
    for flag in ["--help", "--version"] {
        let output = Command::new(env!("CARGO_BIN_EXE_kvatlas")).arg(flag).output().unwrap();
        assert!(output.status.success());
        assert!(!output.stdout.is_empty());
    }
    let nothing = Command::new(env!("CARGO_BIN_EXE_kvatlas")).output().unwrap();
    assert_eq!(nothing.status.code(), Some(64));
}
