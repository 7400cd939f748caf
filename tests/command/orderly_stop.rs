//! Set-up: the program, started as a service would start it, and ended by signals.
//! Claim: SIGTERM and SIGINT end it in order, with exit code 0 and nothing in flight lost; what cannot be started
//! ends with its own exit code and a sentence.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::fleet::{Ask, Engine, LOST, MODEL, Source, eventually, receive, request};
use kvatlas::rt::{self, Driver};
use serde_json::json;
use tempfile::TempDir;

struct Service {
    child: Child,
    folder: TempDir,
    address: SocketAddr,
}

impl Ask for Service {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The program, deaf to the settings and the environment of whoever runs the tests.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
    for (name, _) in std::env::vars() {
        if name.starts_with("KVATLAS_") || name.starts_with("CONDUCTOR_") {
            command.env_remove(name);
        }
    }
    command.env("HOME", "/nonexistent").arg("serve").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = folder.path().join("ports");
        let mut command = program(&["--listen", "127.0.0.1:0", "--log-level", "warn"]);
        let mut child = command.arg("--port-file").arg(&ports).args(arguments).spawn().unwrap();
        let mut address = None;
        eventually("it listens", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it listened");
            let text = fs::read_to_string(&ports).unwrap_or_default();
            address = text.lines().next().and_then(|line| line.parse().ok());
            address.is_some()
        });
        Self { child, folder, address: address.unwrap() }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits until it ended; its exit code and what it had to say.
    fn end(mut self) -> (Option<i32>, String) {
        eventually("it ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut said).unwrap();
        (status.code(), said)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // one that ended in order does not hear it
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program to its end, which must come by itself.
fn outcome(arguments: &[&str]) -> (i32, String) {
    let mut child = program(arguments).spawn().unwrap();
    let end = Instant::now() + LOST;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it goes on: {arguments:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    (status.code().expect("no signal"), said)
}

/// The drivers that this machine allows, as the command line spells them.
fn drivers() -> Vec<&'static str> {
    let uring = std::thread::spawn(|| rt::run(Driver::IoUring, |_| async {}).is_ok()).join().unwrap();
    let named = [("io_uring", Driver::IoUring, uring), ("epoll", Driver::Epoll, true)];
    let here = named.into_iter().filter(|(_, driver, allowed)| rt::DRIVERS.contains(driver) && *allowed);
    here.map(|(name, ..)| name).collect()
}

#[test]
fn either_signal_ends_it_on_every_driver() {
    for driver in drivers() {
        for (signal, reactors) in [("TERM", "2"), ("INT", "2"), ("TERM", "1")] {
            let service =
                Service::start(&["--driver", driver, "--reactors", reactors, "--drain-seconds", "0"]);
            let engine = Engine::new(1, 2, 0);
            service.register(&engine.registration("a"));
            engine.joined();
            assert_eq!(service.get("/readyz").status, 200);
            service.signal(signal);
            assert_eq!(service.end(), (Some(0), String::new()), "SIG{signal}, {reactors} on {driver}");
        }
    }
}

#[test]
fn while_it_drains_it_answers_and_says_so() {
    let service = Service::start(&["--reactors", "2", "--drain-seconds", "2"]);
    let engine = Engine::new(1, 2, 0);
    service.register(&engine.registration("a"));
    engine.joined();
    engine.store(&[1, 2], 0..1, "GPU");
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2] });
    eventually("a hit", || service.ask(&question)["default"]["a"]["longest_matched"] == 2);
    assert_eq!(service.get("/readyz").json(), json!({ "status": "ready" }));
    service.signal("TERM");
    eventually("it drains", || service.get("/readyz").status == 503);
    assert_eq!(service.get("/readyz").json(), json!({ "status": "draining" }));
    assert_eq!(service.get("/livez").status, 200);
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(service.ask(&question)["default"]["a"]["longest_matched"], 2);
    // events count until the end, too
    engine.store(&[3, 4], 0..1, "GPU");
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [3, 4] });
    eventually("another hit", || service.ask(&question)["default"]["a"]["longest_matched"] == 2);
    assert_eq!(service.end(), (Some(0), String::new()));
}

#[test]
fn a_second_signal_ends_the_drain() {
    let service = Service::start(&["--drain-seconds", "3600"]);
    service.signal("TERM");
    eventually("it drains", || service.get("/readyz").status == 503);
    service.signal("INT");
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn a_request_in_flight_is_answered() {
    let service = Service::start(&["--reactors", "2", "--drain-seconds", "0"]);
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2], "instance_id": "a" });
    let bytes = request("POST", "/query", question.to_string().as_bytes());
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_read_timeout(Some(LOST)).unwrap();
    let (first, rest) = bytes.split_at(bytes.len() - 10);
    stream.write_all(first).unwrap();
    // an answer on a later connection of the same kind shows that the first has been accepted
    for _ in 0..8 {
        assert_eq!(service.get("/livez").status, 200);
    }
    service.signal("TERM");
    eventually("it accepts nobody any more", || TcpStream::connect(service.address).is_err());
    stream.write_all(rest).unwrap();
    let answer = receive(&mut stream);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["default"]["a"]["longest_matched"], 0);
    assert_eq!(service.end(), (Some(0), String::new()));
}

#[test]
fn an_address_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = outcome(&["--listen", &address]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    let (code, said) = outcome(&["--listen", "127.0.0.1:0", "--listen", "unix:/nonexistent/socket"]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("cannot listen on /nonexistent/socket"), "{said}");
}

/// Reactors share a port with each other, but not with those of another daemon.
#[test]
fn an_address_that_another_daemon_serves() {
    let service = Service::start(&["--reactors", "2"]);
    let address = service.address.to_string();
    let (code, said) = outcome(&["--listen", &address]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    assert_eq!(service.get("/readyz").status, 200);
    // one that has gone leaves its port to the next
    service.signal("TERM");
    drop(service);
    let next = Service::start(&["--listen", &address, "--reactors", "2", "--drain-seconds", "0"]);
    next.signal("TERM");
    assert_eq!(next.end().0, Some(0));
}

#[test]
fn settings_that_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| -> String {
        let path: PathBuf = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (broken, wrong) =
        (file("broken.json", "{\"a\": "), file("wrong.json", "{\"http_server_port\": \"x\"}"));
    for (arguments, code, words) in [
        (vec!["--config", broken.as_str()], 64, "broken.json"),
        (vec!["--config", wrong.as_str()], 64, "http_server_port"),
        (vec!["--config", "/nonexistent/settings.json"], 66, "/nonexistent/settings.json"),
        (vec!["--reactors", "0"], 64, "--reactors"),
        (vec!["--reactors", "65"], 64, "--reactors"),
        (vec!["--driver", "kqueue"], 64, "--driver"),
        (vec!["--listen", "nowhere"], 64, "--listen"),
        (vec!["--drain-seconds=-1"], 64, "drain-seconds"),
        (vec!["--no-such-flag"], 64, "--no-such-flag"),
    ] {
        let (got, said) = outcome(&arguments);
        assert_eq!(got, code, "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn publishers_of_the_settings_file_are_registered() {
    let engine = Engine::new(1, 2, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conductor_config.json");
    let settings = json!({ "kvevent_instance": {
        "good": { "endpoint": engine.endpoint(), "type": "vLLM", "modelname": MODEL, "block_size": 2, "dp_rank": 0 },
        "bad": { "endpoint": "tcp://*:1", "type": "vLLM", "modelname": MODEL, "block_size": 2, "dp_rank": 0 },
    } });
    fs::write(&path, settings.to_string()).unwrap();
    let service = Service::start(&["--config", path.to_str().unwrap(), "--reactors", "2"]);
    engine.joined();
    engine.store(&[1, 2], 0..1, "GPU");
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2] });
    eventually("a hit", || service.ask(&question)["default"]["good"]["longest_matched"] == 2);
    assert_eq!(service.get("/services").json()["count"], 1, "a bad entry is left out");
    assert!(service.folder.path().join("ports").exists());
}
