//! Which answer a path of the coordinator's contract asks for.
//!
//! As in the reference a path is percent-decoded once, segment by segment; an encoded slash never matches; a
//! path that would match without its trailing slashes is redirected there.

use percent_encoding::percent_decode_str;

use crate::http::Method;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// `GET /instances`
    Instances,
    /// `POST /instances`
    Register,
    /// `DELETE /instances/{id}`
    Deregister,
    /// `PUT /instances/{id}/heartbeat`
    Heartbeat,
    /// `GET /healthz`
    Healthz,
    /// `GET /quota`
    Quotas,
    /// `GET /quota/config`
    Config,
    /// `PUT /quota/config`
    SetConfig,
    /// `GET /quota/{salt}`
    Quota,
    /// `PUT /quota/{salt}`
    SetQuota,
    /// `DELETE /quota/{salt}`
    RemoveQuota,
    /// `POST /quota/events`
    Events,
    /// `POST /cache/prefetches`
    Prefetch,
    /// `GET /cache/prefetches/{instance}/{request}`
    PrefetchStatus,
    /// `GET /cache/pins`
    Pins,
    /// `POST /cache/pins`
    Pin,
    /// `DELETE /cache/pins`
    Unpin,
    /// `POST /cache/delete`
    CacheDelete,
    /// `POST /blend/fingerprints`
    AddFingerprints,
    /// `DELETE /blend/fingerprints`
    RemoveFingerprints,
    /// `POST /blend/match`
    BlendMatch,
    /// `GET /metrics`
    Metrics,
    /// `GET /openapi.json`
    OpenApi,
}

/// A request with a place to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// What is asked for.
    pub ask: Ask,
    /// The variable parts of the path in order, decoded; as many as [`Ask`] shows.
    pub parts: Vec<String>,
}

/// A request without one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Miss {
    /// 404.
    NotFound,
    /// 405 with this `allow`.
    Method(&'static str),
    /// 307 to this path, which lacks the trailing slash.
    Redirect(String),
}

type Asks = &'static [(Method, Ask)];

/// Finds the way for `method` and `path`, which is not decoded yet.
pub fn find(method: Method, path: &str) -> Result<Route, Miss> {
    let Some((asks, parts)) = place(path) else {
        let bare = path.trim_end_matches('/');
        return Err(if bare.len() < path.len() && place(bare).is_some() {
            Miss::Redirect(bare.to_owned())
        } else {
            Miss::NotFound
        });
    };
    match asks.iter().find(|(takes, _)| *takes == method) {
        Some((_, ask)) => Ok(Route { ask: *ask, parts }),
        None => Err(Miss::Method(allow(asks))),
    }
}

/// What can be asked at a path, and its variable parts.
fn place(path: &str) -> Option<(Asks, Vec<String>)> {
    use Method::{Delete, Get, Post, Put};
    let segments: Vec<String> = path.strip_prefix('/')?.split('/').map(decode).collect::<Option<_>>()?;
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (asks, variable): (Asks, &[usize]) = match names.as_slice() {
        ["instances"] => (&[(Get, Ask::Instances), (Post, Ask::Register)], &[]),
        ["instances", _, "heartbeat"] => (&[(Put, Ask::Heartbeat)], &[1]),
        ["instances", _] => (&[(Delete, Ask::Deregister)], &[1]),
        ["healthz"] => (&[(Get, Ask::Healthz)], &[]),
        ["quota"] => (&[(Get, Ask::Quotas)], &[]),
        ["quota", "config"] => {
            (&[(Get, Ask::Config), (Put, Ask::SetConfig), (Delete, Ask::RemoveQuota)], &[1])
        }
        ["quota", "events"] => (
            &[(Get, Ask::Quota), (Put, Ask::SetQuota), (Delete, Ask::RemoveQuota), (Post, Ask::Events)],
            &[1],
        ),
        ["quota", _] => (&[(Get, Ask::Quota), (Put, Ask::SetQuota), (Delete, Ask::RemoveQuota)], &[1]),
        ["cache", "prefetches"] => (&[(Post, Ask::Prefetch)], &[]),
        ["cache", "prefetches", _, _] => (&[(Get, Ask::PrefetchStatus)], &[2, 3]),
        ["cache", "pins"] => (&[(Get, Ask::Pins), (Post, Ask::Pin), (Delete, Ask::Unpin)], &[]),
        ["cache", "delete"] => (&[(Post, Ask::CacheDelete)], &[]),
        ["blend", "fingerprints"] => {
            (&[(Post, Ask::AddFingerprints), (Delete, Ask::RemoveFingerprints)], &[])
        }
        ["blend", "match"] => (&[(Post, Ask::BlendMatch)], &[]),
        ["metrics"] => (&[(Get, Ask::Metrics)], &[]),
        ["openapi.json"] => (&[(Get, Ask::OpenApi)], &[]),
        _ => return None,
    };
    if variable.iter().any(|&at| names[at].is_empty()) {
        return None;
    }
    Some((asks, variable.iter().map(|&at| segments[at].clone()).collect()))
}

/// One segment decoded; none where it hides a slash.
fn decode(segment: &str) -> Option<String> {
    let decoded = percent_decode_str(segment).decode_utf8_lossy();
    if decoded.contains('/') { None } else { Some(decoded.into_owned()) }
}

fn allow(asks: Asks) -> &'static str {
    let has = |method| asks.iter().any(|(takes, _)| *takes == method);
    match (has(Method::Get), has(Method::Put), has(Method::Post), has(Method::Delete)) {
        (true, true, true, true) => "GET, PUT, DELETE, POST",
        (true, true, false, true) => "GET, PUT, DELETE",
        (true, false, true, true) => "GET, POST, DELETE",
        (true, false, true, false) => "GET, POST",
        (false, false, true, true) => "POST, DELETE",
        (true, ..) => "GET",
        (_, true, ..) => "PUT",
        (_, _, true, _) => "POST",
        _ => "DELETE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: Method, path: &str) -> (Ask, Vec<String>) {
        let route = find(method, path).unwrap();
        (route.ask, route.parts)
    }

    #[test]
    fn variable_parts_are_decoded_once_and_never_hold_a_slash() {
        assert_eq!(
            found(Method::Put, "/instances/a%20b%2541+c/heartbeat"),
            (Ask::Heartbeat, vec!["a b%41+c".to_owned()])
        );
        assert_eq!(found(Method::Delete, "/instances/%FF"), (Ask::Deregister, vec!["\u{FFFD}".to_owned()]));
        assert_eq!(find(Method::Delete, "/instances/a%2Fb"), Err(Miss::NotFound));
        assert_eq!(find(Method::Put, "/quota%2Fa"), Err(Miss::NotFound));
        assert_eq!(found(Method::Get, "/%68ealthz"), (Ask::Healthz, vec![]));
    }

    #[test]
    fn config_and_events_are_salts_where_nothing_else_claims_them() {
        assert_eq!(found(Method::Get, "/quota/config").0, Ask::Config);
        assert_eq!(found(Method::Delete, "/quota/config"), (Ask::RemoveQuota, vec!["config".to_owned()]));
        assert_eq!(found(Method::Get, "/quota/events"), (Ask::Quota, vec!["events".to_owned()]));
        assert_eq!(found(Method::Post, "/quota/events").0, Ask::Events);
        assert_eq!(find(Method::Post, "/quota/config"), Err(Miss::Method("GET, PUT, DELETE")));
    }

    #[test]
    fn a_trailing_slash_leads_to_the_path_without_it() {
        let redirect = |path: &str| Err(Miss::Redirect(path.to_owned()));
        assert_eq!(find(Method::Get, "/healthz/"), redirect("/healthz"));
        assert_eq!(find(Method::Get, "/quota/"), redirect("/quota"));
        assert_eq!(find(Method::Put, "/quota/a%20b//"), redirect("/quota/a%20b"));
        for path in
            ["//healthz", "/", "", "/Healthz", "/healthz/x", "/instances//heartbeat", "/cache/prefetches/a/"]
        {
            assert_eq!(find(Method::Get, path), Err(Miss::NotFound), "{path}");
        }
    }

    #[test]
    fn every_allow_line_names_exactly_what_is_taken() {
        let methods =
            [(Method::Get, "GET"), (Method::Put, "PUT"), (Method::Post, "POST"), (Method::Delete, "DELETE")];
        let paths = [
            "/instances",
            "/instances/a",
            "/instances/a/heartbeat",
            "/healthz",
            "/quota",
            "/quota/config",
            "/quota/events",
            "/quota/a",
            "/cache/prefetches",
            "/cache/prefetches/a/b",
            "/cache/pins",
            "/cache/delete",
            "/blend/fingerprints",
            "/blend/match",
            "/metrics",
            "/openapi.json",
        ];
        for path in paths {
            let Err(Miss::Method(allow)) = find(Method::Head, path) else { panic!("{path}") };
            for (method, name) in methods {
                let listed = allow.split(", ").any(|listed| listed == name);
                assert_eq!(find(method, path).is_ok(), listed, "{name} {path}");
            }
        }
    }
}
