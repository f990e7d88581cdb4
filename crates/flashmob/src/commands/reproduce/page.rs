//! What a reproduction tells in the end: a page with all figures, and the claims on standard output.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use flashmob_report::Report;

use super::{Output, verdicts};
use crate::commands::{tell, whole_file};

/// Fails now rather than after an hour if the page cannot be written.
pub fn check(page: &Path) -> anyhow::Result<()> {
    ensure!(!page.is_dir(), "{} is a directory; give a file in it with -o", page.display());
    if let Some(folder) = page.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        ensure!(
            folder.is_dir(),
            "directory {} for the page does not exist; create it, or give another -o",
            folder.display()
        );
    }
    ensure!(
        tell::check_writable(page, None).is_ok(),
        "cannot write the page as {}: permission denied; give another -o",
        page.display()
    );
    Ok(())
}

/// Writes the page and prints the claims; `settings` is what programs are told of how it was measured, `how` the same in words, which follow the paper's
/// name.
pub fn tell(
    report: &Report,
    page: &Path,
    paper: &str,
    how: &str,
    mut settings: serde_json::Value,
    output: Output,
) -> anyhow::Result<()> {
    whole_file::write(page, &report.html()?).with_context(|| format!("cannot write {}", page.display()))?;
    let mut claims = report.claims();
    // Those of another paper about the same sort of thing are on the page.
    claims.retain(|claim| claim.source.split(',').next() == Some(paper));
    let names: Vec<String> = report.entries().iter().map(|entry| entry.name.clone()).collect();
    let lines = verdicts::lines(&claims, &names);
    let text = match output {
        Output::Table => format!("{paper} {how}:\n{}", verdicts::table(&lines)),
        Output::Json => {
            settings["claims"] = serde_json::to_value(&lines)?;
            format!("{}\n", serde_json::to_string_pretty(&settings)?)
        }
    };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Says what is to be thought of it, and where the page is. `instead` is what else may be tried where repetitions are void.
pub fn conclude(page: &Path, void: usize, interrupted: bool, instead: &str) {
    if void > 0 {
        let which = match void {
            1 => "1 repetition is void and was left out".to_string(),
            more => format!("{more} repetitions are void and were left out"),
        };
        log::warn!("{which} (the lab was late, or they were stopped): measure again on a less busy machine{instead}");
    }
    if interrupted {
        log::warn!("stopped early: the table and the page show what was measured until then");
    }
    log::info!("page: {}", page.display());
}
