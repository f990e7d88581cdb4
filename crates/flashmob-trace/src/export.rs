//! Export of a whole timeline to the formats of other programs.
//!
//! - [`csv`]: a row for each span
//! - [`perfetto`]: a trace for Perfetto's viewer and trace processor

pub mod csv;
pub mod perfetto;

#[cfg(test)]
mod tests;

use flashmob_results::trace::Cause;

/// A cause's name in results.
fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Direct => "direct",
        Cause::Waited => "waited",
        Cause::Unknown => "unknown",
    }
}
