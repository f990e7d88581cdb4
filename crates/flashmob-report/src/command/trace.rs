//! Commands that trace again.

use std::collections::BTreeSet;

use flashmob_results::trace::{Run, Trace, Workload};

use super::quoted;

/// One for all runs of SQLite if they are all combinations of their modes and levels, else one for each run.
pub(super) fn lines(trace: &Trace) -> Vec<String> {
    let settings: BTreeSet<(&str, &str, u64, u64)> = trace.runs.iter().filter_map(setting).collect();
    let list = |of: fn(&(&str, &str, u64, u64)) -> String| -> Vec<String> {
        settings.iter().map(of).collect::<BTreeSet<String>>().into_iter().collect()
    };
    let (modes, levels) = (list(|s| s.0.to_string()), list(|s| s.1.to_string()));
    let (inserts, bytes) = (list(|s| s.2.to_string()), list(|s| s.3.to_string()));
    let sqlite = |modes: &str, levels: &str, inserts: &str, bytes: &str| {
        let (modes, levels) = (quoted(modes)?, quoted(levels)?);
        Some(format!(
            "flashmob trace sqlite --inserts {inserts} --string-bytes {bytes} --journal {modes} --synchronous {levels}"
        ))
    };
    let mut lines: Vec<Option<String>> = Vec::new();
    if !settings.is_empty() && modes.len() * levels.len() == settings.len() && inserts.len() + bytes.len() == 2 {
        lines.push(sqlite(&modes.join(","), &levels.join(","), &inserts[0], &bytes[0]));
    } else {
        lines.extend(
            settings.iter().map(|(mode, level, n, size)| sqlite(mode, level, &n.to_string(), &size.to_string())),
        );
    }
    for run in &trace.runs {
        let line = match &run.workload {
            Workload::Sqlite { .. } => continue,
            Workload::Command { command, .. } => {
                let words: Option<Vec<String>> = command.iter().map(|word| quoted(word)).collect();
                words.map(|words| format!("flashmob trace run -- {}", words.join(" ")))
            }
            Workload::Cluster { .. } => Some("flashmob trace cluster".to_string()),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.into_iter().flatten().collect()
}

fn setting(run: &Run) -> Option<(&str, &str, u64, u64)> {
    match &run.workload {
        Workload::Sqlite { inserts, string_bytes, journal_mode, synchronous, .. } => {
            Some((journal_mode, synchronous, *inserts, *string_bytes))
        }
        _ => None,
    }
}
