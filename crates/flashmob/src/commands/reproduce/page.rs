//! The output of a reproduction: a page with all figures, and the claims on standard output.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use clap::Args;
use flashmob_report::Report;
use tempfile::TempDir;

use super::verdicts;
use crate::commands::own_runs;
use crate::commands::tell::{self, Form, STATUS_INTERRUPTED};
use crate::commands::whole_file;

/// Options of all papers.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Keep the results in files in this directory, updated after each run.
    #[arg(long, value_name = "DIR", value_parser = folder)]
    pub save: Option<PathBuf>,
    /// Page to write; replaces an existing file.
    #[arg(short, value_name = "FILE", default_value = "report.html")]
    pub o: PathBuf,
    /// Output format of the claims: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    pub output: Form,
}

/// A directory, which may not exist yet: results are several files, whose names tell them apart.
fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_named_like_a_file = path.extension().is_some_and(|extension| extension == "json") && !path.is_dir();
    if is_named_like_a_file || path.is_file() {
        return Err("is the name of a file; give a directory, such as results: each result becomes a file in it".into());
    }
    Ok(path)
}

/// The results, for [`OutputArgs::tell`].
pub struct Outcome<'a> {
    /// `P1`, or several: `P1, P3`.
    pub paper: &'a str,
    pub report: Report,
    /// How it was measured, as text after the paper's name.
    pub how: String,
    /// The same for programs.
    pub settings: serde_json::Value,
    /// Number of void repetitions, and advice about them.
    pub void: usize,
    pub instead: &'a str,
    pub interrupted: bool,
    /// Files that stay.
    pub results: Vec<String>,
}

impl OutputArgs {
    /// Checks that the page can be written, before the measurement. From here on the first signal sets the flag; the directory is for files
    /// of runs.
    pub fn begin(&self) -> anyhow::Result<(Arc<AtomicBool>, TempDir)> {
        self.check()?;
        Ok((tell::on_signal()?, own_runs::scratch("reproduce")?))
    }

    /// Checks that the page can be written.
    pub fn check(&self) -> anyhow::Result<()> {
        let page = self.o.display();
        ensure!(!self.o.is_dir(), "{page} is a directory; give a file in it with -o");
        if let Some(folder) = self.o.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            ensure!(
                folder.is_dir(),
                "directory {} for the page does not exist; create it, or give another -o",
                folder.display()
            );
        }
        ensure!(
            tell::check_writable(&self.o, None).is_ok(),
            "cannot write the page as {page}: permission denied; give another -o"
        );
        Ok(())
    }

    /// Writes the page, prints the claims, and names their limits.
    pub fn tell(&self, outcome: Outcome<'_>) -> anyhow::Result<ExitCode> {
        let Outcome { paper, report, how, mut settings, void, instead, interrupted, results } = outcome;
        let page = self.o.display().to_string();
        whole_file::write(&self.o, &report.html()?).with_context(|| format!("cannot write {page}"))?;
        let mut claims = report.claims();
        // Claims of other papers about similar results are only on the page.
        claims.retain(|claim| paper.split(", ").any(|paper| claim.source.split(',').next() == Some(paper)));
        let names: Vec<String> = report.entries().iter().map(|entry| entry.name.clone()).collect();
        let lines = verdicts::lines(&claims, &names);
        let text = match self.output {
            Form::Table => format!("{paper} {how}:\n{}", verdicts::table(&lines)),
            Form::Json => {
                settings["paper"] = paper.to_lowercase().into();
                settings["interrupted"] = interrupted.into();
                settings["report"] = page.clone().into();
                settings["claims"] = serde_json::to_value(&lines)?;
                tell::json(&settings)?
            }
        };
        tell::print(&text)?;
        if void > 0 {
            let which = match void {
                1 => "1 repetition is void and was left out".to_string(),
                more => format!("{more} repetitions are void and were left out"),
            };
            log::warn!(
                "{which} (the lab was late, or they were stopped): measure again on a less busy machine{instead}"
            );
        }
        if interrupted {
            log::warn!("stopped early: the table and the page show what was measured until then");
        }
        log::info!("page: {page}");
        if !results.is_empty() {
            log::info!("result{}: {}", if results.len() == 1 { "" } else { "s" }, results.join(", "));
        }
        Ok(if interrupted { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
    }
}

/// For a reproduction that was interrupted before it had results.
pub fn nothing_measured() -> ExitCode {
    log::info!("stopped before anything was measured");
    ExitCode::from(STATUS_INTERRUPTED)
}
