//! `GET /cache/pins`: which pins to list.

use super::fault::{Faults, Input, Part, Reject};
use super::lax::{self, Bounds};
use super::text::query_pairs;
use crate::limits::{PINS_PAGE, PINS_PAGE_MOST};

/// Which pins to list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinsQuery {
    /// Only of this tenant.
    pub cache_salt: Option<String>,
    /// Only of this model.
    pub model_name: Option<String>,
    /// Pins to leave out before the first.
    pub offset: u64,
    /// Most pins to list.
    pub limit: u64,
}

/// Reads a query; of equal parameters the last one counts.
pub fn pins_query(query: Option<&str>) -> Result<PinsQuery, Reject> {
    let (mut cache_salt, mut model_name, mut offset, mut limit) = (None, None, None, None);
    for (name, text) in query_pairs(query.unwrap_or("")) {
        match &*name {
            "cache_salt" => cache_salt = Some(text.into_owned()),
            "model_name" => model_name = Some(text.into_owned()),
            "offset" => offset = Some(text),
            "limit" => limit = Some(text),
            _ => {}
        }
    }
    let mut faults = Faults::new("query");
    let mut number = |name, text: Option<std::borrow::Cow<'_, str>>, absent, bounds| {
        let Some(text) = text else { return absent };
        lax::integer_of(&text, bounds).unwrap_or_else(|fault| {
            faults.add_at(Part::Name(name), &fault, Input::Text(&text));
            absent
        })
    };
    let offset = number("offset", offset, 0, Bounds::from(0)) as u64;
    let limit = number("limit", limit, PINS_PAGE, Bounds::within(1, PINS_PAGE_MOST)) as u64;
    if faults.is_empty() {
        Ok(PinsQuery { cache_salt, model_name, offset, limit })
    } else {
        Err(Reject::Unprocessable(faults))
    }
}
