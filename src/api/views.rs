//! `GET /services`, `GET /global_view` and the probes.

use crate::daemon::Daemon;
use crate::daemon::answer::comma;
use crate::daemon::directory::{Listing, Readiness};
use crate::daemon::message::{Message, Reply};
use crate::event::{Refusal, Skip};
use crate::http::{Request, response};
use crate::limits::{GLOBAL_VIEW_MAPPINGS, GLOBAL_VIEW_MOST};
use crate::metrics::Counter;
use crate::stream::stats::{StreamStats, now_ms};
use crate::stream::trust::Reason;
use serde_json::{Map, Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// A JSON body as it stands.
pub fn text(request: &Request<'_>, status: u16, body: &[u8], out: &mut Vec<u8>) {
    let mark = response::begin(out, status, response::JSON, request.keep_alive, request.http_10);
    out.extend_from_slice(body);
    response::finish(out, mark);
}

/// `GET /readyz`: 200 while the daemon wants traffic. It does once the first replay of every stream that it
/// knows is over, or given up; streams registered later change nothing.
pub fn readyz(daemon: &Rc<Daemon>, request: &Request<'_>, out: &mut Vec<u8>) {
    match daemon.directory.readiness() {
        Readiness::Ready if daemon.directory.has_settled() => {
            text(request, 200, b"{\"status\":\"ready\"}", out);
        }
        Readiness::Ready => text(request, 503, b"{\"status\":\"replaying\"}", out),
        Readiness::Starting => text(request, 503, b"{\"status\":\"starting\"}", out),
        Readiness::Draining => text(request, 503, b"{\"status\":\"draining\"}", out),
    }
}

/// `GET /services`: the keys of the contract's Go reference, and under `stream` what the stream says.
pub fn services(daemon: &Rc<Daemon>, request: &Request<'_>, out: &mut Vec<u8>) {
    let listings: Vec<Arc<Listing>> = daemon.directory.books().publishers.values().cloned().collect();
    let mark = response::begin(out, 200, response::JSON, request.keep_alive, request.http_10);
    out.extend_from_slice(b"{\"count\":");
    out.extend_from_slice(itoa::Buffer::new().format(listings.len()).as_bytes());
    out.extend_from_slice(b",\"services\":[");
    let start = out.len();
    for listing in listings {
        comma(out, start);
        out.extend_from_slice(service(&listing).to_string().as_bytes());
    }
    out.extend_from_slice(b"]}");
    response::finish(out, mark);
}

fn service(listing: &Listing) -> Value {
    let registration = &listing.registration;
    json!({
        "Endpoint": listing.endpoint.as_str(),
        "ReplayEndpoint": listing.replay.as_ref().map_or("", |replay| replay.as_str()),
        "Type": listing.kind,
        "ModelName": registration.model,
        "LoraName": registration.lora_name,
        "TenantID": registration.tenant,
        "InstanceID": registration.instance,
        "BlockSize": registration.block_size,
        "DPRank": registration.rank,
        "AdditionalSalt": registration.additional_salt,
        "reactor": listing.home,
        "stream": stream(&listing.stats),
    })
}

fn stream(stats: &StreamStats) -> Value {
    let (state, since) = stats.state();
    let events = &stats.publisher;
    let last_event = stats.last_event_ms.get();
    let age = (last_event > 0).then(|| now_ms().saturating_sub(last_event));
    let last_error = stats.last_error().map(|(at, message)| json!({ "at": at, "message": message }));
    let mut all = json!({
        "state": state.name(),
        "since": since,
        "reason": stats.reason().map(Reason::name),
        "last_sequence": stats.last_sequence(),
        "last_event_age_ms": age,
        "skipped": reasons(Skip::ALL.iter().map(|skip| (skip.name(), events.skipped[*skip as usize].get()))),
        "refused": reasons(Refusal::ALL.iter().map(|why| (why.name(), events.refused[*why as usize].get()))),
        "last_error": last_error,
    });
    for (name, counter) in counters(stats) {
        all[name] = counter.get().into();
    }
    all
}

fn counters(stats: &StreamStats) -> [(&'static str, &Counter); 38] {
    let events = &stats.publisher;
    [
        ("messages", &stats.messages),
        ("bytes", &stats.bytes),
        ("malformed", &stats.malformed),
        ("behind", &stats.behind),
        ("gaps", &stats.gaps),
        ("missed", &stats.missed),
        ("repeats", &stats.repeats),
        ("restarts", &stats.restarts),
        ("replays", &stats.replays),
        ("replays_failed", &stats.replays_failed),
        ("replayed", &stats.replayed),
        ("rereads", &stats.rereads),
        ("beyond_repair", &stats.beyond_repair),
        ("overflows", &stats.overflows),
        ("refused_topics", &stats.refused_topics),
        ("disconnects", &stats.disconnects),
        ("connect_failed", &stats.connect_failed),
        ("handshake_failed", &stats.handshake_failed),
        ("expired", &stats.expired),
        ("batches", &events.batches),
        ("stores", &events.stores),
        ("removes", &events.removes),
        ("clears", &events.clears),
        ("blocks_stored", &events.blocks_stored),
        ("blocks_removed", &events.blocks_removed),
        ("blocks_held", &events.blocks_held),
        ("unknown_fields", &events.unknown_fields),
        ("unknown_removals", &events.unknown_removals),
        ("orphans", &events.orphans),
        ("orphans_adopted", &events.orphans_adopted),
        ("orphans_dropped", &events.orphans_dropped),
        ("keys_waited", &events.keys_waited),
        ("keys_resolved", &events.keys_resolved),
        ("keys_dropped", &events.keys_dropped),
        ("envelope_disagreements", &events.envelope_disagreements),
        ("depth_disagreements", &events.depth_disagreements),
        ("event_id_regressions", &events.event_id_regressions),
        ("event_id_jumps", &events.event_id_jumps),
    ]
}

/// Only the reasons that occurred.
fn reasons(all: impl Iterator<Item = (&'static str, u64)>) -> Map<String, Value> {
    all.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count.into())).collect()
}

/// `GET /global_view?limit=N`: every context, and for each at most N mappings from engine hash to rolling hash.
pub async fn global_view(daemon: &Rc<Daemon>, request: &Request<'_>, out: &mut Vec<u8>) {
    let limit = match limit(request.query) {
        Ok(limit) => limit,
        Err(message) => return response::error(out, 400, message, request.keep_alive, request.http_10),
    };
    let mut pending = Vec::with_capacity(daemon.seat.reactors);
    for reactor in 0..daemon.seat.reactors {
        let Some(reply) = daemon.request(reactor, |ticket| Message::Dump { ticket, limit }) else {
            let busy = "the reactors are too busy";
            return response::error(out, 503, busy, request.keep_alive, request.http_10);
        };
        pending.push(reply);
    }
    let (mut contexts, mut maps) = (Vec::new(), Vec::new());
    for reply in pending {
        if let Reply::Fragment(dump) = reply.await
            && let Ok(Value::Array(parts)) = serde_json::from_slice(&dump)
        {
            for part in parts {
                contexts.push(part["context"].clone());
                maps.push(part["hashmap"].clone());
            }
        }
    }
    let view = json!({ "context_count": contexts.len(), "model_contexts": contexts, "hashmap": maps });
    text(request, 200, view.to_string().as_bytes(), out);
}

fn limit(query: Option<&str>) -> Result<usize, &'static str> {
    let given = query.unwrap_or("").split('&').find_map(|pair| pair.strip_prefix("limit="));
    let limit: usize = match given {
        None => GLOBAL_VIEW_MAPPINGS,
        Some(text) => text.parse().map_err(|_| "limit: expected a number")?,
    };
    Ok(limit.min(GLOBAL_VIEW_MOST))
}
