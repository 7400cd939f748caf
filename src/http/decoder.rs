//! The server side of one connection: bytes as they come, requests as they are whole.

use std::ops::Range;

use super::chunked::Chunked;
use super::head::{self, Framing, Head, Method};
use super::spares;
use crate::limits;

/// How much one connection may send for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest head, bytes (431 beyond).
    pub head_bytes: usize,
    /// Largest body, bytes after the transfer coding is undone (413 beyond).
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes: limits::HTTP_HEAD_BYTES, body_bytes: limits::HTTP_BODY_BYTES }
    }
}

/// Why a connection ends: the answer to write before it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Status code.
    pub status: u16,
    /// What is wrong, for the client.
    pub message: &'static str,
}

impl Refusal {
    pub(super) const BODY_TOO_LARGE: Self = Self::new(413, "request body too large");
    const HEAD_TOO_LARGE: Self = Self::new(431, "request head too large");

    pub(super) const fn new(status: u16, message: &'static str) -> Self {
        Self { status, message }
    }
}

/// One whole request; it borrows from the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method.
    pub method: Method,
    /// Path of the target, not percent-decoded.
    pub path: &'a str,
    /// What follows the `?` of the target.
    pub query: Option<&'a str>,
    /// `content-type`, or empty.
    pub content_type: &'a str,
    /// `accept`, or empty.
    pub accept: &'a str,
    /// W3C trace context, unchecked.
    pub traceparent: Option<&'a str>,
    /// Body, its transfer coding undone.
    pub body: &'a [u8],
    /// The client keeps the connection open for another request.
    pub keep_alive: bool,
    /// The client speaks HTTP/1.0.
    pub http_10: bool,
}

/// What the connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Read more bytes. After a request without `keep_alive` this stays so, whatever is read.
    NeedMore,
    /// Write `HTTP/1.1 100 Continue` and a blank line, then take the next step.
    Continue,
    /// Answer this request; the next call lets go of its bytes.
    Request(Request<'a>),
    /// Write this answer and close; every later step is the same.
    Refuse(Refusal),
}

/// Where the current request stands.
#[derive(Debug)]
enum State {
    /// Its head is not whole.
    Head,
    /// Its body is not whole; chunked with a coding, else of the length the head says.
    Body(Head, Option<Chunked>),
    /// It was handed out; body and end count from the start of the request.
    Whole(Head, Range<usize>, usize),
    /// The last request of this connection was handed out.
    Closed,
    /// It was refused.
    Refused(Refusal),
}

/// Decodes the requests of one connection, in any fragmentation, each byte looked at once.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    buffer: Vec<u8>,
    /// Where the current request starts in the buffer.
    start: usize,
    /// Bytes of the current request already searched for the end of its head.
    searched: usize,
    state: State,
}

impl Decoder {
    /// A decoder for a new connection. It allocates with the first [`Self::take_buffer`].
    pub fn new(limits: Limits) -> Self {
        Self { limits, buffer: Vec::new(), start: 0, searched: 0, state: State::Head }
    }

    /// Lends the receive buffer: its length is what came and is not consumed, behind it is room.
    ///
    /// The room grows with what was received, never by what a head merely promises, unless a buffer large enough
    /// is there for all. Until
    /// [`Self::give_back`] the decoder has nothing to look at and must not be asked for a step.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.release();
        self.compact();
        let wanted = self.expected().max(1);
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < wanted.min(limits::HTTP_READ_BYTES / 4) && !self.borrow_room(wanted) {
            let most = limits::HTTP_TRUSTED_BYTES.max(3 * self.buffer.len());
            self.buffer.reserve(wanted.clamp(limits::HTTP_READ_BYTES, most));
        }
        std::mem::take(&mut self.buffer)
    }

    /// Moves to a buffer that is kept for long bodies, if one has room for `wanted` more bytes.
    fn borrow_room(&mut self, wanted: usize) -> bool {
        let least = self.buffer.len() + wanted;
        // what a connection may keep for itself, it allocates for itself
        if least <= limits::HTTP_KEPT_BYTES {
            return false;
        }
        let Some(mut room) = spares::take(least) else { return false };
        room.extend_from_slice(&self.buffer);
        self.buffer = room;
        true
    }

    /// Takes the buffer back after a read appended to it, or did not.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// True between requests: nothing of the next one has come. A connection may then be closed.
    pub fn is_idle(&self) -> bool {
        match &self.state {
            // the buffer may be lent, and looks empty then
            State::Head => self.searched == 0 && self.buffer.len() == self.start,
            State::Whole(_, _, end) => self.buffer.len() == self.start + end,
            State::Body(..) => false,
            State::Closed | State::Refused(_) => true,
        }
    }

    /// True while the head of a request has begun and is not whole.
    pub fn is_in_head(&self) -> bool {
        matches!(self.state, State::Head) && !self.is_idle()
    }

    /// Bytes of the receive buffer, which must not be lent.
    pub fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// The next step. Call it again after every step but [`Step::NeedMore`] and [`Step::Refuse`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a step borrows the buffer, which no iterator can lend"
    )]
    pub fn next(&mut self) -> Step<'_> {
        self.release();
        if let Err(refusal) = self.begin() {
            self.state = State::Refused(refusal);
        }
        if let State::Body(head, _) = &mut self.state
            && std::mem::take(&mut head.expects_continue)
            && self.buffer.len() == self.start + head.bytes
        {
            return Step::Continue;
        }
        if let Err(refusal) = self.complete() {
            self.state = State::Refused(refusal);
        }
        match &self.state {
            State::Whole(head, body, _) => {
                Step::Request(request(&self.buffer[self.start..], head, body.clone()))
            }
            State::Refused(refusal) => Step::Refuse(*refusal),
            State::Head | State::Body(..) | State::Closed => Step::NeedMore,
        }
    }

    /// Parses the head once it is whole.
    fn begin(&mut self) -> Result<(), Refusal> {
        if !matches!(self.state, State::Head) {
            return Ok(());
        }
        self.skip_blank_lines();
        let bytes = &self.buffer[self.start..];
        match bytes {
            [] | [b'\r'] => return Ok(()),
            // no request begins so: TLS, or a client that lost count
            [first, ..] if !first.is_ascii_graphic() => {
                return Err(Refusal::new(400, "not an HTTP request"));
            }
            _ => {}
        }
        let window = &bytes[..bytes.len().min(self.limits.head_bytes)];
        if let Some(end) = head::end(window, self.searched) {
            let head = Head::parse(&window[..end], &self.limits)?;
            let chunks = (head.framing == Framing::Chunked).then(Chunked::new);
            self.searched = 0;
            self.state = State::Body(head, chunks);
            return Ok(());
        }
        self.searched = window.len();
        if window.len() == self.limits.head_bytes {
            return Err(Refusal::HEAD_TOO_LARGE);
        }
        Ok(())
    }

    /// Some clients send an empty line behind a body.
    fn skip_blank_lines(&mut self) {
        loop {
            match &self.buffer[self.start..] {
                [b'\n', ..] => self.start += 1,
                [b'\r', b'\n', ..] => self.start += 2,
                _ => return,
            }
        }
    }

    /// Takes in the body; the request is whole once it is.
    fn complete(&mut self) -> Result<(), Refusal> {
        let State::Body(head, chunks) = &mut self.state else {
            return Ok(());
        };
        let at = head.bytes;
        let (data, end) = match (head.framing, chunks) {
            (Framing::Length(length), _) => {
                if self.buffer.len() - self.start < at + length {
                    return Ok(());
                }
                (at..at + length, at + length)
            }
            (Framing::Chunked, None) => return Ok(()),
            (Framing::Chunked, Some(chunks)) => {
                if !chunks.advance(&mut self.buffer[self.start + at..], &self.limits)? {
                    return Ok(());
                }
                (at..at + chunks.written(), at + chunks.read())
            }
        };
        if let State::Body(head, _) = std::mem::replace(&mut self.state, State::Head) {
            self.state = State::Whole(head, data, end);
        }
        Ok(())
    }

    /// Lets go of the request that was handed out.
    fn release(&mut self) {
        if let State::Whole(head, _, end) = &self.state {
            self.start += end;
            self.state = if head.keep_alive { State::Head } else { State::Closed };
        }
    }

    /// Moves what is not consumed to the front, and gives a big buffer back between requests.
    fn compact(&mut self) {
        match &mut self.state {
            State::Closed | State::Refused(_) => self.buffer.clear(),
            State::Body(head, Some(chunks)) => {
                let body = self.start + head.bytes;
                self.buffer.drain(body + chunks.written()..body + chunks.read());
                chunks.close_gap();
                self.buffer.drain(..self.start);
            }
            _ => {
                self.buffer.drain(..self.start);
            }
        }
        self.start = 0;
        let between = !matches!(self.state, State::Body(..));
        if between
            && self.buffer.capacity() > limits::HTTP_KEPT_BYTES
            && self.buffer.len() <= limits::HTTP_KEPT_BYTES / 2
        {
            let mut small = Vec::with_capacity(limits::HTTP_READ_BYTES.max(2 * self.buffer.len()));
            small.extend_from_slice(&self.buffer);
            spares::give(std::mem::replace(&mut self.buffer, small));
        }
    }

    /// Bytes that the current request still needs, as far as is known.
    fn expected(&self) -> usize {
        match &self.state {
            State::Body(head, None) => match head.framing {
                Framing::Length(length) => (head.bytes + length).saturating_sub(self.buffer.len()),
                Framing::Chunked => limits::HTTP_READ_BYTES,
            },
            State::Body(_, Some(chunks)) => chunks.left().saturating_add(limits::HTTP_READ_BYTES / 4),
            _ => limits::HTTP_READ_BYTES,
        }
    }
}

impl Drop for Decoder {
    /// A client that connects for one long request leaves its room to the next one.
    fn drop(&mut self) {
        spares::give(std::mem::take(&mut self.buffer));
    }
}

fn request<'a>(bytes: &'a [u8], head: &Head, body: Range<usize>) -> Request<'a> {
    // the line parser has seen the target as text; a header value of another encoding counts as none
    let text = |range: &Range<usize>| std::str::from_utf8(&bytes[range.clone()]).unwrap_or("");
    Request {
        method: head.method,
        path: match text(&head.path) {
            "" => "/",
            path => path,
        },
        query: head.query.as_ref().map(text),
        content_type: text(&head.content_type),
        accept: text(&head.accept),
        traceparent: head.traceparent.as_ref().map(text),
        body: &bytes[body],
        keep_alive: head.keep_alive,
        http_10: head.http_10,
    }
}
