//! `POST /query` and `POST /query_by_hash`: hash once, ask only reactors that may hold something, merge.

use super::body::{Encoding, Prompt, QueryBody, read_query};
use super::msgpack;
use crate::daemon::answer::{self, comma, fragment};
use crate::daemon::message::{Job, Message, Reply};
use crate::daemon::part::answer_here;
use crate::daemon::question::Question;
use crate::daemon::view::View;
use crate::daemon::{Daemon, Scratch};
use crate::event::extra;
use crate::event::medium::Asked;
use crate::http::{Request, response};
use crate::index::context::{ContextKey, Lora};
use crate::index::hash::Path;
use crate::limits::{COST_LOOKUP, COST_TOKEN};
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
    // the connection yields once the answer is written
    daemon.seat.turn.charge(cost.max(COST_LOOKUP));
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
    let encoding = Encoding::of_content(request.content_type);
    let (tokens, hashes) = (&mut scratch.tokens, &mut scratch.hashes);
    let mut body = read_query(encoding, request.query, request.body, by_hash, tokens, hashes)
        .map_err(|error| bad(error.to_string()))?;
    let blocks = match body.prompt {
        Prompt::Tokens => scratch.tokens.len() / body.block_size as usize,
        Prompt::Packed { bytes, .. } => bytes / size_of::<u32>() / body.block_size as usize,
        Prompt::Hashes => scratch.hashes.len(),
    };
    let seed = daemon.shard.borrow().seed();
    let extra = digests(&mut body, blocks, seed).map_err(bad)?;
    let (prompt, block_size) = (body.prompt, body.block_size);
    let view = daemon.view();
    let asked = reactors(&view, &body);
    let question = question(body, blocks).map_err(bad)?;
    let mut path = match prompt {
        Prompt::Tokens => Path::of_tokens(&scratch.tokens, &extra, block_size, seed, &mut scratch.hashes),
        Prompt::Packed { at, bytes } => {
            let packed = &request.body[at..at + bytes];
            Path::of_packed(packed, &extra, block_size, seed, &mut scratch.hashes)
        }
        Prompt::Hashes => Path::of_hashes(&scratch.hashes),
    };
    let accept = Encoding::of_accept(request.accept);
    let kind = if accept == Encoding::Msgpack { msgpack::CONTENT_TYPE } else { response::JSON };
    let mark = response::begin(out, 200, kind, request.keep_alive, request.http_10);
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
    if accept == Encoding::Msgpack {
        msgpack::of_json(out, open).map_err(|error| (500, error))?;
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

/// Reads a body; its salts choose the contexts.
pub fn question(body: QueryBody, blocks: usize) -> Result<Question, String> {
    let mut key = ContextKey {
        tenant: body.tenant,
        model: body.model,
        lora: body.lora,
        block_size: body.block_size,
        additional_salt: body.additional_salt.unwrap_or_default(),
        cache_salt: body.cache_salt.unwrap_or_default(),
    };
    let mut contexts = Vec::with_capacity(2);
    if key.additional_salt.is_empty() && !key.cache_salt.is_empty() {
        let mut reverse = key.clone();
        std::mem::swap(&mut reverse.additional_salt, &mut reverse.cache_salt);
        contexts.push(reverse);
    }
    key.cache_salt.shrink_to_fit();
    contexts.push(key);
    let media = match body.media {
        None => None,
        Some(names) => Some(
            names
                .iter()
                .map(|name| {
                    Asked::from_query(name).ok_or_else(|| format!("medium: {name:?} names no medium"))
                })
                .collect::<Result<_, _>>()?,
        ),
    };
    Ok(Question { contexts, instance: body.instance_id, media, detail: body.detail, blocks })
}

/// One digest a block for the extra keys of a query. `root` is always true: a query starts at the root. A salt
/// among them is the query's `cache_salt`, unless it names one itself.
fn digests(body: &mut QueryBody, blocks: usize, seed: u64) -> Result<Vec<Option<u64>>, String> {
    let mut digests = Vec::new();
    if let Some(keys) = &body.extra_keys {
        let lora = match &body.lora {
            Lora::Name(name) => Some(name.as_str()),
            _ => None,
        };
        let context = extra::Context { blocks, root: true, lora, seed };
        let salt = extra::digests_of_json(Some(keys), None, context, &mut digests)?;
        body.cache_salt = body.cache_salt.take().or(salt.map(str::to_owned));
    }
    Ok(digests)
}
