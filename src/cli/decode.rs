//! `kvatlas decode`: what a captured payload means, one JSON object a payload.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::exit;
use crate::event::describe;

/// Arguments of `kvatlas decode`.
#[derive(clap::Args, Debug)]
pub struct DecodeArgs {
    /// Payloads are hexadecimal text, one a line; blanks inside a line are ignored
    #[arg(long)]
    pub hex: bool,
    /// Files to decode; `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Decodes every file and writes one line a payload. A refused payload is an answer, not an error.
pub fn run(args: &DecodeArgs) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let mut code = ExitCode::SUCCESS;
    for file in &args.files {
        if let Err((failed, why)) = answer(file, args.hex, &mut out) {
            eprintln!("{}: {why}", file.display());
            code = ExitCode::from(failed);
        }
    }
    code
}

/// Writes the meaning of every payload of one file.
fn answer(file: &Path, hex: bool, out: &mut impl Write) -> Result<(), (u8, String)> {
    let content = read(file).map_err(|error| (exit::NO_INPUT, error.to_string()))?;
    let bad = |why: String| (exit::DATA, why);
    let mut write = |payload: &[u8]| {
        writeln!(out, "{}", describe(payload)).map_err(|error| (exit::CANNOT_CREATE, error.to_string()))
    };
    if !hex {
        return write(&content);
    }
    let text = std::str::from_utf8(&content).map_err(|_| bad("not a text".to_owned()))?;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let payload = from_hex(line).ok_or_else(|| bad(format!("line {}: not hexadecimal", number + 1)))?;
        write(&payload)?;
    }
    Ok(())
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return std::fs::read(file);
    }
    let mut content = Vec::new();
    std::io::stdin().lock().read_to_end(&mut content)?;
    Ok(content)
}

/// The bytes of pairs of hexadecimal digits; blanks do not count. `None` for anything else.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let mut digits = text.chars().filter(|digit| !digit.is_whitespace()).map(|digit| digit.to_digit(16));
    let mut bytes = Vec::with_capacity(text.len() / 2);
    while let Some(high) = digits.next() {
        bytes.push((high? << 4 | digits.next()??) as u8);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_text_may_have_blanks_and_nothing_else() {
        assert_eq!(from_hex("93 c0\t90C0"), Some(vec![0x93, 0xc0, 0x90, 0xc0]));
        assert_eq!(from_hex(""), Some(vec![]));
        assert_eq!(from_hex("9"), None);
        assert_eq!(from_hex("9g"), None);
    }

    #[test]
    fn every_line_is_answered_and_a_refused_payload_is_an_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("payloads.hex");
        std::fs::write(&path, "93c090c0\n\n07\n").unwrap();
        let mut out = Vec::new();
        answer(&path, true, &mut out).unwrap();
        let lines: Vec<serde_json::Value> = std::str::from_utf8(&out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["batch"], "accept");
        assert_eq!(lines[1]["batch"], "reject");
        assert_eq!(lines[1]["reason"], "not_a_batch");

        std::fs::write(&path, "93c090c0\nzz\n").unwrap();
        let why = answer(&path, true, &mut Vec::new()).unwrap_err();
        assert!(why.1.contains("line 2"), "{why:?}");
    }
}
