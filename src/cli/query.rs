//! `kvatlas query`: asks a running daemon who holds a prompt.

use std::fs::File;
use std::io::{self, Read};
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use super::client::{Client, ClientError, Response, Target};
use super::exit::{self, Failure};
use super::output;
use super::table;
use crate::limits::{BLOCK_TOKENS, CLIENT_INPUT_BYTES};

/// Flags of `query`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct QueryArgs {
    /// Model name, as registered
    #[arg(long)]
    model: String,
    /// Tokens a block, as registered
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCK_TOKENS)))]
    block_size: u32,
    /// What the prompt is
    #[command(flatten)]
    prompt: Prompt,
    /// The daemon: http://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL", env = "KVATLAS_TARGET", default_value = "http://127.0.0.1:13333")]
    target: Target,
    /// Tenant [default: default]
    #[arg(long)]
    tenant: Option<String>,
    /// Ask for this instance only
    #[arg(long)]
    instance: Option<String>,
    /// LoRA adapter [default: the base model]
    #[arg(long, value_name = "NAME")]
    lora: Option<String>,
    /// Cache salt
    #[arg(long)]
    salt: Option<String>,
    /// Also ask why nothing matched, and what each stream is worth
    #[arg(long)]
    detail: bool,
    /// Print the daemon's answer as it came
    #[arg(long)]
    json: bool,
    /// Give up after this long, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

/// Exactly one way to name the prompt.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Prompt {
    /// Token ids, as in 1,2,3
    #[arg(long, value_name = "IDS")]
    tokens: Option<String>,
    /// File of token ids, a JSON array or numbers apart by blanks or commas; - is standard input
    #[arg(long, value_name = "FILE")]
    tokens_file: Option<PathBuf>,
    /// Rolling block hashes instead of tokens, as in 1,2,3
    #[arg(long, value_name = "HASHES", allow_hyphen_values = true)]
    hashes: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  kvatlas query --model qwen --block-size 16 --tokens-file prompt.json
  kvatlas query --model qwen --block-size 4 --tokens 1,2,3,4,5,6,7,8 --detail --json
  kvatlas query --model qwen --block-size 64 --hashes 1234,5678 --target unix:/run/k.sock

Exit codes: 0 answered, 65 the daemon refused the question, 69 cannot connect.";

/// Asks and shows the answer.
pub fn run(args: &QueryArgs) -> Result<(), Failure> {
    let (path, mut body, prompt_tokens) = args.question()?;
    let optional = [("tenant_id", &args.tenant), ("instance_id", &args.instance), ("lora_name", &args.lora)];
    for (key, value) in optional.into_iter().chain([("cache_salt", &args.salt)]) {
        if let Some(value) = value {
            body.insert(key.into(), json!(value));
        }
    }
    if args.detail {
        body.insert("detail".into(), json!(true));
    }
    let client = Client::new(args.target.clone(), Duration::from_secs(args.timeout));
    let answer = ask(&client, path, &Value::Object(body))?;
    if args.json {
        output::line(&answer)?;
    } else {
        let (model, block_size) = (&args.model, args.block_size);
        output::line(format_args!(
            "prompt of {prompt_tokens} tokens, model {model}, blocks of {block_size}"
        ))?;
        output::print(table::render(&table::rows(&answer), prompt_tokens))?;
    }
    Ok(())
}

/// Posts a question and parses its answer.
pub fn ask(client: &Client, path: &str, body: &Value) -> Result<Value, Failure> {
    let response = client.post(path, body.to_string().as_bytes()).map_err(|error| unreachable(&error))?;
    if response.status != 200 {
        return Err(Failure::new(exit::DATA, format!("refused: {}", error_text(&response))));
    }
    serde_json::from_slice(&response.body)
        .map_err(|error| Failure::new(exit::DATA, format!("the answer is no JSON: {error}")))
}

fn unreachable(error: &ClientError) -> Failure {
    Failure::new(exit::UNAVAILABLE, error.to_string())
}

/// The daemon's own words: the `error` of a JSON body, else the body's text.
fn error_text(response: &Response) -> String {
    let json = serde_json::from_slice::<Value>(&response.body).ok();
    let error = json.as_ref().and_then(|body| body.get("error")?.as_str());
    let text = error.map_or_else(|| String::from_utf8_lossy(&response.body).trim().to_owned(), str::to_owned);
    format!("{} {text}", response.status)
}

impl QueryArgs {
    /// Path, body and the prompt's length in tokens.
    fn question(&self) -> Result<(&'static str, Map<String, Value>, u64), Failure> {
        let bad = |reason: String| Failure::new(exit::USAGE, reason);
        let mut body = Map::new();
        body.insert("model".into(), json!(self.model));
        body.insert("block_size".into(), json!(self.block_size));
        if let Some(hashes) = &self.prompt.hashes {
            let hashes =
                numbers::<Hash>(hashes).map_err(|word| bad(format!("--hashes: not 64 bits: {word}")))?;
            let hashes: Vec<u64> = hashes.into_iter().map(|Hash(bits)| bits).collect();
            let tokens = hashes.len() as u64 * u64::from(self.block_size);
            body.insert("seq_hashes".into(), json!(hashes));
            return Ok(("/query_by_hash", body, tokens));
        }
        let (flag, text) = match (&self.prompt.tokens, &self.prompt.tokens_file) {
            (Some(tokens), _) => ("--tokens".to_owned(), tokens.clone()),
            (None, Some(path)) => (path.display().to_string(), read(path)?),
            (None, None) => return Err(bad("one of --tokens, --tokens-file, --hashes is needed".into())),
        };
        let tokens = numbers::<u32>(&text).map_err(|word| bad(format!("{flag}: not a token id: {word}")))?;
        let len = tokens.len() as u64;
        body.insert("token_ids".into(), json!(tokens));
        Ok(("/query", body, len))
    }
}

/// Numbers of a JSON array, or apart by blanks and commas; an error is the word that is none.
/// 64 bits, written with or without a sign.
struct Hash(u64);

impl FromStr for Hash {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().or_else(|_| text.parse().map(i64::cast_unsigned)).map(Self)
    }
}

fn numbers<T: FromStr>(text: &str) -> Result<Vec<T>, String> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let words = inner.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| word.chars().take(40).collect())).collect()
}

fn read(path: &Path) -> Result<String, Failure> {
    let open = || -> io::Result<String> {
        let source: Box<dyn Read> =
            if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
        let mut text = String::new();
        source.take(CLIENT_INPUT_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > CLIENT_INPUT_BYTES {
            return Err(io::Error::other(format!("longer than {CLIENT_INPUT_BYTES} bytes")));
        }
        Ok(text)
    };
    open().map_err(|error| Failure::new(exit::NO_INPUT, format!("cannot read {}: {error}", path.display())))
}
