//! How this contract's answers look: JSON, and errors as `{"detail": …}`.

use serde::Serialize;

use crate::fleet::form::Reject;
use crate::http::{Method, Request, response};
use crate::limits::{BYTES_PER_COST, FLEET_COPY_BYTES};
use crate::rt::Turn;

/// An answer whose body is written bit by bit.
pub struct Body<'a> {
    out: &'a mut Vec<u8>,
    mark: response::Mark,
    head: bool,
}

/// The one answer to a request, to be written into the connection's send buffer.
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    /// `HEAD`: an answer without its body.
    head: bool,
    keep_alive: bool,
    http_10: bool,
}

#[derive(Serialize)]
struct Detail<'a> {
    detail: &'a str,
}

impl<'a> Reply<'a> {
    /// The answer to `request`.
    pub fn to(request: &Request<'_>, out: &'a mut Vec<u8>) -> Self {
        let head = request.method == Method::Head;
        Self { out, head, keep_alive: request.keep_alive, http_10: request.http_10 }
    }

    /// The answer to what is no whole request.
    pub fn last(out: &'a mut Vec<u8>) -> Self {
        Self { out, head: false, keep_alive: false, http_10: false }
    }

    /// A body of JSON.
    pub fn json(self, status: u16, body: &impl Serialize) {
        self.body(status, response::JSON, &[], |out| {
            write_json(out, body);
        });
    }

    /// 200 with a body of JSON.
    pub fn ok(self, body: &impl Serialize) {
        self.json(200, body);
    }

    /// An error in words.
    pub fn detail(self, status: u16, detail: &str) {
        self.json(status, &Detail { detail });
    }

    /// A body that was refused.
    pub fn reject(self, reject: &Reject) {
        self.body(reject.status(), response::JSON, &[], |out| reject.write(out));
    }

    /// A change that is not on disk, and was not made.
    pub fn unsaved(self, reason: &str) {
        tracing::error!(reason, "a change could not be saved, and was not made");
        self.detail(503, &format!("not saved, and not changed: {reason}"));
    }

    /// 204.
    pub fn no_content(self) {
        response::no_content(self.out, self.keep_alive, self.http_10);
    }

    /// 405.
    pub fn method_not_allowed(self, allow: &str) {
        self.body(405, response::JSON, &[("allow", allow)], |out| {
            out.extend_from_slice(b"{\"detail\":\"Method Not Allowed\"}");
        });
    }

    /// 307 to `location`.
    pub fn redirect(self, location: &str) {
        self.body(307, response::JSON, &[("location", location)], |_| {});
    }

    /// Whatever `write` appends.
    pub fn body(
        self,
        status: u16,
        content_type: &str,
        headers: &[(&str, &str)],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let body = self.begin(status, content_type, headers);
        write(body.out);
        body.end();
    }

    /// A body of JSON that was written elsewhere; a long one is copied in steps.
    pub async fn copy(self, turn: &Turn, status: u16, json: &[u8]) {
        let body = self.begin(status, response::JSON, &[]);
        body.out.reserve(json.len());
        for piece in json.chunks(FLEET_COPY_BYTES) {
            body.out.extend_from_slice(piece);
            turn.spend((piece.len() / BYTES_PER_COST) as u32).await;
        }
        body.end();
    }

    /// An answer whose body is written by and by, and then ended.
    pub fn begin(self, status: u16, content_type: &str, headers: &[(&str, &str)]) -> Body<'a> {
        let Self { out, head, keep_alive, http_10 } = self;
        let mark = response::begin_with(out, status, content_type, headers, keep_alive, http_10);
        Body { out, mark, head }
    }
}

/// Appends JSON.
pub fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("a vector takes everything, and keys are strings");
}

/// Appends the JSON of an error in words.
pub fn write_detail(out: &mut Vec<u8>, detail: &str) {
    write_json(out, &Detail { detail });
}

impl Body<'_> {
    /// Where it is written.
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Nothing follows.
    pub fn end(self) {
        let Self { out, mark, head } = self;
        if head {
            response::finish_head(out, mark);
        } else {
            response::finish(out, mark);
        }
    }
}
