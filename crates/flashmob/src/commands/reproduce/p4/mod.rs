//! `flashmob reproduce p4`: what delay, loss and the receive buffer do to TCP between two hosts.
//!
//! - `plan`: what is to be measured, as labs

mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, merge, read};

use super::progress::Progress;
use super::{Output, kept, page};
use crate::commands::bench::net::in_lab::{self, Capture};
use crate::commands::bench::net::path_args;
use crate::commands::own_runs;
use crate::commands::tell::{self, STATUS_INTERRUPTED};
use crate::commands::words;
use plan::{Run, Setup, TENFOLD};

/// Repetitions and seconds of each, for figures and for a first look.
const THOROUGH: (u32, f64) = (3, 3.0);
const QUICK: (u32, f64) = (1, 2.0);
/// Left out at the beginning: until windows have grown.
const OMIT_S: f64 = 1.0;
/// A capture begins with the connection, so that windows are known in full, and lasts a little longer than what is measured.
const CAPTURE_MORE_S: f64 = 2.0;
/// Packets are captured again where the lab was late, so often at most.
const CAPTURES_MAX: u32 = 3;
const LATE: &str = "the lab was late while these packets were captured; stop other programs and measure again";

/// P4's two hosts: TCP and UDP over added delay and loss, reno, cubic and bbr, a small receive maximum and ten times
/// that (claims C14 to C17).
///
/// Models a path between two hosts of this machine; their TCP is the kernel's own. The client's host has a small
/// receive maximum, like P4's Android; the other host has ten times that. Prints a table of the claims and writes a
/// page with all figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob reproduce p4 --quick
        a quick run, two to three minutes
  flashmob reproduce p4 --save results
        everything, about 20 minutes; results are kept in files
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
    /// Quick run: fewer round-trip times, one repetition of 2 s.
    #[arg(long)]
    quick: bool,
    /// Repetitions of each point [default: 3, with --quick 1].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Time to measure in each repetition, in seconds unless it has a unit [default: 3, with --quick 2].
    #[arg(short, long, value_name = "TIME", value_parser = crate::commands::time)]
    time: Option<std::time::Duration>,
    /// Random seed for packet losses.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Keep the results in files in this directory, updated after each run.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Page to write; replaces an existing file.
    #[arg(short, value_name = "FILE", default_value = "report.html")]
    o: PathBuf,
    /// Output format of the claims: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

/// Ten times the value must be one that the kernel takes.
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
    page::check(&args.o)?;
    let folder = own_runs::Folder::make("reproduce")?;
    let files = Files::new(args.save.as_deref(), folder.path())?;
    let stop = Arc::new(AtomicBool::new(false));
    tell::on_signal(Arc::clone(&stop))?;
    let measured = measure(&plan::runs(&setup), &setup, &files, folder.path(), &stop)?;
    if measured.net.is_none() && measured.captures.is_empty() {
        log::info!("stopped before anything was measured");
        return Ok(ExitCode::from(STATUS_INTERRUPTED));
    }
    tell_all(args, &setup, &files, measured)
}

/// The lab was late.
fn is_void(document: &Document) -> bool {
    document.net().is_some_and(|net| net.points.iter().flat_map(|p| &p.repetitions).any(|r| r.is_void))
}

fn was_late(outcome: &anyhow::Result<Option<Document>>) -> bool {
    outcome.as_ref().is_ok_and(|part| part.as_ref().is_some_and(is_void))
}

/// What came of all runs.
#[derive(Default)]
struct Measured {
    net: Option<Document>,
    captures: Vec<(PathBuf, Document)>,
    interrupted: bool,
}

/// Where results go: to a folder of the user's, or nowhere that stays.
struct Files {
    net: PathBuf,
    small: PathBuf,
    tenfold: PathBuf,
    stay: bool,
}

impl Files {
    fn new(save: Option<&Path>, temporary: &Path) -> anyhow::Result<Files> {
        let stay = save.is_some();
        let folder = save.unwrap_or(temporary);
        let file = |name: &str| kept::file(folder, name);
        Ok(Files {
            net: file("p4-net.json")?,
            small: file("p4-packets-small.json")?,
            tenfold: file("p4-packets-tenfold.json")?,
            stay,
        })
    }

    fn of_capture(&self, name: &str) -> &Path {
        if name == "small" { &self.small } else { &self.tenfold }
    }
}

/// Runs one after the other; what was measured before a stop or a failure is kept.
fn measure(runs: &[Run], setup: &Setup, files: &Files, folder: &Path, stop: &AtomicBool) -> anyhow::Result<Measured> {
    let guesses_s: Vec<f64> = runs.iter().map(|run| run.guess_s(setup)).collect();
    let progress = Progress::new(&guesses_s, false);
    let mut measured = Measured::default();
    let mut parts: Vec<Document> = Vec::new();
    for run in runs {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        progress.begin(run.words(), run.guess_s(setup));
        let capture = run.capture.map(|name| Capture {
            seconds: setup.time_s + setup.omit_s + CAPTURE_MORE_S,
            label: format!("receive maximum {} KiB ({name})", run.path.server_receive_max_bytes.unwrap_or(0) >> 10),
            save: files.of_capture(name).to_path_buf(),
        });
        let once = || run.path.measure(&run.loads, folder, capture.as_ref(), stop, &|| progress.tick());
        let mut outcome = once();
        for _ in 1..CAPTURES_MAX {
            // Packets that a late lab moved in clumps say nothing of those who sent them.
            if capture.is_some() && was_late(&outcome) && !stop.load(Ordering::Relaxed) {
                outcome = once();
            }
        }
        let was_late = was_late(&outcome);
        // Before anything is said, so that it has a line of its own.
        progress.end();
        match outcome {
            // What a capture's load measured is no point of the sweep: packets were counted meanwhile.
            Ok(_) if capture.is_some() => {}
            Ok(Some(part)) => parts.push(part),
            Ok(None) => {}
            // The first failure will be that of all runs; later ones may be this run's alone.
            Err(error) if parts.is_empty() => return Err(error),
            Err(error) => log::error!("{}", words(&error)),
        }
        if let Some(capture) = capture.filter(|capture| capture.save.exists()) {
            let mut document = read::file(&capture.save)?;
            document.warnings.push(in_lab::modelled());
            if was_late {
                document.warnings.push(Warning::new(Code::Late, LATE));
            }
            document.preset = Some("p4".into());
            kept::save(&capture.save, &document)?;
            measured.captures.push((capture.save, document));
        } else if !parts.is_empty() {
            let mut document = merge::nets(parts.clone())?;
            document.preset = Some("p4".into());
            kept::save(&files.net, &document)?;
            measured.net = Some(document);
        }
    }
    measured.interrupted = stop.load(Ordering::Relaxed);
    if measured.interrupted
        && let Some(document) = &mut measured.net
    {
        document.interrupted = true;
        kept::save(&files.net, document)?;
    }
    Ok(measured)
}

/// Writes the page and prints the claims.
fn tell_all(args: &P4Args, setup: &Setup, files: &Files, measured: Measured) -> anyhow::Result<ExitCode> {
    let Measured { net, captures, interrupted } = measured;
    let repetitions = net.iter().filter_map(Document::net).flat_map(|net| &net.points).flat_map(|p| &p.repetitions);
    let void = repetitions.filter(|repetition| repetition.is_void).count();
    let mut inputs: Vec<Input> = net.map(|document| Input { path: files.net.clone(), document }).into_iter().collect();
    inputs.extend(captures.into_iter().map(|(path, document)| Input { path, document }));
    ensure!(!inputs.is_empty(), "nothing was measured");
    let results: Vec<String> = inputs.iter().map(|input| input.path.display().to_string()).collect();
    let report = Report::new(inputs);
    let (rate, small) = (setup.rate_bits_per_second as f64 / 1e6, setup.receive_max_bytes);
    let how = format!("in the lab over {rate} Mbit/s, receive maxima {small} and {} bytes (modelled)", small * TENFOLD);
    let settings = serde_json::json!({
        "paper": "p4", "setting": "lab", "path_bits_per_second": setup.rate_bits_per_second, "receive_max_bytes": small,
        "seed": setup.seed, "quick": args.quick, "interrupted": interrupted, "void_repetitions": void,
        "report": args.o.display().to_string(), "results": if files.stay { results.clone() } else { Vec::new() },
    });
    page::tell(&report, &args.o, "P4", &how, settings, args.output)?;
    page::conclude(&args.o, void, interrupted, "");
    if files.stay {
        log::info!("results: {}", results.join(", "));
    }
    Ok(if interrupted { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
}
