//! Which answer a path of the coordinator's contract asks for.
//!
//! As in the reference a path is percent-decoded once, segment by segment; an encoded slash never matches; a
//! path that would match without its trailing slashes is redirected there.

use crate::fleet::form::path_param;
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

/// Every route; a part in braces stands for any text. Of two that match, the first one counts.
pub const ROUTES: [(Method, &str, Ask); 23] = [
    (Method::Get, "/instances", Ask::Instances),
    (Method::Post, "/instances", Ask::Register),
    (Method::Delete, "/instances/{instance_id}", Ask::Deregister),
    (Method::Put, "/instances/{instance_id}/heartbeat", Ask::Heartbeat),
    (Method::Get, "/healthz", Ask::Healthz),
    (Method::Get, "/quota", Ask::Quotas),
    (Method::Get, "/quota/config", Ask::Config),
    (Method::Put, "/quota/config", Ask::SetConfig),
    (Method::Post, "/quota/events", Ask::Events),
    (Method::Get, "/quota/{cache_salt}", Ask::Quota),
    (Method::Put, "/quota/{cache_salt}", Ask::SetQuota),
    (Method::Delete, "/quota/{cache_salt}", Ask::RemoveQuota),
    (Method::Post, "/cache/prefetches", Ask::Prefetch),
    (Method::Get, "/cache/prefetches/{instance_id}/{request_id}", Ask::PrefetchStatus),
    (Method::Get, "/cache/pins", Ask::Pins),
    (Method::Post, "/cache/pins", Ask::Pin),
    (Method::Delete, "/cache/pins", Ask::Unpin),
    (Method::Post, "/cache/delete", Ask::CacheDelete),
    (Method::Post, "/blend/fingerprints", Ask::AddFingerprints),
    (Method::Delete, "/blend/fingerprints", Ask::RemoveFingerprints),
    (Method::Post, "/blend/match", Ask::BlendMatch),
    (Method::Get, "/metrics", Ask::Metrics),
    (Method::Get, "/openapi.json", Ask::OpenApi),
];

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
    Method(String),
    /// 307 to this path, which lacks the trailing slash.
    Redirect(String),
}

/// Finds the way for `method` and `path`, which is not decoded yet.
pub fn find(method: Method, path: &str) -> Result<Route, Miss> {
    let parts = split(path).unwrap_or_default();
    let found = asks(&parts).find(|(takes, ..)| *takes == method);
    match found {
        Some((_, pattern, ask)) => Ok(Route { ask: *ask, parts: variable(pattern, parts) }),
        None if asks(&parts).next().is_some() => Err(Miss::Method(allow(&parts))),
        None => {
            let bare = path.trim_end_matches('/');
            let leads = bare.len() < path.len() && asks(&split(bare).unwrap_or_default()).next().is_some();
            Err(if leads { Miss::Redirect(bare.to_owned()) } else { Miss::NotFound })
        }
    }
}

/// What can be asked at a path.
fn asks(parts: &[String]) -> impl Iterator<Item = &'static (Method, &'static str, Ask)> {
    ROUTES.iter().filter(|(_, pattern, _)| {
        let mut parts = parts.iter();
        let fits = |wanted: &str| {
            parts
                .next()
                .is_some_and(|part| if is_variable(wanted) { !part.is_empty() } else { part == wanted })
        };
        pattern[1..].split('/').all(fits) && parts.next().is_none()
    })
}

/// The parts of a path, each decoded; none where one hides a slash.
fn split(path: &str) -> Option<Vec<String>> {
    path.strip_prefix('/')?.split('/').map(path_param).collect()
}

fn is_variable(wanted: &str) -> bool {
    wanted.starts_with('{')
}

/// Those parts that a pattern leaves open.
fn variable(pattern: &str, parts: Vec<String>) -> Vec<String> {
    let wanted = pattern[1..].split('/');
    wanted.zip(parts).filter(|(wanted, _)| is_variable(wanted)).map(|(_, part)| part).collect()
}

fn allow(parts: &[String]) -> String {
    let takes = |method| asks(parts).any(|(takes, ..)| *takes == method);
    let known =
        [(Method::Get, "GET"), (Method::Put, "PUT"), (Method::Post, "POST"), (Method::Delete, "DELETE")];
    let names: Vec<&str> =
        known.into_iter().filter(|(method, _)| takes(*method)).map(|(_, name)| name).collect();
    names.join(", ")
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
        assert_eq!(find(Method::Post, "/quota/config"), Err(Miss::Method("GET, PUT, DELETE".to_owned())));
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
