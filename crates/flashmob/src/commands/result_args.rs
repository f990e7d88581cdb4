//! Common options of long measurements for their result: label, file, format.

use std::path::{Path, PathBuf};

use clap::Args;
use flashmob_results::Document;

use super::tell::{self, Output, Teller};

/// Where the result goes.
#[derive(Clone, Debug, Args)]
pub struct ResultArgs {
    /// Name of what is measured (device, path or cluster) in reports.
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Save the result as JSON (schema/result-1.json), for `flashmob report`.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Output format: a table (single runs of `bench net` print lines), the result as JSON, or one JSON line per event (schema/event-1.json).
    #[arg(long, value_enum, default_value = "table")]
    pub output: Output,
}

impl ResultArgs {
    /// Fails before the measurement if the file cannot be written or is `measured` itself.
    pub fn check(&self, measured: Option<&Path>) -> anyhow::Result<()> {
        self.save.as_deref().map_or(Ok(()), |path| tell::check_writable(path, measured))
    }

    /// Reports progress and result in the chosen format; `render` makes the table.
    pub fn teller(&self, render: fn(&Document) -> String) -> Teller {
        Teller::new(self.output, render)
    }

    /// Writes the file, if there is one.
    pub fn save(&self, document: &Document) -> anyhow::Result<()> {
        self.save.as_deref().map_or(Ok(()), |path| tell::save(document, path))
    }
}
