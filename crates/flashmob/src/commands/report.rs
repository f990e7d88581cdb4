//! `flashmob report`: a page from results. An existing page is replaced completely or not at all.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::read::{self, ReadError};

use super::{tell, whole_file};

/// Write a report page from measurements: claims, figures, tables.
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
  flashmob report cluster.json device.json
        a real cluster, judged by the measured limit of a node's disk: claims C4 to C6
  flashmob report net.json small.json tenfold.json
        a network, and captures with a small and a tenfold receive maximum (by their labels): claims C14 to C17, C24, C25
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
  flashmob reproduce p1                           a cluster over nodes, links and batches (C4 to C9, C22)
  flashmob bench cluster --config FILE            a real one; with 'bench disk' of a node's disk, whose limit C4 to C6 need
  flashmob reproduce p4                           a path over round-trip times, with and without loss, and its packets (C14 to C17, C24 to C26)
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
    /// has the name of the file without its extension. Replaces both; other files there stay, unless they are named
    /// like figures (01-name.svg).
    #[arg(long, value_name = "FILE.md")]
    figures: Option<PathBuf>,
}

/// Writes the page, and the tables and the figures if requested.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let inputs = inputs(&args.results)?;
    let report = Report::new(inputs);
    // All texts are made before any file is written: a failure replaces nothing.
    let tables = args.csv.as_ref().map_or(Ok(Vec::new()), |path| tables(path, &report))?;
    let figures = args.figures.as_ref().map(|path| Figures::new(path, &report)).transpose()?;
    let mut outputs = vec![args.output.as_path()];
    outputs.extend(tables.iter().map(|(path, _)| path.as_path()));
    outputs.extend(figures.iter().flat_map(Figures::outputs));
    refuse_mixups(&args.results, &outputs)?;
    let page = report.html()?;
    write(&args.output, &page)?;
    for (path, table) in &tables {
        write(path, table)?;
    }
    figures.map_or(Ok(()), |figures| figures.write())
}

/// All figures for a document, and the Markdown that shows them.
struct Figures {
    path: PathBuf,
    text: String,
    folder: PathBuf,
    /// The path and the SVG of each.
    files: Vec<(PathBuf, String)>,
    /// The figures of an earlier run that this one does not replace.
    old: Vec<PathBuf>,
}

impl Figures {
    /// Makes their texts, with what the results are; writes nothing.
    fn new(path: &Path, report: &Report) -> anyhow::Result<Figures> {
        let Some(stem) = path.file_stem().filter(|_| path.extension().is_some()).and_then(OsStr::to_str) else {
            bail_value!("give a file for --figures, such as figures.md, instead of {}", path.display());
        };
        let folder = path.with_file_name(stem);
        ensure_value!(
            folder.is_dir() || folder.symlink_metadata().is_err(),
            "the figures need the directory {}, and something else has that name; give another file for --figures",
            folder.display()
        );
        let mut text = String::from("# Figures\n\nMade by `flashmob report --figures` from these results:\n\n");
        for (name, source) in report.sources() {
            text.push_str(&format!("- **{}**: {source}\n", name.replace('*', "")));
        }
        let mut files = Vec::new();
        let (mut paper, mut section) = ("", "");
        for (nth, picture) in report.pictures()?.into_iter().enumerate() {
            if picture.paper != paper {
                paper = picture.paper;
                text.push_str(&format!("\n## {paper}\n"));
            }
            if picture.section != section {
                section = picture.section;
                text.push_str(&format!("\n### {section}\n\n{}\n", picture.words));
            }
            let file = format!("{:02}-{}.svg", nth + 1, slug(section));
            let (name, link) = (picture.name.replace(['[', ']'], ""), link(stem, &file));
            text.push_str(&format!("\n![{name}]({link})\n\n{name}. {}\n", picture.caption.trim_end()));
            files.push((folder.join(file), picture.svg));
        }
        let mut old = old_figures(&folder)?;
        old.retain(|path| files.iter().all(|(file, _)| file != path));
        Ok(Figures { path: path.to_path_buf(), text, folder, files, old })
    }

    /// Every path that is written, made or removed.
    fn outputs(&self) -> impl Iterator<Item = &Path> {
        let files = self.files.iter().map(|(path, _)| path).chain(&self.old);
        [&self.path].into_iter().chain(files).map(PathBuf::as_path)
    }

    /// Writes them. The figures of before go last, so that a failure leaves the earlier document its figures.
    fn write(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create the directory {}", self.folder.display()))?;
        for (path, svg) in &self.files {
            write(path, svg)?;
        }
        write(&self.path, &self.text)?;
        for path in &self.old {
            fs::remove_file(path).with_context(|| format!("cannot remove the old figure {}", path.display()))?;
        }
        Ok(())
    }
}

/// The files in `folder` that are named as figures are: two or more digits, '-', any text, '.svg'.
fn old_figures(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read the directory {}", folder.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read the directory {}", folder.display()))?;
        let is_figure = entry.file_name().to_str().is_some_and(is_figure_name);
        if is_figure && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            found.push(folder.join(entry.file_name()));
        }
    }
    Ok(found)
}

fn is_figure_name(name: &str) -> bool {
    let parts = name.strip_suffix(".svg").and_then(|name| name.split_once('-'));
    parts.is_some_and(|(number, _)| number.len() >= 2 && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The target of a Markdown link to `file` in `folder`: in angle brackets where the folder's name has other characters than plain ones.
fn link(folder: &str, file: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if folder.chars().all(is_plain) {
        return format!("{folder}/{file}");
    }
    let mut target = String::from("<");
    for c in folder.chars() {
        // These have a meaning in a URL, or within angle brackets.
        if c.is_ascii_control() || "%#?&<>\\".contains(c) {
            target.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            target.push(c);
        }
    }
    format!("{target}/{file}>")
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
        [] => bail_value!("captures and traces have no table of repetitions; leave out --csv {}", path.display()),
        [_] => Ok(tables.into_iter().map(|(_, _, table)| (path.to_path_buf(), table)).collect()),
        several => bail_value!(
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
    let results: Vec<(PathBuf, &Path)> = results.iter().map(|path| (place(path), path.as_path())).collect();
    let mut seen = HashSet::new();
    for output in outputs {
        let here = place(output);
        if !is_stdout(output) {
            if let Some((_, result)) = results.iter().find(|(place, _)| *place == here) {
                bail_value!(
                    "{} is one of the results and would be overwritten; give another output file",
                    result.display()
                );
            }
            ensure_value!(!output.is_dir(), "{} is a directory; give a file in it", output.display());
        }
        ensure_value!(
            seen.insert(here),
            "the page, the tables and the figures cannot have one path ({}); give them different names",
            output.display()
        );
    }
    Ok(())
}

/// The path without links; a file that does not exist yet is looked for in its directory.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(new).unwrap_or_else(|| path.to_path_buf())
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

#[cfg(test)]
mod tests {
    use super::super::WrongValue;
    use super::*;

    fn sample(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../flashmob-report/tests/data").join(name)
    }

    /// Runs it with the page at `folder`/report.html.
    fn report(folder: &Path, result: &Path, figures: &Path) -> anyhow::Result<()> {
        run(&ReportArgs {
            results: vec![result.to_path_buf()],
            output: folder.join("report.html"),
            csv: None,
            figures: Some(figures.to_path_buf()),
        })
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    /// That it is refused as a wrong value, and nothing is written or changed.
    fn refused(folder: &Path, result: &Path, figures: &Path, reason: &str) {
        let (before, text) = (names(folder), fs::read(result).unwrap());
        let error = report(folder, result, figures).unwrap_err();
        assert!(error.is::<WrongValue>() && error.to_string().contains(reason), "{error}");
        assert_eq!((names(folder), fs::read(result).unwrap()), (before, text));
    }

    #[test]
    fn figures_without_an_extension_or_in_the_place_of_others_are_refused_before_anything_is_written() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let result = folder.join("p1.json");
        fs::copy(sample("hdd.json"), &result).unwrap();
        refused(folder, &result, &folder.join("foo"), "such as figures.md");
        refused(folder, &result, Path::new("-"), "such as figures.md");
        refused(folder, &result, &result, "is one of the results");
        refused(folder, &result, &folder.join("report.html"), "cannot have one path");
        fs::write(folder.join("taken"), "x").unwrap();
        refused(folder, &result, &folder.join("taken.md"), "something else has that name");
        fs::remove_file(folder.join("taken")).unwrap();
        fs::create_dir(folder.join("figures")).unwrap();
        let inside = folder.join("figures/99-result.svg");
        fs::rename(&result, &inside).unwrap();
        refused(folder, &inside, &folder.join("figures.md"), "is one of the results");
    }

    #[test]
    fn figures_replace_those_of_an_earlier_run_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let (folder, document) = (temporary.path(), temporary.path().join("my figs (1).md"));
        let figures = folder.join("my figs (1)");
        report(folder, &sample("cluster.json"), &document).unwrap();
        let first = names(&figures);
        let text = fs::read_to_string(&document).unwrap();
        assert!(first.len() > 4 && folder.join("report.html").is_file(), "{first:?}");
        assert!(first.iter().all(|name| text.contains(&format!("](<my figs (1)/{name}>)"))), "{text}");
        let others = ["1-plan.svg", "01-plan.png", "logo.svg"];
        others.iter().for_each(|name| fs::write(figures.join(name), "mine").unwrap());
        report(folder, &sample("hdd.json"), &document).unwrap();
        let second = names(&figures);
        assert_eq!(second.iter().filter(|name| others.contains(&name.as_str())).count(), others.len(), "{second:?}");
        let text = fs::read_to_string(&document).unwrap();
        let drawn = second.iter().filter(|name| is_figure_name(name));
        assert!(drawn.clone().count() > 0 && drawn.clone().count() < first.len(), "{second:?}");
        assert!(drawn.clone().all(|name| text.contains(name.as_str())), "none of the first run: {second:?}");
        assert_eq!(drawn.count() + others.len(), second.len());
    }

    #[test]
    fn a_link_is_valid_whatever_the_name_is() {
        assert_eq!(link("p1-figures", "01-a.svg"), "p1-figures/01-a.svg");
        assert_eq!(link("a b)", "01-a.svg"), "<a b)/01-a.svg>");
        assert_eq!(link("50 % <x>", "01-a.svg"), "<50 %25 %3Cx%3E/01-a.svg>");
    }
}
