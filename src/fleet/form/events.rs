//! `POST /quota/events`: reports of hundreds to a hundred thousand events, read in steps.

use std::borrow::Cow;

use super::body;
use super::event::{Event, event};
use super::fault::{Fault, Faults, Part, Reject};
use super::fields::Fields;
use super::json::{Document, Kind, Parser};
use super::lax::{self, Bounds};
use super::quick::Quick;
use super::tier::{self, Tier};
use super::value::Value;

/// JSON tokens of one event, with margin.
const EVENT_TOKENS: usize = 32;
/// Values of the shortest complete event, itself and its keys included.
const EVENT_VALUES: usize = 14;

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
    /// The whole report, or why it is refused; nothing of a refused report counts.
    Done(Result<Events<'a>, Reject>),
}

/// Reads a report in steps, so that a reactor has time for others in between.
///
/// A report in the usual spelling is read once, without copying. Any other one is read again from the start by an
/// exact reader that finds all faults; only the check of its UTF-8, and any single string, is one step however long.
#[derive(Debug)]
pub struct EventsReader<'a> {
    body: &'a [u8],
    stage: Stage<'a>,
}

#[derive(Debug)]
enum Stage<'a> {
    Usual(Box<Quick<'a>>),
    Exact,
    Parse(&'a str, Parser<'a>),
    Judge(Box<Judge<'a>>),
    Over(Option<Reject>),
}

impl<'a> EventsReader<'a> {
    /// Begins to read; an empty content type is JSON.
    pub fn new(content_type: &str, body: &'a [u8]) -> Self {
        let stage = match body::admit(content_type, body) {
            Ok(()) => Stage::Usual(Box::new(Quick::new(body))),
            Err(reject) => Stage::Over(Some(reject)),
        };
        Self { body, stage }
    }

    /// Begins with the exact reader, which reads every spelling.
    pub fn exact(content_type: &str, body: &'a [u8]) -> Self {
        let mut reader = Self::new(content_type, body);
        if matches!(reader.stage, Stage::Usual(_)) {
            reader.stage = Stage::Exact;
        }
        reader
    }

    /// Reads about so many events further, at least one.
    pub fn step(&mut self, events: usize) -> Progress<'a> {
        match self.advance(events.max(1)) {
            Ok(None) => Progress::More,
            Ok(Some(report)) => {
                self.stage = Stage::Over(None);
                Progress::Done(Ok(report))
            }
            Err(reject) => {
                self.stage = Stage::Over(None);
                Progress::Done(Err(reject))
            }
        }
    }

    /// Reads all of a report.
    pub fn read(mut self) -> Result<Events<'a>, Reject> {
        loop {
            if let Progress::Done(result) = self.step(usize::MAX) {
                return result;
            }
        }
    }

    fn advance(&mut self, most: usize) -> Result<Option<Events<'a>>, Reject> {
        match &mut self.stage {
            Stage::Usual(quick) => match quick.step(most) {
                Ok(report) => return Ok(report),
                Err(_) => self.stage = Stage::Exact,
            },
            Stage::Exact => {
                let text = body::text(self.body)?;
                self.stage = Stage::Parse(text, Parser::new(text));
            }
            Stage::Parse(text, parser) => {
                let step = parser.step(most.saturating_mul(EVENT_TOKENS));
                if let Some(document) = step.map_err(|error| body::not_json(error, text))? {
                    body::object(&document)?;
                    self.stage = Stage::Judge(Box::new(Judge::new(document)));
                }
            }
            Stage::Judge(judge) => return judge.step(most),
            Stage::Over(reject) => {
                let over = || Reject::Bad("the report was read before".to_owned());
                return Err(reject.take().unwrap_or_else(over));
            }
        }
        Ok(None)
    }
}

/// Reads the fields of a report from its document.
#[derive(Debug)]
struct Judge<'a> {
    document: Document<'a>,
    faults: Faults,
    instance_id: Option<Cow<'a, str>>,
    seq: Option<i128>,
    /// The list and the next event of it, as places in the document.
    list: Option<(usize, usize)>,
    events: Vec<Event<'a>>,
    index: usize,
}

const NAMES: [&str; 4] = ["instance_id", "seq", "events", "tier"];

impl<'a> Judge<'a> {
    fn new(document: Document<'a>) -> Self {
        let mut faults = Faults::new("body");
        let owner = Value::root(&document);
        let [instance_id, seq, events, _] = owner.slots(&NAMES);
        let mut fields = Fields { faults: &mut faults, owner };
        let instance_id = fields.required("instance_id", instance_id, lax::string);
        let seq = fields.required("seq", seq, |value| lax::integer(value, Bounds::from(1)));
        let list = fields.required("events", events, |value| match value.kind() {
            Kind::Array => Ok((value.at(), value.at() + 1)),
            _ => Err(Fault::NotAList),
        });
        faults.enter(Part::Name("events"));
        let values = list.map_or(0, |(list, next)| Value::new(&document, list).next() - next);
        let events = Vec::with_capacity(values / EVENT_VALUES);
        Self { document, faults, instance_id, seq, list, events, index: 0 }
    }

    fn step(&mut self, most: usize) -> Result<Option<Events<'a>>, Reject> {
        if let Some((list, next)) = &mut self.list {
            let end = Value::new(&self.document, *list).next();
            for _ in 0..most {
                if *next == end {
                    break;
                }
                let value = Value::new(&self.document, *next);
                self.faults.enter(Part::Index(self.index));
                let event = event(&mut self.faults, value);
                self.faults.leave();
                // one fault refuses all, so that events after it are read for their faults only
                if self.faults.is_empty() {
                    self.events.extend(event);
                }
                self.index += 1;
                *next = value.next();
            }
            if *next < end {
                return Ok(None);
            }
        }
        self.faults.leave();
        self.finish().map(Some)
    }

    fn finish(&mut self) -> Result<Events<'a>, Reject> {
        let owner = Value::root(&self.document);
        let [_, _, _, tier] = owner.slots(&NAMES);
        let tier = tier::field(&mut Fields { faults: &mut self.faults, owner }, tier, Tier::L2);
        match (self.instance_id.take(), self.seq, self.list, tier) {
            (Some(instance_id), Some(seq), Some(_), Some(tier)) if self.faults.is_empty() => {
                tier::supported(tier)?;
                Ok(Events { instance_id, seq: seq as u64, events: std::mem::take(&mut self.events) })
            }
            _ => Err(Reject::Unprocessable(std::mem::take(&mut self.faults))),
        }
    }
}
