//! What is kept of a reproduction.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flashmob_results::Document;

use crate::commands::whole_file;

/// The file of this name to keep results in; one that is there stays.
pub fn file(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create the directory {}", folder.display()))?;
    let path = folder.join(name);
    if path.exists() {
        bail!(
            "{} already exists, from an earlier run: move it away, or give another directory with --save",
            path.display()
        );
    }
    Ok(path)
}

/// Writes a result as a whole.
pub fn save(path: &Path, document: &Document) -> anyhow::Result<()> {
    let text = format!("{}\n", serde_json::to_string(document)?);
    whole_file::write(path, &text).with_context(|| format!("cannot write {}", path.display()))
}
