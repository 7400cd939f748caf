//! From the bytes of a body to a JSON object, or to the refusal of what is none.

use super::fault::{Fault, Faults, Input, Part, Reject};
use super::json::{Document, Error, Kind, Parser};
use super::value::Value;
use crate::limits::{FORM_BODY_BYTES, FORM_ECHO_BYTES};

/// What is said of a body that cannot even be decoded.
const UNREADABLE: &str = "There was an error parsing the body";

/// Checks what is known before reading: that there is a body, and that it calls itself JSON.
pub(super) fn admit(content_type: &str, body: &[u8]) -> Result<(), Reject> {
    if body.is_empty() {
        return Err(refuse(&Fault::Missing, Input::Null));
    }
    if body.len() > FORM_BODY_BYTES {
        return Err(Reject::Bad(format!("the body must be at most {FORM_BODY_BYTES} bytes")));
    }
    if !is_json(content_type) {
        return Err(match body {
            short if short.len() <= FORM_ECHO_BYTES => {
                refuse(&Fault::NotAnObject, Input::Text(&String::from_utf8_lossy(short)))
            }
            _ => refuse(&Fault::NotAnObject, Input::Null),
        });
    }
    Ok(())
}

/// Whether a content type is JSON; whoever names none means it.
pub(super) fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match kind.split_once('/') {
        Some(("application", format)) => {
            !format.contains('/') && (format == "json" || format.ends_with("+json"))
        }
        _ => content_type.is_empty(),
    }
}

/// The text of a body, without byte order mark.
fn text(body: &[u8]) -> Result<&str, Reject> {
    let text = std::str::from_utf8(body).map_err(|_| Reject::Bad(UNREADABLE.to_owned()))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads a body that must be a JSON object.
pub(super) fn read<'a>(content_type: &str, body: &'a [u8]) -> Result<Document<'a>, Reject> {
    admit(content_type, body)?;
    let text = text(body)?;
    let document = Parser::read(text).map_err(|error| not_json(error, text))?;
    object(&document)?;
    Ok(document)
}

/// Checks that a document is an object.
fn object(document: &Document<'_>) -> Result<(), Reject> {
    let root = Value::root(document);
    match root.kind() {
        Kind::Object => Ok(()),
        Kind::Null => Err(refuse(&Fault::Missing, Input::Null)),
        _ => Err(refuse(&Fault::NotAnObject, Input::Value(root))),
    }
}

/// The refusal of a text that is no JSON; its place is counted in code points.
fn not_json(error: Error, text: &str) -> Reject {
    match error {
        Error::Unreadable => Reject::Bad(UNREADABLE.to_owned()),
        Error::Syntax(what, at) => {
            let mut faults = Faults::new("body");
            let place = text.as_bytes()[..at].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            faults.add_at(Part::Index(place), &Fault::Json(what), Input::Nothing);
            Reject::Unprocessable(faults)
        }
    }
}

fn refuse(fault: &Fault, input: Input<'_, '_>) -> Reject {
    let mut faults = Faults::new("body");
    faults.add(fault, input);
    Reject::Unprocessable(faults)
}
