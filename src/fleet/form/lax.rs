//! Numbers, strings and choices with the latitude that the contract's clients are used to: `"80"`, `80.0` and `true`
//! are integers, `"1.5"` is a number.

use std::borrow::Cow;

use super::fault::Fault;
use super::json::Kind;
use super::value::Value;

/// What an integer may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) least: Option<i128>,
    pub(super) most: Option<i128>,
}

/// Integers of 64 bits, signed or not.
const LEAST: i128 = i64::MIN as i128;
const MOST: i128 = u64::MAX as i128;

impl Bounds {
    /// Any integer of 64 bits, signed or not.
    pub(super) const ANY: Self = Self { least: None, most: None };

    /// From `least` on.
    pub(super) const fn from(least: i128) -> Self {
        Self { least: Some(least), most: None }
    }

    /// From `least` to `most`.
    pub(super) const fn within(least: i128, most: i128) -> Self {
        Self { least: Some(least), most: Some(most) }
    }

    /// Checks a number; of one beyond 128 bits only the sign is known, so it comes as the extreme one.
    fn check(self, number: i128) -> Result<i128, Fault> {
        match self {
            Self { least: Some(least), .. } if number < least => Err(Fault::AtLeast(least)),
            Self { most: Some(most), .. } if number > most => Err(Fault::AtMost(most)),
            _ if !(LEAST..=MOST).contains(&number) => Err(Fault::IntegerSize),
            _ => Ok(number),
        }
    }
}

/// A string.
pub(super) fn string<'a>(value: Value<'_, 'a>) -> Result<Cow<'a, str>, Fault> {
    match value.string() {
        None => Err(Fault::NotAString),
        Some(text) => text.map_err(|_| Fault::LoneSurrogate),
    }
}

/// A string without the blanks around it.
pub(super) fn trimmed(value: Value<'_, '_>) -> Result<String, Fault> {
    Ok(string(value)?.trim().to_owned())
}

/// A string that is not blank, without the blanks around it.
pub(super) fn filled(value: Value<'_, '_>) -> Result<String, Fault> {
    let text = trimmed(value)?;
    if text.is_empty() { Err(Fault::EmptyString) } else { Ok(text) }
}

/// An integer.
pub(super) fn integer(value: Value<'_, '_>, bounds: Bounds) -> Result<i128, Fault> {
    let number = match value.kind() {
        Kind::Integer => digits(value.text()),
        Kind::True => 1,
        Kind::False => 0,
        Kind::Float => whole(value.text().parse().unwrap_or(f64::NAN))?,
        Kind::Plain | Kind::Escaped => integer_text(&string(value)?).ok_or(Fault::IntegerText)?,
        Kind::Null | Kind::Array | Kind::Object => return Err(Fault::NotAnInteger),
    };
    bounds.check(number)
}

/// An integer in a text that is no JSON value.
pub(super) fn integer_of(text: &str, bounds: Bounds) -> Result<i128, Fault> {
    bounds.check(integer_text(text).ok_or(Fault::IntegerText)?)
}

/// Digits with or without a sign, and nothing else; the extreme of 128 bits beyond them.
fn digits(text: &str) -> i128 {
    text.parse().unwrap_or(if text.starts_with('-') { i128::MIN } else { i128::MAX })
}

/// A float that is a whole number and fits 64 bits.
fn whole(number: f64) -> Result<i128, Fault> {
    if !number.is_finite() {
        Err(Fault::NotFinite)
    } else if number.fract() != 0.0 {
        Err(Fault::Fraction)
    } else if number.abs() >= i64::MAX as f64 {
        Err(Fault::IntegerSize)
    } else {
        Ok(number as i128)
    }
}

/// Reads an integer as a person may write it: blanks around it, a sign, zeros before it and behind a point, and
/// underscores between digits.
fn integer_text(text: &str) -> Option<i128> {
    let text = text.trim();
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let rest = match rest.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => whole,
        Some(_) => return None,
        None => rest,
    };
    let joined = join_digits(rest)?;
    Some(digits(&format!("{sign}{joined}")))
}

/// Digits without the underscores between them; several may only stand among zeros at the start.
fn join_digits(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    if !(bytes.first()?.is_ascii_digit() && bytes.last()?.is_ascii_digit()) {
        return None;
    }
    let significant = text.trim_start_matches(['0', '_']);
    let sound = significant.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let doubled = significant.contains("__");
    (sound && !doubled).then(|| {
        let digits = significant.replace('_', "");
        if digits.is_empty() { "0".to_owned() } else { digits }
    })
}

/// A number; it may be infinite or none.
pub(super) fn float(value: Value<'_, '_>) -> Result<f64, Fault> {
    match value.kind() {
        Kind::Integer => match value.text().parse() {
            Ok(number) if f64::is_finite(number) => Ok(number),
            _ => Err(Fault::NotANumber),
        },
        Kind::Float => Ok(value.text().parse().unwrap_or(f64::NAN)),
        Kind::True => Ok(1.0),
        Kind::False => Ok(0.0),
        Kind::Plain | Kind::Escaped => float_text(&string(value)?).ok_or(Fault::NumberText),
        Kind::Null | Kind::Array | Kind::Object => Err(Fault::NotANumber),
    }
}

fn float_text(text: &str) -> Option<f64> {
    if let Ok(number) = text.trim().parse() {
        return Some(number);
    }
    // underscores between digits, and then no blanks around
    if text.starts_with('_') || text.ends_with('_') || text.contains("__") {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Yes or no, in some of the ways to say so.
pub(super) fn boolean(value: Value<'_, '_>) -> Result<bool, Fault> {
    match value.kind() {
        Kind::True => Ok(true),
        Kind::False => Ok(false),
        Kind::Integer => match value.text().parse::<i64>() {
            Ok(number @ 0..=1) => Ok(number == 1),
            Ok(_) => Err(Fault::BoolText),
            Err(_) => Err(Fault::NotABool),
        },
        Kind::Float => match value.text().parse::<f64>() {
            Ok(1.0) => Ok(true),
            Ok(0.0) => Ok(false),
            _ => Err(Fault::NotABool),
        },
        Kind::Plain | Kind::Escaped => match string(value)?.to_ascii_lowercase().as_str() {
            "1" | "on" | "t" | "true" | "y" | "yes" => Ok(true),
            "0" | "off" | "f" | "false" | "n" | "no" => Ok(false),
            _ => Err(Fault::BoolText),
        },
        Kind::Null | Kind::Array | Kind::Object => Err(Fault::NotABool),
    }
}

/// One of a few names, each with what it stands for.
#[derive(Debug)]
pub(super) struct Choice<T: 'static> {
    pub(super) names: &'static [(&'static str, T)],
    /// The names as an error lists them.
    pub(super) listed: &'static str,
}

impl<T: Copy> Choice<T> {
    /// What a text stands for.
    pub(super) fn of_text(&self, text: &str) -> Result<T, Fault> {
        let named = self.names.iter().find(|(name, _)| *name == text);
        named.map(|(_, choice)| *choice).ok_or(Fault::NoChoice(self.listed))
    }

    /// What a value stands for.
    pub(super) fn of(&self, value: Value<'_, '_>) -> Result<T, Fault> {
        match value.string() {
            None => Err(Fault::NoChoice(self.listed)),
            Some(text) => self.of_text(&text.map_err(|_| Fault::LoneSurrogate)?),
        }
    }
}
