//! `flashmob reproduce p1`: a cluster of tablets over Wi-Fi.
//!
//! - `plan`: the measurements, as runs

mod plan;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flashmob_lab::air;
use flashmob_lab::cluster::limit::own_limit;
use flashmob_lab::flash::Profile;
use flashmob_report::{Input, Report};
use flashmob_results::{Document, merge};

use super::page::{Outcome, OutputArgs, nothing_measured};
use super::runs::{self, Merged, Part};
use crate::commands::cluster_args::GatewayArg;
use crate::commands::tell;
use plan::{Place, Run, Setup};

/// Exit statuses of 'flashmob lab' if the command succeeded but the lab was late, and if it could not be set up.
const STATUS_LATE: i32 = crate::lab::STATUS_LATE as i32;
const STATUS_NO_LAB: i32 = crate::lab::STATUS_IMPOSSIBLE as i32;
/// Exit status of 'flashmob bench cluster' if the only problem is a point measured while the lab was late.
const STATUS_VOID: i32 = crate::commands::cluster::STATUS_VOID as i32;
const WIRED: &str = "wired";
/// P1's, and the default of lab and simulator.
const EXTENT_BYTES: u64 = 10_000_000_000;
/// Repetitions and seconds of each: for figures, and for a quick run.
const THOROUGH: (u32, f64) = (3, 2.0);
const QUICK: (u32, f64) = (2, 1.0);

/// P1's cluster: 1 to 8 nodes, 1 to 32 links to each, k = 1, 10, 100 and auto, with I/O and without (claims C4 to C9, C22, C23).
///
/// As in P1 the gateway is a station of the same Wi-Fi, and nodes read in order of arrival. Automatic batches, which P1
/// did not have, are measured beside them with nodes that sort, as flashmob's do by default.
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
  flashmob reproduce p1 --in simulator --air 11ac --gateway wired -o 11ac.html
        another air, and the gateway connected by cable; without root
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
    /// Attachment of the gateway to the access point: P1's master was a tablet, so wireless. Wired departs from P1: each frame crosses the air once, not twice.
    #[arg(long, value_enum, default_value = "wireless")]
    gateway: GatewayArg,
    /// Quick run: 1, 2, 4 and 8 nodes, fewer numbers of links, two repetitions of a second.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Measure all numbers of links for auto, too, and fixed batches with nodes that sort.
    #[arg(long)]
    full: bool,
    /// Repetitions of each point [default: 3, with --quick 2].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Time to measure in each repetition, in seconds unless it has a unit [default: 2, with --quick 1]. Longer where nodes sort (--full) so many requests at once that this is too short.
    #[arg(short, long, value_name = "TIME", value_parser = crate::commands::time)]
    time: Option<Duration>,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    outputs: OutputArgs,
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
        gateway: if args.gateway == GatewayArg::Wired { WIRED } else { "wireless" },
        flash: args.flash.clone(),
        seed: args.seed,
        time: args.time.unwrap_or(Duration::from_secs_f64(seconds)),
        repeat: args.repeat.unwrap_or(repeat),
        limit: own_limit(&Profile::named(&args.flash)?, EXTENT_BYTES, 1, 100.0)?,
    };
    let kept = args.outputs.save.as_deref().map(|folder| kept_file(folder, &setup)).transpose()?;
    if let Some(path) = &kept {
        tell::check_writable(path, None)?;
    }
    let (stop, folder) = args.outputs.begin()?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let one = |run: &Run, tick: &dyn Fn()| {
        let part = Part {
            arguments: run.arguments(&setup, &program),
            words: runs::Run::words(run),
            // Late repetitions are void, and marked as such.
            well: &[STATUS_LATE, STATUS_VOID],
            remedy: &|code| remedy(setup.place, code),
        };
        part.measure(&folder.path().join("run.json"), &stop, tick)
    };
    let runs = plan::runs(args.quick, args.full);
    let document = measure(&runs, &setup, &stop, kept.clone(), one)?;
    let Some(document) = document else { return Ok(nothing_measured()) };
    // After an error in a part, the document has a warning and is not marked as interrupted.
    let interrupted = stop.load(Ordering::Relaxed);
    let void = document.cluster().into_iter().flat_map(|c| &c.points).flat_map(|p| &p.repetitions);
    let void = void.filter(|repetition| repetition.is_void).count();
    let result = kept.as_ref().map(|path| path.display().to_string());
    let path = kept.unwrap_or_else(|| PathBuf::from("p1.json"));
    args.outputs.tell(Outcome {
        paper: "P1",
        report: Report::new(vec![Input { path, document }]),
        how: format!(
            "in the {} over {}, gateway {}, flash {} (modelled)",
            setup.place,
            setup.air,
            if setup.gateway == WIRED { "wired (P1's was wireless)" } else { setup.gateway },
            setup.flash
        ),
        settings: serde_json::json!({
            "setting": setup.place.to_string(), "air": setup.air, "gateway": setup.gateway, "flash": setup.flash,
            "seed": setup.seed, "quick": args.quick, "void_repetitions": void, "result": result,
        }),
        void,
        instead: ", or --in simulator",
        interrupted,
        results: result.into_iter().collect(),
    })
}

/// Measures all runs with `one`; results before an interruption or a failure are kept.
fn measure(
    runs: &[Run],
    setup: &Setup,
    stop: &AtomicBool,
    kept: Option<PathBuf>,
    one: impl FnMut(&Run, &dyn Fn()) -> anyhow::Result<Option<Document>>,
) -> anyhow::Result<Option<Document>> {
    let mut merged = Merged::new("p1", merge::clusters, kept);
    runs::each(runs, setup, stop, setup.place == Place::Simulator, |_| true, one, |_, outcome| merged.take(outcome))?;
    merged.end(stop.load(Ordering::Relaxed))
}

fn remedy(place: Place, status: Option<i32>) -> &'static str {
    match (place, status) {
        (Place::Lab, Some(STATUS_NO_LAB)) => {
            "; the lab could not be created: it needs root, or a system that allows user namespaces; '--in simulator' needs neither"
        }
        (Place::Lab, _) => {
            "; run 'flashmob lab run -- true' to test whether a lab can be created here, or '--in simulator'"
        }
        (Place::Simulator, _) => "; use other profiles, or report it as a bug with its output",
    }
}

/// The file to keep results in; an existing one is not replaced.
fn kept_file(folder: &Path, setup: &Setup) -> anyhow::Result<PathBuf> {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_");
    let parts = [&setup.place.to_string(), &plain(&setup.air), setup.gateway, &plain(&setup.flash)].map(str::to_string);
    runs::kept_file(folder, &format!("p1-{}.json", parts.join("-")))
}
