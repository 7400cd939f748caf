//! `POST /instances`: a server says who it is and where.

use std::collections::HashMap;

use super::body;
use super::fault::{Fault, Faults, Input, Part, Reject};
use super::fields::Fields;
use super::json::Kind;
use super::lax::{self, Bounds};
use super::value::Value;
use crate::limits::{FLEET_INSTANCE_BYTES, METADATA_BYTES};

/// A server of the fleet, as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Register {
    /// Its id; empty when it wants one.
    pub instance_id: String,
    /// Where it is reached, not empty, without blanks around it.
    pub ip: String,
    /// Port of its HTTP server, at least 1.
    pub http_port: u16,
    /// Free-form hints, in the order in which they came.
    pub metadata: Vec<(String, String)>,
    /// Where its peers reach it; empty when they do not.
    pub p2p_advertised_url: String,
    /// Port of its message queue; 0 when it has none.
    pub mq_port: u16,
}

impl Register {
    /// Refuses one that holds too much: each is listed whole whenever somebody asks who is there.
    fn check(self) -> Result<Self, Reject> {
        let pairs = self.metadata.iter().map(|(name, value)| name.len() + value.len() + METADATA_BYTES);
        let text = self.instance_id.len() + self.ip.len() + self.p2p_advertised_url.len();
        if text + pairs.sum::<usize>() > FLEET_INSTANCE_BYTES {
            return Err(Reject::Bad(format!(
                "a registration is too long: at most {FLEET_INSTANCE_BYTES} bytes of text, of which a pair of metadata takes \
                 {METADATA_BYTES} more"
            )));
        }
        Ok(self)
    }
}

/// Reads a registration.
pub fn register(content_type: &str, body: &[u8]) -> Result<Register, Reject> {
    const PORT: i128 = u16::MAX as i128;
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [instance_id, ip, http_port, metadata, url, mq_port] =
        owner.slots(&["instance_id", "ip", "http_port", "metadata", "p2p_advertised_url", "mq_port"]);
    let mut faults = Faults::new("body");
    let mut fields = Fields { faults: &mut faults, owner };
    let instance_id = fields.optional("instance_id", instance_id, String::new(), lax::trimmed);
    let ip = fields.required("ip", ip, lax::filled);
    let http_port =
        fields.required("http_port", http_port, |value| lax::integer(value, Bounds::within(1, PORT)));
    let metadata = read_metadata(&mut fields, metadata);
    let url = fields.optional("p2p_advertised_url", url, String::new(), lax::trimmed);
    let mq_port =
        fields.optional("mq_port", mq_port, 0, |value| lax::integer(value, Bounds::within(0, PORT)));
    match (instance_id, ip, http_port, metadata, url, mq_port) {
        (Some(instance_id), Some(ip), Some(http_port), Some(metadata), Some(url), Some(mq_port)) => {
            let register = Register {
                instance_id,
                ip,
                http_port: http_port as u16,
                metadata,
                p2p_advertised_url: url,
                mq_port: mq_port as u16,
            };
            register.check()
        }
        _ => Err(Reject::Unprocessable(faults)),
    }
}

/// An object of strings; of equal keys the last value, at the place of the first.
fn read_metadata<'d, 'a>(
    fields: &mut Fields<'_, 'd, 'a>,
    slot: Option<Value<'d, 'a>>,
) -> Option<Vec<(String, String)>> {
    let is_map = |value: Value<'d, 'a>| match value.kind() {
        Kind::Object => Ok(Some(value)),
        _ => Err(Fault::NotAMap),
    };
    let Some(map) = fields.optional("metadata", slot, None, is_map)? else { return Some(Vec::new()) };
    let mut members: Vec<(Value<'_, '_>, Value<'_, '_>)> = Vec::new();
    let mut places = HashMap::new();
    for (key, value) in map.members() {
        let place = *places.entry(key.lossy()).or_insert(members.len());
        match members.get_mut(place) {
            Some(member) => member.1 = value,
            None => members.push((key, value)),
        }
    }
    let before = fields.faults.count();
    let mut metadata = Vec::with_capacity(members.len());
    fields.faults.enter(Part::Name("metadata"));
    for (key, value) in members {
        let text = lax::string(value).map(std::borrow::Cow::into_owned);
        let read = lax::string(key).and_then(|key| Ok((key.into_owned(), text?)));
        match read {
            Ok(member) => metadata.push(member),
            Err(fault) => {
                let key = key.lossy().into_owned();
                fields.faults.add_at(Part::Key(key), &fault, Input::Value(value));
            }
        }
    }
    fields.faults.leave();
    (fields.faults.count() == before).then_some(metadata)
}
