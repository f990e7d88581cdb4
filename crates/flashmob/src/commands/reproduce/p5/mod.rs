//! `flashmob reproduce p5`: the system's work below a database, INSERT by INSERT.
//!
//! - `plan`: the measurements, as runs of `flashmob trace sqlite`

pub mod plan;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::{Document, merge};

use super::page::{Outcome, OutputArgs, nothing_measured};
use super::runs::{self, Merged, Part};
use crate::commands::trace::loop_fs::Kind;
use crate::commands::words;
use plan::{Place, Run, Setup};

/// INSERTs of a setting, P5's, and those of a quick run.
pub const INSERTS: u64 = 10_000;
pub const QUICK_INSERTS: u64 = 200;
/// Rounds: the least with which rates of systems are judged.
pub const ROUNDS: u64 = 3;

/// P5's INSERTs: their rate per file system, their work in every layer, the writes that other settings avoid, and the
/// effect of that (claims C18 to C21).
///
/// As root, creates each file system on a loop device and removes it at the end, all of them in turn, round after round;
/// file systems that the kernel lacks are listed. Without root, measures a directory's own file system; data that only the kernel has is missing. Prints
/// a table of the claims and writes a page with all figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob reproduce p5 --quick
        a quick run, a minute or two
  flashmob reproduce p5 --save results
        everything with P5's 10,000 INSERTs, half an hour or so; results are kept in files
  flashmob reproduce p5 --systems ext4,xfs --inserts 2000
        two file systems
  flashmob reproduce p5 --folder /data --label tablet
        the file system of a directory, unchanged
  flashmob reproduce p5 --quick --output json | jq '.claims[] | {claim, verdict}'

Exit status: 0 measured, whatever the claims' verdicts; 130 stopped early; 1 error, see stderr; 2 wrong arguments.")]
pub struct P5Args {
    /// File systems to create on loop devices; the first is the one the others are compared with [default: all]. Needs root.
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', conflicts_with = "folder")]
    systems: Vec<Kind>,
    /// Measure the file system of this directory, unchanged.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Name of the file system on the page.
    #[arg(long, value_name = "NAME", requires = "folder")]
    label: Option<String>,
    /// Quick run: 200 INSERTs of each setting.
    #[arg(long)]
    quick: bool,
    /// INSERTs of each setting [default: 10,000, with --quick 200].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    inserts: Option<u64>,
    /// Journal modes: DELETE is P5's, and the one the others are compared with.
    #[arg(long, value_name = "LIST", default_value = plan::MODES)]
    journal: String,
    /// Synchronous levels of the first file system: FULL is P5's; the other file systems use the first of the list.
    #[arg(long, value_name = "LIST", default_value = plan::LEVELS)]
    synchronous: String,
    /// Rounds over all systems, each with a pair of runs with and without tracing for the rates and the cost of tracing; 0: one round without.
    #[arg(long, visible_alias = "pairs", value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(0..=1000))]
    rounds: u64,
    #[command(flatten)]
    outputs: OutputArgs,
}

impl P5Args {
    /// The places for INSERTs; without privileges, a directory.
    fn places(&self) -> Vec<Place> {
        if let Some(folder) = &self.folder {
            return vec![Place::Folder(folder.clone())];
        }
        if rustix::process::geteuid().is_root() || !self.systems.is_empty() {
            let systems = if self.systems.is_empty() { Kind::ALL.to_vec() } else { self.systems.clone() };
            return systems.into_iter().map(Place::Loop).collect();
        }
        let folder = std::env::temp_dir();
        log::warn!(
            "file systems on loop devices need root: measuring INSERTs in {} only, without another file system to compare with; \
            run this as root, or give a directory with --folder",
            folder.display()
        );
        vec![Place::Folder(folder)]
    }
}

/// Measures, judges, and writes the page.
pub fn run(args: &P5Args) -> anyhow::Result<ExitCode> {
    let setup = Setup {
        inserts: args.inserts.unwrap_or(if args.quick { QUICK_INSERTS } else { INSERTS }),
        rounds: args.rounds,
        modes: args.journal.clone(),
        levels: args.synchronous.clone(),
    };
    let places = args.places();
    let runs = plan::runs(&places, setup.rounds);
    let (stop, folder) = args.outputs.begin()?;
    let is_kept = args.outputs.save.is_some();
    let kept = args.outputs.save.as_deref().unwrap_or(folder.path());
    // Systems by place: the rounds of each are one result.
    let mut systems: Vec<(Place, Merged)> = Vec::new();
    for place in places {
        let file = runs::kept_file(kept, &place.file())?;
        systems.push((place, Merged::new("p5", merge::traces, Some(file))));
    }
    // Systems that this kernel lacks, or that cannot be measured for another reason.
    let missing = RefCell::new(Vec::<Place>::new());
    let one = |run: &Run, tick: &dyn Fn()| {
        let mut arguments = run.arguments(&setup);
        arguments.extend(args.label.iter().flat_map(|label| ["--label".to_string(), label.clone()]));
        let part = Part { arguments, words: runs::Run::words(run), well: &[], remedy: &|_| "" };
        part.measure(&folder.path().join("run.json"), &stop, tick)
    };
    let mut failure = None;
    let is_wanted = |run: &Run| !missing.borrow().contains(&run.place);
    runs::each(&runs, &setup, &stop, false, is_wanted, one, |run, outcome| {
        let Some((place, merged)) = systems.iter_mut().find(|(place, _)| *place == run.place) else { return Ok(()) };
        // What a kernel lacks is missing; it is an error only if no system is left. Nothing else is: a result that cannot be written, say.
        match outcome {
            Err(error) if merged.document.is_none() => {
                log::error!("{}", words(&error));
                missing.borrow_mut().push(place.clone());
                failure = failure.take().or(Some(error));
                Ok(())
            }
            outcome => merged.take(outcome),
        }
    })?;
    let mut documents: Vec<(PathBuf, Document)> = Vec::new();
    for (place, merged) in systems {
        documents.extend(merged.end(stop.load(Ordering::Relaxed))?.map(|document| (kept.join(place.file()), document)));
    }
    if documents.is_empty() {
        return failure.map_or_else(|| Ok(nothing_measured()), Err);
    }
    let systems: Vec<String> = documents.iter().map(|(_, document)| document.name()).collect();
    let results: Vec<String> =
        documents.iter().filter(|_| is_kept).map(|(path, _)| path.display().to_string()).collect();
    args.outputs.tell(Outcome {
        paper: "P5",
        report: Report::new(documents.into_iter().map(|(path, document)| Input { path, document }).collect()),
        how: format!("with {} INSERTs of each setting on {}", setup.inserts, systems.join(", ")),
        settings: serde_json::json!({
            "setting": if args.folder.is_some() { "folder" } else { "loop" }, "systems": systems,
            "missing": missing.into_inner().iter().map(Place::words).collect::<Vec<_>>(),
            "inserts": setup.inserts, "rounds": setup.rounds, "quick": args.quick, "results": results,
        }),
        void: 0,
        instead: "",
        interrupted: stop.load(Ordering::Relaxed),
        results,
    })
}
