//! `flashmob report`: results in, a page out. An existing page is replaced as a whole or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::read::{self, ReadError};

use super::whole_file;

/// Make a page out of measurements: which of the papers' claims hold, figures, tables, doubts.
///
/// Takes results of 'flashmob bench disk', of one device or of several. The page is one HTML file that needs no network and no
/// script, light or dark as the reader's screen is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob report tablet.json
        a page report.html about one device
  flashmob report tablet-*.json pc-*.json -o comparison.html
        devices side by side; a flash device and a rotating disk together decide claim C1
  flashmob report *.json --csv results.csv
        every repetition as a row besides, for a spreadsheet or for statistics
  flashmob report tablet.json -o - | ssh server 'cat > report.html'

What to measure for it:
  flashmob bench disk FILE --preset p1            random reads over threads and block sizes (C1, C2, C3)
  flashmob bench disk FILE --preset p3-basic      sequential against random (C10)
  flashmob bench disk FILE --preset p3-order      sort, shuffle, rand (C11)
  flashmob bench disk FILE --preset p3-scheduler  I/O schedulers (C12)

Results that have the same name are told apart by their files' names.")]
pub struct ReportArgs {
    /// Results of 'flashmob bench disk', as JSON.
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,
    /// The page; '-' is standard output. An existing file is replaced.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Every repetition as a row of comma-separated values; in a directory it is called results.csv.
    #[arg(long, value_name = "FILE_OR_DIR")]
    csv: Option<PathBuf>,
}

/// Makes the page, and the table if asked for.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let csv = args.csv.as_ref().map(|path| if path.is_dir() { path.join("results.csv") } else { path.clone() });
    let outputs: Vec<&Path> = csv.iter().map(PathBuf::as_path).chain([args.output.as_path()]).collect();
    refuse_mixups(&args.results, &outputs)?;
    let report = Report::new(inputs(&args.results)?);
    // Both texts before either file: what cannot be made replaces nothing.
    let page = report.html()?;
    let table = csv.as_ref().map(|_| report.csv()).transpose()?;
    write(&args.output, &page)?;
    if let (Some(path), Some(table)) = (&csv, &table) {
        write(path, table)?;
    }
    Ok(())
}

/// All results, or all that is wrong with any of them.
fn inputs(paths: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    let (mut inputs, mut wrong) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            wrong.push(format!("{0} is a directory; name the results in it, such as {0}/*.json", path.display()));
            continue;
        }
        match read::file(path) {
            Ok(document) => inputs.push(Input { path: path.clone(), document }),
            Err(error) => wrong.push(format!("{error}; {}", remedy(&error))),
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n       "));
    }
    Ok(inputs)
}

fn remedy(error: &ReadError) -> &'static str {
    match error {
        ReadError::Io { .. } => "check its name and permissions",
        ReadError::TooLong { .. } | ReadError::Foreign { .. } => {
            "name a file that 'flashmob bench disk' wrote, or leave it out"
        }
        ReadError::Version { .. } => "use the flashmob that wrote it, or measure again with this one",
    }
}

/// No output over a result, and no two to one place.
fn refuse_mixups(results: &[PathBuf], outputs: &[&Path]) -> anyhow::Result<()> {
    let same = |a: &Path, b: &Path| match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    };
    for output in outputs.iter().filter(|output| !is_stdout(output)) {
        if let Some(result) = results.iter().find(|result| same(result, output)) {
            bail!("{} is one of the results: it is not overwritten; give another name to write to", result.display());
        }
        if output.is_dir() {
            bail!("{} is a directory; name a file in it", output.display());
        }
    }
    if let [a, b] = outputs
        && same(a, b)
    {
        bail!("the page and the table cannot both go to {}; give them different names", a.display());
    }
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// To standard output, or to a file by way of a temporary name beside it, so that no half of it ever has its name.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if is_stdout(path) {
        let mut out = std::io::stdout().lock();
        return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            result => result.context("cannot write to standard output"),
        };
    }
    whole_file::write(path, text).with_context(|| {
        format!("cannot write {}; is there such a directory, and may you write to it?", path.display())
    })?;
    log::info!("{}: {} KiB", path.display(), text.len().div_ceil(1024));
    Ok(())
}
