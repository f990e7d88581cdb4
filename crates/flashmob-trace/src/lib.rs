//! One timeline from the application to the flash driver: the kernel's events, captured, decoded and joined.
//!
//! ```text
//! capture/  ─ formats, raw pages ─▶ record ─ begins and ends ─▶ join/ ─ timeline ─▶ view/ (totals), export/ (Perfetto, CSV)
//!                                     ▲                          ▲
//!                               layers.toml                surroundings: names, extents, the application's own spans
//! ```
//!
//! - [`format`]: how the kernel at hand lays out an event, read at run time; no I/O
//! - [`record`]: events out of the kernel's raw pages, in the order of their times; no I/O
//! - [`capture`]: instances of tracefs that end with the process, and what is missing
//! - [`surroundings`]: knowledge that the kernel's events lack: names of files, extents, the application's own spans
//! - [`layers`]: the table of the events of each layer
//! - [`join`]: spans, operations, and the attribution of their time
//! - [`view`]: totals for tables and documents
//! - [`export`]: Perfetto's format and CSV
//!
//! The results have the format of [`flashmob_results::trace`].

pub mod capture;
pub mod export;
pub mod format;
pub mod join;
pub mod layers;
pub mod record;
pub mod surroundings;
pub mod view;
