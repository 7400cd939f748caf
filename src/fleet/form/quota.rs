//! `PUT /quota/{cache_salt}` and `PUT /quota/config`: how much a tenant may store.

use super::body;
use super::fault::{Fault, Faults, Reject};
use super::fields::Fields;
use super::json::Kind;
use super::lax;
use super::tier::{self, Tier};
use super::value::Value;

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;
/// First number of bytes that is beyond 64 bits with sign.
const BEYOND: f64 = (1_u64 << 63) as f64;

/// The limit of one tenant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuotaSet {
    /// As it was sent, GiB: finite, not negative, less than 2^63 bytes.
    pub limit_gb: f64,
}

impl QuotaSet {
    /// The limit, whole bytes.
    pub fn bytes(self) -> u64 {
        gib_to_bytes(self.limit_gb)
    }
}

/// Whole bytes of a limit in GiB, rounded down.
pub fn gib_to_bytes(gib: f64) -> u64 {
    (gib * GIB) as u64
}

/// Bytes in GiB.
pub fn bytes_to_gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

/// Reads the limit of a tenant.
pub fn quota(content_type: &str, body: &[u8]) -> Result<QuotaSet, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [limit, tier] = owner.slots(&["limit_gb", "tier"]);
    let mut faults = Faults::new("body");
    let mut fields = Fields { faults: &mut faults, owner };
    let limit = fields.required("limit_gb", limit, gib);
    let tier = tier::field(&mut fields, tier, Tier::L2);
    let (Some(limit), Some(tier)) = (limit, tier) else { return Err(Reject::Unprocessable(faults)) };
    tier::supported(tier)?;
    Ok(QuotaSet { limit_gb: storable("limit_gb", limit)? })
}

/// Reads the limit of all tenants that have none of their own, GiB; none exempts them.
pub fn config(content_type: &str, body: &[u8]) -> Result<Option<f64>, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [limit, tier] = owner.slots(&["default_limit_gb", "tier"]);
    let mut faults = Faults::new("body");
    let mut fields = Fields { faults: &mut faults, owner };
    let limit = fields.optional("default_limit_gb", limit, None, |value| match value.kind() {
        Kind::Null => Ok(None),
        _ => gib(value).map(Some),
    });
    let tier = tier::field(&mut fields, tier, Tier::L2);
    let (Some(limit), Some(tier)) = (limit, tier) else { return Err(Reject::Unprocessable(faults)) };
    tier::supported(tier)?;
    limit.map(|limit| storable("default_limit_gb", limit)).transpose()
}

/// A number that is not negative.
fn gib(value: Value<'_, '_>) -> Result<f64, Fault> {
    let number = lax::float(value)?;
    if number < 0.0 { Err(Fault::AtLeastZero) } else { Ok(number) }
}

/// Refuses a limit that is no number of bytes.
fn storable(name: &str, limit: f64) -> Result<f64, Reject> {
    if limit * GIB < BEYOND {
        return Ok(limit);
    }
    Err(Reject::Bad(format!("{name} must be finite and less than {} GiB", (BEYOND / GIB) as u64)))
}
