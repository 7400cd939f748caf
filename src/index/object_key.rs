//! What the key of a pool object says of the block in it.
//!
//! | Key | Meaning |
//! |---|---|
//! | decimal, or `0x` and hexadecimal, within 64 bits | the block's standard hash |
//! | vLLM's connector: `[ns@]model@tp_rank:N@…@hash`, also `model@hash@rank` and `…@hash@layer` | an engine hash: the last 16 digits of the last hexadecimal part |
//! | SGLang's connector: `[tag_][model_]<64 digits>[_rank_…]` | an engine hash: the first 16 of the 64 digits |

/// Fewest hexadecimal digits of a hash in a vLLM connector's key.
const HASH_DIGITS: usize = 16;
/// Hexadecimal digits of a digest in an SGLang connector's key.
const DIGEST_DIGITS: usize = 64;

/// The hash that a key names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyHash {
    /// A rolling hash of the contract.
    Standard(u64),
    /// A hash that an engine announced.
    Engine(u64),
}

/// A key, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectKey {
    /// The hash it names.
    pub hash: KeyHash,
    /// Tensor-parallel rank whose part the object is.
    pub tp_rank: Option<u32>,
}

/// Reads a key; `None` when it says nothing about a block.
pub fn parse(key: &str) -> Option<ObjectKey> {
    if let Some(hash) = number(key) {
        return Some(ObjectKey { hash: KeyHash::Standard(hash), tp_rank: None });
    }
    if key.contains('@') { vllm(key) } else { sglang(key) }
}

/// The engine hash that a connector's `connector_block_hash` or hexadecimal digest spells: its low 64 bits.
fn low(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits.get(digits.len().checked_sub(HASH_DIGITS)?..)?, 16).ok()
}

fn number(key: &str) -> Option<u64> {
    match key.strip_prefix("0x").or_else(|| key.strip_prefix("0X")) {
        Some(digits) if is_hex(digits) => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        // the publisher reads them with stoull, which takes blanks and a sign in front
        None => {
            let key = key.trim_start();
            match key.strip_prefix('-') {
                Some(digits) if is_decimal(digits) => digits.parse::<u64>().ok().map(u64::wrapping_neg),
                _ => {
                    let digits = key.strip_prefix('+').unwrap_or(key);
                    is_decimal(digits).then(|| digits.parse().ok()).flatten()
                }
            }
        }
    }
}

fn vllm(key: &str) -> Option<ObjectKey> {
    let mut tp_rank = None;
    let mut hash = None;
    // the first part is a name space or a model, which may look like a hash
    for part in key.split('@').skip(1) {
        if let Some(rank) = part.strip_prefix("tp_rank:").or_else(|| part.strip_prefix("head_or_tp_rank:")) {
            tp_rank = rank.parse().ok();
        } else if part.len() >= HASH_DIGITS && is_hex(part) {
            hash = low(part);
        } else if hash.is_some() && is_decimal(part) && tp_rank.is_none() && part.len() <= 4 {
            // `model@hash@rank`
            tp_rank = part.parse().ok();
        }
    }
    hash.map(|hash| ObjectKey { hash: KeyHash::Engine(hash), tp_rank })
}

fn sglang(key: &str) -> Option<ObjectKey> {
    let parts: Vec<&str> = key.split('_').collect();
    let at = parts.iter().rposition(|part| part.len() == DIGEST_DIGITS && is_hex(part))?;
    let hash = u64::from_str_radix(parts[at].get(..HASH_DIGITS)?, 16).ok()?;
    let tp_rank = parts.get(at + 1).and_then(|rank| rank.parse().ok());
    Some(ObjectKey { hash: KeyHash::Engine(hash), tp_rank })
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "87c447e7e156b622c0479a6a52e15865bb8309af41d505658366ea7c6c088bb0";

    fn engine(hash: u64, tp_rank: Option<u32>) -> ObjectKey {
        ObjectKey { hash: KeyHash::Engine(hash), tp_rank }
    }

    fn standard(hash: u64) -> ObjectKey {
        ObjectKey { hash: KeyHash::Standard(hash), tp_rank: None }
    }

    #[test]
    fn numbers_are_standard_hashes() {
        assert_eq!(parse("12345"), Some(standard(12345)));
        assert_eq!(parse("0x8000000000000011"), Some(standard(0x8000_0000_0000_0011)));
        assert_eq!(parse("0XFFffFFffFFffFFff"), Some(standard(u64::MAX)));
        assert_eq!(parse("  +7"), Some(standard(7)));
        assert_eq!(parse("-1"), Some(standard(u64::MAX)));
        for nothing in ["", "0x", "18446744073709551616", "12a", "0x10000000000000000", "opaque", "7 "] {
            assert_eq!(parse(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn vllm_keys_name_engine_hashes() {
        let hash = 0x1453_887b_2877_d089;
        assert_eq!(parse("Qwen3-8B@tp_rank:0@group:0@1453887b2877d089"), Some(engine(hash, Some(0))));
        let long = format!("ns@m@tp_rank:3@pcp0@dcp0@pp_rank:0@group:1@{DIGEST}");
        assert_eq!(parse(&long), Some(engine(0x8366_ea7c_6c08_8bb0, Some(3))));
        assert_eq!(parse(&format!("m@{DIGEST}")), Some(engine(0x8366_ea7c_6c08_8bb0, None)));
        let ascend = format!("m@pcp0@dcp0@head_or_tp_rank:2@pp_rank:0@{DIGEST}@17");
        assert_eq!(parse(&ascend), Some(engine(0x8366_ea7c_6c08_8bb0, Some(2))));
        assert_eq!(parse("m@1453887b2877d089@5"), Some(engine(hash, Some(5))));
        assert_eq!(parse("m@tp_rank:0@nothing"), None);
    }

    #[test]
    fn sglang_keys_name_the_first_digits() {
        assert_eq!(parse(DIGEST), Some(engine(0x87c4_47e7_e156_b622, None)));
        assert_eq!(parse(&format!("tag_model_{DIGEST}_3_k")), Some(engine(0x87c4_47e7_e156_b622, Some(3))));
        assert_eq!(parse(&format!("{DIGEST}_v")), Some(engine(0x87c4_47e7_e156_b622, None)));
    }
}
