//! A client of a coordinator that keeps its connection and says exactly what it is told to.
#![allow(dead_code, unreachable_pub)] // each test file uses its part
#![allow(clippy::needless_pass_by_value)] // values are written where they are expected

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::coordinator::{Answer, LOST, receive};

/// A connection.
pub struct Wire {
    pub stream: TcpStream,
}

impl Wire {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LOST)).unwrap();
        stream.set_write_timeout(Some(LOST)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self) -> Answer {
        receive(&mut self.stream).unwrap()
    }

    /// Head alone, of an answer that has no body whatever its head says.
    pub fn receive_head(&mut self) -> String {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap().to_lowercase()
    }

    /// Asks with a body of some type; an empty type is not sent.
    pub fn ask_as(&mut self, content_type: &str, method: &str, target: &str, body: &[u8]) -> Answer {
        let kind =
            if content_type.is_empty() { String::new() } else { format!("content-type: {content_type}\r\n") };
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nhost: c\r\n{kind}content-length: {length}\r\n\r\n");
        self.send(&[head.as_bytes(), body].concat());
        self.receive()
    }

    /// Asks with a JSON text.
    pub fn ask(&mut self, method: &str, target: &str, body: &str) -> Answer {
        self.ask_as("application/json", method, target, body.as_bytes())
    }

    /// Whether the other side ends the connection without a further byte.
    pub fn ends(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Asserts that the connection goes on as if nothing had been.
    pub fn goes_on(&mut self) {
        let answer = self.ask("GET", "/healthz", "");
        assert_eq!((answer.status, answer.text()), (200, r#"{"status":"healthy"}"#));
    }
}

/// Status and body of an answer, which must call itself JSON.
pub fn said(answer: &Answer) -> (u16, Value) {
    assert_eq!(answer.header("content-type"), Some("application/json"), "{}", answer.head);
    (answer.status, answer.json())
}

/// One fault of a refusal.
pub fn fault(kind: &str, place: Value, message: &str, input: Value) -> Value {
    json!({"type": kind, "loc": place, "msg": message, "input": input})
}

/// One fault of a refusal, with its context.
pub fn fault_in(kind: &str, place: Value, message: &str, input: Value, context: Value) -> Value {
    json!({"type": kind, "loc": place, "msg": message, "input": input, "ctx": context})
}

/// A 422 with these faults.
pub fn refused(faults: Value) -> (u16, Value) {
    (422, json!({"detail": faults}))
}

/// An error in words.
pub fn error(status: u16, text: &str) -> (u16, Value) {
    (status, json!({"detail": text}))
}
