//! The report for people, as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use flashmob_core::units::Bytes;

use super::{Header, Report, RowReport, TargetReport};
use crate::rows::{Class, Group, Path};

/// Everything.
pub fn full(report: &Report) -> String {
    let mut text = header(&report.header);
    text.push_str("\n## Goals\n\n");
    text.push_str(&targets(&report.targets));
    let mut groups: Vec<Group> = report.rows.iter().map(|row| row.group).collect();
    groups.dedup();
    for group in groups {
        let rows: Vec<&RowReport> = report.rows.iter().filter(|row| row.group == group).collect();
        let _ = write!(text, "\n## {}\n\n{}", group.title(), table(group, &rows));
    }
    if !report.not_measured.is_empty() {
        text.push_str("\n## Not measured\n\n");
        for missing in &report.not_measured {
            let _ = writeln!(text, "- {} ({}): {}", missing.name, missing.id, missing.reason);
        }
    }
    text.push_str("\n## Notes\n\n");
    for note in &report.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn header(header: &Header) -> String {
    let mut text = String::from("# flashmob beside other servers\n\n");
    let _ = writeln!(
        text,
        "{}, {} cores, Linux {}, {} available. Files of {} in the page cache ({}), client and servers on the same cores.\n\
         {} rounds over all rows, {} s each; medians, ratios within each round.{}\n",
        header.cpu,
        header.cpus,
        header.kernel,
        Bytes(header.memory_available_bytes),
        Bytes(header.file_bytes),
        if header.pages_locked { "locked" } else { "read through before each round" },
        header.rounds,
        header.seconds_per_row,
        if header.quick { " **Quick: good for a look, not to be quoted.**" } else { "" },
    );
    for (program, version) in &header.versions {
        let _ = writeln!(text, "- {program}: {version}");
    }
    text
}

fn targets(targets: &[TargetReport]) -> String {
    let mut text = String::from(
        "| path | measure | this run | rounds | at least | aim | reached |\n|---|---|--:|--:|--:|--:|---|\n",
    );
    for target in targets {
        let (ratio, rounds) = match &target.ratio {
            Some(ratio) => (figure(ratio.median), format!("{} to {}", figure(ratio.min), figure(ratio.max))),
            None => ("-".to_string(), "-".to_string()),
        };
        let reached = match (target.reaches_at_least, target.reaches_aim) {
            (Some(true), Some(true)) => "**yes, the aim**",
            (Some(true), _) => "**yes**",
            (Some(false), _) => "no",
            (None, _) => "not measured",
        };
        let bound = if target.lower_is_better { "≤ " } else { "" };
        let _ = writeln!(
            text,
            "| {} | {} | {ratio} | {rounds} | {bound}{} | {bound}{} | {reached} |",
            target.path, target.measure, target.at_least, target.aim
        );
    }
    text
}

fn table(group: Group, rows: &[&RowReport]) -> String {
    let unit = match group {
        Group::Writes => "writes/s",
        Group::Sequential => "MiB/s",
        _ => "reads/s",
    };
    let mut text = format!(
        "| | {unit} | min to max | to best peer | to pread | p50 us | p99 us | CPU us: client + front + behind | segments | syscalls | memory MiB, own + files | |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n"
    );
    for row in rows {
        let name = if row.class == Class::Ours { format!("**{}**", row.name) } else { row.name.clone() };
        let what = if row.path == Path::Native { "calls outstanding" } else { "connections" };
        let width = row.width.map_or(String::new(), |width| format!(", {width} {what}"));
        let calls = match (row.front_system_calls, row.back_system_calls) {
            (Some(front), Some(back)) => format!("{front:.2} + {back:.2}"),
            (Some(front), None) => format!("{front:.2}"),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "| {name}{width} | {} | {} to {} | {} | {} | {} | {} | {} | {} | {calls} | {} | {} |",
            count(row.per_second.median),
            count(row.per_second.min),
            count(row.per_second.max),
            row.to_best_peer.map_or(String::new(), figure),
            row.to_pread.map_or(String::new(), figure),
            row.p50_us.map_or(String::new(), |us| format!("{us:.0}")),
            row.p99_us.map_or(String::new(), |us| format!("{us:.0}")),
            cpu(row),
            row.segments_per_request.map_or(String::new(), |segments| format!("{segments:.2}")),
            memory(row),
            if row.spread_is_wide { "rounds differ widely" } else { "" },
        );
    }
    text
}

fn cpu(row: &RowReport) -> String {
    let mut parts = Vec::new();
    parts.extend(row.client_cpu_us.map(|us| format!("{us:.2}")));
    if row.front_cpu_us > 0.0 {
        parts.push(format!("{:.2}", row.front_cpu_us));
    }
    if row.back_cpu_us > 0.0 {
        parts.push(format!("{:.2}", row.back_cpu_us));
    }
    parts.join(" + ")
}

fn memory(row: &RowReport) -> String {
    let mib = |bytes: u64| (bytes as f64 / f64::from(1 << 20)).round();
    let part = |anon, file| format!("{} + {}", mib(anon), mib(file));
    let mut parts = Vec::new();
    if row.front_rss_anon_bytes > 0 {
        parts.push(part(row.front_rss_anon_bytes, row.front_rss_file_bytes));
    }
    if row.back_rss_anon_bytes > 0 {
        parts.push(format!("behind: {}", part(row.back_rss_anon_bytes, row.back_rss_file_bytes)));
    }
    parts.join("; ")
}

/// The few figures that a reader of the README wants.
pub fn readme(report: &Report) -> String {
    let groups = [Group::Blocks1, Group::Blocks4, Group::Bytes4];
    let mut names: Vec<(&str, Class)> = Vec::new();
    let shown = |row: &&RowReport| groups.contains(&row.group) && row.class != Class::CrossCheck;
    for row in report.rows.iter().filter(shown) {
        if !names.iter().any(|(name, _)| *name == row.name) {
            names.push((&row.name, row.class));
        }
    }
    let mut text = String::from("| reads/s | 4 KiB, 1 conn | 4 KiB, 4 conn | 1 B, 4 conn |\n|---|--:|--:|--:|\n");
    for (name, class) in names {
        let cell = |group| {
            let row = report.rows.iter().find(|row| row.group == group && row.name == name);
            row.map_or("-".to_string(), |row| count(row.per_second.median))
        };
        let shown = if class == Class::Ours { format!("**{name}**") } else { name.to_string() };
        let _ = writeln!(text, "| {shown} | {} | {} | {} |", cell(groups[0]), cell(groups[1]), cell(groups[2]));
    }
    let header = &report.header;
    let _ = writeln!(
        text,
        "\n{}, {} cores, Linux {}, a page-cached file of {}, 64 outstanding per connection, all on the same cores; medians of {} rounds.",
        header.cpu,
        header.cpus,
        header.kernel,
        Bytes(header.file_bytes),
        header.rounds
    );
    if !report.not_measured.is_empty() {
        let names: BTreeSet<&str> = report.not_measured.iter().map(|missing| missing.name.as_str()).collect();
        let _ = writeln!(text, "\nNot measured: {}.", names.into_iter().collect::<Vec<_>>().join(", "));
    }
    text
}

/// A count with three digits that matter: `1,234,567` becomes `1,230,000`.
pub fn count(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return "0".to_string();
    }
    let scale = 10f64.powi(value.log10().floor() as i32 - 2).max(1.0);
    flashmob_text::count(((value / scale).round() * scale) as u64)
}

/// A ratio.
pub fn figure(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.2}") }
}
