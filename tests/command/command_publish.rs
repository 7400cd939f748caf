//! Set-up: `kvatlas publish` as a process, a real ZMQ subscriber and a registration server beside it.
//! Claim: it registers what it says it is, sends as many numbered batches as it says, counts what it sent, and
//! the prompt that it writes is the one whose blocks it announced last.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

/// Long enough for a loaded machine; nothing is asserted about how long anything takes.
const PATIENCE_MS: i32 = 20_000;

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
        command.args(["publish", "--bind", "tcp://127.0.0.1:0"]).args(flags);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn subscriber(endpoint: &Value) -> zmq::Socket {
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_rcvtimeo(PATIENCE_MS).unwrap();
    socket.set_subscribe(b"").unwrap();
    socket.connect(endpoint.as_str().unwrap()).unwrap();
    socket
}

fn fail(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kvatlas")).arg("publish").args(flags).output().unwrap()
}

#[test]
fn batches_are_numbered_and_counted() {
    for (family, first) in [("vllm-0.33.0", 0), ("sglang-0.5.18", 0), ("mooncake-master", 1)] {
        let flags = ["--family", family, "--wait-subscriber", "--rate", "0", "--batches", "30"];
        let load = ["--evict-after", "64", "--topic", "kv"];
        let mut publish = Running::start(&[&flags[..], &load].concat());
        let subscriber = subscriber(&publish.line()["endpoint"]);
        let totals = publish.line();
        let batches = totals["batches"].as_u64().unwrap();
        assert!(batches >= 30);
        for number in first..first + batches {
            let frames = subscriber.recv_multipart(0).unwrap();
            assert_eq!((&frames[0][..], &frames[1][..]), (&b"kv"[..], &number.to_be_bytes()[..]), "{family}");
        }
        assert_eq!(totals["next_seq"], first + batches);
        let count = |key: &str| totals[key].as_u64().unwrap();
        assert_eq!(count("blocks_stored"), 30 * 8);
        assert!(count("blocks_removed") > 0);
        assert_eq!(count("blocks_stored") - count("blocks_removed"), count("blocks_held"));
        assert!(count("blocks_held") <= 64);
    }
}

#[test]
fn the_written_prompt_is_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt.json");
    let flags = ["--wait-subscriber", "--rate", "0", "--batches", "9", "--block-size", "4", "--seed", "5"];
    let mut publish = Running::start(&[&flags[..], &["--print-prompt", file.to_str().unwrap()]].concat());
    let subscriber = subscriber(&publish.line()["endpoint"]);
    let totals = publish.line();
    let payloads: Vec<_> = (0..9).map(|_| subscriber.recv_multipart(0).unwrap().remove(2)).collect();
    let last = &payloads[8];
    assert!(publish.child.wait().unwrap().success());
    let prompt: Vec<u32> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(totals["prompt_tokens"], prompt.len());
    // the last event's tokens are the prompt's last ones, as msgpack writes them
    let tail = prompt[prompt.len() - 8 * 4..].iter().fold(Vec::new(), |mut bytes, &token| {
        rmp::encode::write_uint(&mut bytes, u64::from(token)).unwrap();
        bytes
    });
    assert!(last.windows(tail.len()).any(|window| window == tail));
}

#[test]
fn it_registers_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let flags = ["--replay", "tcp://127.0.0.1:0", "--register", &url, "--instance", "i-7", "--model", "m"];
    let load = ["--batches", "1", "--rank", "3", "--family", "sglang-0.5.23", "--block-size", "32"];
    let mut publish = Running::start(&[&flags[..], &load].concat());
    let endpoints = publish.line();
    let mut stream = listener.accept().unwrap().0;
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let mut piece = [0; 1024];
        let len = stream.read(&mut piece).unwrap();
        request.extend_from_slice(&piece[..len]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
    let text = String::from_utf8(request).unwrap();
    assert!(text.starts_with("POST /register HTTP/1.1\r\n"), "{text}");
    let body: Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let wanted = serde_json::json!({"endpoint": endpoints["endpoint"], "replay_endpoint": endpoints["replay_endpoint"],
        "type": "SGLang", "modelname": "m", "instance_id": "i-7", "block_size": 32, "dp_rank": 3});
    assert_eq!(body, wanted);
    assert!(publish.child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_published_is_refused() {
    assert_eq!(fail(&["--family", "vllm-1999"]).status.code(), Some(64));
    assert_eq!(fail(&["--rate", "-1"]).status.code(), Some(64));
    assert_eq!(fail(&["--block-size", "1048576", "--blocks-per-event", "4096"]).status.code(), Some(64));
    assert_eq!(fail(&["--register", "http://127.0.0.1:1"]).status.code(), Some(64), "a model is needed");
    let unbindable = fail(&["--bind", "tcp://256.0.0.1:1", "--batches", "1"]);
    assert_eq!(unbindable.status.code(), Some(69));
    assert!(String::from_utf8(unbindable.stderr).unwrap().contains("tcp://256.0.0.1:1"));
    let nobody = ["--bind", "tcp://127.0.0.1:0", "--register", "http://127.0.0.1:1", "--model", "m"];
    assert_eq!(fail(&nobody).status.code(), Some(69));
}
