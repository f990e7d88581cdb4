//! Outputs of traces: the files that all of `flashmob trace` can write, and the document.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flashmob_host::{device, emulation};
use flashmob_report::{Input, Report, standalone};
use flashmob_results::trace::{Run, Timeline, Trace};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};
use flashmob_trace::export;

use crate::commands::tell::{self, Begun, Form};
use crate::commands::whole_file::{self, WholeFile};

/// What to write, and where.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Name of this trace in tables and reports.
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Save the result as JSON (schema/result-1.json), for 'flashmob trace compare' and 'flashmob report'.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write a page with a zoomable timeline and all tables; it needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the timeline of the first detailed operation as an SVG picture.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write all spans for ui.perfetto.dev, with a track for each layer and file. With several runs, one file each: NAME, NAME-2, and so on.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write all spans as rows of comma-separated values. With several runs, one file each.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Operations to keep in full detail, for timelines: the slowest, and some of medium duration.
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub operations: u64,
    /// Output format: a summary, or the result as JSON.
    #[arg(long, value_enum, default_value = "table")]
    pub output: Form,
}

impl OutputArgs {
    /// Fails before the run if a file cannot be written.
    pub fn check(&self) -> anyhow::Result<()> {
        let files: Vec<&PathBuf> =
            [&self.save, &self.html, &self.svg, &self.perfetto, &self.csv].into_iter().flatten().collect();
        for (at, path) in files.iter().enumerate() {
            tell::check_writable(path, None)?;
            let is_taken = files[..at].contains(path) && !whole_file::is_special(path);
            anyhow::ensure!(!is_taken, "{} is given for two outputs: give another file", path.display());
        }
        Ok(())
    }

    /// The document of these runs; `interrupted` names what is missing, if anything.
    pub fn document(&self, runs: Vec<Run>, begun: Begun, interrupted: Option<&str>) -> Document {
        let device = device::describe();
        let stopped = interrupted.map(|text| Warning::new(Code::Interrupted, text));
        let warnings = emulation::doubt(&device).into_iter().chain(stopped).collect();
        let document = begun.document(device, Measurement::Trace(Trace { runs }), warnings);
        Document { interrupted: interrupted.is_some(), label: self.label.clone(), ..document }
    }

    /// Writes all spans of a run, the `number`th from 1.
    pub fn spans(&self, number: usize, timeline: &Timeline) -> anyhow::Result<()> {
        if let Some(path) = &self.perfetto {
            into(&numbered(path, number), |out| export::perfetto::write(timeline, out))?;
        }
        if let Some(path) = &self.csv {
            into(&numbered(path, number), |out| export::csv::write(timeline, out).map_err(io::Error::other))?;
        }
        Ok(())
    }

    /// Saves the document and its page. Nothing goes to stdout.
    pub fn files(&self, document: &Document) -> anyhow::Result<()> {
        if let Some(path) = &self.save {
            tell::save(document, path)?;
        }
        if let Some(path) = &self.html {
            page(document, path)?;
        }
        if let Some(path) = &self.svg {
            picture(document, path)?;
        }
        Ok(())
    }

    /// The operations to show in full: the slowest, and others evenly distributed over durations.
    pub fn choice(&self, timeline: &Timeline) -> Vec<u64> {
        let mut by_length: Vec<(u64, u64)> =
            timeline.operations.iter().map(|o| (o.end_ns - o.begin_ns, o.number)).collect();
        by_length.sort_unstable();
        let count = usize::try_from(self.operations).unwrap_or(usize::MAX).min(by_length.len());
        let mut chosen: Vec<u64> =
            (1..=count).map(|at| by_length[(by_length.len() * at / count).max(1) - 1].1).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
}

/// Writes the page of one document to `path`.
pub fn page(document: &Document, path: &Path) -> anyhow::Result<()> {
    let html = Report::new(vec![Input { path: PathBuf::from("trace.json"), document: document.clone() }]).html()?;
    whole_file::write(path, &html).with_context(|| format!("cannot write the page as {}", path.display()))
}

/// Writes the timeline of the first operation that is in the document in full to `path`.
fn picture(document: &Document, path: &Path) -> anyhow::Result<()> {
    let run = document.trace().and_then(|trace| trace.runs.iter().find(|run| !run.timeline.operations.is_empty()));
    let svg = run.and_then(|run| standalone::timeline(run, run.timeline.operations.first()?.number));
    let svg = svg.context("there is no operation to draw")?;
    whole_file::write(path, &svg).with_context(|| format!("cannot write the picture as {}", path.display()))
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    if number < 2 {
        return path.to_path_buf();
    }
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Writes a file completely or not at all.
fn into(path: &Path, write: impl FnOnce(&mut BufWriter<WholeFile>) -> io::Result<()>) -> anyhow::Result<()> {
    let refused = || format!("cannot write the spans as {}", path.display());
    let mut out = BufWriter::new(WholeFile::create(path).with_context(refused)?);
    let outcome = write(&mut out).and_then(|()| out.into_inner().map_err(|error| error.into_error())?.finish());
    outcome.with_context(refused)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_of_later_runs_are_numbered() {
        let name = |path: &str, number| numbered(Path::new(path), number).display().to_string();
        assert_eq!(name("a/t.pftrace", 1), "a/t.pftrace");
        assert_eq!(name("a/t.pftrace", 2), "a/t-2.pftrace");
        assert_eq!(name("t", 12), "t-12");
    }

    #[test]
    fn one_file_is_not_for_two_outputs() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(folder.path().join(name));
        let args = |save, html| OutputArgs {
            label: None,
            save,
            html,
            svg: None,
            perfetto: None,
            csv: None,
            operations: 3,
            output: Form::Table,
        };
        args(at("a"), at("b")).check().unwrap();
        args(Some("/dev/null".into()), Some("/dev/null".into())).check().unwrap();
        assert!(args(at("a"), at("a")).check().unwrap_err().to_string().contains("give another file"));
    }

    #[test]
    fn a_file_is_there_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spans.csv");
        let failed = into(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert!(format!("{:#}", failed.unwrap_err()).contains("no more"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        into(&path, |out| out.write_all(b"whole")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
    }
}
