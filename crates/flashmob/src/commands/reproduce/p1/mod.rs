//! `flashmob reproduce p1`: a cluster of tablets over Wi-Fi.
//!
//! - `plan`: what is to be measured, as runs
//! - `runner`: runs them as processes of this very program

mod plan;
mod runner;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use flashmob_lab::air;
use flashmob_lab::cluster::limit::own_limit;
use flashmob_lab::flash::Profile;
use flashmob_report::{Input, Report};
use flashmob_results::{Document, merge};

use super::progress::Progress;
use super::{Output, kept, page};
use crate::commands::cluster_args::GatewayArg;
use crate::commands::own_runs;
use crate::commands::tell::{self, STATUS_INTERRUPTED};
use crate::commands::words;
use plan::{Place, Run, Setup};
use runner::{Processes, Runner};

/// P1's, and what lab and simulator have unless told otherwise.
const EXTENT_BYTES: u64 = 10_000_000_000;
/// Repetitions and seconds of each, for figures and for a first look.
const THOROUGH: (u32, f64) = (3, 2.0);
const QUICK: (u32, f64) = (1, 1.0);

/// P1's cluster: 1 to 8 nodes, 1 to 32 links to each, k = 1, 10, 100 and auto, with I/O and without (claims C4 to C9).
///
/// Everything except the program is modelled: this shows how flashmob behaves over such an air, not how real tablets
/// behave. Prints a table of the claims and writes a page with all figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob reproduce p1 --quick
        a quick run, some minutes
  flashmob reproduce p1 --save results
        everything in the lab, an hour or so; results are kept in a file
  flashmob reproduce p1 --in simulator --air 11ac --gateway wireless -o 11ac.html
        another air, without root
  flashmob reproduce p1 --quick --output json | jq '.claims[] | {claim, verdict}'

Exit status: 0 measured, whatever the claims' verdicts; 130 stopped early; 1 error, see stderr; 2 wrong arguments.")]
pub struct P1Args {
    /// Where to run: real processes over a modelled air, or everything in virtual time.
    #[arg(long = "in", value_enum, default_value = "lab", value_name = "WHERE")]
    place: Place,
    /// Air (network) profile, with optional changes, such as 11n or 11ac,loss=1%.
    #[arg(long, visible_alias = "wifi", default_value = "11n-2014", value_name = "PROFILE", value_parser = air_text)]
    air: String,
    /// Flash profile of each node, as for 'bench disk --model'.
    #[arg(long, default_value = "nexus7-emmc", value_name = "PROFILE", value_parser = flash_text)]
    flash: String,
    /// Attachment of the gateway to the access point.
    #[arg(long, value_enum, default_value = "wired")]
    gateway: GatewayArg,
    /// Quick run: 1, 2, 4 and 8 nodes, one repetition of a second.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Measure all numbers of links for auto, too.
    #[arg(long)]
    full: bool,
    /// Repetitions of each point [default: 3, with --quick 1].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Time to measure in each repetition, in seconds unless it has a unit [default: 2, with --quick 1]. Longer where nodes sort so many requests at once that this is too short.
    #[arg(short, long, value_name = "TIME", value_parser = crate::commands::time)]
    time: Option<Duration>,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Keep the results in a file in this directory, updated after each run.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Page to write; replaces an existing file.
    #[arg(short, value_name = "FILE", default_value = "report.html")]
    o: PathBuf,
    /// Output format of the claims: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

fn air_text(text: &str) -> Result<String, String> {
    air::Profile::parse(text).map(|_| text.to_string()).map_err(|error| error.to_string())
}

fn flash_text(text: &str) -> Result<String, String> {
    crate::commands::flash_profile(text).map(|_| text.to_string())
}

/// Measures, judges, and writes the page.
pub fn run(args: &P1Args) -> anyhow::Result<ExitCode> {
    let (repeat, seconds) = if args.quick { QUICK } else { THOROUGH };
    let setup = Setup {
        place: args.place,
        air: args.air.clone(),
        gateway: if args.gateway == GatewayArg::Wired { "wired" } else { "wireless" },
        flash: args.flash.clone(),
        seed: args.seed,
        time: args.time.unwrap_or(Duration::from_secs_f64(seconds)),
        repeat: args.repeat.unwrap_or(repeat),
        limit: own_limit(&Profile::named(&args.flash)?, EXTENT_BYTES, 1, 100.0)?,
    };
    let kept = args.save.as_deref().map(|folder| kept_file(folder, &setup)).transpose()?;
    page::check(&args.o)?;
    if let Some(path) = &kept {
        tell::check_writable(path, None)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    tell::on_signal(asked)?;
    let folder = own_runs::Folder::make("reproduce")?;
    let runs = plan::runs(args.quick, args.full);
    let guesses_s: Vec<f64> = runs.iter().map(|run| run.guess_s(&setup)).collect();
    let progress = Progress::new(&guesses_s, setup.place == Place::Simulator);
    let mut processes = Processes { folder: folder.path(), stop: Arc::clone(&stop), tick: &|| progress.tick() };
    let measured = measure(&runs, &setup, &mut processes, &stop, &progress, kept.as_deref())?;
    drop(processes);
    let Some(document) = measured.document else {
        log::info!("stopped before anything was measured");
        return Ok(ExitCode::from(STATUS_INTERRUPTED));
    };
    tell(args, &setup, document, measured.interrupted, kept.as_deref())?;
    Ok(if measured.interrupted { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// What came of all runs.
struct Measured {
    document: Option<Document>,
    interrupted: bool,
}

/// Runs one after the other; what was measured before a stop or a failure is kept.
fn measure(
    runs: &[Run],
    setup: &Setup,
    runner: &mut dyn Runner,
    stop: &AtomicBool,
    progress: &Progress,
    kept: Option<&Path>,
) -> anyhow::Result<Measured> {
    let mut parts: Vec<Document> = Vec::new();
    let mut whole = None;
    for run in runs {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        progress.begin(run.words(), run.guess_s(setup));
        let outcome = runner.run(run, setup);
        // Before anything is said, so that it has a line of its own.
        progress.end();
        match outcome {
            Ok(Some(part)) => parts.push(part),
            Ok(None) => {}
            // The first failure will be that of all runs; later ones may be this run's alone.
            Err(error) if parts.is_empty() => return Err(error),
            Err(error) => log::error!("{}", words(&error)),
        }
        if !parts.is_empty() {
            let mut document = merge::clusters(parts.clone())?;
            document.preset = Some("p1".into());
            if let Some(path) = kept {
                kept::save(path, &document)?;
            }
            whole = Some(document);
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    if interrupted && let Some(document) = &mut whole {
        document.interrupted = true;
        if let Some(path) = kept {
            kept::save(path, document)?;
        }
    }
    Ok(Measured { document: whole, interrupted })
}

/// Writes the page and prints the claims.
fn tell(
    args: &P1Args,
    setup: &Setup,
    document: Document,
    interrupted: bool,
    kept: Option<&Path>,
) -> anyhow::Result<()> {
    let void = document.cluster().into_iter().flat_map(|c| &c.points).flat_map(|p| &p.repetitions);
    let void = void.filter(|repetition| repetition.is_void).count();
    let name = kept.map_or_else(|| PathBuf::from("p1.json"), Path::to_path_buf);
    let report = Report::new(vec![Input { path: name, document }]);
    let how = format!(
        "in the {} over {}, gateway {}, flash {} (modelled)",
        setup.place, setup.air, setup.gateway, setup.flash
    );
    let settings = serde_json::json!({
        "paper": "p1", "setting": setup.place.to_string(), "air": setup.air, "gateway": setup.gateway, "flash": setup.flash,
        "seed": setup.seed, "quick": args.quick, "interrupted": interrupted, "void_repetitions": void,
        "report": args.o.display().to_string(), "result": kept.map(|path| path.display().to_string()),
    });
    page::tell(&report, &args.o, "P1", &how, settings, args.output)?;
    page::conclude(&args.o, void, interrupted, ", or --in simulator");
    if let Some(path) = kept {
        log::info!("result: {}", path.display());
    }
    Ok(())
}

/// The file to keep results in; one that is there stays.
fn kept_file(folder: &Path, setup: &Setup) -> anyhow::Result<PathBuf> {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_");
    let parts = [&setup.place.to_string(), &plain(&setup.air), setup.gateway, &plain(&setup.flash)].map(str::to_string);
    kept::file(folder, &format!("p1-{}.json", parts.join("-")))
}
