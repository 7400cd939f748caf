//! Set-up: a running coordinator and the description of itself that it hands out.
//! Claim: the description names every route and no other, and what it says of refusals can be had.

use std::collections::BTreeSet;

use crate::coordinator::{Fleet, quiet};
use crate::wire::said;
use kvatlas::fleet::api::route::ROUTES;
use serde_json::{Value, json};

fn described(fleet: &Fleet) -> Value {
    let (status, document) = said(&fleet.get("/openapi.json"));
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    document
}

/// Method, path, and what is said of both.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, operations)| {
        operations
            .as_object()
            .unwrap()
            .iter()
            .map(|(method, about)| (method.to_uppercase(), path.clone(), about.clone()))
    });
    each.collect()
}

#[test]
fn every_route_is_described_and_nothing_else_is() {
    let fleet = Fleet::start(quiet());
    let described: BTreeSet<(String, String)> =
        operations(&described(&fleet)).into_iter().map(|(method, path, _)| (method, path)).collect();
    let routed: BTreeSet<(String, String)> = ROUTES
        .iter()
        .map(|(method, path, _)| (format!("{method:?}").to_uppercase(), (*path).to_owned()))
        .collect();
    assert_eq!(described, routed);
    assert_eq!(routed.len(), ROUTES.len());
}

#[test]
fn what_is_described_is_answered() {
    let fleet = Fleet::start(quiet());
    for (method, path, about) in operations(&described(&fleet)) {
        let filled =
            path.replace("{instance_id}", "i").replace("{cache_salt}", "s").replace("{request_id}", "r");
        let answer = fleet.call(&method, &filled, b"{}");
        let known = about["responses"].as_object().unwrap();
        assert!(known.contains_key(&answer.status.to_string()), "{method} {path}: {}", answer.status);
        let parameters = about["parameters"].as_array().cloned().unwrap_or_default();
        let open: Vec<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let named: Vec<&Value> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| &parameter["name"])
            .collect();
        assert_eq!(named, open, "{path}");
    }
}

/// The fields that a described body must have are those whose lack is refused, and the values that it may have at
/// least and at most are taken.
#[test]
fn required_fields_are_those_that_are_missed() {
    let fleet = Fleet::start(quiet());
    let document = described(&fleet);
    let resolve = |schema: &Value| -> Value {
        match schema["$ref"].as_str() {
            Some(place) => document.pointer(&place[1..]).unwrap().clone(),
            None => schema.clone(),
        }
    };
    let mut judged = 0;
    for (method, path, about) in operations(&document) {
        let schema = resolve(&about["requestBody"]["content"]["application/json"]["schema"]);
        if schema.is_null() {
            continue;
        }
        let parts = schema["allOf"]
            .as_array()
            .map_or_else(|| vec![schema.clone()], |all| all.iter().map(resolve).collect());
        let required: BTreeSet<String> = parts
            .iter()
            .flat_map(|part| part["required"].as_array().cloned().unwrap_or_default())
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        let answer = fleet.call(&method, &path.replace("{cache_salt}", "s"), b"{}");
        let missed: BTreeSet<String> = match answer.json()["detail"].as_array() {
            Some(faults) => faults
                .iter()
                .filter(|fault| fault["type"] == "missing")
                .map(|fault| fault["loc"][1].as_str().unwrap().to_owned())
                .collect(),
            None => BTreeSet::new(),
        };
        assert_eq!(missed, required, "{method} {path}");
        judged += 1;
    }
    assert_eq!(judged, 11);
}

#[test]
fn the_page_of_pins_has_the_size_that_is_described() {
    let fleet = Fleet::start(quiet());
    let document = described(&fleet);
    let parameters = document["paths"]["/cache/pins"]["get"]["parameters"].as_array().unwrap().clone();
    let limit = &parameters.iter().find(|parameter| parameter["name"] == "limit").unwrap()["schema"];
    let tokens: Vec<u32> = (0..1001).flat_map(|chunk| [chunk; 4]).collect();
    fleet.post("/cache/pins", &json!({"model_name": "m", "world_size": 1, "token_ids": tokens}));
    let page = fleet.get("/cache/pins").json();
    assert_eq!((&page["total"], page["pins"].as_array().unwrap().len()), (&json!(1001), 1000));
    assert_eq!(limit["default"], 1000);
    let most = limit["maximum"].as_u64().unwrap();
    assert_eq!(fleet.get(&format!("/cache/pins?limit={most}")).status, 200);
    assert_eq!(fleet.get(&format!("/cache/pins?limit={}", most + 1)).status, 422);
}
