//! Set-up: `kvatlas query` against a server that answers with prepared bytes, over TCP and a Unix socket.
//! Claim: it asks what its flags say, shows the answer as a table or as it came, and ends with 0 for an answer,
//! 65 for a refusal with the daemon's own words, 69 where there is nobody, 64 for a bad question.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// What a request was.
struct Request {
    line: String,
    body: Value,
}

/// Reads one request and answers it with `answer`.
fn serve(stream: impl Read + Write, answer: &[u8]) -> Request {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let length = head.iter().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    reader.get_mut().write_all(answer).unwrap();
    Request { line: head.swap_remove(0), body: serde_json::from_slice(&body).unwrap() }
}

/// A server for one request; its URL, and the request once it has come.
fn server(answer: impl Into<Vec<u8>>) -> (String, JoinHandle<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = answer.into();
    (url, std::thread::spawn(move || serve(listener.accept().unwrap().0, &answer)))
}

fn ok(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn query(flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
    command.env_remove("KVATLAS_TARGET").args(["query", "--model", "m"]).args(flags).output().unwrap()
}

fn hits() -> Value {
    json!({"default": {
        "small": {"longest_matched": 4, "GPU": 4, "CPU": 0, "DISK": 0, "DP": {"0": 4}},
        "large": {"longest_matched": 8, "GPU": 4, "CPU": 8, "DISK": 0, "EXTERNAL": 4, "DP": {"0": 4, "10": 8, "2": 0}},
        "none": {"longest_matched": 0, "GPU": 0, "CPU": 0, "DISK": 0, "DP": {}, "why": "no_match"}}})
}

#[test]
fn the_table_shows_the_best_instance_first() {
    let (url, request) = server(ok(&hits()));
    let output = query(&["--block-size", "4", "--tokens", "1,2,3,4,5,6,7,8,9,10", "--target", &url]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("10 tokens"), "{text}");
    assert!(lines[2].starts_with("  large") && lines[2].contains("DP 0:4 2:0 10:8"), "{text}");
    assert!(
        lines[2].contains("EXTERNAL") && !lines[2].contains("DISK"),
        "an empty tier is not shown\n{text}"
    );
    assert!(lines[3].starts_with("  small"), "{text}");
    assert!(lines[4].starts_with("  none") && lines[4].contains("no_match"), "{text}");
    assert!(lines[5].contains("best choice: large (80 %"), "{text}");
    let request = request.join().unwrap();
    assert_eq!(request.line, "POST /query HTTP/1.1");
    assert_eq!(
        request.body,
        json!({"model": "m", "block_size": 4, "token_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]})
    );
}

#[test]
fn flags_become_fields() {
    let (url, request) = server(ok(&json!({})));
    let flags = ["--block-size", "2", "--hashes", "-1,7", "--tenant", "t", "--instance", "i"];
    let more = ["--lora", "l", "--salt", "s", "--detail", "--json", "--target", &url];
    let output = query(&[&flags[..], &more].concat());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{}\n");
    let request = request.join().unwrap();
    assert_eq!(request.line, "POST /query_by_hash HTTP/1.1");
    let wanted = json!({"model": "m", "block_size": 2, "seq_hashes": [u64::MAX, 7], "tenant_id": "t",
        "instance_id": "i", "lora_name": "l", "cache_salt": "s", "detail": true});
    assert_eq!(request.body, wanted);
}

#[test]
fn a_unix_socket_and_a_file_of_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("k.sock");
    let file = folder.path().join("tokens");
    std::fs::write(&file, " [1, 2,\n3 4]\n").unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = ok(&hits());
    let request = std::thread::spawn(move || serve(listener.accept().unwrap().0, answer.as_bytes()));
    let target = format!("unix:{}", socket.display());
    let output =
        query(&["--block-size", "4", "--tokens-file", file.to_str().unwrap(), "--target", &target, "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), hits());
    assert_eq!(request.join().unwrap().body["token_ids"], json!([1, 2, 3, 4]));
}

/// An answer may come in chunks, may be told by the end of the connection, or may follow a `100 Continue`.
#[test]
fn every_way_to_end_a_body_is_understood() {
    let body = hits().to_string();
    let (front, back) = body.split_at(11);
    let ends = [
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{front}\r\n{:X};x=y\r\n{back}\r\n0\r\n\r\n",
            front.len(),
            back.len()
        ),
        format!("HTTP/1.0 200 OK\r\n\r\n{body}"),
        format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    ];
    for answer in ends {
        let (url, _request) = server(answer);
        let output = query(&["--block-size", "4", "--tokens", "1", "--target", &url, "--json"]);
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), hits());
    }
}

#[test]
fn a_refusal_is_told_in_the_daemons_words() {
    let refusals = [
        (
            "application/json",
            r#"{"error": "block_size: must be at least 1"}"#,
            "block_size: must be at least 1",
        ),
        ("text/plain", "Method not allowed\n", "Method not allowed"),
    ];
    for (kind, body, words) in refusals {
        let head =
            format!("HTTP/1.1 400 Bad Request\r\nContent-Type: {kind}\r\nContent-Length: {}", body.len());
        let (url, _request) = server(format!("{head}\r\n\r\n{body}"));
        let output = query(&["--block-size", "4", "--tokens", "1", "--target", &url]);
        assert_eq!(output.status.code(), Some(65));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(&format!("400 {words}")), "{message}");
    }
}

#[test]
fn no_answer_is_told_apart_from_a_refusal() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = [format!("http://{free}"), "unix:/no/such/socket".to_owned()];
    for target in &nobody {
        let output = query(&["--block-size", "4", "--tokens", "1", "--target", target]);
        assert_eq!(output.status.code(), Some(69));
        assert!(String::from_utf8(output.stderr).unwrap().contains(target.as_str()));
    }
    let broken = [
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ];
    for answer in broken {
        let (url, _request) = server(answer);
        let output = query(&["--block-size", "4", "--tokens", "1", "--target", &url]);
        assert_eq!(output.status.code(), Some(69), "{answer:?}");
    }
}

#[test]
fn a_silent_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let output = query(&["--block-size", "4", "--tokens", "1", "--target", &url, "--timeout", "1"]);
    assert_eq!(output.status.code(), Some(69));
}

#[test]
fn a_bad_question_is_not_asked() {
    let bad: [&[&str]; 7] = [
        &["--block-size", "4"],
        &["--block-size", "4", "--tokens", "1", "--hashes", "1"],
        &["--block-size", "0", "--tokens", "1"],
        &["--block-size", "4", "--tokens", "1,x"],
        &["--block-size", "4", "--tokens", "4294967296"],
        &["--block-size", "4", "--hashes", "-9223372036854775809"],
        &["--block-size", "4", "--tokens", "1", "--target", "https://h"],
    ];
    for flags in bad {
        assert_eq!(query(flags).status.code(), Some(64), "{flags:?}");
    }
    let missing = query(&["--block-size", "4", "--tokens-file", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(66));
}
