//! The Conductor's HTTP contract.
//!
//! | File | What stands there |
//! |---|---|
//! | [`body`] | request bodies |
//! | [`register`] | `POST /register`, `POST /unregister` |
//! | [`mod@query`] | `POST /query`, `POST /query_by_hash` |
//! | [`views`] | `GET /services`, `/global_view`, probes |
//! | `service` | how reactors call it |
//! | `msgpack` | answers for those who accept msgpack |
//! | [`prometheus`] | `GET /metrics` |

pub mod body;
mod msgpack;
pub mod prometheus;
pub mod query;
pub mod register;
mod service;
pub mod views;

use crate::daemon::Daemon;
use crate::http::router::{Miss, Route, find};
use crate::http::{Method, Request, response};
use std::rc::Rc;

/// Answers one request.
pub async fn answer(daemon: &Rc<Daemon>, request: &Request<'_>, out: &mut Vec<u8>) {
    let (head, start) = (request.method == Method::Head, out.len());
    match find(request.method, request.path) {
        Ok(Route::Query) => query::query(daemon, request, false, out).await,
        Ok(Route::QueryByHash) => query::query(daemon, request, true, out).await,
        Ok(Route::Register) => register::register(daemon, request, out).await,
        Ok(Route::Unregister) => register::unregister(daemon, request, out).await,
        Ok(Route::Services) => views::services(daemon, request, out),
        Ok(Route::GlobalView) => views::global_view(daemon, request, out).await,
        Ok(Route::Healthz) => views::text(request, 200, b"{\"status\":\"ok\"}", out),
        Ok(Route::Livez) => views::text(request, 200, b"{\"status\":\"alive\"}", out),
        Ok(Route::Readyz) => views::readyz(daemon, request, out),
        Ok(Route::Metrics) => prometheus::metrics(daemon, request, out),
        Err(Miss::NotFound) => {
            response::error(out, 404, "no such path", request.keep_alive, request.http_10);
        }
        Err(Miss::MethodNotAllowed(allow)) => {
            response::method_not_allowed(out, allow, head, request.keep_alive, request.http_10);
        }
    }
    if head {
        response::cut_body(out, start);
    }
}
