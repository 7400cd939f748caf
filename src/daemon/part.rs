//! This reactor's part of answers that span reactors.

use super::Daemon;
use super::answer::{Detail, comma, fragment};
use super::message::Job;
use super::question::Question;
use crate::index::context::{ContextKey, Lora};
use crate::index::hash::Path;
use crate::index::publisher::Registration;
use crate::index::shard::Shard;
use crate::limits::WHY_CONTEXTS;
use crate::stream::stats::State;
use crate::stream::trust::Reason;
use serde_json::{Map, Value, json};
use std::rc::Rc;

/// This reactor's part of an answer, appended to `out`.
pub fn answer_here(daemon: &Rc<Daemon>, job: &Job, out: &mut Vec<u8>) {
    let view = daemon.view();
    let mut path = Path::of_hashes(&job.hashes);
    fragment(&mut daemon.shard.borrow_mut(), &view, daemon.seat.id, &job.question, &mut path, &**daemon, out);
}

impl Detail for Daemon {
    fn streams(&self, instance: &str, out: &mut Vec<u8>) {
        out.push(b'[');
        let start = out.len();
        for listing in self.streams.of_instance(instance) {
            comma(out, start);
            let (state, since) = listing.stats.state();
            let entry = serde_json::json!({
                "type": listing.kind,
                "tenant_id": listing.key.tenant,
                "dp_rank": listing.key.rank,
                "endpoint": listing.endpoint.as_str(),
                "state": state.name(),
                "since": since,
                "reason": listing.stats.reason().map(Reason::name),
            });
            out.extend_from_slice(entry.to_string().as_bytes());
        }
        out.push(b']');
    }

    fn why(&self, shard: &Shard, question: &Question, instance: &str) -> &'static str {
        let key = &question.contexts[0];
        let registered = self.streams.of_instance(instance);
        let held = Known::held(shard, question, instance);
        let mut known = held;
        for listing in registered.iter().filter(|listing| listing.key.tenant == key.tenant) {
            known.name(question, &listing.registration);
        }
        if question.blocks == 0 {
            "prompt_shorter_than_block"
        } else if !known.model {
            "unknown_model"
        } else if !known.block_size {
            "block_size_mismatch"
        } else if registered.iter().all(|listing| listing.stats.publisher.batches.get() == 0) {
            "no_events_yet"
        } else if !known.lora && (key.lora != Lora::Base || held.block_size) {
            "unknown_lora"
        } else if !known.salts && (salts(key) != ("", "") || held.lora) {
            "unknown_salt"
        } else if registered.iter().any(|listing| listing.stats.state().0 != State::Live) {
            "stream_not_live"
        } else {
            "no_match"
        }
    }
}

/// How far what is known of one instance agrees with a question. Of the contexts in which it holds blocks, each field
/// is within the one before.
#[derive(Clone, Copy, Default)]
struct Known {
    model: bool,
    block_size: bool,
    lora: bool,
    salts: bool,
}

impl Known {
    /// Looks at so many contexts at most; where there are more, nothing is said to be missing.
    fn held(shard: &Shard, question: &Question, instance: &str) -> Self {
        let mut found = Self::default();
        let Some(instance) = shard.find_instance(instance) else { return found };
        let key = &question.contexts[0];
        let mut contexts = shard.contexts_of(instance);
        for other in contexts.by_ref().take(WHY_CONTEXTS) {
            if other.tenant != key.tenant || other.model != key.model {
                continue;
            }
            let block_size = other.block_size == key.block_size;
            let lora = block_size && other.lora == key.lora;
            found.model = true;
            found.block_size |= block_size;
            found.lora |= lora;
            found.salts |= lora && question.contexts.iter().any(|asked| salts(asked) == salts(other));
        }
        let more = contexts.next().is_some();
        if more { Self { model: true, block_size: true, lora: true, salts: true } } else { found }
    }

    /// Adds what a registration names; one without an adapter or a salt leaves these to the events.
    fn name(&mut self, question: &Question, registration: &Registration) {
        let key = &question.contexts[0];
        let model = registration.model == key.model;
        let block_size = model && registration.block_size == key.block_size;
        let named = (registration.additional_salt.as_str(), "");
        self.model |= model;
        self.block_size |= block_size;
        self.lora |= block_size && matches!(&key.lora, Lora::Name(name) if *name == registration.lora_name);
        self.salts |=
            block_size && named != ("", "") && question.contexts.iter().any(|asked| salts(asked) == named);
    }
}

fn salts(key: &ContextKey) -> (&str, &str) {
    (&key.additional_salt, &key.cache_salt)
}

/// This reactor's contexts and mappings, a JSON array of `{"context", "hashmap"}`.
pub fn dump_here(shard: &Shard, limit: usize, out: &mut Vec<u8>) {
    let parts: Vec<Value> = shard
        .mappings(limit)
        .into_iter()
        .map(|part| {
            let map: Map<String, Value> =
                part.mappings.into_iter().map(|(name, hash)| (name.to_string(), hash.into())).collect();
            json!({ "context": context(&part.context, &part.instance), "hashmap": map })
        })
        .collect();
    out.extend_from_slice(Value::Array(parts).to_string().as_bytes());
}

fn context(key: &ContextKey, instance: &str) -> Value {
    let mut value = json!({
        "model_name": key.model,
        "lora_name": match &key.lora { Lora::Name(name) => name.as_str(), _ => "" },
        "block_size": key.block_size,
        "additional_salt": key.additional_salt,
        "tenant_id": key.tenant,
        "instance_id": instance,
    });
    if let Lora::Id(id) = key.lora {
        value["lora_id"] = id.into();
    }
    if !key.cache_salt.is_empty() {
        value["cache_salt"] = key.cache_salt.as_str().into();
    }
    value
}
