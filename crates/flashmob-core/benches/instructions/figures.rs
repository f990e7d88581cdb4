//! The accepted figures: kept in a file of the folder bench, compared with what was counted.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::callgrind::Row;

/// A row may be so much worse than accepted.
const WORSE_MAX: f64 = 0.05;
/// Rows of fewer instructions than this per request ...
const TINY_INSTRUCTIONS: f64 = 50.0;
/// ... may be so much worse: a register more or less is a few percent of them.
const TINY_WORSE_MAX: f64 = 0.10;
/// More allocations per request than accepted, and than this on top, are too many.
const ALLOCATIONS_SLACK: f64 = 0.01;

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench")).join(name)
}

/// Prints the table and compares it with the accepted figures, which the file `name` has; with `accept` it writes them instead. False if a row is too much worse.
/// Rows that are missing are reported only if all were counted.
pub fn judge(rows: &[Row], name: &str, accept: bool, are_all: bool) -> Result<bool, String> {
    let path = path(name);
    let known = load(&path)?;
    let differences = differences(&known);
    let mut failed = Vec::new();
    let mut better = Vec::new();
    let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0);
    println!(
        "{:width$}  {:>12} {:>9} {:>9} {:>11} {:>12} {:>7}",
        "per request", "instructions", "of memory", "of CRC-32", "allocations", "accepted", "change"
    );
    for row in rows {
        let accepted = known.get("rows").and_then(|r| r.get(&row.name));
        let number = |key: &str| accepted.and_then(|a| a.get(key)).and_then(Value::as_f64);
        let (before, change) = match number("instructions") {
            Some(before) => (format!("{before:.1}"), Some(row.instructions / before - 1.0)),
            None => ("new".to_string(), None),
        };
        println!(
            "{:width$}  {:12.1} {:9.1} {:9.1} {:11.3} {:>12} {:>7}",
            row.name,
            row.instructions,
            row.memory,
            row.checksum,
            row.allocations,
            before,
            change.map_or(String::new(), |c| format!("{:+.1} %", c * 100.0)),
        );
        let is_tiny = row.instructions < TINY_INSTRUCTIONS;
        match change {
            Some(change) if change > if is_tiny { TINY_WORSE_MAX } else { WORSE_MAX } => {
                failed.push(format!("{}: {:+.1} % instructions", row.name, change * 100.0));
            }
            Some(change) if change < -WORSE_MAX => better.push(row.name.clone()),
            Some(_) => {}
            None => failed.push(format!("{}: no figure is accepted for it", row.name)),
        }
        if let Some(before) = number("allocations")
            && row.allocations > before + ALLOCATIONS_SLACK
        {
            failed.push(format!("{}: {:.3} allocations, {before:.3} are accepted", row.name, row.allocations));
        }
    }
    if are_all && let Some(accepted) = known.get("rows").and_then(Value::as_object) {
        let gone = accepted.keys().filter(|name| !rows.iter().any(|r| r.name == **name));
        failed.extend(gone.map(|name| format!("{name}: accepted, but not counted any more")));
    }
    println!();
    if accept {
        if !are_all && !differences.is_empty() {
            return Err(format!("accept all rows or none: the others are from {}", differences.join(", ")));
        }
        save(&path, known, rows, are_all)?;
        println!("accepted: {}", path.display());
        return Ok(true);
    }
    if !better.is_empty() {
        println!("better than accepted: {}\nmake it the new mark: make bench-instructions ACCEPT=1", better.join("; "));
    }
    if failed.is_empty() {
        return Ok(true);
    }
    println!("worse than accepted:\n  {}", failed.join("\n  "));
    if differences.is_empty() {
        println!("if it is worth that: make bench-instructions ACCEPT=1, and say why in the commit");
        return Ok(false);
    }
    println!("not held against it, for the figures were accepted with {}", differences.join(", "));
    Ok(true)
}

/// What the counts depend on besides the code.
fn surroundings() -> Map<String, Value> {
    let first_line = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or("unknown").trim().to_string()
    };
    #[cfg(target_arch = "x86_64")]
    let has_avx2 = std::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let has_avx2 = false;
    let mut map = Map::new();
    map.insert("rustc".into(), first_line("rustc", &["--version"]).into());
    map.insert("libc".into(), first_line("getconf", &["GNU_LIBC_VERSION"]).into());
    map.insert("valgrind".into(), first_line("valgrind", &["--version"]).into());
    map.insert(
        "processor".into(),
        format!("{}{}", std::env::consts::ARCH, if has_avx2 { ", AVX2" } else { "" }).into(),
    );
    map
}

/// Where the surroundings are not those of the accepted figures.
fn differences(known: &Map<String, Value>) -> Vec<String> {
    let now = surroundings();
    let differs = |(key, value): (&String, &Value)| match known.get(key) {
        Some(accepted) if accepted != value => Some(format!("{accepted} (here {value})")),
        _ => None,
    };
    now.iter().filter_map(differs).collect()
}

fn load(path: &Path) -> Result<Map<String, Value>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes the counted rows; those that were not counted stay as they were.
fn save(path: &Path, mut known: Map<String, Value>, rows: &[Row], are_all: bool) -> Result<(), String> {
    let mut kept = match known.remove("rows") {
        Some(Value::Object(kept)) if !are_all => kept,
        _ => Map::new(),
    };
    for row in rows {
        // A tenth of an instruction, a thousandth of an allocation: finer differences mean nothing.
        let figures = json!({
            "instructions": (row.instructions * 10.0).round() / 10.0,
            "allocations": (row.allocations * 1000.0).round() / 1000.0,
        });
        kept.insert(row.name.clone(), figures);
    }
    // One row per line, so that a change of it can be read.
    let lines = |map: &Map<String, Value>, indent: &str| -> String {
        let line = |(key, value): (&String, &Value)| format!("{indent}{}: {value}", Value::from(key.as_str()));
        map.iter().map(line).collect::<Vec<_>>().join(",\n")
    };
    let text = format!("{{\n{},\n  \"rows\": {{\n{}\n  }}\n}}\n", lines(&surroundings(), "  "), lines(&kept, "    "));
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|e| format!("{}: {e}", path.display()))?;
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
