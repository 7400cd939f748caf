//! Records: one CSV a day, one line a figure and structure.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where and when figures were taken.
pub struct Origin {
    /// `YYYY-MM-DD`.
    pub date: String,
    /// Short commit of the work tree.
    pub commit: String,
    /// Cores, processor and kernel.
    pub machine: String,
    /// Load of the last minute, when it began.
    pub load: String,
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn first_words(path: &str, words: usize) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_whitespace().take(words).collect::<Vec<_>>().join(" "))
}

impl Origin {
    /// Of this process.
    pub fn here() -> Self {
        let unknown = || "unknown".to_owned();
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processor
            .lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| line.split_once(": "))
            .map_or_else(unknown, |(_, model)| model.to_owned());
        let kernel = first_words("/proc/sys/kernel/osrelease", 1).unwrap_or_else(unknown);
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        Self {
            date: output("date", &["+%F"]).unwrap_or_else(unknown),
            commit: output("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_else(unknown),
            machine: format!("{cores} cores {model}, Linux {kernel}"),
            load: first_words("/proc/loadavg", 1).unwrap_or_else(unknown),
        }
    }
}

/// One figure of one structure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Workload.
    pub workload: String,
    /// What of it.
    pub case: String,
    /// Whose figure it is.
    pub whose: String,
    /// Median, and what it counts in.
    pub value: f64,
    /// Unit.
    pub unit: &'static str,
    /// Answers that were wrong, of how many.
    pub wrong: Option<(usize, usize)>,
}

/// Names of the columns.
pub const COLUMNS: &str = "date,commit,machine,load,workload,case,structure,value,unit,wrong,answers";

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Lines of CSV, without the names of the columns.
pub fn lines(origin: &Origin, figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let of = [&origin.date, &origin.commit, &origin.machine, &origin.load];
        let mut cells: Vec<String> = of.into_iter().map(|cell| quoted(cell)).collect();
        cells.extend([quoted(&figure.workload), quoted(&figure.case), quoted(&figure.whose)]);
        cells.push(format!("{:.4}", figure.value));
        cells.push(quoted(figure.unit));
        let (wrong, answers) = figure
            .wrong
            .map_or((String::new(), String::new()), |(wrong, of)| (wrong.to_string(), of.to_string()));
        cells.extend([wrong, answers]);
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

/// Appends figures to the record `name` of the day in `folder`, which is made when it is missing.
///
/// # Errors
/// The file cannot be read or written.
pub fn append(folder: &Path, name: &str, origin: &Origin, figures: &[Figure]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}-{name}.csv", origin.date));
    let mut text = if path.exists() { fs::read_to_string(&path)? } else { format!("{COLUMNS}\n") };
    text.push_str(&lines(origin, figures));
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_as_many_cells_as_there_are_columns() {
        let origin = Origin {
            date: "2026-01-02".into(),
            commit: "abc".into(),
            machine: "2 cores \"X\", Linux".into(),
            load: "0.5".into(),
        };
        let figure = |wrong| Figure {
            workload: "query".into(),
            case: "depth 8".into(),
            whose: "kvatlas".into(),
            value: 1.25,
            unit: "us",
            wrong,
        };
        let folder = std::env::temp_dir().join(format!("kvatlas-perf-record-{}", std::process::id()));
        append(&folder, "peers", &origin, &[figure(None)]).unwrap();
        append(&folder, "peers", &origin, &[figure(Some((1, 9)))]).unwrap();
        let text = fs::read_to_string(folder.join("2026-01-02-peers.csv")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        let machine = "\"2 cores \"\"X\"\", Linux\"";
        assert_eq!(rows[0], COLUMNS);
        assert_eq!(rows[1], format!("2026-01-02,abc,{machine},0.5,query,depth 8,kvatlas,1.2500,us,,"));
        assert_eq!(rows[2], format!("2026-01-02,abc,{machine},0.5,query,depth 8,kvatlas,1.2500,us,1,9"));
    }
}
