//! A `/query` answer as a small table.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Characters of a full bar.
const BAR: u64 = 16;

/// One instance of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Instance.
    pub instance: String,
    /// Tokens of the longest match.
    pub matched: u64,
    /// Tokens a tier, GPU, CPU and DISK first.
    pub tiers: Vec<(String, u64)>,
    /// Tokens a data-parallel rank.
    pub ranks: Vec<(String, u64)>,
    /// Why nothing matched, where the daemon was asked for detail.
    pub why: Option<String>,
}

/// The instances of an answer, best first: the longest match, then the most of it on GPU, then the name.
pub fn rows(answer: &Value) -> Vec<Row> {
    let tenants = answer.as_object().into_iter().flat_map(Map::values);
    let instances = tenants.filter_map(Value::as_object).flatten();
    let mut rows: Vec<_> =
        instances.filter_map(|(instance, hit)| Some(Row::new(instance, hit.as_object()?))).collect();
    rows.sort_by(|a, b| {
        let key = |row: &Row| (row.matched, row.tier("GPU"));
        key(b).cmp(&key(a)).then_with(|| a.instance.cmp(&b.instance))
    });
    rows
}

/// The table of an answer to a prompt of `prompt_tokens`.
pub fn render(rows: &[Row], prompt_tokens: u64) -> String {
    let mut text = String::new();
    if rows.is_empty() {
        text.push_str("  no instance is registered for this tenant\n");
        return text;
    }
    let width = rows.iter().map(|row| row.instance.chars().count()).max().unwrap_or(0).max("instance".len());
    // writing to a String cannot fail
    let _ = writeln!(text, "  {:width$}  {:>7}  where the matched tokens lie", "instance", "matched");
    for row in rows {
        let _ = write!(text, "  {:width$}  {:>7}", row.instance, row.matched);
        for (tier, tokens) in row.tiers.iter().filter(|(tier, tokens)| *tokens > 0 || tier == "GPU") {
            let _ = write!(text, "  {tier} {} {tokens:<6}", bar(*tokens, prompt_tokens));
        }
        let ranks: Vec<_> = row.ranks.iter().map(|(rank, tokens)| format!("{rank}:{tokens}")).collect();
        if !ranks.is_empty() {
            let _ = write!(text, "  DP {}", ranks.join(" "));
        }
        if let Some(why) = &row.why {
            let _ = write!(text, "  ({why})");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let _ = match rows.first() {
        Some(best) if best.matched > 0 => {
            let share = best.matched.saturating_mul(100) / prompt_tokens.max(1);
            writeln!(text, "  best choice: {} ({share} % of the prompt need no prefill)", best.instance)
        }
        _ => writeln!(text, "  best choice: any, nobody holds the start of this prompt"),
    };
    text
}

impl Row {
    fn new(instance: &str, hit: &Map<String, Value>) -> Self {
        let count = |key: &str| hit.get(key).and_then(Value::as_u64).unwrap_or(0);
        let mut tiers: Vec<_> = ["GPU", "CPU", "DISK"].map(|tier| (tier.to_owned(), count(tier))).into();
        let known = ["longest_matched", "GPU", "CPU", "DISK"];
        let more = hit.iter().filter(|(key, _)| !known.contains(&key.as_str()));
        tiers.extend(more.filter_map(|(key, value)| Some((key.clone(), value.as_u64()?))));
        let ranks = hit.get("DP").and_then(Value::as_object).into_iter().flatten();
        let mut ranks: Vec<_> =
            ranks.map(|(rank, tokens)| (rank.clone(), tokens.as_u64().unwrap_or(0))).collect();
        ranks.sort_by_key(|(rank, _)| rank.parse::<u64>().unwrap_or(u64::MAX));
        let why = hit.get("why").and_then(Value::as_str).map(str::to_owned);
        Self { instance: instance.to_owned(), matched: count("longest_matched"), tiers, ranks, why }
    }

    /// Tokens on `tier`.
    pub fn tier(&self, tier: &str) -> u64 {
        self.tiers.iter().find(|(name, _)| name == tier).map_or(0, |(_, tokens)| *tokens)
    }
}

/// `tokens` of `whole` as a bar; a share that is not nothing is never an empty bar.
fn bar(tokens: u64, whole: u64) -> String {
    let full = tokens.saturating_mul(BAR).checked_div(whole).unwrap_or(0).min(BAR).max(u64::from(tokens > 0));
    (0..BAR).map(|place| if place < full { '█' } else { '░' }).collect()
}
