//! Per-block extra keys: what tells blocks of equal tokens apart (images, embeddings) and the cache salt.
//!
//! Every block gets one 64-bit digest of its extra keys, or none. The digest is XXH3-64 over one canonical
//! byte string, so that the same keys in msgpack (an event) and in JSON (a query) give the same digest:
//! integers of all widths are spelled alike, maps are sorted, and a byte string, for which JSON has no type,
//! is spelled as its lower-case hexadecimal string.
//!
//! The LoRA name among the keys is no extra. In block 0 of a root event the last bare string that is neither
//! the LoRA name nor 64 hexadecimal digits (an image id) is the cache salt: it chooses the context and is no
//! extra either. A map `{"type": "CacheSaltKey", "salt": …}` says the same plainly, and goes first.

mod canon;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::msgpack::{Cursor, Head};
use super::{Skip, Span};
use canon::{Canon, Entry};

/// Length of an image id, digits.
const IMAGE_ID_DIGITS: usize = 64;

/// What is known of the blocks whose keys are read.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Number of blocks.
    pub blocks: usize,
    /// Whether the first block has no parent.
    pub root: bool,
    /// Name of the LoRA adapter.
    pub lora: Option<&'a str>,
    /// Seed of the hash.
    pub seed: u64,
}

/// Appends one digest a block of an event to `out` and returns the cache salt.
///
/// `extra_keys` and `mm_infos` are raw msgpack values in `payload`, as the decoder leaves them.
///
/// # Errors
/// [`Skip::BadField`] for a value that is no array with one element a block, [`Skip::TooDeep`] for one that
/// nests too deep; `out` is what it was.
pub fn digests_of_msgpack<'a>(
    payload: &'a [u8],
    extra_keys: Span,
    mm_infos: Span,
    context: Context<'_>,
    out: &mut Vec<Option<u64>>,
) -> Result<Option<&'a str>, Skip> {
    let start = out.len();
    let outcome = blocks(&elements(payload, extra_keys)?, &elements(payload, mm_infos)?, context, out);
    if outcome.is_err() {
        out.truncate(start);
    }
    outcome
}

/// Appends one digest a block of a query to `out` and returns the cache salt.
///
/// # Errors
/// A sentence that names the field; `out` is what it was.
pub fn digests_of_json<'a>(
    extra_keys: Option<&'a Value>,
    mm_infos: Option<&'a Value>,
    context: Context<'_>,
    out: &mut Vec<Option<u64>>,
) -> Result<Option<&'a str>, String> {
    let start = out.len();
    let extra_keys = json_elements("extra_keys", extra_keys, context.blocks)?;
    let mm_infos = json_elements("block_mm_infos", mm_infos, context.blocks)?;
    blocks(&extra_keys, &mm_infos, context, out).map_err(|_| {
        out.truncate(start);
        "extra_keys are nested too deep".to_owned()
    })
}

/// The elements of a raw msgpack array; none when it is absent.
fn elements(payload: &[u8], span: Span) -> Result<Vec<Entry<'_>>, Skip> {
    let Some(bytes) = span.bytes(payload) else { return Ok(Vec::new()) };
    let mut cursor = Cursor::new(bytes, 0);
    let Ok(Head::Array(len)) = cursor.head() else { return Err(Skip::BadField) };
    split(&mut cursor, len).ok_or(Skip::BadField)
}

/// `len` values one behind the other.
fn split<'a>(cursor: &mut Cursor<'a>, len: usize) -> Option<Vec<Entry<'a>>> {
    let mut entries = Vec::with_capacity(len);
    for _ in 0..len {
        let start = cursor.at();
        cursor.skip(1).ok()?;
        entries.push(Entry::Msgpack(&cursor.bytes()[start..cursor.at()]));
    }
    Some(entries)
}

fn json_elements<'a>(name: &str, value: Option<&'a Value>, blocks: usize) -> Result<Vec<Entry<'a>>, String> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        // a prompt may end in a part of a block, which has its element but no hash
        Some(Value::Array(list)) if (blocks..=blocks + 1).contains(&list.len()) => {
            Ok(list[..blocks].iter().map(Entry::Json).collect())
        }
        Some(Value::Array(list)) => {
            Err(format!("{name} must have one element a block: {} for {blocks} blocks", list.len()))
        }
        Some(_) => Err(format!("{name} must be an array with one element a block")),
    }
}

fn blocks<'a>(
    keys: &[Entry<'a>],
    mm_infos: &[Entry<'a>],
    context: Context<'_>,
    out: &mut Vec<Option<u64>>,
) -> Result<Option<&'a str>, Skip> {
    let fits = |list: &[Entry<'_>]| list.is_empty() || list.len() == context.blocks;
    if !fits(keys) || !fits(mm_infos) {
        return Err(Skip::BadField);
    }
    let mut salt = None;
    let mut canon = Canon::default();
    for block in 0..context.blocks {
        canon.clear();
        let items = keys.get(block).map_or_else(Vec::new, |entry| entry.items());
        let chosen = if block == 0 && context.root { salt_of(&items, context.lora) } else { None };
        if let Some((_, text)) = chosen {
            salt = Some(text);
        }
        for (place, item) in items.iter().enumerate() {
            let is_salt = chosen.is_some_and(|(at, _)| at == place);
            let is_lora = context.lora.is_some() && item.text() == context.lora;
            if !is_salt && !is_lora {
                canon.key(item)?;
            }
        }
        match mm_infos.get(block) {
            Some(info) if !info.is_nil() => canon.mm_info(info)?,
            _ => {}
        }
        let bytes = canon.bytes();
        out.push(if bytes.is_empty() { None } else { Some(xxh3_64_with_seed(bytes, context.seed)) });
    }
    Ok(salt.filter(|salt| !salt.is_empty()))
}

/// Which item of a root block is the salt, and its text.
fn salt_of<'a>(items: &[Entry<'a>], lora: Option<&str>) -> Option<(usize, &'a str)> {
    let typed = items.iter().enumerate().find_map(|(place, item)| Some((place, item.typed_salt()?)));
    let bare = || {
        items.iter().enumerate().rev().find_map(|(place, item)| {
            let text = item.text()?;
            (Some(text) != lora && !is_image_id(text)).then_some((place, text))
        })
    };
    typed.or_else(bare)
}

fn is_image_id(text: &str) -> bool {
    text.len() == IMAGE_ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The lower-case hexadecimal digits of some bytes.
pub(crate) fn hex(bytes: &[u8]) -> impl Iterator<Item = char> {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(move |byte| [digit(byte >> 4), digit(byte & 15)])
}
