//! Storage tiers that a request may name.

use super::fault::{Faults, Input, Part, Reject};
use super::fields::Fields;
use super::lax::Choice;
use super::text::query_pairs;
use super::value::Value;

/// Where a server keeps what it stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// Its own memory.
    L1,
    /// Storage behind it, which the coordinator accounts for.
    L2,
    /// Both.
    All,
}

const TIERS: Choice<Tier> = Choice {
    names: &[("l1", Tier::L1), ("l2", Tier::L2), ("all", Tier::All)],
    listed: "'l1', 'l2' or 'all'",
};

impl Tier {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::All => "all",
        }
    }
}

/// Reads the field `tier`.
pub(super) fn field<'d, 'a>(
    fields: &mut Fields<'_, 'd, 'a>,
    slot: Option<Value<'d, 'a>>,
    absent: Tier,
) -> Option<Tier> {
    fields.optional("tier", slot, absent, |value| TIERS.of(value))
}

/// Refuses a tier for which nothing is accounted.
pub(super) fn supported(tier: Tier) -> Result<(), Reject> {
    match tier {
        Tier::L2 => Ok(()),
        other => Err(Reject::Bad(format!("tier '{}' not supported; only 'l2'", other.name()))),
    }
}

/// Checks the parameter `tier` of a query; the last one counts, none is `l2`.
pub fn tier(query: Option<&str>) -> Result<(), Reject> {
    let last = query_pairs(query.unwrap_or("")).filter(|(name, _)| name == "tier").last();
    let Some((_, text)) = last else { return Ok(()) };
    let tier = TIERS.of_text(&text).map_err(|fault| {
        let mut faults = Faults::new("query");
        faults.add_at(Part::Name("tier"), &fault, Input::Text(&text));
        Reject::Unprocessable(faults)
    })?;
    supported(tier)
}
