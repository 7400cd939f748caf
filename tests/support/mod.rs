//! What the tests of the reactor share: a service with a path for every kind of load, and a small client.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kvatlas::http::{Request, response};
use kvatlas::limits::COST_EVENT;
use kvatlas::mesh::Tickets;
use kvatlas::reactor::{Listen, Reactors, Seat, Service, Settings, start};
use kvatlas::rt::{self, Driver};

/// When something is given up for lost; no test waits so long unless it fails.
pub const LOST: Duration = Duration::from_secs(20);

/// The drivers that this machine allows.
pub fn drivers() -> Vec<Driver> {
    // On a thread of its own: the kernel tears a ring down with signals to the thread that used it.
    let uring = std::thread::spawn(|| rt::run(Driver::IoUring, |_| async {}).is_ok()).join().unwrap();
    let mut drivers = vec![Driver::IoUring, Driver::Epoll];
    drivers.retain(|&driver| rt::DRIVERS.contains(&driver) && (uring || driver != Driver::IoUring));
    assert!(!drivers.is_empty(), "{} needs io_uring, which is not to be had here", rt::RUNTIME);
    drivers
}

/// One of them, where it does not matter which: epoll, where this build has it.
pub fn driver() -> Driver {
    drivers().pop().expect("one at least")
}

/// One test of this process at a time: for those that count descriptors or fill cores.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Open descriptors of this process, without those that its runtime has lost.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count() - rt::left_behind()
}

/// Waits until `ready`; fails the test when it never is.
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + LOST;
    while !ready() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What the test reactors say to each other.
pub enum Message {
    /// Asks for the square of a number.
    Ask { ticket: u64, number: u64 },
    /// The answer.
    Told { ticket: u64, square: u64 },
}

/// `/ping`, `/echo`, `/sleep?MS`, `/work?TURNS`, `/bytes?N`, `/ask?REACTOR`.
pub struct Playground {
    pub seat: Seat<Message>,
    tickets: Rc<Tickets<u64>>,
}

impl Playground {
    pub fn new(seat: Seat<Message>) -> Rc<Self> {
        Rc::new(Self { seat, tickets: Tickets::new() })
    }

    async fn ask(&self, to: usize) -> Result<u64, ()> {
        let pending = self.tickets.open();
        let ask = Message::Ask { ticket: pending.ticket(), number: to as u64 + 7 };
        self.seat.port.send(to, ask).map_err(|_| ())?;
        Ok(pending.await)
    }
}

impl Service for Playground {
    type Message = Message;

    async fn answer(self: Rc<Self>, request: &Request<'_>, out: &mut Vec<u8>) {
        let number = request.query.and_then(|query| query.parse::<u64>().ok()).unwrap_or(0);
        let mut body = Vec::new();
        let mut status = 200;
        match request.path {
            "/ping" => body.extend_from_slice(b"pong"),
            "/echo" => body.extend_from_slice(request.body),
            "/sleep" => {
                rt::sleep(Duration::from_millis(number)).await;
                body.extend_from_slice(b"slept");
            }
            "/work" => {
                for _ in 0..number {
                    for _ in 0..64 {
                        self.seat.turn.spend(COST_EVENT).await;
                    }
                }
                body.extend_from_slice(b"worked");
            }
            "/bytes" => body.resize(number as usize, b'x'),
            "/ask" => match self.ask(number as usize).await {
                Ok(square) => body.extend_from_slice(square.to_string().as_bytes()),
                Err(()) => status = 503,
            },
            _ => status = 404,
        }
        let mark = response::begin(out, status, "text/plain", request.keep_alive, request.http_10);
        out.extend_from_slice(&body);
        response::finish(out, mark);
    }

    fn message(self: &Rc<Self>, from: usize, message: Message) {
        match message {
            Message::Ask { ticket, number } => {
                let told = Message::Told { ticket, square: number * number };
                assert!(self.seat.port.reply(from, told).is_ok(), "replies fit");
            }
            Message::Told { ticket, square } => {
                self.tickets.redeem(ticket, square);
            }
        }
    }
}

/// Settings of a test: one reactor on a free port.
pub fn settings(driver: Driver) -> Settings {
    Settings { driver, listen: vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())], ..Settings::default() }
}

/// Starts the playground.
pub fn play(settings: Settings) -> Reactors<Message> {
    start(settings, Playground::new).unwrap()
}

/// A keep-alive client.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LOST)).unwrap();
        stream.set_write_timeout(Some(LOST)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub fn get(&mut self, target: &str) -> (u16, Vec<u8>) {
        self.send(&request(target));
        self.receive().unwrap()
    }

    /// The next answer: status and body.
    pub fn receive(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.more()?;
        };
        let text = String::from_utf8_lossy(&self.buffer[..head]).to_lowercase();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        let end = head + length.trim().parse::<usize>().unwrap();
        while self.buffer.len() < end {
            self.more()?;
        }
        let body = self.buffer[head..end].to_vec();
        self.buffer.drain(..end);
        Ok((status, body))
    }

    fn more(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.buffer.extend_from_slice(&chunk[..read]);
                Ok(())
            }
        }
    }

    /// Whether the server ends the connection without a further byte.
    pub fn ends(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// A GET request.
pub fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: test\r\n\r\n")
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
