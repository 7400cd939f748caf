//! Set-up: `kvatlas coordinator` and `kvatlas serve --fleet` as processes.
//! Claim: each listener answers its own contract with its own errors; settings out of range end the start with
//! status 1, before anything is bound, and name what is wrong; SIGTERM ends both with 0, idle connections or not.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::coordinator::{LOST, eventually};
use crate::wire::{Wire, error, said};
use serde_json::{Value, json};
use tempfile::TempDir;

/// `kvatlas` without what the machine's environment would tell it.
fn kvatlas(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
    command.env_clear().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Running {
    child: Child,
    addresses: Vec<SocketAddr>,
    _folder: TempDir,
}

impl Running {
    /// Starts it and waits until it says where it listens.
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ports");
        let mut command = kvatlas(arguments);
        command.arg("--port-file").arg(&file).envs(variables.iter().copied()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        eventually("it listens", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            file.exists()
        });
        let text = std::fs::read_to_string(&file).unwrap();
        let addresses = text.lines().map(|line| line.parse().unwrap()).collect();
        Self { child, addresses, _folder: folder }
    }

    /// Sends SIGTERM; how it ended, and what it logged.
    fn stop(mut self) -> (ExitStatus, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (status, log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Exit code and standard error of a start that fails.
fn fail(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = kvatlas(arguments).envs(variables.iter().copied()).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// What `--check-config` prints.
fn effective(arguments: &[&str], variables: &[(&str, &str)]) -> (Value, String) {
    let output = kvatlas(arguments).arg("--check-config").envs(variables.iter().copied()).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{log}");
    (serde_json::from_slice(&output.stdout).unwrap(), log)
}

/// Everything of the coordinator's contract that is quickly asked.
fn is_a_coordinator(address: SocketAddr) {
    let mut wire = Wire::to(address);
    wire.goes_on();
    assert_eq!(said(&wire.ask("GET", "/instances", "")), (200, json!({"instances": []})));
    assert_eq!(said(&wire.ask("GET", "/quota/config", "")), (200, json!({"default_limit_gb": null})));
    for path in ["/", "/query", "/services", "/readyz", "/livez", "/global_view"] {
        assert_eq!(said(&wire.ask("GET", path, "")), error(404, "Not Found"), "{path}");
    }
    assert_eq!(said(&wire.ask("POST", "/healthz", "")), error(405, "Method Not Allowed"));
    assert!(wire.ask("GET", "/metrics", "").text().contains("kvatlas_fleet_instances 0\n"));
    let mut wire = Wire::to(address);
    wire.send(b"GET\r\n\r\n");
    assert_eq!(said(&wire.receive()), error(400, "malformed request head"));
}

/// The same of the index.
fn is_an_index(address: SocketAddr) {
    let mut wire = Wire::to(address);
    let error = |status: u16, text: &str| (status, json!({"error": text}));
    assert_eq!(wire.ask("GET", "/readyz", "").status, 200);
    for path in ["/", "/instances", "/quota", "/quota/config", "/cache/pins", "/openapi.json"] {
        assert_eq!(said(&wire.ask("GET", path, "")), error(404, "no such path"), "{path}");
    }
    assert_eq!(said(&wire.ask("POST", "/healthz", "")), error(405, "method not allowed"));
    let mut wire = Wire::to(address);
    wire.send(b"GET\r\n\r\n");
    assert_eq!(said(&wire.receive()), error(400, "malformed request head"));
}

#[test]
fn the_coordinator_alone() {
    let running = Running::start(&["coordinator", "--host", "127.0.0.1", "--port", "0"], &[]);
    let [address] = running.addresses[..] else { panic!("{:?}", running.addresses) };
    is_a_coordinator(address);
    let mut idle = Wire::to(address);
    idle.goes_on();
    let mut silent = Wire::to(address);
    let begun = Instant::now();
    let (status, log) = running.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    // the keep-alive time alone would be 10 s
    assert!(begun.elapsed() < LOST, "{log}");
    assert!(idle.ends() && silent.ends());
    assert!(log.contains(&format!("MP coordinator listening on http://{address}")), "{log}");
}

#[test]
fn both_side_by_side() {
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--fleet",
        "--fleet-listen",
        "127.0.0.1:0",
        "--drain-seconds",
        "0",
        "--reactors",
        "1",
    ];
    // not where it listens: --fleet-listen says so
    let running = Running::start(&arguments, &[("LMCACHE_MP_COORDINATOR_PORT", "1")]);
    let [index, coordinator] = running.addresses[..] else { panic!("{:?}", running.addresses) };
    is_an_index(index);
    is_a_coordinator(coordinator);
    let (mut idle_here, mut idle_there) = (Wire::to(index), Wire::to(coordinator));
    assert_eq!(idle_here.ask("GET", "/readyz", "").status, 200);
    idle_there.goes_on();
    let (status, log) = running.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(idle_here.ends() && idle_there.ends());
    // without the flag there is no coordinator, whatever its variables say
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--drain-seconds", "0", "--reactors", "1"];
    let running = Running::start(&arguments, &[("LMCACHE_MP_COORDINATOR_CHUNK_SIZE", "0")]);
    assert_eq!(running.addresses.len(), 1);
    is_an_index(running.addresses[0]);
    assert_eq!(running.stop().0.code(), Some(0));
}

#[test]
fn settings_out_of_range_end_the_start() {
    // held by somebody: whoever binds before looking at its settings fails otherwise
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let taken = format!("127.0.0.1:{port}");
    let alone = ["coordinator", "--host", "127.0.0.1", "--port", &port];
    let beside = ["serve", "--listen", &taken, "--fleet", "--fleet-listen", &taken];
    for (name, value) in [
        ("INSTANCE_TIMEOUT", "0"),
        ("INSTANCE_TIMEOUT", "-1"),
        ("HEALTH_CHECK_INTERVAL", "-0.1"),
        ("EVICTION_CHECK_INTERVAL", "-1"),
        ("EVICTION_RATIO", "1.1"),
        ("TRIGGER_WATERMARK", "0"),
        ("CHUNK_SIZE", "0"),
        ("BLEND_PROBE_STRIDE", "-3"),
        ("TIMEOUT_KEEP_ALIVE", "0"),
        ("RESYNC_POLL_INTERVAL", "0"),
        ("RESYNC_MAX_WAIT", "-1"),
        ("RESYNC_PAGE_SIZE", "0"),
        ("HASH_ALGORITHM", ""),
    ] {
        let variable = format!("LMCACHE_MP_COORDINATOR_{name}");
        for arguments in [&alone[..], &beside[..]] {
            let (code, told) = fail(arguments, &[(&variable, value)]);
            assert!(
                code == Some(1) && told.contains(&variable),
                "{arguments:?} {name}={value}: {code:?} {told}"
            );
        }
        let flag = format!("--{}", name.to_lowercase().replace('_', "-"));
        if name.starts_with("RESYNC") {
            continue;
        }
        let with_flag = [&alone[..], &[flag.as_str(), value]].concat();
        let (code, told) = fail(&with_flag, &[]);
        assert!(code == Some(1) && told.contains(&flag), "{flag} {value}: {code:?} {told}");
    }
    // a flag in range does not make up for the variable
    let (code, told) =
        fail(&[&alone[..], &["--chunk-size", "16"]].concat(), &[("LMCACHE_MP_COORDINATOR_CHUNK_SIZE", "0")]);
    assert!(code == Some(1) && told.contains("LMCACHE_MP_COORDINATOR_CHUNK_SIZE"), "{told}");
    for algorithm in ["sha256_cbor", "builtin", "BLAKE3"] {
        for (arguments, variables, origin) in [
            (
                alone.to_vec(),
                vec![("LMCACHE_MP_COORDINATOR_HASH_ALGORITHM", algorithm)],
                "LMCACHE_MP_COORDINATOR_HASH_ALGORITHM",
            ),
            (
                beside.to_vec(),
                vec![("LMCACHE_MP_COORDINATOR_HASH_ALGORITHM", algorithm)],
                "LMCACHE_MP_COORDINATOR_HASH_ALGORITHM",
            ),
            ([&alone[..], &["--hash-algorithm", algorithm]].concat(), vec![], "--hash-algorithm"),
        ] {
            let (code, told) = fail(&arguments, &variables);
            let says = told.contains(origin)
                && told.contains(algorithm)
                && told.contains("only blake3 is supported");
            assert!(code == Some(1) && says, "{code:?} {told}");
        }
    }
    // with good settings the address is what is wrong
    assert_eq!(fail(&alone, &[]).0, Some(69));
}

#[test]
fn numbers_that_cannot_be_read_are_warned_of() {
    let names = [
        "PORT",
        "INSTANCE_TIMEOUT",
        "CHUNK_SIZE",
        "EVICTION_RATIO",
        "RESYNC_PAGE_SIZE",
        "TIMEOUT_KEEP_ALIVE",
    ];
    let variables: Vec<(String, &str)> = names
        .iter()
        .zip(["abc", "", "1.5", "x", "1e3", "ten"])
        .map(|(name, value)| (format!("LMCACHE_MP_COORDINATOR_{name}"), value))
        .collect();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for arguments in [&["coordinator"][..], &["serve", "--fleet"]] {
        let (settings, log) = effective(arguments, &variables);
        let settings = if arguments.len() > 1 { &settings["fleet"] } else { &settings };
        let wanted = json!([9300, 30.0, 256, 0.2, 1000, 10]);
        let found = json!(names.map(|name| settings[name.to_lowercase()].clone()));
        assert_eq!(found, wanted);
        for (name, _) in &variables {
            assert!(log.lines().any(|line| line.contains("WARN") && line.contains(name)), "{name}: {log}");
        }
    }
}

#[test]
fn the_effective_settings_are_printed() {
    let variables = [
        ("LMCACHE_MP_COORDINATOR_HOST", "::1"),
        ("LMCACHE_MP_COORDINATOR_PORT", "9400"),
        ("LMCACHE_MP_COORDINATOR_CHUNK_SIZE", "512"),
        ("LMCACHE_MP_COORDINATOR_INSTANCE_TIMEOUT", "nan"),
        ("LMCACHE_MP_COORDINATOR_ENABLE_STARTUP_RESYNC", "maybe"),
        ("KVATLAS_EVICT_WHOLE_CHUNKS", "yes"),
        ("KVATLAS_STATE_DIR", "state"),
    ];
    let common = json!({
        "host": "::1", "port": 9400, "instance_timeout": "NaN", "health_check_interval": 10.0,
        "eviction_check_interval": 5.0, "eviction_ratio": 0.2, "trigger_watermark": 1.0, "chunk_size": 512,
        "hash_algorithm": "blake3", "blend_probe_stride": 1, "timeout_keep_alive": 10, "enable_startup_resync": false,
        "resync_poll_interval": 1.0, "resync_max_wait": 60.0, "resync_page_size": 1000, "evict_whole_chunks": true,
        "dry_run_eviction": false, "state_dir": "state", "body_limit": 268_435_456, "driver": "auto",
    });
    let (printed, _) = effective(&["coordinator", "--chunk-size", "16", "--body-limit", "4096"], &variables);
    let mut wanted = common.clone();
    for (name, value) in [
        ("chunk_size", json!(16)),
        ("body_limit", json!(4096)),
        ("log_level", json!("info")),
        ("log_format", json!("text")),
        ("port_file", json!(null)),
    ] {
        wanted[name] = value;
    }
    assert_eq!(printed, wanted);
    let (printed, _) = effective(&["serve", "--fleet", "--listen", "127.0.0.1:0"], &variables);
    let mut wanted = common.clone();
    wanted["listen"] = json!(["[::1]:9400"]);
    assert_eq!((&printed["fleet"], &printed["listen"]), (&wanted, &json!(["127.0.0.1:0"])));
    let listen =
        ["serve", "--fleet", "--fleet-listen", "127.0.0.1:0,unix:/tmp/c.sock", "--state-dir", "other"];
    let (printed, _) = effective(&listen, &variables);
    wanted["listen"] = json!(["127.0.0.1:0", "unix:/tmp/c.sock"]);
    wanted["state_dir"] = json!("other");
    assert_eq!(printed["fleet"], wanted);
    assert_eq!(effective(&["serve"], &variables).0["fleet"], json!(null));
}

#[test]
fn a_socket_file_and_a_state_directory() {
    let folder = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", folder.path().join("c.sock").display());
    let state = folder.path().join("state");
    let start = |ports: &Path| {
        let arguments = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--fleet",
            "--fleet-listen",
            "127.0.0.1:0",
            "--fleet-listen",
            &socket,
            "--reactors",
            "1",
            "--drain-seconds",
            "0",
        ];
        let mut command = kvatlas(&arguments);
        command
            .arg("--state-dir")
            .arg(&state)
            .arg("--port-file")
            .arg(ports)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("it listens", || ports.exists());
        let lines: Vec<String> = std::fs::read_to_string(ports).unwrap().lines().map(str::to_owned).collect();
        assert_eq!((lines.len(), lines[2].as_str()), (3, socket.as_str()));
        let coordinator = lines[1].parse().unwrap();
        (Running { child, addresses: vec![coordinator], _folder: tempfile::tempdir().unwrap() }, coordinator)
    };
    let (mut running, address) = start(&folder.path().join("ports-1"));
    let answer = Wire::to(address).ask("PUT", "/quota/a", r#"{"limit_gb": 2.5}"#);
    assert_eq!(said(&answer), (200, json!({"cache_salt": "a", "limit_gb": 2.5, "status": "ok"})));
    // not in order
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let (_running, address) = start(&folder.path().join("ports-2"));
    let wanted = json!({"cache_salt": "a", "quota_limit_gb": 2.5, "quota_exists": true, "usage_gb": 0.0});
    assert_eq!(said(&Wire::to(address).ask("GET", "/quota/a", "")), (200, wanted));
}
