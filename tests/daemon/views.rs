//! Set-up: a daemon with engines and a pool, some of them with names that need escaping.
//! Claim: `/services`, `/global_view`, `/metrics` and the probes say what is the case, in the shape that their
//! readers expect.

use std::collections::{BTreeMap, BTreeSet};

use crate::fleet::{Ask, Daemon, Engine, MODEL, Pool, Source, eventually, settle};
use kvatlas::daemon::directory::Readiness;
use kvatlas::index::hash::{DEFAULT_SEED, sequence_hashes};
use kvatlas::limits::METRIC_STREAMS;
use kvatlas::wire::engine::{EngineEvent, Hash};
use serde_json::{Value, json};

const HOSTILE: &str = "a\"b\\c\nd{e=\"f\"} 1\t\u{1f5ff}\\n";

#[test]
fn services_have_the_references_keys() {
    let daemon = Daemon::start(2);
    assert_eq!(daemon.get("/services").json(), json!({ "count": 0, "services": [] }));
    let engine = Engine::new(1, 2, 3);
    let mut body = engine.registration(HOSTILE);
    body["replay_endpoint"] = json!("tcp://127.0.0.1:9");
    body["lora_name"] = json!("sql");
    body["tenant_id"] = json!("blue");
    body["additionalsalt"] = json!("w8a8");
    daemon.register(&body);
    let pool = Pool::new("pool-0", 2);
    daemon.register(&pool.registration("b"));
    let all = daemon.get("/services").json();
    assert_eq!(all["count"], 2);
    let services = all["services"].as_array().unwrap();
    let keys: BTreeSet<&str> = services[0].as_object().unwrap().keys().map(String::as_str).collect();
    let reference = [
        "Endpoint",
        "ReplayEndpoint",
        "Type",
        "ModelName",
        "LoraName",
        "TenantID",
        "InstanceID",
        "BlockSize",
        "DPRank",
        "AdditionalSalt",
    ];
    assert_eq!(keys, reference.into_iter().chain(["reactor", "stream"]).collect());
    let of = |service: &Value| -> Vec<Value> { reference.iter().map(|key| service[key].clone()).collect() };
    let first =
        json!([engine.endpoint(), "tcp://127.0.0.1:9", "vLLM", MODEL, "sql", "blue", HOSTILE, 2, 3, "w8a8"]);
    assert_eq!(Value::from(of(&services[0])), first);
    let second = json!([pool.endpoint(), "", "Mooncake", MODEL, "", "default", "b", 2, 0, ""]);
    assert_eq!(Value::from(of(&services[1])), second);
}

#[test]
fn a_stream_says_what_became_of_its_events() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    daemon.register(&engine.registration("a"));
    let stream = || daemon.services(engine.endpoint())[0]["stream"].clone();
    let before = stream();
    assert_eq!((&before["state"], &before["batches"]), (&json!("connecting"), &json!(0)));
    assert_eq!((&before["last_sequence"], &before["last_event_age_ms"]), (&Value::Null, &Value::Null));
    engine.joined();
    engine.store(&[1, 2, 3, 4], 0..2, "GPU");
    engine.remove(&[1, 2, 3, 4], 1..2, "GPU");
    engine.remove(&[9, 9], 0..1, "GPU");
    // a bad event, a parent that nobody knows, a payload that is none
    let wrong = Engine::new(1, 4, 0);
    let hashes = wrong.hashes(&[1, 2, 3, 4]);
    engine.events(&[EngineEvent::Stored(wrong.stored(&hashes, &[1, 2, 3, 4], 0..1, "GPU"))]);
    let hashes = engine.hashes(&[5, 6, 7, 8]);
    engine.events(&[EngineEvent::Stored(engine.stored(&hashes, &[5, 6, 7, 8], 1..2, "GPU"))]);
    engine.send(vec![0xc1]);
    engine.publisher.raw(vec![b"only one frame".to_vec()]).unwrap();
    settle(&[&daemon], &[&engine]);
    let after = stream();
    for (key, value) in [
        ("state", json!("partial")),
        ("reason", json!("not_entered")),
        ("last_sequence", json!(6)),
        ("messages", json!(7)),
        ("batches", json!(6)),
        ("stores", json!(2)),
        ("removes", json!(2)),
        ("clears", json!(0)),
        ("blocks_stored", json!(3)),
        ("blocks_removed", json!(2)),
        ("blocks_held", json!(1)),
        ("unknown_removals", json!(1)),
        ("orphans", json!(1)),
        ("malformed", json!(1)),
        ("gaps", json!(0)),
        ("skipped", json!({ "block_size_mismatch": 1 })),
        ("refused", json!({ "malformed": 1 })),
    ] {
        assert_eq!(after[key], value, "{key} of {after}");
    }
    assert!(after["last_event_age_ms"].is_u64() && after["bytes"].as_u64() > Some(0));
    assert!(after["last_error"]["message"].is_string() && after["last_error"]["at"].is_u64());
    engine.publisher.hole(2).unwrap();
    settle(&[&daemon], &[&engine]);
    let holed = stream();
    assert_eq!(
        (&holed["state"], &holed["gaps"], &holed["missed"]),
        (&json!("partial"), &json!(1), &json!(2))
    );
}

#[test]
fn a_stream_says_how_far_it_is_behind() {
    let daemon = Daemon::patient(1);
    let engine = Engine::new(1, 2, 0);
    // somebody who listens to requests and never answers
    let context = zmq::Context::new();
    let silent = context.socket(zmq::ROUTER).unwrap();
    silent.bind("tcp://127.0.0.1:0").unwrap();
    let mut body = engine.registration("a");
    body["replay_endpoint"] = json!(silent.get_last_endpoint().unwrap().unwrap());
    daemon.register(&body);
    engine.joined();
    let stream = || daemon.services(engine.endpoint())[0]["stream"].clone();
    eventually("the first replay is over", || stream()["replays_failed"] == 1);
    engine.store(&[1, 2], 0..1, "GPU");
    engine.publisher.hole(3).unwrap();
    engine.store(&[3, 4], 0..1, "GPU");
    let sampled = || {
        let page = String::from_utf8(daemon.get("/metrics").body).unwrap();
        let line = page.lines().find(|line| line.starts_with("kvatlas_stream_behind{")).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    eventually("it waits for a replay of 1 to 3", || {
        stream()["state"] == "replaying" && stream()["behind"] == 4 && sampled() == "4"
    });
    eventually("it waits no longer", || stream()["state"] == "partial");
    assert_eq!((stream()["behind"].clone(), sampled()), (json!(0), "0".to_owned()));
}

#[test]
fn the_global_view_has_every_context_and_its_mappings() {
    let daemon = Daemon::start(2);
    let empty = json!({ "context_count": 0, "model_contexts": [], "hashmap": [] });
    assert_eq!(daemon.get("/global_view").json(), empty);
    let engines = [Engine::new(1, 2, 0), Engine::new(2, 2, 0)];
    let tokens = [1, 2, 3, 4, 5, 6];
    for (engine, instance) in engines.iter().zip(["a", "b"]) {
        let mut body = engine.registration(instance);
        body["additionalsalt"] = json!("w8a8");
        daemon.register(&body);
        engine.joined();
    }
    engines[0].store(&tokens, 0..3, "GPU");
    settle(&[&daemon], &[&engines[0], &engines[1]]);
    let view = daemon.get("/global_view").json();
    assert_eq!(view["context_count"], 2);
    let contexts = view["model_contexts"].as_array().unwrap();
    let maps = view["hashmap"].as_array().unwrap();
    assert_eq!((contexts.len(), maps.len()), (2, 2));
    let of = |instance: &str| contexts.iter().position(|context| context["instance_id"] == instance).unwrap();
    let context = json!({
        "model_name": MODEL, "lora_name": "", "block_size": 2, "additional_salt": "w8a8",
        "tenant_id": "default", "instance_id": "a",
    });
    assert_eq!(contexts[of("a")], context);
    let standard = sequence_hashes(&tokens, 2, DEFAULT_SEED);
    let expected: BTreeMap<String, u64> = engines[0]
        .hashes(&tokens)
        .into_iter()
        .map(|hash| if let Hash::Unsigned(bits) = hash { bits.to_string() } else { panic!() })
        .zip(standard)
        .collect();
    assert_eq!(maps[of("a")], json!(expected));
    assert_eq!(maps[of("b")], json!({}));
    for (limit, left) in [("0", 0), ("2", 2), ("3", 3), ("99", 3)] {
        let view = daemon.get(&format!("/global_view?limit={limit}")).json();
        assert_eq!(view["context_count"], 2);
        let entries: usize =
            view["hashmap"].as_array().unwrap().iter().map(|map| map.as_object().unwrap().len()).sum();
        assert_eq!(entries, left, "limit {limit}");
    }
    for bad in ["-1", "x", "", "99999999999999999999"] {
        let answer = daemon.get(&format!("/global_view?limit={bad}"));
        assert_eq!(answer.status, 400, "{bad}");
        assert!(answer.error().starts_with("limit"));
    }
}

/// One line of Prometheus text.
#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

fn name(text: &str) -> (&str, &str) {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':');
    let (name, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    assert!(name.starts_with(|c: char| !c.is_ascii_digit()), "{text}");
    (name, rest)
}

/// A quoted label value and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.strip_prefix('"').expect("a quote").char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 2..]),
            '\\' => value.push(match chars.next().expect("an escaped character").1 {
                'n' => '\n',
                plain @ ('"' | '\\') => plain,
                other => panic!("\\{other} is no escape"),
            }),
            c => value.push(c),
        }
    }
    panic!("no closing quote: {text}");
}

fn sample(line: &str) -> Sample {
    let (found, mut rest) = name(line);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, value) = name(rest);
            let (value, after) = quoted(value.strip_prefix('=').expect("="));
            labels.push((label.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').expect("a blank").parse().unwrap();
    Sample { name: found.to_owned(), labels, value }
}

/// Reads the page and checks that it is one.
fn parse(page: &str) -> Vec<Sample> {
    assert!(page.ends_with('\n'));
    let mut samples: Vec<Sample> = Vec::new();
    let (mut family, mut known) = (String::new(), BTreeSet::new());
    let mut series = BTreeSet::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            help.split_once(' ').expect("a sentence").0.clone_into(&mut family);
            assert!(known.insert(family.clone()), "{family} twice");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("a type");
            let kind = kind.strip_prefix(&family).expect("the type of this metric").trim();
            assert!(["counter", "gauge"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{family} is a {kind}");
            continue;
        }
        let sample = sample(line);
        assert_eq!(sample.name, family, "a sample stands under its own heading");
        assert!(series.insert(format!("{} {:?}", sample.name, sample.labels)), "{sample:?} twice");
        samples.push(sample);
    }
    samples
}

#[test]
fn metrics_are_prometheus_text() {
    let daemon = Daemon::start(2);
    let (engine, pool) = (Engine::new(1, 2, 0), Pool::new("pool-0", 2));
    let mut body = engine.registration(HOSTILE);
    body["tenant_id"] = json!("t\"\n\\");
    daemon.register(&body);
    daemon.register(&pool.registration(HOSTILE));
    engine.joined();
    engine.store(&[1, 2, 3, 4], 0..2, "GPU");
    engine.send(vec![0xc1]);
    settle(&[&daemon], &[&engine]);
    let answer = daemon.get("/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let samples = parse(std::str::from_utf8(&answer.body).unwrap());
    let find = |name: &str, labels: &[(&str, &str)]| -> f64 {
        let labels: Vec<(String, String)> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let found = samples.iter().find(|sample| sample.name == name && sample.labels == labels);
        found.unwrap_or_else(|| panic!("no {name} {labels:?}")).value
    };
    let engine = [("instance", HOSTILE), ("tenant", "t\"\n\\"), ("rank", "0"), ("class", "engine")];
    let pool = [("instance", HOSTILE), ("tenant", "default"), ("rank", "0"), ("class", "pool")];
    let whole = |name: &str, labels: &[(&str, &str)], value: f64| {
        assert!((find(name, labels) - value).abs() < 1e-9, "{name} {labels:?} is {}", find(name, labels));
    };
    whole("kvatlas_stream_blocks", &engine, 2.0);
    whole("kvatlas_stream_stores_total", &engine, 1.0);
    whole("kvatlas_stream_blocks", &pool, 0.0);
    whole("kvatlas_streams", &[("state", "partial")], 1.0);
    whole("kvatlas_streams_missing", &[("reason", "unread")], 1.0);
    whole("kvatlas_streams", &[("state", "connecting")], 1.0);
    whole("kvatlas_payloads_refused_total", &[("reason", "malformed")], 1.0);
    whole("kvatlas_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    for reactor in ["0", "1"] {
        find("kvatlas_http_requests_total", &[("reactor", reactor)]);
    }
}

/// So many streams have lines of their own; the others are one line.
#[test]
fn metrics_of_many_streams() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    let more = 3;
    for rank in 0..METRIC_STREAMS + more {
        let mut body = engine.registration("a");
        body["dp_rank"] = json!(rank);
        daemon.register(&body);
    }
    engine.joined();
    engine.events_of(None, &[EngineEvent::Cleared(None)]);
    settle(&[&daemon], &[&engine]);
    let page = daemon.get("/metrics");
    let samples = parse(std::str::from_utf8(&page.body).unwrap());
    let clears: Vec<&Sample> =
        samples.iter().filter(|sample| sample.name == "kvatlas_stream_clears_total").collect();
    assert_eq!(clears.len(), METRIC_STREAMS + 1);
    let other = clears.iter().find(|sample| sample.labels == [("instance".to_owned(), "other".to_owned())]);
    assert!((other.unwrap().value - more as f64).abs() < 1e-9);
    let all: f64 = clears.iter().map(|sample| sample.value).sum();
    assert!((all - (METRIC_STREAMS + more) as f64).abs() < 1e-9, "{all}");
}

#[test]
fn probes() {
    let daemon = Daemon::start(1);
    for (readiness, status, said) in [
        (Readiness::Starting, 503, "starting"),
        (Readiness::Ready, 200, "ready"),
        (Readiness::Draining, 503, "draining"),
    ] {
        daemon.directory.set_readiness(readiness);
        let answer = daemon.get("/readyz");
        assert_eq!((answer.status, answer.json()), (status, json!({ "status": said })));
        for (path, said) in [("/healthz", "ok"), ("/livez", "alive")] {
            let answer = daemon.get(path);
            assert_eq!((answer.status, answer.json()), (200, json!({ "status": said })));
        }
    }
}
