//! Writes answers: the members of one tenant's object, instance by instance, straight into the response.

use super::question::Question;
use super::view::{Entry, View};
use crate::http::response::json_string;
use crate::index::hash::Path;
use crate::index::shard::Shard;
use crate::index::walk::Filter;

/// What the long answer adds for one instance of a shard.
pub trait Detail {
    /// The trust states of its publishers, as a JSON array.
    fn streams(&self, instance: &str, out: &mut Vec<u8>);
    /// Why an instance has nothing, as a word.
    fn why(&self, shard: &Shard, question: &Question, instance: &str) -> &'static str;
}

/// Separates the members of an object.
pub fn comma(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}

fn number(out: &mut Vec<u8>, value: u64) {
    // mostly a rank, or nothing on a medium
    if value < 10 {
        out.push(b'0' + value as u8);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

fn member(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    number(out, value);
}

/// A number that was just written. What an instance holds often lies on one medium of one rank, so that the same
/// number comes again and again, and is copied.
struct Written {
    value: u64,
    at: usize,
    length: usize,
}

impl Written {
    /// [`member`], remembering its number.
    fn first(out: &mut Vec<u8>, name: &str, value: u64) -> Self {
        out.extend_from_slice(name.as_bytes());
        let at = out.len();
        number(out, value);
        Self { value, at, length: out.len() - at }
    }

    /// [`member`].
    fn member(&self, out: &mut Vec<u8>, name: &str, value: u64) {
        out.extend_from_slice(name.as_bytes());
        if value == self.value {
            out.extend_from_within(self.at..self.at + self.length);
        } else {
            number(out, value);
        }
    }
}

/// A set of small numbers.
#[derive(Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }

    fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// The entry of an instance of which nothing is known here.
pub fn zeros(out: &mut Vec<u8>, key: &[u8], ranks: &[u32]) {
    out.extend_from_slice(key);
    out.extend_from_slice(b"{\"longest_matched\":0,\"GPU\":0,\"DP\":{");
    for (at, rank) in ranks.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
        number(out, u64::from(*rank));
        out.extend_from_slice(b"\":0");
    }
    out.extend_from_slice(b"},\"CPU\":0,\"DISK\":0}");
}

/// `"name":` of an instance, escaped.
pub fn key_of(name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 3);
    json_string(&mut key, name);
    key.push(b':');
    key
}

/// Answers for the instances of one shard: those registered under the tenant, zero-filled, and those that hold
/// blocks under it. Members go to `out`, which must be empty or end in a member.
pub fn fragment(
    shard: &mut Shard,
    view: &View,
    me: usize,
    question: &Question,
    path: &mut Path<'_>,
    detail: &impl Detail,
    out: &mut Vec<u8>,
) {
    let contexts: Vec<u32> = question.contexts.iter().filter_map(|key| shard.find_context(key)).collect();
    let media = question
        .media
        .as_ref()
        .map_or(u64::MAX, |media| shard.media_set(|medium| media.iter().any(|asked| asked.admits(medium))));
    let instance = match &question.instance {
        None => None,
        Some(name) => match shard.find_instance(name) {
            Some(number) => Some(number),
            None => return unknown(view, question, name, out),
        },
    };
    let filter = Filter { instance, media, rank: None };
    shard.query(&contexts, path, filter);
    let mut writer = Writer { question, contexts, filter, start: out.len(), out };
    let mut done = Numbers::default();
    let entries = view.entries(question.tenant());
    for entry in entries.iter().filter(|entry| entry.home == me) {
        let number = entry.number.or_else(|| shard.find_instance(&entry.name));
        if instance.is_some() && number != instance {
            continue;
        }
        writer.entry(shard, entry, number, path, detail);
        if let Some(number) = number {
            done.insert(number);
        }
    }
    // what is left holds blocks under the tenant without being registered there, or is the one asked for
    let unannounced: Vec<u32> = match instance {
        Some(number) => vec![number],
        None => shard.present(question.tenant()).filter(|number| !done.contains(*number)).collect(),
    };
    for number in unannounced {
        if !done.contains(number) {
            let name = shard.instance_name(number).to_owned();
            let entry = Entry { key: key_of(&name), name, home: me, number: Some(number), ranks: Vec::new() };
            writer.entry(shard, &entry, Some(number), path, detail);
        }
    }
}

/// The only entry of an answer for an instance that no shard has (yet).
pub fn unknown(view: &View, question: &Question, name: &str, out: &mut Vec<u8>) {
    let known = view.entries(question.tenant()).iter().find(|entry| entry.name == name);
    zeros(out, &key_of(name), known.map_or(&[], |entry| &entry.ranks));
    if question.detail {
        out.pop();
        let why = if question.blocks == 0 { "prompt_shorter_than_block" } else { "unknown_model" };
        out.extend_from_slice(b",\"prefix\":{},\"streams\":[],\"why\":");
        json_string(out, why);
        out.push(b'}');
    }
}

struct Writer<'a> {
    question: &'a Question,
    contexts: Vec<u32>,
    filter: Filter,
    start: usize,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn entry(
        &mut self,
        shard: &mut Shard,
        entry: &Entry,
        number: Option<u32>,
        path: &mut Path<'_>,
        detail: &impl Detail,
    ) {
        comma(self.out, self.start);
        let hit = number.and_then(|number| shard.answer().find(number));
        match hit {
            None => zeros(self.out, &entry.key, &entry.ranks),
            Some(hit) => self.hit(shard, entry, hit),
        }
        if self.question.detail {
            let longest = hit.map_or(0, |hit| shard.answer().longest(hit));
            self.out.pop();
            self.detail(shard, entry, number, longest, path, detail);
            self.out.push(b'}');
        }
    }

    fn hit(&mut self, shard: &Shard, entry: &Entry, hit: u32) {
        let answer = shard.answer();
        let size = u64::from(self.question.block_size());
        let tokens = |blocks: u32| u64::from(blocks) * size;
        let out = &mut *self.out;
        out.extend_from_slice(&entry.key);
        let longest = Written::first(out, "{\"longest_matched\":", tokens(answer.longest(hit)));
        let [gpu, cpu, disk] = answer.common(hit);
        longest.member(out, ",\"GPU\":", tokens(gpu));
        out.extend_from_slice(b",\"DP\":{");
        let start = out.len();
        let rank = |out: &mut Vec<u8>, rank: u32, blocks: u32| {
            comma(out, start);
            out.push(b'"');
            number(out, u64::from(rank));
            longest.member(out, "\":", tokens(blocks));
        };
        let found = |rank: u32| answer.ranks(hit).find(|(other, _)| *other == rank).map_or(0, |(_, n)| n);
        for registered in &entry.ranks {
            rank(out, *registered, found(*registered));
        }
        for (other, blocks) in answer.ranks(hit) {
            if !entry.ranks.contains(&other) {
                rank(out, other, blocks);
            }
        }
        longest.member(out, "},\"CPU\":", tokens(cpu));
        longest.member(out, ",\"DISK\":", tokens(disk));
        for (medium, blocks) in answer.media(hit).filter(|(medium, _)| *medium > 2) {
            out.push(b',');
            json_string(out, shard.medium_name(medium));
            member(out, ":", tokens(blocks));
        }
        out.push(b'}');
    }

    /// `prefix` (contiguous from block 0 per medium and per rank), `streams`, and `why` when nothing matched.
    fn detail(
        &mut self,
        shard: &mut Shard,
        entry: &Entry,
        number: Option<u32>,
        longest: u32,
        path: &mut Path<'_>,
        detail: &impl Detail,
    ) {
        self.out.extend_from_slice(b",\"prefix\":{");
        if longest > 0
            && let Some(number) = number
        {
            self.prefix(shard, number, path);
        }
        self.out.extend_from_slice(b"},\"streams\":");
        detail.streams(&entry.name, self.out);
        if longest == 0 {
            self.out.extend_from_slice(b",\"why\":");
            json_string(self.out, detail.why(shard, self.question, &entry.name));
        }
    }

    fn prefix(&mut self, shard: &mut Shard, number: u32, path: &mut Path<'_>) {
        let Some(hit) = shard.answer().find(number) else { return };
        let found = shard.answer();
        let mut media: Vec<u8> = found.media(hit).map(|(medium, _)| medium).collect();
        let mut ranks: Vec<u32> = found.ranks(hit).map(|(rank, _)| rank).collect();
        let before = shard.keep_answer();
        let filter = Filter { instance: Some(number), ..self.filter };
        let context = self.reading(shard, filter, path);
        media.sort_unstable();
        ranks.sort_unstable();
        self.media_prefix(shard, context, filter, &media, path);
        self.out.extend_from_slice(if media.is_empty() { b"\"ranks\":{" } else { b",\"ranks\":{" });
        for (at, rank) in ranks.iter().enumerate() {
            self.out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
            number_text(self.out, *rank);
            self.out.extend_from_slice(b"\":{");
            self.media_prefix(shard, context, Filter { rank: Some(*rank), ..filter }, &media, path);
            self.out.push(b'}');
        }
        self.out.push(b'}');
        shard.restore_answer(before);
    }

    /// The context that answered for an instance: of two readings the longer one, of equal ones the first.
    fn reading(&self, shard: &mut Shard, filter: Filter, path: &mut Path<'_>) -> u32 {
        let mut longest = (self.contexts[0], 0);
        if self.contexts.len() > 1 {
            for context in &self.contexts {
                shard.query(&[*context], path, filter);
                let blocks = shard.answer().hits().next().map_or(0, |hit| hit.longest);
                if blocks > longest.1 {
                    longest = (*context, blocks);
                }
            }
        }
        longest.0
    }

    fn media_prefix(
        &mut self,
        shard: &mut Shard,
        context: u32,
        filter: Filter,
        media: &[u8],
        path: &mut Path<'_>,
    ) {
        let start = self.out.len();
        for medium in media {
            let on_medium = Filter { media: filter.media & 1 << medium, ..filter };
            shard.query(&[context], path, on_medium);
            let blocks = shard.answer().hits().next().map_or(0, |hit| hit.longest);
            if blocks > 0 || filter.rank.is_none() {
                comma(self.out, start);
                json_string(self.out, shard.medium_name(*medium));
                member(self.out, ":", u64::from(blocks) * u64::from(self.question.block_size()));
            }
        }
    }
}

fn number_text(out: &mut Vec<u8>, value: u32) {
    number(out, u64::from(value));
}
