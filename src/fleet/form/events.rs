//! `POST /quota/events`: reports of hundreds to a hundred thousand events, read in steps.

use std::borrow::Cow;

use super::body;
use super::event::{Event, event};
use super::fault::{Fault, Faults, Reject};
use super::fields::Fields;
use super::lax::{self, Bounds};
use super::quick::Quick;
use super::tier::{self, Tier};
use super::value::Value;

/// A report of what happened in the storage tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Events<'a> {
    /// Who reports; any text.
    pub instance_id: Cow<'a, str>,
    /// Number of the report, at least 1.
    pub seq: u64,
    /// What happened, in order.
    pub events: Vec<Event<'a>>,
}

/// Where reading stands.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Take another step.
    More,
    /// The whole report.
    Done(Events<'a>),
    /// Something is spelled unusually, or wrong: [`events`] reads it. Every later step is the same.
    Unusual,
}

/// Reads a report in the usual spelling in short steps, once and without copying, so that a reactor has time for
/// others in between.
#[derive(Debug)]
pub struct EventsReader<'a> {
    /// None once it is over.
    quick: Option<Box<Quick<'a>>>,
    seen: usize,
}

impl<'a> EventsReader<'a> {
    /// Begins to read; an empty content type is JSON.
    pub fn new(content_type: &str, body: &'a [u8]) -> Self {
        let quick = body::is_json(content_type).then(|| Box::new(Quick::new(body)));
        Self { quick, seen: 0 }
    }

    /// Reads about so many events further, at least one.
    pub fn step(&mut self, events: usize) -> Progress<'a> {
        let Some(quick) = &mut self.quick else { return Progress::Unusual };
        let step = quick.step(events.max(1));
        self.seen = quick.seen();
        match step {
            Ok(None) => Progress::More,
            Ok(Some(report)) => {
                self.quick = None;
                Progress::Done(report)
            }
            Err(_) => {
                self.quick = None;
                Progress::Unusual
            }
        }
    }

    /// Bytes of the body that were looked at.
    pub fn seen(&self) -> usize {
        self.seen
    }
}

/// Reads a report in every spelling, and finds all that is wrong with it; nothing of a refused report counts. Takes
/// time by the length of the body.
pub fn events<'a>(content_type: &str, body: &'a [u8]) -> Result<Events<'a>, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [instance_id, seq, events, tier] = owner.slots(&["instance_id", "seq", "events", "tier"]);
    let mut faults = Faults::new("body");
    let mut fields = Fields { faults: &mut faults, owner };
    let instance_id = fields.required("instance_id", instance_id, lax::string);
    let seq = fields.required("seq", seq, |value| lax::integer(value, Bounds::from(1)));
    let events = match events {
        Some(_) => fields.list("events", events, event),
        None => fields.required("events", None, |_| Err(Fault::NotAList)),
    };
    let tier = tier::field(&mut fields, tier, Tier::L2);
    match (instance_id, seq, events, tier) {
        (Some(instance_id), Some(seq), Some(events), Some(tier)) => {
            tier::supported(tier)?;
            Ok(Events { instance_id, seq: seq as u64, events })
        }
        _ => Err(Reject::Unprocessable(faults)),
    }
}

impl Events<'_> {
    /// The same report, owning its text.
    pub fn into_owned(self) -> Events<'static> {
        let Events { instance_id, seq, events } = self;
        let own = |event: Event<'_>| {
            let Event { kind, key, bytes } = event;
            Event { kind, key: key.into_owned(), bytes }
        };
        Events {
            instance_id: Cow::Owned(instance_id.into_owned()),
            seq,
            events: events.into_iter().map(own).collect(),
        }
    }
}
