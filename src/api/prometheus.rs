//! `GET /metrics`: Prometheus text, written from counters that their reactors own.

use crate::daemon::Daemon;
use crate::daemon::directory::{Listing, Load};
use crate::event::{Refusal, Skip};
use crate::http::{Request, response};
use crate::index::publisher::Class;
use crate::limits::METRIC_STREAMS;
use crate::metrics::Counter;
use crate::reactor::Counters;
use crate::stream::stats::{State, StreamStats, now_ms};
use crate::stream::trust::Reason;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

type OfReactor = (&'static str, &'static str, &'static str, fn(&Counters) -> &Counter);
type OfLoad = (&'static str, &'static str, fn(&Load) -> &Counter);
type OfStream = (&'static str, &'static str, &'static str, fn(&StreamStats) -> &Counter);

const REACTOR: [OfReactor; 16] = [
    ("http_connections", "gauge", "Open HTTP connections.", |c| &c.connections_open),
    ("http_connections_accepted_total", "counter", "HTTP connections accepted.", |c| &c.connections_accepted),
    ("http_connections_refused_total", "counter", "HTTP connections over the limit.", |c| {
        &c.connections_refused
    }),
    ("http_connections_expired_total", "counter", "HTTP connections silent or too slow.", |c| {
        &c.connections_expired
    }),
    ("http_accept_errors_total", "counter", "Failures to accept.", |c| &c.accept_errors),
    ("http_requests_total", "counter", "HTTP requests answered.", |c| &c.requests),
    ("http_requests_refused_total", "counter", "HTTP requests refused by the codec.", |c| {
        &c.requests_refused
    }),
    ("http_received_bytes_total", "counter", "Bytes read from HTTP clients.", |c| &c.bytes_in),
    ("http_sent_bytes_total", "counter", "Bytes written to HTTP clients.", |c| &c.bytes_out),
    ("reactor_turns_total", "counter", "Turns of the reactor.", |c| &c.turns),
    ("reactor_yields_total", "counter", "Tasks that found their turn used up.", |c| &c.yields),
    ("reactor_stalls_total", "counter", "Polls of more than a millisecond.", |c| &c.stalls),
    ("mesh_sent_total", "counter", "Messages to other reactors.", |c| &c.mesh_sent),
    ("mesh_full_total", "counter", "Messages that found no room.", |c| &c.mesh_full),
    ("mesh_received_total", "counter", "Messages from other reactors.", |c| &c.mesh_received),
    ("reactor_wakeups_total", "counter", "Times the reactor was woken by its bell.", |c| &c.wakeups),
];

const LOAD: [OfLoad; 5] = [
    ("index_bytes", "Heap bytes of the index.", |load| &load.bytes),
    ("index_runs", "Runs of the index.", |load| &load.runs),
    ("index_contexts", "Contexts of the index.", |load| &load.contexts),
    ("index_blocks", "Blocks held, counted once an owner.", |load| &load.blocks),
    ("index_events_per_second", "Events applied in the last second.", |load| &load.rate),
];

const STREAM: [OfStream; 36] = [
    ("stream_messages_total", "counter", "ZMQ messages.", |s| &s.messages),
    ("stream_bytes_total", "counter", "Bytes of their payloads.", |s| &s.bytes),
    ("stream_malformed_total", "counter", "Messages that were no batch.", |s| &s.malformed),
    ("stream_behind", "gauge", "Batches known of and not applied yet.", |s| &s.behind),
    ("stream_gaps_total", "counter", "Jumps of the sequence number.", |s| &s.gaps),
    ("stream_missed_total", "counter", "Sequence numbers that never came.", |s| &s.missed),
    ("stream_repeats_total", "counter", "Messages dropped as repeats.", |s| &s.repeats),
    ("stream_restarts_total", "counter", "Lives of the publisher that ended.", |s| &s.restarts),
    ("stream_replays_total", "counter", "Requests to the replay endpoint.", |s| &s.replays),
    ("stream_replays_failed_total", "counter", "Requests that failed or fell silent.", |s| &s.replays_failed),
    ("stream_replayed_total", "counter", "Batches that only a replay brought.", |s| &s.replayed),
    ("stream_rereads_total", "counter", "Times everything was read again.", |s| &s.rereads),
    ("stream_beyond_repair", "gauge", "Topics that miss what no replay can bring.", |s| &s.beyond_repair),
    ("stream_overflows_total", "counter", "Times too much waited behind a gap.", |s| &s.overflows),
    ("stream_refused_topics_total", "counter", "Messages of topics beyond the bound.", |s| &s.refused_topics),
    ("stream_disconnects_total", "counter", "Times the connection was lost.", |s| &s.disconnects),
    ("stream_connect_failed_total", "counter", "Attempts to connect that nobody answered.", |s| {
        &s.connect_failed
    }),
    ("stream_handshake_failed_total", "counter", "Handshakes that failed.", |s| &s.handshake_failed),
    ("stream_expired_total", "counter", "Times the entries were dropped at the TTL.", |s| &s.expired),
    ("stream_batches_total", "counter", "Batches applied.", |s| &s.publisher.batches),
    ("stream_stores_total", "counter", "Store events applied.", |s| &s.publisher.stores),
    ("stream_removes_total", "counter", "Removal events applied.", |s| &s.publisher.removes),
    ("stream_clears_total", "counter", "Clear events applied.", |s| &s.publisher.clears),
    ("stream_blocks_stored_total", "counter", "Blocks named by stores.", |s| &s.publisher.blocks_stored),
    ("stream_blocks_removed_total", "counter", "Blocks named by removals.", |s| &s.publisher.blocks_removed),
    ("stream_blocks", "gauge", "Blocks held.", |s| &s.publisher.blocks_held),
    ("stream_unknown_removals_total", "counter", "Removals of blocks not held.", |s| {
        &s.publisher.unknown_removals
    }),
    ("stream_unknown_fields_total", "counter", "Fields passed over because nobody knows them.", |s| {
        &s.publisher.unknown_fields
    }),
    ("stream_orphans", "gauge", "Blocks that wait for their parent.", |s| &s.publisher.orphans),
    ("stream_orphans_adopted_total", "counter", "Orphans whose parent came.", |s| {
        &s.publisher.orphans_adopted
    }),
    ("stream_orphans_dropped_total", "counter", "Orphans dropped at the bound.", |s| {
        &s.publisher.orphans_dropped
    }),
    ("stream_keys_waited_total", "counter", "Pool objects that waited for an engine's hash.", |s| {
        &s.publisher.keys_waited
    }),
    ("stream_keys_resolved_total", "counter", "Pool objects located by an engine's hash.", |s| {
        &s.publisher.keys_resolved
    }),
    ("stream_keys_dropped_total", "counter", "Pool objects dropped at the bound.", |s| {
        &s.publisher.keys_dropped
    }),
    (
        "stream_envelope_disagreements_total",
        "counter",
        "Envelopes that disagree with the registration.",
        |s| &s.publisher.envelope_disagreements,
    ),
    ("stream_depth_disagreements_total", "counter", "Removals whose depth is not the known one.", |s| {
        &s.publisher.depth_disagreements
    }),
];

/// `GET /metrics`.
pub fn metrics(daemon: &Rc<Daemon>, request: &Request<'_>, out: &mut Vec<u8>) {
    let listings: Vec<Arc<Listing>> = daemon.directory.books().publishers.values().cloned().collect();
    let mut page = String::with_capacity(16 * 1024);
    heading(&mut page, "build_info", "gauge", "The version that runs.");
    let _ = writeln!(page, "kvatlas_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    reactors(daemon, &mut page);
    heading(&mut page, "streams", "gauge", "Streams by state.");
    for state in State::ALL {
        let count = listings.iter().filter(|listing| listing.stats.state().0 == state).count();
        let _ = writeln!(page, "kvatlas_streams{{state=\"{}\"}} {count}", state.name());
    }
    heading(&mut page, "streams_missing", "gauge", "Streams of which something is missing, by reason.");
    for reason in Reason::ALL {
        let count = listings.iter().filter(|listing| listing.stats.reason() == Some(reason)).count();
        let _ = writeln!(page, "kvatlas_streams_missing{{reason=\"{}\"}} {count}", reason.name());
    }
    let labels: Vec<String> = listings.iter().take(METRIC_STREAMS).map(|listing| labels(listing)).collect();
    streams(&listings, &labels, &mut page);
    totals(&listings, &mut page);
    let mark = response::begin(out, 200, CONTENT_TYPE, request.keep_alive, request.http_10);
    out.extend_from_slice(page.as_bytes());
    response::finish(out, mark);
}

fn heading(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP kvatlas_{name} {help}\n# TYPE kvatlas_{name} {kind}");
}

fn reactors(daemon: &Daemon, page: &mut String) {
    for (name, kind, help, of) in REACTOR {
        heading(page, name, kind, help);
        for (reactor, counters) in daemon.directory.counters.get().into_iter().flatten().enumerate() {
            let _ = writeln!(page, "kvatlas_{name}{{reactor=\"{reactor}\"}} {}", of(counters).get());
        }
    }
    for (name, help, of) in LOAD {
        heading(page, name, "gauge", help);
        for (reactor, load) in daemon.directory.loads.iter().enumerate() {
            let _ = writeln!(page, "kvatlas_{name}{{reactor=\"{reactor}\"}} {}", of(load).get());
        }
    }
}

fn labels(listing: &Listing) -> String {
    let class = match listing.key.class {
        Class::Engine => "engine",
        Class::Pool => "pool",
    };
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!(
        "instance=\"{}\",tenant=\"{}\",rank=\"{}\",class=\"{class}\"",
        escape(&listing.key.instance),
        escape(&listing.key.tenant),
        listing.key.rank
    )
}

/// A line a stream for the first [`METRIC_STREAMS`], one line for all the others.
fn streams(listings: &[Arc<Listing>], labels: &[String], page: &mut String) {
    let now = now_ms();
    heading(page, "stream_last_event_age_seconds", "gauge", "Time since the last batch.");
    for (listing, labels) in listings.iter().zip(labels) {
        let last = listing.stats.last_event_ms.get();
        if last > 0 {
            let age = now.saturating_sub(last) as f64 / 1000.0;
            let _ = writeln!(page, "kvatlas_stream_last_event_age_seconds{{{labels}}} {age}");
        }
    }
    for (name, kind, help, of) in STREAM {
        heading(page, name, kind, help);
        for (listing, labels) in listings.iter().zip(labels) {
            let _ = writeln!(page, "kvatlas_{name}{{{labels}}} {}", of(&listing.stats).get());
        }
        if listings.len() > labels.len() {
            let rest: u64 = listings[labels.len()..].iter().map(|listing| of(&listing.stats).get()).sum();
            let _ = writeln!(page, "kvatlas_{name}{{instance=\"other\"}} {rest}");
        }
    }
}

/// Reasons, summed over all streams: a line a reason.
fn totals(listings: &[Arc<Listing>], page: &mut String) {
    heading(page, "events_skipped_total", "counter", "Events not applied, by reason.");
    for reason in Skip::ALL {
        let of = |listing: &Arc<Listing>| listing.stats.publisher.skipped[reason as usize].get();
        let count: u64 = listings.iter().map(of).sum();
        let _ = writeln!(page, "kvatlas_events_skipped_total{{reason=\"{}\"}} {count}", reason.name());
    }
    heading(page, "payloads_refused_total", "counter", "Payloads refused as a whole, by reason.");
    for reason in Refusal::ALL {
        let of = |listing: &Arc<Listing>| listing.stats.publisher.refused[reason as usize].get();
        let count: u64 = listings.iter().map(of).sum();
        let _ = writeln!(page, "kvatlas_payloads_refused_total{{reason=\"{}\"}} {count}", reason.name());
    }
}
