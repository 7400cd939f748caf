//! Membership: `/instances`, `/healthz`.

use serde::{Serialize, Serializer};

use super::reply::{Reply, write_json};
use crate::fleet::coordinator::Coordinator;
use crate::fleet::form;
use crate::fleet::registry::{Instance, Member, Registry};
use crate::http::{Request, response};

#[derive(Serialize)]
struct Registered<'a> {
    instance_id: &'a str,
    re_registered: bool,
}

#[derive(Serialize)]
struct Named<'a> {
    instance_id: &'a str,
}

#[derive(Serialize)]
struct Unknown {
    error: String,
}

#[derive(Serialize)]
struct Listed<'a> {
    instance_id: &'a str,
    ip: &'a str,
    http_port: u16,
    registration_time: f64,
    #[serde(serialize_with = "as_map")]
    metadata: &'a [(String, String)],
    p2p_advertised_url: &'a str,
    mq_port: u16,
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// Bytes of a listed instance beside its text, about.
const LISTED_BYTES: usize = 160;
/// Bytes of instances that are listed at a time; each is at most
/// [`FLEET_INSTANCE_BYTES`](crate::limits::FLEET_INSTANCE_BYTES) long.
const LISTED_STEP: usize = 32 * 1024;

/// `POST /instances`
pub async fn register(fleet: &Coordinator, request: &Request<'_>, reply: Reply<'_>) {
    let form = match fleet.read(request, form::register).await {
        Ok(form) => form,
        Err(reject) => return reply.reject(&reject),
    };
    let instance = Instance {
        id: form.instance_id,
        ip: form.ip,
        http_port: form.http_port,
        metadata: form.metadata,
        p2p_advertised_url: form.p2p_advertised_url,
        mq_port: form.mq_port,
    };
    let (ip, port) = (instance.ip.clone(), instance.http_port);
    let entered = fleet.registry.borrow_mut().register(
        instance,
        fleet.now(),
        Coordinator::wall(),
        &mut fleet.rng.borrow_mut(),
    );
    match entered {
        Ok(entered) => {
            fleet.books.borrow_mut().registered(fleet.now());
            fleet.counts.registered.add(1);
            tracing::info!(
                instance = entered.id,
                ip,
                port,
                again = entered.re_registered,
                "instance registered"
            );
            reply.ok(&Registered { instance_id: &entered.id, re_registered: entered.re_registered });
        }
        Err(full) => {
            fleet.counts.registrations_refused.add(1);
            reply.detail(503, &full.to_string());
        }
    }
}

/// `PUT /instances/{id}/heartbeat`
pub fn heartbeat(fleet: &Coordinator, id: &str, reply: Reply<'_>) {
    if fleet.registry.borrow_mut().heartbeat(id, fleet.now()) {
        fleet.counts.heartbeats.add(1);
        reply.ok(&Named { instance_id: id });
    } else {
        fleet.counts.heartbeats_unknown.add(1);
        reply.json(404, &Unknown { error: format!("unknown instance {id}; re-register") });
    }
}

/// `DELETE /instances/{id}`
pub fn deregister(fleet: &Coordinator, id: &str, reply: Reply<'_>) {
    if fleet.registry.borrow_mut().remove(id).is_some() {
        fleet.counts.deregistered.add(1);
        tracing::info!(instance = id, "instance deregistered");
    }
    reply.no_content();
}

/// `GET /instances`. Who comes or goes while a long list is written may or may not be on it.
pub async fn list(fleet: &Coordinator, reply: Reply<'_>) {
    let mut body = reply.begin(200, response::JSON, &[]);
    let out = body.out();
    {
        let registry = fleet.registry.borrow();
        // about as long as it becomes: a buffer that grows is copied
        out.reserve(registry.text() + registry.len() * LISTED_BYTES);
    }
    out.extend_from_slice(b"{\"instances\":[");
    let mut next = Some(0);
    while let Some(place) = next {
        let before = out.len();
        next = list_some(&fleet.registry.borrow(), place, out);
        fleet.seat.turn.spend((out.len() - before) as u32).await;
    }
    out.extend_from_slice(b"]}");
    body.end();
}

/// Lists some instances from a place on; the place of the next one, if there is one.
fn list_some(registry: &Registry, place: u64, out: &mut Vec<u8>) -> Option<u64> {
    let end = out.len() + LISTED_STEP;
    for (place, member) in registry.list_from(place) {
        if out.len() > end {
            return Some(place);
        }
        if out.last() == Some(&b'}') {
            out.push(b',');
        }
        write_json(out, &Listed::of(member));
    }
    None
}

/// `GET /healthz`
pub fn healthz(reply: Reply<'_>) {
    reply.ok(&Health { status: "healthy" });
}

impl<'a> Listed<'a> {
    fn of(member: &'a Member) -> Self {
        let Member { instance, registered, .. } = member;
        Self {
            instance_id: &instance.id,
            ip: &instance.ip,
            http_port: instance.http_port,
            registration_time: *registered,
            metadata: &instance.metadata,
            p2p_advertised_url: &instance.p2p_advertised_url,
            mq_port: instance.mq_port,
        }
    }
}

fn as_map<S: Serializer>(pairs: &&[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
