//! `POST /register` and `POST /unregister`.

use super::body::{BadRequest, Encoding, Hashing, RegisterBody, RemovalScope, UnregisterBody};
use crate::config::StaticPublisher;
use crate::daemon::Daemon;
use crate::daemon::directory::{Directory, Listing, Registered, Wish};
use crate::daemon::message::{Message, Reply};
use crate::http::{Request, response};
use crate::index::publisher::{Class, Registration, Scope};
use crate::stream::endpoint;
use std::rc::Rc;
use std::sync::Arc;

/// `type` of a storage pool, in any case.
const POOL: &str = "mooncake";

/// Reads what a registration asks for.
pub fn wish(body: RegisterBody) -> Result<Wish, BadRequest> {
    if body.kind.is_empty() {
        return Err(BadRequest::new("type", "must not be empty"));
    }
    let checked = |field: &'static str, text: &str| {
        endpoint::check(text).map_err(|reason| BadRequest::new(field, reason))
    };
    let address = checked("endpoint", &body.endpoint)?;
    let replay = match body.replay_endpoint.as_deref() {
        None | Some("") => None,
        Some(text) => Some(checked("replay_endpoint", text)?),
    };
    let class = if body.kind.eq_ignore_ascii_case(POOL) { Class::Pool } else { Class::Engine };
    Ok(Wish {
        endpoint: address,
        replay,
        kind: body.kind,
        registration: Registration {
            tenant: body.tenant_id,
            instance: body.instance_id,
            rank: body.dp_rank,
            class,
            model: body.model,
            lora_name: body.lora_name.unwrap_or_default(),
            block_size: body.block_size,
            additional_salt: body.additional_salt.unwrap_or_default(),
            standard_hashes: body.hashing == Hashing::Standard,
            tp_size: body.tp_size,
            removal_scope: body.removal_scope.map(|scope| match scope {
                RemovalScope::Medium => Scope::Medium,
                RemovalScope::Object => Scope::Object,
            }),
        },
    })
}

/// Reads what an entry of the settings file asks for.
pub fn wish_of(publisher: &StaticPublisher) -> Result<Wish, BadRequest> {
    let body = serde_json::to_vec(publisher).unwrap_or_default();
    RegisterBody::parse(&body).and_then(wish)
}

/// How a body is written: JSON, unless msgpack is named.
fn encoding(request: &Request<'_>) -> Encoding {
    Encoding::of_content(request.content_type)
}

/// `POST /register`: idempotent; another registration with the same key is replaced.
pub async fn register(daemon: &Rc<Daemon>, request: &Request<'_>, out: &mut Vec<u8>) {
    let error = |out: &mut Vec<u8>, status, message: &str| {
        response::error(out, status, message, request.keep_alive, request.http_10);
    };
    let wish = match RegisterBody::read(encoding(request), request.body).and_then(wish) {
        Ok(wish) => wish,
        Err(bad) => return error(out, 400, &bad.to_string()),
    };
    let instance = wish.registration.instance.clone();
    match daemon.directory.register(wish) {
        Registered::Known => {}
        Registered::Full(why) => return error(out, 503, why),
        Registered::New { listing, replaced } => {
            if let Some(replaced) = replaced {
                // the home of an instance never changes, so the removal arrives before the addition
                let _ = take_out(daemon, &[replaced]).await;
            }
            let add = |ticket| Message::Add { ticket, listing: listing.clone() };
            let reply = if let Some(pending) = daemon.request(listing.home, add) {
                pending.await
            } else {
                let id = listing.id;
                daemon.directory.unregister(&listing.key.instance, |other| other.id == id);
                Reply::Failed("the reactors are too busy".into())
            };
            if let Reply::Failed(reason) = reply {
                return error(out, 503, &reason);
            }
            tracing::info!(
                instance = listing.key.instance,
                tenant = listing.key.tenant,
                rank = listing.key.rank,
                endpoint = listing.endpoint.as_str(),
                reactor = listing.home,
                "registered"
            );
        }
    }
    let mark = response::begin(out, 200, response::JSON, request.keep_alive, request.http_10);
    out.extend_from_slice(b"{\"status\":\"registered successfully\",\"instance_id\":");
    response::json_string(out, &instance);
    out.push(b'}');
    response::finish(out, mark);
}

/// `POST /unregister`: 404 when nothing matches.
pub async fn unregister(daemon: &Rc<Daemon>, request: &Request<'_>, out: &mut Vec<u8>) {
    let body = match UnregisterBody::read(encoding(request), request.body) {
        Ok(body) => body,
        Err(bad) => {
            return response::error(out, 400, &bad.to_string(), request.keep_alive, request.http_10);
        }
    };
    let gone = daemon.directory.unregister(&body.instance_id, |listing| {
        listing.key.tenant == body.tenant_id
            && body.dp_rank.is_none_or(|rank| rank == listing.key.rank)
            && body.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case(&listing.kind))
    });
    if gone.is_empty() {
        let rank = body.dp_rank.map_or_else(|| "*".to_owned(), |rank| rank.to_string());
        let message = format!("service not found: {}|{}|{rank}", body.instance_id, body.tenant_id);
        return response::error(out, 404, &message, request.keep_alive, request.http_10);
    }
    if !take_out(daemon, &gone).await {
        return response::error(out, 503, "the reactors are too busy", request.keep_alive, request.http_10);
    }
    let mark = response::begin(out, 200, response::JSON, request.keep_alive, request.http_10);
    out.extend_from_slice(b"{\"status\":\"unregistered successfully\",\"removed_instances\":[");
    let start = out.len();
    let mut named: Vec<String> = gone
        .iter()
        .map(|listing| format!("{}|{}|{}", listing.key.instance, listing.key.tenant, listing.key.rank))
        .collect();
    named.dedup();
    for name in named {
        crate::daemon::answer::comma(out, start);
        response::json_string(out, &name);
    }
    out.extend_from_slice(b"]}");
    response::finish(out, mark);
}

/// Ends publishers (all of one instance) on their reactor; false when it could not be told.
async fn take_out(daemon: &Rc<Daemon>, gone: &[Arc<Listing>]) -> bool {
    let Some(first) = gone.first() else { return true };
    let ids: Arc<[u64]> = gone.iter().map(|listing| listing.id).collect();
    for listing in gone {
        tracing::info!(
            instance = listing.key.instance,
            tenant = listing.key.tenant,
            rank = listing.key.rank,
            "unregistered"
        );
    }
    match daemon.request(first.home, |ticket| Message::Remove { ticket, ids }) {
        Some(pending) => matches!(pending.await, Reply::Done),
        None => false,
    }
}

/// Enters a registration of the settings file; returns the message for its reactor.
pub fn register_static(directory: &Directory, wish: Wish) -> Option<(usize, Message)> {
    match directory.register(wish) {
        Registered::New { listing, .. } => Some((listing.home, Message::Add { ticket: 0, listing })),
        Registered::Known => None,
        Registered::Full(why) => {
            tracing::error!("entry skipped: {why}");
            None
        }
    }
}
