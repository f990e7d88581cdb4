//! `flashmob reproduce p5`: the system's work below a database, INSERT by INSERT.
//!
//! - `plan`: the measurements, as runs of `flashmob trace sqlite`

mod plan;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::Document;

use super::page::{Outcome, OutputArgs, nothing_measured};
use super::runs::{self, Part};
use crate::commands::trace::loop_fs::Kind;
use crate::commands::words;
use plan::{Place, Run, Setup};

/// INSERTs of a setting and pairs of runs: for figures, and for a quick run. P5 made 10,000.
const THOROUGH: (u64, u64) = (10_000, 3);
const QUICK: (u64, u64) = (200, 2);

/// P5's INSERTs: their rate per file system, their work in every layer, the writes that other settings avoid, and the
/// effect of that (claims C18 to C21).
///
/// As root, creates each file system on a loop device and removes it at the end; file systems that the kernel lacks
/// are listed. Without root, measures a directory's own file system; data that only the kernel has is missing. Prints
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
    /// Quick run: 200 INSERTs of each setting, two pairs of runs.
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
    /// Pairs of runs with and without tracing, for rates and for the cost of tracing [default: 3, with --quick 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1000))]
    pairs: Option<u64>,
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
    let (inserts, pairs) = if args.quick { QUICK } else { THOROUGH };
    let setup = Setup {
        inserts: args.inserts.unwrap_or(inserts),
        pairs: args.pairs.unwrap_or(pairs),
        modes: args.journal.clone(),
        levels: args.synchronous.clone(),
    };
    let runs = plan::runs(args.places());
    let (stop, folder) = args.outputs.begin()?;
    let is_kept = args.outputs.save.is_some();
    let place = args.outputs.save.as_deref().unwrap_or(folder.path());
    let files = runs.iter().map(|run| runs::kept_file(place, &run.file())).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    let one = |run: &Run, tick: &dyn Fn()| {
        let mut arguments = run.arguments(&setup);
        arguments.extend(args.label.iter().flat_map(|label| ["--label".to_string(), label.clone()]));
        let part = Part { arguments, words: runs::Run::words(run), well: &[], remedy: &|_| "" };
        part.measure(&folder.path().join("run.json"), &stop, tick)
    };
    let (mut documents, mut missing, mut failure): (Vec<(PathBuf, Document)>, _, _) = (Vec::new(), Vec::new(), None);
    let mut files = files.into_iter();
    runs::each(&runs, &setup, &stop, false, one, |run, outcome| {
        let file = files.next().unwrap_or_default();
        match outcome {
            Ok(Some(mut document)) => {
                document.preset = Some("p5".into());
                runs::save(&file, &document)?;
                documents.push((file, document));
            }
            Ok(None) => {}
            // A kernel may lack a file system; it is an error if none is left.
            Err(error) => {
                log::error!("{}", words(&error));
                missing.push(runs::Run::words(run));
                failure = failure.take().or(Some(error));
            }
        }
        Ok(())
    })?;
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
            "setting": if args.folder.is_some() { "folder" } else { "loop" }, "systems": systems, "missing": missing,
            "inserts": setup.inserts, "pairs": setup.pairs, "quick": args.quick, "results": results,
        }),
        void: 0,
        instead: "",
        interrupted: stop.load(Ordering::Relaxed),
        results,
    })
}
