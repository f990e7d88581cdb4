//! `flashmob trace compare`: traces side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use flashmob_report::comparison::{self, Comparison, WorkRow};
use flashmob_report::{Input, Report};
use flashmob_results::read;
use flashmob_results::trace::Layer;

use super::table::{aligned, fold, number, shortened};
use crate::commands::tell::{self, Form};
use crate::commands::whole_file;

/// Width of a column's heading in characters: eight columns fit.
const NAME_MAX: usize = 18;
/// Most rows of differences in work.
const WORK_MAX: usize = 40;

/// Compare traces: operations/s, counts per layer and file, and time per layer.
///
/// Takes one result of 'flashmob trace' with several runs, or several results: each run is a column, and the others
/// are compared with the first. All figures are means per operation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob trace sqlite --journal DELETE,WAL --save modes.json && flashmob trace compare modes.json
  flashmob trace compare tablet.json phone.json --html comparison.html")]
pub struct CompareArgs {
    /// Results of 'flashmob trace', as JSON.
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,
    /// Write a page with figures and timelines; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Output format: a table, or the comparison as JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

/// Compares the traces.
pub fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let mut inputs = Vec::new();
    for path in &args.results {
        let document = read::file(path)?;
        anyhow::ensure!(
            document.trace().is_some(),
            "{} is not a trace; give a result saved by 'flashmob trace', or use 'flashmob report' for other measurements",
            path.display()
        );
        inputs.push(Input { path: path.clone(), document });
    }
    if let Some(path) = &args.html {
        for result in &args.results {
            tell::check_writable(path, Some(result))?;
        }
    }
    let report = Report::new(inputs);
    let Some(comparison) = comparison::compare(report.entries()) else {
        anyhow::bail!("comparing needs two runs with operations; trace another setting, or give another result");
    };
    if let Some(path) = &args.html {
        let page = report.html()?;
        whole_file::write(path, &page)
            .with_context(|| format!("cannot write {}; check that the folder exists", path.display()))?;
    }
    let text = match args.output {
        Form::Table => table(&comparison),
        Form::Json => tell::json(&json(&comparison))?,
    };
    tell::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The whole table. With more than four columns it is wider than 100 characters.
fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (at, (column, sentences)) in comparison.columns.iter().skip(1).zip(&comparison.sentences).enumerate() {
        if at > 0 {
            text.push('\n');
        }
        fold(&mut text, "", &format!("{}:", column.name));
        sentences.iter().for_each(|sentence| fold(&mut text, "  ", sentence));
    }
    let columns = &comparison.columns;
    let head = |first: &str| -> Vec<String> {
        std::iter::once(first.to_string()).chain(columns.iter().map(|c| shortened(&c.name, NAME_MAX))).collect()
    };
    let row = |name: &str, of: &dyn Fn(&comparison::Column) -> String| -> Vec<String> {
        std::iter::once(name.to_string()).chain(columns.iter().map(of)).collect()
    };
    let known = |value: Option<f64>| value.map_or_else(|| "-".to_string(), number);
    let mut rows = vec![head("")];
    if columns.iter().any(|column| column.untraced_per_second.is_some()) {
        rows.push(row("operations/s untraced", &|c| known(c.untraced_per_second)));
    }
    rows.push(row("operations/s traced", &|c| number(c.per_second)));
    rows.push(row("p50 us", &|c| known(c.p50_us)));
    rows.push(row("p99 us", &|c| known(c.p99_us)));
    if columns.iter().any(|column| column.slowdown_percent.is_some()) {
        rows.push(row("tracing cost %", &|c| known(c.slowdown_percent)));
    }
    if columns.iter().any(|column| column.lost > 0) {
        rows.push(row("events LOST", &|c| c.lost.to_string()));
    }
    for layer in &comparison.layers {
        let name = format!("us in {}", layer.layer.map_or("unattributed", Layer::name));
        rows.push(std::iter::once(name).chain(layer.us.iter().map(|us| number(*us))).collect());
    }
    text.push('\n');
    aligned(&mut text, &rows, 1);
    work(&mut text, comparison, head("for each operation"));
    if comparison.left_out > 0 {
        fold(&mut text, "  ", &format!("{} further runs are not compared", comparison.left_out));
    }
    text
}

/// Work that differs, without equal work and without its effects in other layers.
fn work(text: &mut String, comparison: &Comparison, head: Vec<String>) {
    let is_told = |row: &&WorkRow| row.differs() && matches!(row.layer, Layer::SystemCall | Layer::Driver);
    let told: Vec<&WorkRow> = comparison.work.iter().filter(is_told).collect();
    let mut rows = vec![head];
    for row in told.iter().take(WORK_MAX) {
        let name = format!("{} {} ({})", shortened(&row.file, 26), shortened(&row.work, 14), row.layer.name());
        rows.push(std::iter::once(name).chain(row.counts.iter().map(|count| number(*count))).collect());
    }
    if rows.len() > 1 {
        text.push('\n');
        aligned(text, &rows, 1);
    }
    if told.len() > WORK_MAX {
        fold(text, "  ", &format!("and {} more; --html has all", told.len() - WORK_MAX));
    }
}

fn json(comparison: &Comparison) -> serde_json::Value {
    // The first has nothing to compare with.
    let none = Vec::new();
    let columns = comparison.columns.iter().zip(std::iter::once(&none).chain(&comparison.sentences));
    let columns: Vec<serde_json::Value> = columns
        .map(|(c, sentences)| {
            serde_json::json!({
                "name": c.name, "operation": c.operation, "operations": c.operations, "per_second": c.per_second, "untraced_per_second": c.untraced_per_second,
                "mean_us": c.mean_us, "p50_us": c.p50_us, "p99_us": c.p99_us, "slowdown_percent": c.slowdown_percent,
                "unattributed_percent": c.unattributed_percent, "lost_events": c.lost, "differences": sentences,
            })
        })
        .collect();
    let layers: Vec<serde_json::Value> = (comparison.layers.iter())
        .map(|row| serde_json::json!({ "layer": row.layer, "us": row.us, "spread_us": row.spread_us }))
        .collect();
    let work: Vec<serde_json::Value> = (comparison.work.iter())
        .map(|row| {
            serde_json::json!({
                "role": row.role, "file": row.file, "layer": row.layer, "work": row.work, "counts": row.counts,
                "bytes": row.bytes, "differs": row.differs(),
            })
        })
        .collect();
    serde_json::json!({ "columns": columns, "layers": layers, "work": work, "left_out": comparison.left_out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::trace::table::WIDTH;

    fn comparison() -> Comparison {
        let text = include_str!("../../../../flashmob-report/tests/data/trace.json");
        let path = PathBuf::from("trace.json");
        let document = read::text(text, &path).unwrap();
        comparison::compare(Report::new(vec![Input { path, document }]).entries()).unwrap()
    }

    #[test]
    fn the_table_says_what_is_gone_and_where_the_time_went() {
        let text = table(&comparison());
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let folded_back = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "WAL, FULL: ",
            "Gone in each insert: database: 1 fdatasync and 2 pwrite64 (8 KiB)",
            "us in driver",
            "rollback journal pwrite64 (system call) 4 0",
        ] {
            assert!(folded_back.contains(words), "{words}:\n{text}");
        }
    }

    #[test]
    fn programs_get_the_same_as_numbers() {
        let json = json(&comparison());
        assert_eq!(json["columns"][1]["name"], "WAL, FULL");
        assert_eq!(json["layers"][0]["layer"], "driver");
        let gone = json["work"].as_array().unwrap().iter().find(|row| row["work"] == "unlink").unwrap();
        assert_eq!((&gone["counts"][0], &gone["counts"][1]), (&1.0.into(), &0.0.into()));
        assert!(json["columns"][0]["differences"].as_array().unwrap().is_empty());
    }
}
