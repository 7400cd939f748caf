//! `POST /query` and `POST /query_by_hash`: hash once, ask only reactors that may hold something, merge.

use super::answer::{self, Detail, comma, fragment};
use super::body::{Prompt, QueryBody, parse_query};
use super::question::{Question, digests};
use crate::daemon::message::{Job, Message, Reply};
use crate::daemon::view::View;
use crate::daemon::{Daemon, Scratch};
use crate::http::{Request, response};
use crate::index::context::Lora;
use crate::index::hash::Path;
use crate::index::shard::Shard;
use crate::limits::{COST_LOOKUP, COST_TOKEN};
use crate::stream::stats::State;
use std::rc::Rc;
use std::sync::Arc;

/// Answers a query.
pub async fn query(daemon: &Rc<Daemon>, request: &Request<'_>, by_hash: bool, out: &mut Vec<u8>) {
    let mut scratch = daemon.take_scratch();
    let start = out.len();
    let cost = request.body.len() as u32 / 8 * COST_TOKEN;
    if let Err((status, message)) = answer(daemon, request, by_hash, &mut scratch, out).await {
        out.truncate(start);
        response::error(out, status, &message, request.keep_alive, request.http_10);
    }
    daemon.give_scratch(scratch);
    daemon.seat.turn.spend(cost.max(COST_LOOKUP)).await;
}

type Refused = (u16, String);

async fn answer(
    daemon: &Rc<Daemon>,
    request: &Request<'_>,
    by_hash: bool,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let bad = |message: String| (400, message);
    let mut body = parse_query(request.body, by_hash, &mut scratch.tokens, &mut scratch.hashes)
        .map_err(|error| bad(error.to_string()))?;
    let blocks = match body.prompt {
        Prompt::Tokens => scratch.tokens.len() / body.block_size as usize,
        Prompt::Hashes => scratch.hashes.len(),
    };
    let seed = daemon.shard.borrow().seed();
    let extra = digests(&mut body, blocks, seed).map_err(bad)?;
    let (prompt, block_size) = (body.prompt, body.block_size);
    let view = daemon.view();
    let asked = reactors(&view, &body);
    let question = Question::new(body, blocks).map_err(bad)?;
    let mut path = match prompt {
        Prompt::Tokens => Path::of_tokens(&scratch.tokens, &extra, block_size, seed, &mut scratch.hashes),
        Prompt::Hashes => Path::of_hashes(&scratch.hashes),
    };
    let mark = response::begin(out, 200, response::JSON, request.keep_alive, request.http_10);
    let open = out.len();
    out.extend_from_slice(b"{");
    response::json_string(out, question.tenant());
    out.extend_from_slice(b":{");
    let members = out.len();
    let me = daemon.seat.id;
    let (here, job);
    let question = if asked & !(1 << me) == 0 {
        here = question;
        if asked != 0 {
            fragment(&mut daemon.shard.borrow_mut(), &view, me, &here, &mut path, &**daemon, out);
        }
        &here
    } else {
        path.first(blocks);
        job = Arc::new(Job { question, hashes: std::mem::take(&mut scratch.hashes) });
        ask_others(daemon, &job, asked, members, out).await?;
        &job.question
    };
    fill_in(&view, question, asked, members, out);
    if out.len() == members {
        out.truncate(open);
        out.extend_from_slice(b"{}");
    } else {
        out.extend_from_slice(b"}}");
    }
    response::finish(out, mark);
    Ok(())
}

/// The reactors to ask, as a set.
fn reactors(view: &View, body: &QueryBody) -> u64 {
    match &body.instance_id {
        Some(instance) => view.home(instance).map_or(0, |home| 1 << home),
        // the long answer says of every instance why it has nothing
        None if body.detail => {
            let all = view.entries(&body.tenant).iter().fold(0, |set, entry| set | 1 << entry.home);
            all | view.reactors(&body.tenant, &body.model, body.block_size)
        }
        None => view.reactors(&body.tenant, &body.model, body.block_size),
    }
}

async fn ask_others(
    daemon: &Rc<Daemon>,
    job: &Arc<Job>,
    asked: u64,
    members: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let me = daemon.seat.id;
    let mut pending = Vec::with_capacity(asked.count_ones() as usize);
    for reactor in (0..daemon.seat.reactors).filter(|reactor| *reactor != me && asked >> reactor & 1 == 1) {
        let make = |ticket| Message::Ask { ticket, job: job.clone(), out: Vec::with_capacity(1024) };
        match daemon.request(reactor, make) {
            Some(reply) => pending.push(reply),
            None => return Err((503, "the reactors are too busy".to_owned())),
        }
    }
    if asked >> me & 1 == 1 {
        comma(out, members);
        let before = out.len();
        answer_here(daemon, job, out);
        if out.len() == before && before > members {
            out.pop();
        }
    }
    for reply in pending {
        if let Reply::Fragment(fragment) = reply.await
            && !fragment.is_empty()
        {
            comma(out, members);
            out.extend_from_slice(&fragment);
        }
    }
    Ok(())
}

/// This reactor's part of an answer, appended to `out`.
pub fn answer_here(daemon: &Rc<Daemon>, job: &Job, out: &mut Vec<u8>) {
    let view = daemon.view();
    let mut path = Path::of_hashes(&job.hashes);
    fragment(&mut daemon.shard.borrow_mut(), &view, daemon.seat.id, &job.question, &mut path, &**daemon, out);
}

/// Instances of the tenant on reactors that were not asked hold nothing that matches.
fn fill_in(view: &View, question: &Question, asked: u64, members: usize, out: &mut Vec<u8>) {
    match &question.instance {
        None => {
            for entry in view.entries(question.tenant()).iter().filter(|entry| asked >> entry.home & 1 == 0) {
                comma(out, members);
                answer::zeros(out, &entry.key, &entry.ranks);
            }
        }
        Some(instance) if asked == 0 => answer::unknown(view, question, instance, out),
        Some(_) => {}
    }
}

impl Detail for Daemon {
    fn streams(&self, instance: &str, out: &mut Vec<u8>) {
        out.push(b'[');
        let start = out.len();
        for listing in self.streams.of_instance(instance) {
            comma(out, start);
            let (state, since) = listing.stats.state();
            let entry = serde_json::json!({
                "type": listing.kind,
                "tenant_id": listing.key.tenant,
                "dp_rank": listing.key.rank,
                "endpoint": listing.endpoint.as_str(),
                "state": state.name(),
                "since": since,
            });
            out.extend_from_slice(entry.to_string().as_bytes());
        }
        out.push(b']');
    }

    fn why(&self, shard: &Shard, question: &Question, instance: &str) -> &'static str {
        let key = &question.contexts[0];
        let registered = self.streams.of_instance(instance);
        let of_tenant: Vec<_> =
            registered.iter().filter(|listing| listing.key.tenant == key.tenant).collect();
        let held = |wanted: &dyn Fn(&crate::index::context::ContextKey) -> bool| {
            shard.context_keys().any(|(other, held)| held > 0 && other.tenant == key.tenant && wanted(other))
        };
        let model = |model: &str| model == key.model;
        let knows_model = of_tenant.iter().any(|listing| model(&listing.registration.model));
        if question.blocks == 0 {
            "prompt_shorter_than_block"
        } else if !knows_model && !held(&|other| model(&other.model)) {
            "unknown_model"
        } else if !of_tenant.iter().any(|listing| {
            model(&listing.registration.model) && listing.registration.block_size == key.block_size
        }) && !held(&|other| model(&other.model) && other.block_size == key.block_size)
        {
            "block_size_mismatch"
        } else if registered.iter().all(|listing| listing.stats.publisher.batches.get() == 0) {
            "no_events_yet"
        } else if key.lora != Lora::Base && !held(&|other| other.lora == key.lora) {
            "unknown_lora"
        } else if salts(key) != ("", "")
            && !held(&|other| question.contexts.iter().any(|asked| salts(asked) == salts(other)))
        {
            "unknown_salt"
        } else if registered.iter().any(|listing| listing.stats.state().0 != State::Live) {
            "stream_not_live"
        } else {
            "no_match"
        }
    }
}

fn salts(key: &crate::index::context::ContextKey) -> (&str, &str) {
    (&key.additional_salt, &key.cache_salt)
}
