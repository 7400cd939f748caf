//! What MP servers answer: a JSON object, of which a few fields matter.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::courier::Reply;

/// Fields that are looked for; whatever else an answer holds needs no memory.
struct Wanted(&'static [&'static str]);

/// The wanted fields of a 2xx whose body is a JSON object, or why it is none. Of a field that comes twice the last
/// one counts.
pub fn object(reply: &Reply, wanted: &'static [&'static str]) -> Result<Map<String, Value>, String> {
    if !(200..300).contains(&reply.status) {
        return Err(format!("it answered {}", reply.status));
    }
    let mut reader = serde_json::Deserializer::from_slice(&reply.body);
    let read = Wanted(wanted).deserialize(&mut reader).and_then(|map| reader.end().map(|()| map));
    read.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "its answer is not a JSON object".to_owned(),
        _ => format!("its answer is not JSON: {error}"),
    })
}

impl<'de> DeserializeSeed<'de> for Wanted {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Map::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if self.0.contains(&&*name) {
                found.insert(name.into_owned(), map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Result<String, String> {
        let reply = Reply { status, content_type: String::new(), body: body.into() };
        object(&reply, &["a", "b"]).map(|map| Value::Object(map).to_string())
    }

    #[test]
    fn wanted_fields_are_picked() {
        assert_eq!(
            read(200, r#" {"z": [{}], "a": 1, "b": {"c": null}} "#).unwrap(),
            r#"{"a":1,"b":{"c":null}}"#
        );
        assert_eq!(read(202, r#"{"a": 1, "\u0061": null}"#).unwrap(), r#"{"a":null}"#);
        assert_eq!(read(299, "{}").unwrap(), "{}");
    }

    #[test]
    fn anything_else_has_a_reason() {
        for other in ["[1]", "null", "true", "1", "-1", "1.5", "\"a\""] {
            assert_eq!(read(200, other).unwrap_err(), "its answer is not a JSON object", "{other}");
        }
        for broken in ["", "{", "{} x", "{\"a\": }", "hello", "{\"a\": NaN}", "{\"z\": [}"] {
            assert!(read(200, broken).unwrap_err().starts_with("its answer is not JSON: "), "{broken}");
        }
        for status in [199, 300, 307, 404, 500] {
            assert_eq!(read(status, "{}").unwrap_err(), format!("it answered {status}"));
        }
    }
}
