//! Which answer a path asks for. Paths are exact, as in the contract's reference.

use super::head::Method;

/// An endpoint of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `POST /register`
    Register,
    /// `POST /unregister`
    Unregister,
    /// `POST /query`
    Query,
    /// `POST /query_by_hash`
    QueryByHash,
    /// `GET /services`
    Services,
    /// `GET /global_view`
    GlobalView,
    /// `GET /healthz`
    Healthz,
    /// `GET /livez`
    Livez,
    /// `GET /readyz`
    Readyz,
    /// `GET /metrics`
    Metrics,
}

/// Why there is no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// No such path: 404.
    NotFound,
    /// The path takes another method: 405 with this `allow`.
    MethodNotAllowed(&'static str),
}

const TABLE: [(&str, Method, &str, Route); 10] = [
    ("/query", Method::Post, "POST", Route::Query),
    ("/query_by_hash", Method::Post, "POST", Route::QueryByHash),
    ("/register", Method::Post, "POST", Route::Register),
    ("/unregister", Method::Post, "POST", Route::Unregister),
    ("/services", Method::Get, "GET, HEAD", Route::Services),
    ("/global_view", Method::Get, "GET, HEAD", Route::GlobalView),
    ("/healthz", Method::Get, "GET, HEAD", Route::Healthz),
    ("/livez", Method::Get, "GET, HEAD", Route::Livez),
    ("/readyz", Method::Get, "GET, HEAD", Route::Readyz),
    ("/metrics", Method::Get, "GET, HEAD", Route::Metrics),
];

/// Finds the route of `method` and `path`.
pub fn find(method: Method, path: &str) -> Result<Route, Miss> {
    let (_, takes, allow, route) = TABLE.iter().find(|(known, ..)| *known == path).ok_or(Miss::NotFound)?;
    // the head of an answer to GET can be had without its body
    let takes_head = method == Method::Head && *takes == Method::Get;
    if *takes == method || takes_head { Ok(*route) } else { Err(Miss::MethodNotAllowed(allow)) }
}
