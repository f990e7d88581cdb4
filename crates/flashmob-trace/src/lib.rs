//! One timeline from the application to the flash driver: what the kernel tells, captured, understood and joined.
//!
//! ```text
//! capture/  ─ formats, raw pages ─▶ record ─ begins and ends ─▶ join/ ─ timeline ─▶ view/ (totals), export/ (Perfetto, CSV)
//!                                     ▲                          ▲
//!                               layers.toml                surroundings: names, extents, the application's own spans
//! ```
//!
//! - [`format`]: how the kernel at hand lays out an event, read at run time; no I/O
//! - [`record`]: events out of the kernel's raw pages, in the order of their times; no I/O
//! - [`capture`]: the kernel's side: instances of tracefs that end with the process, and what is missing
//! - [`surroundings`]: what the kernel's events do not say: names of files, extents, what the application did
//! - [`layers`]: the table that says which events make a layer
//! - [`join`]: spans, operations, and whose time it was
//! - [`view`]: totals for tables and documents
//! - [`export`]: Perfetto's form and CSV
//!
//! The form of what comes out is that of results ([`flashmob_results::trace`]).

pub mod capture;
pub mod export;
pub mod format;
pub mod join;
pub mod layers;
pub mod record;
pub mod surroundings;
pub mod view;
