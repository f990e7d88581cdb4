//! `flashmob trace cluster`: sampled requests of a running gateway, through gateway, link, node and store, across processes and devices.

mod blocks;
mod gather;
mod spans;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use flashmob_results::trace::{Layer, Source, System, Timeline, Workload};
use flashmob_results::warning::{Code, Warning};
use flashmob_trace::view::{self, RunParts};

use super::outputs::OutputArgs;
use super::text;
use crate::commands::admin_target::AdminArgs;
use crate::commands::tell::{self, Begun, Form, STATUS_INTERRUPTED};
use blocks::{Blocks, Lower};
use flashmob_server::status::trace::TraceReport;
use gather::{Gathered, gather};

/// Trace requests of a volume: time in gateway, link, node and store, and in the disks of nodes on this machine.
///
/// The gateway samples one request in N ('trace_one_in' in its configuration, default 1000) and keeps the last 256
/// that completed. Nodes measure with their own clocks; the offset to the gateway's clock is estimated from the
/// messages between them, and its error is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob trace cluster 127.0.0.1:10810
  flashmob trace cluster 127.0.0.1:10810 --samples 1 --html read.html --perfetto read.perfetto-trace
  sudo flashmob trace cluster 127.0.0.1:10810 --extent 127.0.0.1:7411=/data/node.img   # with disk commands

docs/tracing-cluster.md explains the stages and how clocks are related.

Exit status: 0 done, 1 failed or nothing was sampled, 2 wrong arguments, 130 stopped by Ctrl-C (the result so far is shown).")]
pub struct ClusterArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Number of samples to collect.
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    samples: u64,
    /// Maximum wait for the samples.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::commands::time_or_none)]
    time: Duration,
    /// Data file of a node on this machine, to show its disk commands too: the node as named in the configuration, and the file. Needs root.
    #[arg(long = "extent", value_name = "NODE=FILE", value_parser = extent)]
    extents: Vec<(String, PathBuf)>,
    #[command(flatten)]
    outputs: OutputArgs,
}

fn extent(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((node, file)) if !node.is_empty() && !file.is_empty() => Ok((node.to_string(), PathBuf::from(file))),
        _ => Err(format!(
            "'{text}' is not NODE=FILE; write the node's address and its data file, such as 127.0.0.1:7411=/data/node.img"
        )),
    }
}

/// Traces according to the arguments.
pub fn run(args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let begun = Begun::now();
    args.outputs.check()?;
    let cancel = tell::on_signal()?;
    let target = args.admin.open()?;
    let lower = Lower::open(&target, &args.extents)?;
    let since_ns = lower.since_ns();
    let gathered = gather(&target, args.samples, args.time, since_ns, &cancel)?;
    let blocks = lower.stop();
    if gathered.samples.is_empty() {
        anyhow::bail!("{}", nothing(&gathered.last, args.time));
    }
    let timeline = spans::timeline(&gathered.last.nodes, &gathered.samples, &blocks);
    args.outputs.spans(1, &timeline)?;
    let is_stopped = cancel.load(Ordering::Relaxed);
    let run = view::run(&timeline, parts(&gathered, &blocks, &timeline), &args.outputs.choice(&timeline), &[]);
    let missing = is_stopped.then_some("stopped before the requested number of samples was collected");
    let document = args.outputs.document(vec![run], begun, missing);
    args.outputs.files(&document)?;
    tell::print(&match args.outputs.output {
        Form::Table => format!("{}{}", text::summary(&document), clocks(&gathered.last)),
        Form::Json => tell::json(&document)?,
    })?;
    Ok(if is_stopped { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Why there is nothing to show.
fn nothing(report: &TraceReport, waited: Duration) -> String {
    let seconds = waited.as_secs_f64();
    match report.counters.one_in {
        0 => "the gateway samples no requests; set trace_one_in = 1000 in its configuration and restart it".to_string(),
        one_in => format!(
            "no sampled request completed within {seconds} s: the gateway samples one in {one_in}; use the volume at the same time, wait longer \
            with --time, or sample more with trace_one_in in its configuration"
        ),
    }
}

/// The parts of a run besides its timeline.
fn parts(gathered: &Gathered, blocks: &Blocks, timeline: &Timeline) -> RunParts {
    let report = &gathered.last;
    let first_ns = timeline.operations.iter().map(|operation| operation.begin_ns).min().unwrap_or_default();
    let last_ns = timeline.operations.iter().map(|operation| operation.end_ns).max().unwrap_or_default();
    let mut names: Vec<&str> = gathered.samples.iter().map(|sample| &*sample.volume).collect();
    names.sort_unstable();
    names.dedup();
    RunParts {
        name: format!("volume {}", names.join(", ")),
        workload: Workload::Cluster {
            nodes: u32::try_from(report.nodes.len()).unwrap_or(u32::MAX),
            sampled_one_in: report.counters.one_in,
        },
        system: blocks.system.clone().unwrap_or_else(|| System {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            ..System::default()
        }),
        sources: sources(blocks),
        losses: blocks.losses.clone(),
        overhead: None,
        elapsed_s: last_ns.saturating_sub(first_ns) as f64 / 1e9,
        operation: "request".into(),
        warnings: warnings(gathered),
    }
}

fn sources(blocks: &Blocks) -> Vec<Source> {
    let layers = vec![Layer::Gateway, Layer::Link, Layer::Node, Layer::Store];
    let own = Source { name: "gateway's samples".into(), layers, is_used: true, why: None };
    std::iter::once(own).chain(blocks.sources.iter().cloned()).collect()
}

fn warnings(gathered: &Gathered) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let failed = gathered.samples.iter().filter(|sample| sample.failure.is_some()).count();
    if failed > 0 {
        warnings.push(Warning::new(Code::Errors, format!("{failed} of the sampled requests failed")));
    }
    let counters = &gathered.last.counters;
    let dropped = counters.counters.crowded_out + counters.counters.abandoned + counters.counters.untold;
    if dropped > 0 {
        let message = format!(
            "{dropped} sampled requests since the gateway's start were incomplete: {} because too many were in flight, {} because \
            the client disconnected, {} because the node did not report",
            counters.counters.crowded_out, counters.counters.abandoned, counters.counters.untold
        );
        warnings.push(Warning::new(Code::Incomplete, message));
    }
    if gathered.missed > 0 {
        let message = format!(
            "{} samples were discarded before they were fetched: the gateway keeps the last 256",
            gathered.missed
        );
        warnings.push(Warning::new(Code::Incomplete, message));
    }
    let parts = gathered.samples.iter().filter(|sample| sample.pieces_in_all as usize > sample.pieces.len()).count();
    if parts > 0 {
        let message = format!(
            "{parts} requests have more pieces than are sampled: the time after these is attributed to the gateway"
        );
        warnings.push(Warning::new(Code::Incomplete, message));
    }
    warnings
}

/// Each node's clock, as text.
fn clocks(report: &TraceReport) -> String {
    let us = |ns: f64| format!("{:.1} us", ns / 1e3);
    let line =
        |node: &flashmob_server::status::trace::NodeClockReport| match (node.clock_offset_ns, node.clock_error_ns) {
            (Some(offset), Some(error)) => {
                format!(
                    "  {}: {} ahead of the gateway's, within {}\n",
                    tell::harmless(&node.name),
                    us(offset as f64),
                    us(error as f64)
                )
            }
            _ => format!("  {}: unknown\n", tell::harmless(&node.name)),
        };
    format!("\nclocks of nodes\n{}", report.nodes.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_and_its_file_are_told_apart_at_the_first_equals_sign() {
        assert_eq!(extent("h:1=/a=b"), Ok(("h:1".to_string(), PathBuf::from("/a=b"))));
        for wrong in ["h:1", "=/a", "h:1="] {
            assert!(extent(wrong).is_err_and(|why| why.contains("NODE=FILE")), "{wrong}");
        }
    }
}
