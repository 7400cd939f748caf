//! Set-up: large bodies, promised and sent, on one connection. Claim: a promise makes no room, room
//! grows with what came in few steps, between requests a big buffer is given back, and the next long body is read
//! into it at once, on whatever connection of the thread.

use kvatlas::http::{Decoder, Limits, Step};
use kvatlas::limits::{HTTP_KEPT_BYTES, HTTP_READ_BYTES, HTTP_TRUSTED_BYTES};

const BODY: usize = 8 * 1024 * 1024;

/// Sends `input`, each read filling the room there is; returns reads and the largest capacity.
fn send(decoder: &mut Decoder, input: &[u8]) -> (usize, usize) {
    let mut rest = input;
    let mut reads = 0;
    let mut largest = 0;
    while !rest.is_empty() {
        let mut buffer = decoder.take_buffer();
        largest = largest.max(buffer.capacity());
        let room = (buffer.capacity() - buffer.len()).min(rest.len());
        buffer.extend_from_slice(&rest[..room]);
        rest = &rest[room..];
        decoder.give_back(buffer);
        reads += 1;
        if !rest.is_empty() {
            assert_eq!(decoder.next(), Step::NeedMore);
        }
    }
    (reads, largest)
}

fn head(framing: &str) -> Vec<u8> {
    format!("POST /query HTTP/1.1\r\n{framing}\r\n\r\n").into_bytes()
}

#[test]
fn a_promise_makes_no_room() {
    for framing in
        ["content-length: 60000000".to_owned(), "transfer-encoding: chunked\r\n\r\n3938700".to_owned()]
    {
        let mut decoder = Decoder::new(Limits::default());
        let input = head(&framing);
        send(&mut decoder, &input[..input.len() - 2]);
        send(&mut decoder, b"\r\n");
        assert_eq!(decoder.next(), Step::NeedMore, "{framing}");
        let capacity = decoder.take_buffer().capacity();
        assert!(capacity <= HTTP_TRUSTED_BYTES + 2 * HTTP_READ_BYTES);
    }
}

#[test]
fn a_big_body_takes_few_reads_and_its_buffer_is_given_back() {
    let body = vec![b'x'; BODY];
    let mut chunk = head("transfer-encoding: chunked");
    chunk.extend_from_slice(format!("{BODY:x}\r\n").as_bytes());
    chunk.extend_from_slice(&body);
    chunk.extend_from_slice(b"\r\n0\r\n\r\n");
    let mut length = head(&format!("content-length: {BODY}"));
    length.extend_from_slice(&body);
    let mut decoder = Decoder::new(Limits::default());
    for input in [&length, &chunk, &length] {
        assert!(decoder.is_idle());
        let (reads, largest) = send(&mut decoder, input);
        assert!(!decoder.is_idle());
        assert!(reads <= 16, "{reads} reads");
        assert!(largest <= 4 * BODY, "{largest} bytes");
        match decoder.next() {
            Step::Request(request) => assert_eq!(request.body.len(), BODY),
            other => panic!("{other:?}"),
        }
        assert_eq!(decoder.next(), Step::NeedMore);
        let buffer = decoder.take_buffer();
        assert!(buffer.is_empty());
        assert!(buffer.capacity() <= HTTP_KEPT_BYTES);
        decoder.give_back(buffer);
    }
}

#[test]
fn one_buffer_serves_small_requests() {
    let mut decoder = Decoder::new(Limits::default());
    let input = head("content-length: 3\r\nconnection: keep-alive");
    for _ in 0..100 {
        let mut buffer = decoder.take_buffer();
        assert_eq!(buffer.capacity(), HTTP_READ_BYTES);
        buffer.extend_from_slice(&input);
        buffer.extend_from_slice(b"abc");
        decoder.give_back(buffer);
        assert!(matches!(decoder.next(), Step::Request(_)));
    }
}

#[test]
fn the_next_long_body_finds_the_room_of_the_last_one() {
    let body = vec![b'x'; 4 * HTTP_TRUSTED_BYTES + HTTP_KEPT_BYTES];
    let mut input = head(&format!("content-length: {}", body.len()));
    input.extend_from_slice(&body);
    let mut reads = Vec::new();
    for _ in 0..3 {
        let mut decoder = Decoder::new(Limits::default());
        reads.push(send(&mut decoder, &input).0);
        assert!(matches!(decoder.next(), Step::Request(request) if request.body == body));
        assert_eq!(decoder.next(), Step::NeedMore);
        let buffer = decoder.take_buffer();
        assert!(buffer.capacity() <= HTTP_KEPT_BYTES);
        decoder.give_back(buffer);
    }
    assert_eq!(reads[1..], [2, 2], "the head comes with the first read");
    assert!(reads[0] > 2);
}
