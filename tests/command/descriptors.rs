//! Set-up: the program under a small limit on open files (`ulimit -Hn`), with more registrations than it allows.
//! Claim: too small a limit ends the start with a sentence; otherwise registrations beyond it are refused with the
//! reason, what was registered goes on, queries are answered, and the stop is orderly. Never is the process ended
//! from within.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fleet::Ask;
use serde_json::json;

struct Limited {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Ask for Limited {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

fn command(limit: u32, more: &str) -> Command {
    let program = env!("CARGO_BIN_EXE_kvatlas");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {limit} && exec {program} serve --drain-seconds 0 {more}"));
    command
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(limit: u32) -> Limited {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ports");
    let more = format!("--listen 127.0.0.1:0 --reactors 2 --port-file {}", file.display());
    let mut child = command(limit, &more).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    let text = loop {
        match std::fs::read_to_string(&file) {
            Ok(text) => break text,
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("it does not listen: {error}");
            }
        }
    };
    Limited { child, address: text.trim().parse().unwrap(), _folder: folder }
}

#[test]
fn too_few_to_start_is_a_sentence() {
    let output = command(64, "--listen 127.0.0.1:0").output().unwrap();
    assert_eq!(output.status.code(), Some(70));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("file descriptors"), "{said}");
}

#[test]
fn registrations_beyond_the_limit_are_refused() {
    let mut daemon = start(256);
    let mut refused = 0;
    for rank in 0..60 {
        // ports that nobody listens at, of an address that no other test uses
        let body = json!({"endpoint": format!("tcp://127.0.0.24:{}", 40_000 + rank), "type": "vLLM", "modelname": "m",
            "replay_endpoint": format!("tcp://127.0.0.24:{}", 41_000 + rank), "instance_id": format!("i{rank}"),
            "block_size": 2, "dp_rank": 0});
        let response = daemon.post("/register", &body);
        match response.status {
            200 => assert_eq!(refused, 0, "room came back by itself"),
            503 => {
                refused += 1;
                assert!(response.error().contains("file descriptors"), "{}", response.error());
            }
            other => panic!("status {other}"),
        }
    }
    assert!((1..60).contains(&refused), "{refused} of 60 refused");
    daemon.ask(&json!({"model": "m", "block_size": 2, "token_ids": [1, 2, 3, 4]}));
    let gone = daemon.post("/unregister", &json!({"instance_id": "i0", "dp_rank": 0}));
    assert_eq!(gone.status, 200);
    let pid = daemon.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = daemon.child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return;
        }
        assert!(Instant::now() < end, "it does not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
}
