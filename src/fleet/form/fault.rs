//! Refusals: what is wrong with a request, in the words that the coordinator's clients know.

use std::io::Write as _;

use super::text::write_float;
use super::value::Value;
use crate::http::response::json_string;
use crate::limits::{FORM_ECHO_BYTES, FORM_FAULTS};

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reject {
    /// The request does not have the form that it should have (422).
    Unprocessable(Faults),
    /// The request has the form, and asks for what cannot be done (400).
    Bad(String),
}

impl Reject {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Unprocessable(_) => 422,
            Self::Bad(_) => 400,
        }
    }

    /// Writes the JSON body: `{"detail": text}` or `{"detail": [fault, ...]}`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"detail\":");
        match self {
            Self::Bad(text) => json_string(out, text),
            Self::Unprocessable(faults) => {
                out.push(b'[');
                out.extend_from_slice(&faults.text);
                out.push(b']');
            }
        }
        out.push(b'}');
    }
}

/// All that is wrong with one request, as JSON.
///
/// At most [`FORM_FAULTS`] are listed, further ones only counted. Each shows the value at fault, unless the values
/// of one refusal would become longer than [`FORM_ECHO_BYTES`]: then it shows null.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    text: Vec<u8>,
    count: usize,
    shown: usize,
    place: Vec<Part>,
}

/// A step on the way to a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Name(&'static str),
    Key(String),
    Index(usize),
}

/// The value at fault.
#[derive(Clone, Copy)]
pub(super) enum Input<'d, 'a> {
    Value(Value<'d, 'a>),
    Text(&'d str),
    Null,
    Nothing,
}

/// What is wrong with a value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Fault {
    Missing,
    NotAnObject,
    NotAKey,
    NotAList,
    NotAMap,
    NotAString,
    LoneSurrogate,
    EmptyString,
    NotAnInteger,
    IntegerText,
    IntegerSize,
    Fraction,
    NotFinite,
    AtLeast(i128),
    AtLeastZero,
    AtMost(i128),
    NotANumber,
    NumberText,
    NotABool,
    BoolText,
    NoChoice(&'static str),
    Value(String),
    Json(&'static str),
}

impl Fault {
    /// The `type`, and the message where it is always the same.
    fn name(&self) -> (&'static str, &'static str) {
        match self {
            Self::Missing => ("missing", "Field required"),
            Self::NotAnObject => (
                "model_attributes_type",
                "Input should be a valid dictionary or object to extract fields from",
            ),
            Self::NotAKey => {
                ("dataclass_type", "Input should be a dictionary or an instance of EncodedObjectKey")
            }
            Self::NotAList => ("list_type", "Input should be a valid list"),
            Self::NotAMap => ("dict_type", "Input should be a valid dictionary"),
            Self::NotAString => ("string_type", "Input should be a valid string"),
            Self::LoneSurrogate => (
                "string_unicode",
                "Input should be a valid string, unable to parse raw data as a unicode string",
            ),
            Self::EmptyString => ("string_too_short", "String should have at least 1 character"),
            Self::NotAnInteger => ("int_type", "Input should be a valid integer"),
            Self::IntegerText => {
                ("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
            }
            Self::IntegerSize => {
                ("int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size")
            }
            Self::Fraction => {
                ("int_from_float", "Input should be a valid integer, got a number with a fractional part")
            }
            Self::NotFinite => ("finite_number", "Input should be a finite number"),
            Self::AtLeast(_) => ("greater_than_equal", ""),
            Self::AtLeastZero => ("greater_than_equal", "Input should be greater than or equal to 0"),
            Self::AtMost(_) => ("less_than_equal", ""),
            Self::NotANumber => ("float_type", "Input should be a valid number"),
            Self::NumberText => {
                ("float_parsing", "Input should be a valid number, unable to parse string as a number")
            }
            Self::NotABool => ("bool_type", "Input should be a valid boolean"),
            Self::BoolText => ("bool_parsing", "Input should be a valid boolean, unable to interpret input"),
            Self::NoChoice(_) => ("enum", ""),
            Self::Value(_) => ("value_error", ""),
            Self::Json(_) => ("json_invalid", "JSON decode error"),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::AtLeast(least) => format!("Input should be greater than or equal to {least}"),
            Self::AtMost(most) => format!("Input should be less than or equal to {most}"),
            Self::NoChoice(names) => format!("Input should be {names}"),
            Self::Value(text) => format!("Value error, {text}"),
            _ => self.name().1.to_owned(),
        }
    }

    fn write_context(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, name: &str, text: &str| {
            json_string(out, name);
            out.push(b':');
            json_string(out, text);
        };
        let start = out.len();
        out.extend_from_slice(b",\"ctx\":{");
        let open = out.len();
        match self {
            Self::EmptyString => out.extend_from_slice(b"\"min_length\":1"),
            Self::AtLeast(least) => number(out, "ge", *least),
            Self::AtMost(most) => number(out, "le", *most),
            Self::AtLeastZero => {
                out.extend_from_slice(b"\"ge\":");
                write_float(out, 0.0);
            }
            Self::NotAKey => text(out, "class_name", "EncodedObjectKey"),
            Self::NoChoice(names) => text(out, "expected", names),
            Self::Json(what) => text(out, "error", what),
            Self::Value(_) => out.extend_from_slice(b"\"error\":{}"),
            _ => {}
        }
        if out.len() == open {
            out.truncate(start);
        } else {
            out.push(b'}');
        }
    }
}

fn number(out: &mut Vec<u8>, name: &str, number: i128) {
    write!(out, "\"{name}\":{number}").expect("a vector takes every byte");
}

impl Faults {
    /// None yet; the first step on the way to every value.
    pub(super) fn new(root: &'static str) -> Self {
        Self { place: vec![Part::Name(root)], ..Self::default() }
    }

    /// How many there are, those that are not listed too.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What follows is about a value inside the present one.
    pub(super) fn enter(&mut self, part: Part) {
        self.place.push(part);
    }

    /// What follows is about the value around the present one.
    pub(super) fn leave(&mut self) {
        self.place.pop();
    }

    /// Something is wrong with a part of the present value.
    pub(super) fn add_at(&mut self, part: Part, fault: &Fault, input: Input<'_, '_>) {
        self.enter(part);
        self.add(fault, input);
        self.leave();
    }

    /// Something is wrong with the present value.
    pub(super) fn add(&mut self, fault: &Fault, input: Input<'_, '_>) {
        self.count += 1;
        if self.count > FORM_FAULTS {
            return;
        }
        let mut out = std::mem::take(&mut self.text);
        out.extend_from_slice(if out.is_empty() { b"{\"type\":" } else { b",{\"type\":" });
        json_string(&mut out, fault.name().0);
        out.extend_from_slice(b",\"loc\":[");
        for (at, part) in self.place.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            match part {
                Part::Name(name) => json_string(&mut out, name),
                Part::Key(key) => json_string(&mut out, key),
                Part::Index(index) => out.extend_from_slice(itoa::Buffer::new().format(*index).as_bytes()),
            }
        }
        out.extend_from_slice(b"],\"msg\":");
        json_string(&mut out, &fault.message());
        out.extend_from_slice(b",\"input\":");
        self.show(&mut out, input);
        fault.write_context(&mut out);
        out.push(b'}');
        self.text = out;
    }

    fn show(&mut self, out: &mut Vec<u8>, input: Input<'_, '_>) {
        let length = match input {
            Input::Value(value) => value.length(),
            Input::Text(text) => text.len(),
            Input::Null | Input::Nothing => 0,
        };
        if self.shown + length > FORM_ECHO_BYTES {
            out.extend_from_slice(b"null");
            return;
        }
        self.shown += length;
        match input {
            Input::Value(value) => value.write(out),
            Input::Text(text) => json_string(out, text),
            Input::Null => out.extend_from_slice(b"null"),
            Input::Nothing => out.extend_from_slice(b"{}"),
        }
    }
}
