//! `flashmob report`: a page from results. An existing page is replaced completely or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::read::{self, ReadError};

use super::{tell, whole_file};

/// Write a report page from measurements: the papers' claims, figures, tables, warnings.
///
/// Takes one or more results of 'flashmob bench disk', 'bench cluster', 'simulate', 'bench net', 'net analyze' and
/// 'trace'. The page is one HTML file that needs no network; it uses a script only to zoom into timelines of traces,
/// and follows the reader's light or dark theme.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob report tablet.json
        a page, report.html, about one device
  flashmob report tablet-*.json pc-*.json -o comparison.html
        devices side by side; a flash device and a rotating disk together decide claim C1
  flashmob report *.json --csv results.csv
        also every repetition as a row, for a spreadsheet or for statistics
  flashmob report lab.json simulated.json --csv .
        clusters side by side; their rows go to clusters.csv, those of devices to results.csv, those of networks to networks.csv
  flashmob report net.json small.json tenfold.json
        a network, and captures with a small and a tenfold receive maximum (by their labels): claims C14 to C17
  flashmob report ext4.json f2fs.json
        traces side by side: time per layer of an operation, eliminated writes, timelines
  flashmob report p1.json --figures figures.md
        also each figure as an SVG below figures/, and figures.md, which shows them
  flashmob report tablet.json -o - | ssh server 'cat > report.html'

Measurements for the claims:
  flashmob bench disk FILE --preset p1            random reads over threads and block sizes (C1, C2, C3)
  flashmob bench disk FILE --preset p3-basic      sequential against random (C10)
  flashmob bench disk FILE --preset p3-order      sort, shuffle, rand (C11)
  flashmob bench disk FILE --preset p3-scheduler  I/O schedulers (C12)
  flashmob reproduce p1                           a cluster over nodes, links and batches (C4 to C9)
  flashmob reproduce p4                           a path over round-trip times, with and without loss, and its packets (C14 to C17)
  flashmob bench net --connect HOST               the network between two devices; a single path decides none of the claims

Results that have the same name are distinguished by their file names.")]
pub struct ReportArgs {
    /// Results of 'flashmob bench disk', 'bench cluster', 'simulate', 'bench net', 'net analyze' or 'trace', as JSON.
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,
    /// Page to write; '-' is standard output. Replaces an existing file.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Write every repetition as a row of comma-separated values. In a directory, devices go to results.csv, clusters
    /// to clusters.csv and networks (a row per direction) to networks.csv; their columns differ, so a single file
    /// takes one kind only. Captures and traces have no table.
    #[arg(long, value_name = "FILE_OR_DIR")]
    csv: Option<PathBuf>,
    /// Write the figures for a document: a Markdown file with all of them, each as an SVG in a directory beside it that
    /// has the name of the file without its extension.
    #[arg(long, value_name = "FILE.md")]
    figures: Option<PathBuf>,
}

/// Writes the page, and the table if requested.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let report = Report::new(inputs(&args.results)?);
    let tables = args.csv.as_ref().map_or(Ok(Vec::new()), |path| tables(path, &report))?;
    let outputs: Vec<&Path> = tables.iter().map(|(path, _)| path.as_path()).chain([args.output.as_path()]).collect();
    refuse_mixups(&args.results, &outputs)?;
    // All texts are made before any file is written: a failure replaces nothing.
    let page = report.html()?;
    write(&args.output, &page)?;
    for (path, table) in &tables {
        write(path, table)?;
    }
    if let Some(path) = &args.figures {
        figures(path, &report)?;
    }
    Ok(())
}

/// Writes all figures, and the Markdown that shows them.
fn figures(path: &Path, report: &Report) -> anyhow::Result<()> {
    let stem = path.file_stem().filter(|_| path.extension().is_some());
    let stem =
        stem.with_context(|| format!("give a file for --figures, such as figures.md, instead of {}", path.display()))?;
    let folder = path.with_file_name(stem);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create the directory {}", folder.display()))?;
    let pictures = report.pictures()?;
    let mut text = String::from("# Figures\n");
    let mut section = "";
    for (nth, picture) in pictures.iter().enumerate() {
        if picture.section != section {
            section = picture.section;
            text.push_str(&format!("\n## {section}\n\n{}\n", picture.words));
        }
        let file = format!("{:02}-{}.svg", nth + 1, slug(section));
        write(&folder.join(&file), &picture.svg)?;
        let (name, folder) = (picture.name.replace(['[', ']'], ""), stem.to_string_lossy());
        text.push_str(&format!("\n![{name}]({folder}/{file})\n\n{name}. {}\n", picture.caption));
    }
    write(path, &text)
}

/// A heading as part of a file's name.
fn slug(heading: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = heading.chars().map(plain).collect();
    words.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The path and the text of each table.
fn tables(path: &Path, report: &Report) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let (clusters, networks) = (report.has_clusters(), report.has_networks());
    let others = clusters || networks || report.has_captures() || report.has_traces();
    let mut tables = Vec::new();
    if report.has_devices() || !others {
        tables.push(("results.csv", "devices", report.csv()?));
    }
    if clusters {
        tables.push(("clusters.csv", "clusters", report.clusters_csv()?));
    }
    if networks {
        tables.push(("networks.csv", "networks", report.networks_csv()?));
    }
    if path.is_dir() {
        return Ok(tables.into_iter().map(|(name, _, table)| (path.join(name), table)).collect());
    }
    let kinds: Vec<&str> = tables.iter().map(|(_, kind, _)| *kind).collect();
    match kinds.as_slice() {
        [] => bail!("captures and traces have no table of repetitions; leave out --csv {}", path.display()),
        [_] => Ok(tables.into_iter().map(|(_, _, table)| (path.to_path_buf(), table)).collect()),
        several => bail!(
            "tables of {} have different columns; give a directory for --csv instead of {}",
            several.join(" and of "),
            path.display()
        ),
    }
}

/// All results, or all errors in any of them.
fn inputs(paths: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    let (mut inputs, mut wrong) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            wrong.push(format!("{0} is a directory; give the results in it, such as {0}/*.json", path.display()));
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
            "give a file that 'flashmob bench disk', 'bench cluster', 'simulate', 'bench net', 'net analyze' or 'trace' wrote, or leave it out"
        }
        ReadError::Capture { .. } => {
            "analyze it first: 'flashmob net analyze FILE --save RESULT.json'; then give RESULT.json"
        }
        ReadError::Version { .. } => "use the flashmob version that wrote it, or measure again with this one",
    }
}

/// An output must not replace a result, and two outputs must not have one path.
fn refuse_mixups(results: &[PathBuf], outputs: &[&Path]) -> anyhow::Result<()> {
    let same = |a: &Path, b: &Path| match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    };
    for output in outputs.iter().filter(|output| !is_stdout(output)) {
        if let Some(result) = results.iter().find(|result| same(result, output)) {
            bail!("{} is one of the results and would be overwritten; give another output file", result.display());
        }
        if output.is_dir() {
            bail!("{} is a directory; give a file in it", output.display());
        }
    }
    if let [tables @ .., page] = outputs
        && tables.iter().any(|table| same(table, page))
    {
        bail!("the page and the table cannot both be written to {}; give them different names", page.display());
    }
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes to standard output, or to a file through a temporary name beside it, so that the file is never partial.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if is_stdout(path) {
        return tell::print(text);
    }
    whole_file::write(path, text).map_err(|error| {
        let remedy = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "free some space, or give a path on another file system",
            _ => "check that the directory exists and is writable",
        };
        anyhow::anyhow!("cannot write {}: {error}; {remedy}", path.display())
    })?;
    log::info!("{}: {} KiB", path.display(), text.len().div_ceil(1024));
    Ok(())
}
