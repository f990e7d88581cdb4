//! `flashmob reproduce p4`: effects of delay, loss and the receive buffer on TCP between two hosts.
//!
//! - `plan`: the measurements, as labs

mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, merge, read};

use super::page::{Outcome, OutputArgs, nothing_measured};
use super::runs::{self, Merged};
use crate::commands::bench::net::in_lab::{self, Capture};
use crate::commands::bench::net::path_args;
use crate::commands::net::check_tcpdump;
use plan::{Run, Setup, TENFOLD};

/// Repetitions and seconds of each: for figures, and for a quick run.
const THOROUGH: (u32, f64) = (3, 3.0);
const QUICK: (u32, f64) = (2, 2.0);
/// Omitted at the beginning, until windows have grown.
const OMIT_S: f64 = 1.0;
/// A capture begins with the connection, so that windows are known in full, and lasts a little longer than the measurement.
const CAPTURE_MORE_S: f64 = 2.0;
/// Most attempts at a capture, repeated if the lab was late.
const CAPTURES_MAX: u32 = 3;
const LATE: &str = "the lab was late while these packets were captured; stop other programs and measure again";

/// P4's two hosts: TCP and UDP over added delay and loss, reno, cubic and bbr, a small receive maximum and ten times
/// that (claims C14 to C17, C24 to C26).
///
/// Models a path between two hosts of this machine; their TCP is the kernel's own. The client's host has a small
/// receive maximum, like P4's Android; the other host has ten times that. Prints a table of the claims and writes a
/// page with all figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob reproduce p4 --quick
        a quick run, some eight minutes
  flashmob reproduce p4 --save results
        everything, about 40 minutes; results are kept in files
  flashmob reproduce p4 --rtt 0,16,64 --repeat 3 --time 5
        fewer round-trip times, for longer
  flashmob reproduce p4 --receive-max 110208 --path-rate 50M
        with Android's own settings for Wi-Fi, over a faster path
  flashmob reproduce p4 --quick --output json | jq '.claims[] | {claim, verdict}'

Needs root, or a system that allows user namespaces.

Exit status: 0 measured, whatever the claims' verdicts; 130 stopped early; 1 error, see stderr; 2 wrong arguments.")]
pub struct P4Args {
    /// Path rate in bits per second, each way: about that of P4's Wi-Fi.
    #[arg(long, default_value = "11M", value_name = "RATE", value_parser = path_args::path_rate)]
    path_rate: u64,
    /// Queue limit at the path's entry, in packets.
    #[arg(long, default_value_t = 100, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    path_queue: u32,
    /// Smaller receive maximum, the third value of tcp_rmem; the larger one is ten times that. TCP advertises about five eighths of it as its window.
    #[arg(long, default_value = "24KiB", value_name = "SIZE", value_parser = receive_max)]
    receive_max: u64,
    /// Added round-trip times in milliseconds [default: 0, 2, 4 ... 128, with --quick 0, 16, 64, 128].
    #[arg(long, value_name = "MS", value_delimiter = ',', value_parser = path_args::rtt_ms)]
    rtt: Vec<f64>,
    /// Quick run: fewer round-trip times, two repetitions of 2 s.
    #[arg(long)]
    quick: bool,
    /// Repetitions of each point [default: 3, with --quick 2].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Time to measure in each repetition, in seconds unless it has a unit [default: 3, with --quick 2].
    #[arg(short, long, value_name = "TIME", value_parser = crate::commands::time)]
    time: Option<std::time::Duration>,
    /// Random seed for packet losses.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    outputs: OutputArgs,
}

/// Ten times the value must be valid for the kernel.
fn receive_max(text: &str) -> Result<u64, String> {
    let bytes = path_args::receive_max(text)?;
    let max_bytes = i32::MAX as u64 / TENFOLD;
    if bytes <= max_bytes { Ok(bytes) } else { Err(format!("must be 4KiB to {}MiB", max_bytes >> 20)) }
}

/// Measures, judges, and writes the page.
pub fn run(args: &P4Args) -> anyhow::Result<ExitCode> {
    let (repeat, time_s) = if args.quick { QUICK } else { THOROUGH };
    let rtts_ms: &[f64] = if args.quick { &plan::RTTS_QUICK_MS } else { &plan::RTTS_MS };
    let setup = Setup {
        rtts_ms: if args.rtt.is_empty() { rtts_ms.to_vec() } else { args.rtt.clone() },
        rate_bits_per_second: args.path_rate,
        queue_packets: args.path_queue,
        receive_max_bytes: args.receive_max,
        time_s: args.time.map_or(time_s, |time| time.as_secs_f64()),
        omit_s: OMIT_S,
        repeat: args.repeat.unwrap_or(repeat),
        seed: args.seed,
    };
    let mut runs = plan::runs(&setup);
    if let Err(error) = check_tcpdump() {
        log::warn!("claims about packets will not be measured: {error}");
        runs.retain(|run| run.capture.is_none());
    }
    let (stop, folder) = args.outputs.begin()?;
    let files = Files::new(args.outputs.save.as_deref(), folder.path())?;
    let (net, captures) = measure(&runs, &setup, &files, folder.path(), &stop)?;
    if net.is_none() && captures.is_empty() {
        return Ok(nothing_measured());
    }
    let repetitions = net.iter().filter_map(Document::net).flat_map(|net| &net.points).flat_map(|p| &p.repetitions);
    let void = repetitions.filter(|repetition| repetition.is_void).count();
    let net = net.map(|document| Input { path: files.net.clone(), document });
    let captures = captures.into_iter().map(|(path, document)| Input { path, document });
    let inputs: Vec<Input> = net.into_iter().chain(captures).collect();
    let is_kept = args.outputs.save.is_some();
    let results: Vec<String> = inputs.iter().filter(|_| is_kept).map(|i| i.path.display().to_string()).collect();
    let (rate, small) = (setup.rate_bits_per_second as f64 / 1e6, setup.receive_max_bytes);
    args.outputs.tell(Outcome {
        paper: "P4",
        report: Report::new(inputs),
        how: format!("in the lab over {rate} Mbit/s, receive maxima {small} and {} bytes (modelled)", small * TENFOLD),
        settings: serde_json::json!({
            "setting": "lab", "path_bits_per_second": setup.rate_bits_per_second, "receive_max_bytes": small,
            "seed": setup.seed, "quick": args.quick, "void_repetitions": void, "results": results,
        }),
        void,
        instead: "",
        interrupted: stop.load(Ordering::Relaxed),
        results,
    })
}

/// The lab was late.
fn is_void(document: &Document) -> bool {
    document.net().is_some_and(|net| net.points.iter().flat_map(|p| &p.repetitions).any(|r| r.is_void))
}

fn was_late(outcome: &anyhow::Result<Option<Document>>) -> bool {
    outcome.as_ref().is_ok_and(|part| part.as_ref().is_some_and(is_void))
}

/// The folder of results: the user's, or a temporary one.
struct Files {
    net: PathBuf,
    folder: PathBuf,
}

impl Files {
    fn new(save: Option<&Path>, temporary: &Path) -> anyhow::Result<Files> {
        let folder = save.unwrap_or(temporary);
        for name in plan::CAPTURES {
            runs::kept_file(folder, &format!("p4-packets-{name}.json"))?;
        }
        Ok(Files { net: runs::kept_file(folder, "p4-net.json")?, folder: folder.to_path_buf() })
    }

    fn of_capture(&self, name: &str) -> PathBuf {
        self.folder.join(format!("p4-packets-{name}.json"))
    }
}

/// Captures, each with its file.
type Captures = Vec<(PathBuf, Document)>;

/// Measures all runs; results before an interruption or a failure are kept. Returns the result of all loads, and the captures.
fn measure(
    runs: &[Run],
    setup: &Setup,
    files: &Files,
    folder: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<(Option<Document>, Captures)> {
    let capture_of = |run: &Run| {
        run.capture.map(|name| Capture {
            seconds: setup.time_s + setup.omit_s + CAPTURE_MORE_S,
            label: match run.path.server_receive_max_bytes {
                Some(bytes) => format!("receive maximum {} KiB ({name})", bytes >> 10),
                None => format!("the system's receive maximum ({name})"),
            },
            save: files.of_capture(name),
        })
    };
    let one = |run: &Run, tick: &dyn Fn()| {
        let capture = capture_of(run);
        let once = || run.path.measure(&run.loads, folder, capture.as_ref(), stop, tick);
        let mut outcome = once();
        for _ in 1..CAPTURES_MAX {
            // Packets that a late lab delivered in bursts show nothing about their senders.
            if capture.is_some() && was_late(&outcome) && !stop.load(Ordering::Relaxed) {
                outcome = once();
            }
        }
        outcome
    };
    let mut merged = Merged::new("p4", merge::nets, Some(files.net.clone()));
    let mut captures = Vec::new();
    runs::each(
        runs,
        setup,
        stop,
        false,
        |_| true,
        one,
        |run, outcome| {
            let was_late = was_late(&outcome);
            let Some(capture) = capture_of(run) else { return merged.take(outcome) };
            // The load of a capture is not a point of the sweep, because the capture affects it.
            merged.take(outcome.map(|_| None))?;
            if capture.save.exists() {
                let mut document = read::file(&capture.save)?;
                document.warnings.push(in_lab::modelled());
                if was_late {
                    document.warnings.push(Warning::new(Code::Late, LATE));
                }
                document.preset = Some("p4".into());
                runs::save(&capture.save, &document)?;
                captures.push((capture.save, document));
            }
            Ok(())
        },
    )?;
    Ok((merged.end(stop.load(Ordering::Relaxed))?, captures))
}
