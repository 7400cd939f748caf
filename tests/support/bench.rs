//! `kvatlas bench` as a process, and a proxy that changes what a daemon answers.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::fleet::{Ask, eventually};

/// Bounds that a loaded machine keeps, since nothing here is about time.
pub const PATIENT: [&str; 6] = ["--late-ms", "60000", "--settle-ms", "60000", "--growth-ms", "60000"];

/// A daemon in a process of its own.
pub struct Served {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Ask for Served {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Served {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ports, settings) = (folder.path().join("ports"), folder.path().join("settings.json"));
        std::fs::write(&settings, "{}").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--reactors", "1", "--config"]).arg(settings);
        command.arg("--port-file").arg(&ports).stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let mut address = None;
        eventually("it listens", || {
            let text = std::fs::read_to_string(&ports).unwrap_or_default();
            address = text.lines().next().and_then(|line| line.parse().ok());
            address.is_some()
        });
        Self { child, address: address.unwrap(), _folder: folder }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
pub fn signal(id: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status();
    assert!(status.unwrap().success());
}

/// `kvatlas bench` with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command
}

/// Runs it to its end: exit code, and the report where it printed one.
pub fn bench(arguments: &[&str]) -> (i32, Value, String) {
    let Output { status, stdout, stderr } = command(&[arguments, &["--json"]].concat()).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    let report = serde_json::from_slice(&stdout).unwrap_or_default();
    (status.code().unwrap(), report, said)
}

/// Whether a gate of a report was passed.
pub fn passed(report: &Value, gate: &str) -> bool {
    let gates = report["gates"].as_array().unwrap();
    let found = gates.iter().find(|one| one["name"] == gate).unwrap_or_else(|| panic!("no gate {gate}"));
    found["passed"].as_bool().unwrap()
}

/// A number of a report.
pub fn number(report: &Value, pointer: &str) -> u64 {
    let value = report.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {report}"));
    value.as_u64().unwrap_or_else(|| panic!("{pointer} is {value}"))
}

/// Forwards requests to a daemon, each answer's body as `change` makes it of target and body. Runs until the test ends.
pub fn proxy(to: SocketAddr, change: fn(&str, Vec<u8>) -> Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || forward(client, to, change));
        }
    });
    url
}

fn forward(mut client: TcpStream, to: SocketAddr, change: fn(&str, Vec<u8>) -> Vec<u8>) {
    let mut daemon = TcpStream::connect(to).unwrap();
    while let Some((head, body)) = message(&mut client) {
        let target = head.split(' ').nth(1).unwrap_or("").to_owned();
        daemon.write_all(head.as_bytes()).unwrap();
        daemon.write_all(&body).unwrap();
        let Some((head, body)) = message(&mut daemon) else { return };
        let body = change(&target, body);
        let kept = head.lines().filter(|line| !line.to_lowercase().starts_with("content-length"));
        let head: String = kept.filter(|line| !line.is_empty()).flat_map(|line| [line, "\r\n"]).collect();
        let head = format!("{head}content-length: {}\r\n\r\n", body.len());
        if client.write_all(&[head.as_bytes(), &body].concat()).is_err() {
            return;
        }
    }
}

/// Head and body of the next message; `None` at the end.
fn message(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// One token more or less in the first figure of an answer to a query that is not 0, in its place.
pub fn lie(target: &str, body: Vec<u8>) -> Vec<u8> {
    if !target.starts_with("/query") {
        return body;
    }
    let mut text = String::from_utf8(body).unwrap();
    let key = "\"longest_matched\":";
    let figures: Vec<usize> = text.match_indices(key).map(|(at, _)| at + key.len()).collect();
    let changed = figures.into_iter().find(|&at| !text[at..].starts_with("0,"));
    if let Some(at) = changed {
        let digit = text.as_bytes()[at];
        let other = if digit == b'1' { "2" } else { "1" };
        text.replace_range(at..=at, other);
    }
    text.into_bytes()
}
