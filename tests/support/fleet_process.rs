//! `kvatlas coordinator` as a process of its own.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::coordinator::{Answer, eventually, receive};

/// A coordinator on a free port of the loopback, killed when dropped.
pub struct Process {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

/// The program with these arguments, deaf to the environment of whoever runs the tests.
pub fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
    for (name, _) in std::env::vars() {
        if ["KVATLAS_", "LMCACHE_", "CONDUCTOR_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("HOME", "/nonexistent").arg("coordinator").args(arguments);
    for (name, value) in variables {
        command.env(format!("LMCACHE_MP_COORDINATOR_{name}"), value);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

impl Process {
    pub fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("port");
        let mut command = command(arguments, variables);
        command.args(["--host", "127.0.0.1", "--port", "0", "--log-level", "warn", "--port-file"]);
        let mut child = command.arg(&file).spawn().unwrap();
        let mut address = None;
        eventually("it listens", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it listened");
            address = fs::read_to_string(&file).ok().and_then(|text| text.lines().next()?.parse().ok());
            address.is_some()
        });
        Self { child, address: address.unwrap(), _folder: folder }
    }

    /// One that keeps its state in `dir`, and neither sweeps nor asks for listings.
    pub fn keeping(dir: &Path) -> Self {
        let dir = dir.to_str().unwrap();
        let still = ["--eviction-check-interval", "0", "--chunk-size", "4", "--state-dir", dir];
        Self::start(&still, &[("ENABLE_STARTUP_RESYNC", "false")])
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits until it ended; how, and what it had to say.
    pub fn end(mut self) -> (ExitStatus, String) {
        eventually("it ends", || self.child.try_wait().unwrap().is_some());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }

    pub fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        receive(&mut stream).unwrap()
    }

    pub fn get(&self, path: &str) -> Value {
        self.call("GET", path, "").json()
    }

    pub fn done(&self, method: &str, path: &str, body: &Value) {
        let answer = self.call(method, path, &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Bytes of memory that the process has, by the kernel's account.
    pub fn resident(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // one that ended in order does not hear it
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
