//! Set-up: pipelines of generated requests (length and chunked bodies, both versions, odd and bad
//! headers), mutated ones, and random bytes, fed in random fragments. Claim: the decoder yields what a
//! naive parser of the whole stream yields, whatever the fragments; it never panics, never fails to
//! come to rest, and its buffer stays in proportion to what was received.

use kvatlas::http::{Decoder, Limits, Step};
use proptest::prelude::*;

const LIMITS: Limits = Limits { head_bytes: 400, body_bytes: 300 };

/// A request with everything borrowed made owned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    path: String,
    query: Option<String>,
    content_type: String,
    body: Vec<u8>,
    keep_alive: bool,
    http_10: bool,
}

/// What a stream amounts to: requests, then perhaps the status of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Outcome {
    requests: Vec<Seen>,
    refused: Option<u16>,
}

fn feed(input: &[u8], fragments: &[usize]) -> Outcome {
    let mut decoder = Decoder::new(LIMITS);
    let mut outcome = Outcome::default();
    let mut sizes = fragments.iter().copied().cycle();
    let mut rest = input;
    loop {
        let steps = drain(&mut decoder, &mut outcome);
        assert!(steps <= 2 * input.len() + 3, "no rest");
        if outcome.refused.is_some() || rest.is_empty() {
            return outcome;
        }
        let mut buffer = decoder.take_buffer();
        assert!(buffer.capacity() > buffer.len());
        assert!(buffer.capacity() <= 64 * 1024 + 4 * input.len());
        let room = buffer.capacity() - buffer.len();
        let size = sizes.next().unwrap_or(1).min(rest.len()).min(room);
        buffer.extend_from_slice(&rest[..size]);
        rest = &rest[size..];
        decoder.give_back(buffer);
    }
}

fn drain(decoder: &mut Decoder, outcome: &mut Outcome) -> usize {
    for steps in 1.. {
        match decoder.next() {
            Step::NeedMore => return steps,
            Step::Continue => {}
            Step::Request(request) => outcome.requests.push(Seen {
                path: request.path.to_owned(),
                query: request.query.map(str::to_owned),
                content_type: request.content_type.to_owned(),
                body: request.body.to_vec(),
                keep_alive: request.keep_alive,
                http_10: request.http_10,
            }),
            Step::Refuse(refusal) => {
                outcome.refused = Some(refusal.status);
                return steps;
            }
        }
    }
    unreachable!()
}

/// The naive twin: whole stream, line by line. It trusts the generator for the spelling of lines.
fn oracle(mut input: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    loop {
        match oracle_request(&mut input) {
            Ok(Some(seen)) => {
                outcome.requests.push(seen);
                if !outcome.requests.last().is_some_and(|seen| seen.keep_alive) {
                    return outcome;
                }
            }
            Ok(None) => return outcome,
            Err(status) => {
                outcome.refused = Some(status);
                return outcome;
            }
        }
    }
}

fn line<'a>(input: &mut &'a [u8]) -> Option<&'a str> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(&input[..end]).expect("generated lines are text");
    *input = &input[end + 1..];
    Some(line.strip_suffix('\r').unwrap_or(line))
}

fn oracle_request(input: &mut &[u8]) -> Result<Option<Seen>, u16> {
    while let Some(rest) = input.strip_prefix(b"\r\n").or_else(|| input.strip_prefix(b"\n")) {
        *input = rest;
    }
    let whole = *input;
    let mut lines = Vec::new();
    loop {
        match line(input) {
            Some("") => break,
            Some(line) => lines.push(line),
            None if whole.len() >= LIMITS.head_bytes => return Err(431),
            None => return Ok(None),
        }
    }
    if whole.len() - input.len() > LIMITS.head_bytes {
        return Err(431);
    }
    let words: Vec<&str> = lines[0].split(' ').collect();
    let http_10 = match words[2] {
        "HTTP/1.0" => true,
        "HTTP/1.1" => false,
        _ => return Err(505),
    };
    let values = |name: &str| -> Vec<String> {
        let of_name = lines[1..].iter().filter_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value)
        });
        of_name.flat_map(|value| value.split(',')).map(|value| value.trim().to_ascii_lowercase()).collect()
    };
    let lengths = values("content-length");
    let codings = values("transfer-encoding");
    let bad_length = lengths.iter().any(|length| length.parse::<u32>().is_err() || *length != lengths[0]);
    if bad_length || (!codings.is_empty() && (!lengths.is_empty() || http_10)) {
        return Err(400);
    }
    if codings.iter().any(|coding| coding != "chunked") {
        return Err(501);
    }
    if codings.len() > 1 {
        return Err(400);
    }
    if values("expect").iter().any(|value| value != "100-continue") {
        return Err(417);
    }
    let body = if codings.is_empty() {
        let length = lengths.first().map_or(0, |length| length.parse().unwrap());
        if length > LIMITS.body_bytes {
            return Err(413);
        }
        input.split_off(..length).map(<[u8]>::to_vec)
    } else {
        oracle_chunks(input)?
    };
    let connection = values("connection");
    let has = |token: &str| connection.iter().any(|value| value == token);
    let (path, query) = match words[1].split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (words[1], None),
    };
    Ok(body.map(|body| Seen {
        path: path.strip_prefix("http://host").unwrap_or(path).to_owned(),
        query,
        content_type: values("content-type").first().cloned().unwrap_or_default(),
        body,
        keep_alive: !has("close") && (!http_10 || has("keep-alive")),
        http_10,
    }))
}

fn oracle_chunks(input: &mut &[u8]) -> Result<Option<Vec<u8>>, u16> {
    let mut body = Vec::new();
    loop {
        let Some(size) = line(input) else {
            return Ok(None);
        };
        let size = size.split(';').next().unwrap().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| 400_u16)?;
        if body.len() + size > LIMITS.body_bytes {
            return Err(413);
        }
        if size == 0 {
            break;
        }
        let Some(data) = input.split_off(..size) else {
            return Ok(None);
        };
        body.extend_from_slice(data);
        if line(input).is_none() {
            return Ok(None);
        }
    }
    loop {
        match line(input) {
            None => return Ok(None),
            Some("") => return Ok(Some(body)),
            Some(_) => {}
        }
    }
}

fn chunked(body: &[u8], sizes: &[usize], extension: &str, trailer: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = body;
    for size in sizes.iter().cycle() {
        let (now, later) = rest.split_at((*size).min(rest.len()));
        if now.is_empty() {
            break;
        }
        out.extend_from_slice(format!("{:x}{extension}\r\n", now.len()).as_bytes());
        out.extend_from_slice(now);
        out.extend_from_slice(b"\r\n");
        rest = later;
    }
    out.extend_from_slice(format!("0{extension}\r\n{trailer}\r\n").as_bytes());
    out
}

fn header() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        12 => Just("host: h"),
        8 => Just("Content-Type: application/json"),
        4 => Just("CONNECTION: keep-alive"),
        4 => Just("expect: 100-continue"),
        2 => Just("accept:  text/plain  "),
        2 => Just("Connection: te,  Close"),
        1 => Just("content-length: 3"),
        1 => Just("content-length: 301"),
        1 => Just("content-length: 2, 2"),
        1 => Just("content-length: x"),
        1 => Just("expect: miracles"),
        1 => Just("transfer-encoding: chunked"),
        1 => Just("transfer-encoding: gzip"),
        1 => Just("x-long: 0123456789012345678901234567890123456789012345678901234567890123456789"),
    ]
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let target = prop_oneof![Just("/query"), Just("/a?b=c"), Just("http://host/x?y?z")];
    let version = prop_oneof![20 => Just("1.1"), 5 => Just("1.0"), 1 => Just("2.0")];
    let body = prop::collection::vec(any::<u8>(), 0..310);
    // not so short that the extensions exceed their bound
    let sizes = prop::collection::vec(8..100_usize, 1..4);
    let extension = prop_oneof![Just(""), Just(";a"), Just(" ;a=\"b\"")];
    let trailer = prop_oneof![Just(""), Just("a: b\r\n"), Just("a: b\r\nc:\r\n")];
    let headers = prop::collection::vec(header(), 0..6);
    let framing = (0..3_u8, body, sizes, extension, trailer);
    (target, version, headers, framing, any::<bool>()).prop_map(
        |(target, version, mut headers, (framing, body, sizes, extension, trailer), bare)| {
            let newline = if bare { "\n" } else { "\r\n" };
            let length = format!("content-length: {}", body.len());
            let body = match framing {
                0 => Vec::new(),
                1 => {
                    headers.push(&length);
                    body
                }
                _ => {
                    headers.push("Transfer-Encoding: Chunked");
                    chunked(&body, &sizes, extension, trailer)
                }
            };
            let mut out = format!("POST {target} HTTP/{version}{newline}").into_bytes();
            for header in &headers {
                out.extend_from_slice(header.as_bytes());
                out.extend_from_slice(newline.as_bytes());
            }
            out.extend_from_slice(newline.as_bytes());
            out.extend_from_slice(&body);
            out
        },
    )
}

fn pipeline() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(request(), 1..6).prop_map(|requests| requests.concat())
}

fn fragments() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![1]),
        prop::collection::vec(1..200_usize, 1..8),
        prop::collection::vec(1..4_usize, 1..8),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_pipeline_is_read_as_the_naive_twin_reads_it(input in pipeline(), sizes in fragments()) {
        let whole = oracle(&input);
        prop_assert_eq!(&feed(&input, &[input.len()]), &whole);
        prop_assert_eq!(&feed(&input, &sizes), &whole);
    }

    #[test]
    fn a_damaged_pipeline_is_read_alike_in_all_fragments(
        mut input in pipeline(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        sizes in fragments(),
    ) {
        for (at, byte) in damage {
            let at = at.index(input.len());
            input[at] = byte;
        }
        input.truncate(cut.index(2 * input.len()));
        prop_assert_eq!(feed(&input, &sizes), feed(&input, &[input.len().max(1)]));
    }

    #[test]
    fn random_bytes_are_read_alike_in_all_fragments(
        input in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"\r\n :;/PT019afH.".to_vec())], 0..600,
        ),
        start in prop_oneof![
            Just(""),
            Just("GET / HTTP/1.1\r\n"),
            Just("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"),
        ],
        sizes in fragments(),
    ) {
        let input = [start.as_bytes(), &input].concat();
        prop_assert_eq!(feed(&input, &sizes), feed(&input, &[input.len().max(1)]));
    }

    #[test]
    fn a_chunked_body_comes_out_as_it_went_in(
        body in prop::collection::vec(any::<u8>(), 0..=LIMITS.body_bytes),
        chunks in prop::collection::vec(3..100_usize, 1..5),
        sizes in fragments(),
    ) {
        let mut input = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        input.extend(chunked(&body, &chunks, ";x", "a: b\r\n"));
        let outcome = feed(&input, &sizes);
        prop_assert_eq!(outcome.refused, None);
        prop_assert_eq!(outcome.requests.len(), 1);
        prop_assert_eq!(&outcome.requests[0].body, &body);
    }
}
