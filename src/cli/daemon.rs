//! A daemon for a command that shows or measures one: the same program, started beside it and stopped with it.

use std::env;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::{Client, Target};
use super::exit::{self, Failure};
use super::stop::Stop;

/// How long the daemon may take to listen.
const START: Duration = Duration::from_secs(20);
/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// A running daemon; dropped, it is stopped and its files are gone.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    /// Starts a daemon on a free port, with these flags of `serve` beside, and waits until it listens.
    pub(super) fn start(stop: &Stop, flags: &[String]) -> Result<(Self, Target), Failure> {
        let cannot =
            |error: io::Error| Failure::new(exit::INTERNAL, format!("cannot start the daemon: {error}"));
        let folder = env::temp_dir().join(format!("kvatlas-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(cannot)?;
        let spawned = spawn(&folder, flags);
        if spawned.is_err() {
            remove(&folder);
        }
        let mut daemon = Self { child: spawned.map_err(cannot)?, folder };
        let address = daemon.wait_for_address(stop)?;
        let target = address.parse::<Target>().map_err(|reason| {
            Failure::new(exit::INTERNAL, format!("the daemon listens on {address}: {reason}"))
        })?;
        Ok((daemon, target))
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A client of it.
    pub(super) fn client(target: &Target) -> Client {
        Client::new(target.clone(), REQUEST)
    }

    fn wait_for_address(&mut self, stop: &Stop) -> Result<String, Failure> {
        let port_file = self.folder.join("ports");
        let end = Instant::now() + START;
        loop {
            if let Ok(text) = fs::read_to_string(&port_file)
                && let Some(address) = text.lines().next()
            {
                return Ok(address.to_owned());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let reason = format!("the daemon ended before it listened: {status}");
                return Err(Failure::new(exit::INTERNAL, reason));
            }
            if Instant::now() > end {
                let reason = format!("the daemon does not listen after {} s", START.as_secs());
                return Err(Failure::new(exit::INTERNAL, reason));
            }
            stop.pause()?;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // one that has ended already needs no stopping
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove(&self.folder);
    }
}

/// The daemon hears only this command: no settings of this machine, no environment of its user, no Ctrl-C.
fn spawn(folder: &Path, flags: &[String]) -> io::Result<Child> {
    let config = folder.join("config.json");
    fs::write(&config, "{}")?;
    let mut command = Command::new(env::current_exe()?);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("KVATLAS_") || text.starts_with("CONDUCTOR_") {
            command.env_remove(&name);
        }
    }
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--config"]);
    command.arg(&config).arg("--port-file").arg(folder.join("ports")).args(flags).process_group(0);
    // killed outright, a command could not stop it
    command.arg("--end-with").arg(std::process::id().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}

fn remove(folder: &Path) {
    // what is left in the system's folder for temporary files goes with it one day
    let _ = fs::remove_dir_all(folder);
}
