//! Results as one page: verdicts on claims, figures, tables, warnings, and the commands that repeat each measurement.
//!
//! It does no I/O: [`Report::new`] takes documents, [`Report::html`] and [`Report::csv`] return text.
//! The page needs no network and no other file, and a script only to zoom into timelines of traces. Text from documents is escaped.
//!
//! - [`Entry`]: a result under a unique name, and its points in groups that may be compared
//! - [`claims`]: the claims of P1, P3, P4 and P5 with their criteria, judged for each device, cluster, network and trace
//! - [`comparison`]: traced runs side by side
//! - `inserts`: what a traced INSERT costs
//! - `sweep`: a cluster's points over nodes, links and batches
//! - `ways`: a network's points over round-trip times; `flows`: captured connections
//! - `groups`: items grouped by a key
//! - `figure`: SVG with axes, in light or dark colours as the reader prefers
//! - [`standalone`]: figures as separate SVG files
//! - `sources`: where the figures of a document come from
//! - `page`: the sections of the page
//! - `csv`: one row for each repetition

#![forbid(unsafe_code)]

pub mod claims;
pub mod comparison;
mod csv;
mod entry;
mod figure;
mod flows;
mod groups;
mod inserts;
mod page;
mod plots;
mod sources;
pub mod standalone;
mod stats;
mod sweep;
mod ways;
mod words;

use std::path::PathBuf;

use flashmob_results::Document;

pub use entry::Entry;

/// A document and the file that it came from.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its file, as given: the stem distinguishes results with equal names.
    pub path: PathBuf,
    /// Its contents.
    pub document: Document,
}

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A figure could not be drawn.
    #[error("a figure could not be drawn: {0}")]
    Figure(String),
    /// The table could not be written.
    #[error("the table could not be written: {0}")]
    Csv(String),
}

/// Results side by side.
#[derive(Clone, Debug)]
pub struct Report {
    entries: Vec<Entry>,
}

impl Report {
    /// A report of these results, in this order.
    #[must_use]
    pub fn new(inputs: Vec<Input>) -> Report {
        Report { entries: entry::named(inputs) }
    }

    /// The results with their names.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The claims, judged.
    #[must_use]
    pub fn claims(&self) -> Vec<claims::Claim> {
        claims::judge(&self.entries)
    }

    /// The page, as one HTML file.
    ///
    /// # Errors
    /// A figure could not be drawn.
    pub fn html(&self) -> Result<String, Error> {
        page::html(&self.entries, &self.claims())
    }

    /// The results by name, each with where it comes from: what was real, when, by which command (between backticks), and what is void or doubtful.
    #[must_use]
    pub fn sources(&self) -> Vec<(String, String)> {
        sources::sources(&self.entries)
    }

    /// The figures of the page, each as a file of its own.
    ///
    /// # Errors
    /// A figure could not be drawn.
    pub fn pictures(&self) -> Result<Vec<standalone::Picture>, Error> {
        standalone::pictures(&self.entries)
    }

    /// Some results are of single devices.
    #[must_use]
    pub fn has_devices(&self) -> bool {
        self.entries.iter().any(Entry::is_device)
    }

    /// Some results are of clusters.
    #[must_use]
    pub fn has_clusters(&self) -> bool {
        self.entries.iter().any(|entry| entry.cluster().is_some())
    }

    /// Some results are of networks.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        self.entries.iter().any(|entry| entry.net().is_some())
    }

    /// Some results are of captured packets, which have no table.
    #[must_use]
    pub fn has_captures(&self) -> bool {
        self.entries.iter().any(|entry| entry.capture().is_some())
    }

    /// Some results are of traces, which have no table.
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.entries.iter().any(|entry| entry.trace().is_some())
    }

    /// All repetitions of networks as comma-separated values with a heading: a row for each direction. Void repetitions are included and marked.
    ///
    /// # Errors
    /// The table could not be written.
    pub fn networks_csv(&self) -> Result<String, Error> {
        csv::networks(&self.entries)
    }

    /// All repetitions of clusters as comma-separated values with a heading. Void repetitions are included and marked.
    ///
    /// # Errors
    /// The table could not be written.
    pub fn clusters_csv(&self) -> Result<String, Error> {
        csv::clusters(&self.entries)
    }

    /// All repetitions of devices as comma-separated values with a heading.
    ///
    /// # Errors
    /// The table could not be written.
    pub fn csv(&self) -> Result<String, Error> {
        csv::devices(&self.entries)
    }
}

#[cfg(test)]
pub(crate) mod tests;
