//! `flashmob reproduce p5`: what the system does below a database, INSERT by INSERT.
//!
//! - `plan`: what is to be measured, as runs of `flashmob trace sqlite`

mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::Document;

use super::progress::Progress;
use super::{Output, kept, page, part};
use crate::commands::own_runs;
use crate::commands::tell::{self, STATUS_INTERRUPTED};
use crate::commands::words;
use plan::{Place, Run, Setup, System};

/// INSERTs of a setting and pairs of runs, for figures and for a first look. P5 made 10,000.
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
    systems: Vec<System>,
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
    /// Keep the results in files in this directory.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Page to write; replaces an existing file.
    #[arg(short, value_name = "FILE", default_value = "report.html")]
    o: PathBuf,
    /// Output format of the claims: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

impl P5Args {
    /// Where INSERTs are to be made; without rights where they can be.
    fn places(&self) -> Vec<Place> {
        if let Some(folder) = &self.folder {
            return vec![Place::Folder(folder.clone())];
        }
        if rustix::process::geteuid().is_root() || !self.systems.is_empty() {
            let systems = if self.systems.is_empty() { System::ALL.to_vec() } else { self.systems.clone() };
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
    page::check(&args.o)?;
    let folder = own_runs::Folder::make("reproduce")?;
    let place = args.save.as_deref().unwrap_or(folder.path());
    let files = runs.iter().map(|run| kept::file(place, &run.file())).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    let stop = Arc::new(AtomicBool::new(false));
    tell::on_signal(Arc::clone(&stop))?;
    let measured = measure(args, &runs, &setup, &files, folder.path(), &stop)?;
    if measured.documents.is_empty() {
        log::info!("stopped before anything was measured");
        return Ok(ExitCode::from(STATUS_INTERRUPTED));
    }
    tell_all(args, &setup, measured)
}

/// What came of all runs.
#[derive(Default)]
struct Measured {
    documents: Vec<(PathBuf, Document)>,
    /// Systems that could not be measured, and why.
    missing: Vec<String>,
    interrupted: bool,
}

/// Runs one after the other; what was measured before a stop or a failure is kept.
fn measure(
    args: &P5Args,
    runs: &[Run],
    setup: &Setup,
    files: &[PathBuf],
    folder: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<Measured> {
    let guesses_s: Vec<f64> = runs.iter().map(|run| run.guess_s(setup)).collect();
    let progress = Progress::new(&guesses_s, false);
    let mut measured = Measured::default();
    let mut failure = None;
    for (run, file) in runs.iter().zip(files) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        progress.begin(run.words(), run.guess_s(setup));
        let mut arguments = run.arguments(setup);
        arguments.extend(args.label.iter().flat_map(|label| ["--label".to_string(), label.clone()]));
        let outcome = part::measured(&arguments, &folder.join("run.json"), &run.words(), stop, &|| progress.tick());
        // Before anything is said, so that it has a line of its own.
        progress.end();
        match outcome {
            Ok(Some(mut document)) => {
                document.preset = Some("p5".into());
                kept::save(file, &document)?;
                measured.documents.push((file.clone(), document));
            }
            Ok(None) => {}
            // A kernel lacks one file system or another; without all of them nothing is left to tell.
            Err(error) => {
                log::error!("{}", words(&error));
                measured.missing.push(run.words());
                failure = failure.or(Some(error));
            }
        }
    }
    measured.interrupted = stop.load(Ordering::Relaxed);
    match failure {
        Some(error) if measured.documents.is_empty() => Err(error),
        _ => Ok(measured),
    }
}

/// Writes the page and prints the claims.
fn tell_all(args: &P5Args, setup: &Setup, measured: Measured) -> anyhow::Result<ExitCode> {
    let Measured { documents, missing, interrupted } = measured;
    let systems: Vec<String> = documents.iter().map(|(_, document)| document.name()).collect();
    let results: Vec<String> = documents.iter().map(|(path, _)| path.display().to_string()).collect();
    let report = Report::new(documents.into_iter().map(|(path, document)| Input { path, document }).collect());
    let how = format!("with {} INSERTs of each setting on {}", setup.inserts, systems.join(", "));
    let settings = serde_json::json!({
        "paper": "p5", "setting": if args.folder.is_some() { "folder" } else { "loop" }, "systems": systems, "missing": missing,
        "inserts": setup.inserts, "pairs": setup.pairs, "quick": args.quick, "interrupted": interrupted,
        "report": args.o.display().to_string(), "results": if args.save.is_some() { results.clone() } else { Vec::new() },
    });
    page::tell(&report, &args.o, "P5", &how, settings, args.output)?;
    page::conclude(&args.o, 0, interrupted, "");
    if args.save.is_some() {
        log::info!("results: {}", results.join(", "));
    }
    Ok(if interrupted { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
}
