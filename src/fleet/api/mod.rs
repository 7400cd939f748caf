//! The coordinator's HTTP contract.
//!
//! | File | What stands there |
//! |---|---|
//! | [`route`] | which answer a path asks for |
//! | [`reply`] | how answers and errors look |
//! | [`instances`] | `/instances`, `/healthz` |
//! | [`quota`], [`events`] | `/quota` |
//! | [`cache`], [`pins`], [`keys`] | `/cache` |
//! | [`blend`] | `/blend` |

pub mod blend;
pub mod cache;
pub mod events;
pub mod instances;
pub mod keys;
pub mod pins;
pub mod quota;
pub mod reply;
pub mod route;

use std::rc::Rc;

use self::reply::Reply;
use self::route::{Ask, Miss, Route, find};
use super::coordinator::Coordinator;
use super::metrics;
use crate::http::{Request, response};

/// The contract as a document of its own.
const OPENAPI: &[u8] = include_bytes!("openapi.json");

/// Answers one request.
pub async fn answer(fleet: &Rc<Coordinator>, request: &Request<'_>, out: &mut Vec<u8>) {
    let reply = Reply::to(request, out);
    let Route { ask, parts } = match find(request.method, request.path) {
        Ok(route) => route,
        Err(miss) => return nowhere(request, miss, reply),
    };
    let part = |at: usize| parts.get(at).map_or("", String::as_str);
    match ask {
        Ask::Instances => instances::list(fleet, reply).await,
        Ask::Register => instances::register(fleet, request, reply).await,
        Ask::Deregister => instances::deregister(fleet, part(0), reply),
        Ask::Heartbeat => instances::heartbeat(fleet, part(0), reply),
        Ask::Healthz => instances::healthz(reply),
        Ask::Quotas => quota::list(fleet, request, reply).await,
        Ask::Config => quota::config(fleet, reply),
        Ask::SetConfig => quota::set_config(fleet, request, reply).await,
        Ask::Quota => quota::get(fleet, part(0), request, reply),
        Ask::SetQuota => quota::set(fleet, part(0), request, reply).await,
        Ask::RemoveQuota => quota::remove(fleet, part(0), request, reply).await,
        Ask::Events => events::events(fleet, request, reply).await,
        Ask::Prefetch => cache::prefetch(fleet, request, reply).await,
        Ask::PrefetchStatus => cache::status(fleet, part(0), part(1), reply).await,
        Ask::CacheDelete => cache::delete(fleet, request, reply).await,
        Ask::Pins => pins::list(fleet, request, reply).await,
        Ask::Pin => pins::pin(fleet, request, reply).await,
        Ask::Unpin => pins::unpin(fleet, request, reply).await,
        Ask::AddFingerprints => blend::add(fleet, request, reply).await,
        Ask::RemoveFingerprints => blend::remove(fleet, request, reply).await,
        Ask::BlendMatch => blend::find(fleet, request, reply).await,
        Ask::Metrics => metrics::metrics(fleet, reply).await,
        Ask::OpenApi => reply.body(200, response::JSON, &[], |out| out.extend_from_slice(OPENAPI)),
    }
}

fn nowhere(request: &Request<'_>, miss: Miss, reply: Reply<'_>) {
    match miss {
        Miss::NotFound => reply.detail(404, "Not Found"),
        Miss::Method(allow) => reply.method_not_allowed(&allow),
        Miss::Redirect(path) => match request.query {
            Some(query) => reply.redirect(&format!("{path}?{query}")),
            None => reply.redirect(&path),
        },
    }
}
