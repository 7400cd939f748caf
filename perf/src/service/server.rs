//! A server under test as a process: started, watched, ended.

use super::client::{Client, Posted};
use crate::clock::process_cpu;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(10);

/// Who serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// `kvatlas serve`.
    Ours,
    /// The peer's standalone indexer.
    Peer,
}

impl Side {
    /// Both, ours first.
    pub const BOTH: [Self; 2] = [Self::Ours, Self::Peer];
}

/// Where the binaries are.
pub struct Binaries {
    /// `kvatlas`.
    pub ours: PathBuf,
    /// `peer-service`.
    pub peer: PathBuf,
    /// Threads of the peer that apply events.
    pub peer_threads: usize,
}

/// A running server; it ends with this.
pub struct Server {
    /// Whose it is.
    pub side: Side,
    /// Where it listens.
    pub port: u16,
    child: Child,
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

impl Server {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started, or does not listen in time.
    pub fn start(side: Side, binaries: &Binaries) -> Result<Self, String> {
        let port = free_port()?;
        let mut command = match side {
            Side::Ours => {
                let mut command = Command::new(&binaries.ours);
                command.arg("serve").args(["--listen", &format!("127.0.0.1:{port}"), "--log-level", "error"]);
                // nothing that a user has set for daemons of his own
                command.env_clear();
                command
            }
            Side::Peer => {
                let mut command = Command::new(&binaries.peer);
                command.args(["--port", &port.to_string(), "--threads", &binaries.peer_threads.to_string()]);
                command
            }
        };
        let named = |error: std::io::Error| format!("{}: {error}", command_name(side, binaries).display());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(named)?;
        let mut server = Self { side, port, child };
        let since = Instant::now();
        while Client::connect(port).and_then(|mut client| client.get("/health")).is_err() {
            if server.child.try_wait().map_or(true, |ended| ended.is_some()) {
                return Err(format!("{side:?}: ended at once"));
            }
            if since.elapsed() > START {
                return Err(format!("{side:?}: does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// CPU time so far, all threads.
    pub fn cpu(&self) -> Duration {
        process_cpu(self.child.id()).unwrap_or_default()
    }

    /// Resident bytes now.
    pub fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().split(' ').next()).and_then(|kib| kib.parse().ok());
        kib.unwrap_or(0_u64) * 1024
    }

    /// Registers a worker that publishes at `endpoint`.
    ///
    /// # Errors
    /// The server refuses.
    pub fn register(&self, worker: usize, endpoint: &str) -> Result<(), String> {
        let body = match self.side {
            Side::Ours => format!(
                r#"{{"instance_id":"{worker}","endpoint":"{endpoint}","type":"vLLM","modelname":"model","block_size":16,"dp_rank":0}}"#
            ),
            Side::Peer => format!(
                r#"{{"instance_id":{worker},"endpoint":"{endpoint}","model_name":"model","block_size":16,"dp_rank":0}}"#
            ),
        };
        let answer = Client::connect(self.port)?.post(&Posted::json("/register", body))?;
        if answer.status / 100 == 2 { Ok(()) } else { Err(format!("{:?}: {}", self.side, answer.text())) }
    }

    /// The request that asks for these tokens, as JSON.
    pub fn question(&self, tokens: &[u32]) -> Posted {
        let spelled: Vec<String> = tokens.iter().map(u32::to_string).collect();
        let spelled = spelled.join(",");
        let body = match self.side {
            Side::Ours => format!(r#"{{"model":"model","block_size":16,"token_ids":[{spelled}]}}"#),
            Side::Peer => format!(r#"{{"model_name":"model","token_ids":[{spelled}]}}"#),
        };
        Posted::json("/query", body)
    }

    /// The shortest way to ask for these tokens: little-endian u32 for us, JSON for the peer, which knows no other.
    pub fn binary_question(&self, tokens: &[u32]) -> Posted {
        match self.side {
            Side::Ours => Posted {
                path: "/query?model=model&block_size=16",
                kind: "application/octet-stream",
                body: tokens.iter().flat_map(|token| token.to_le_bytes()).collect(),
            },
            Side::Peer => self.question(tokens),
        }
    }
}

fn command_name(side: Side, binaries: &Binaries) -> &Path {
    match side {
        Side::Ours => &binaries.ours,
        Side::Peer => &binaries.peer,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // a benchmark's server has nothing to lose
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
