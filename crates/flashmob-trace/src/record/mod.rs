//! Decodes events from the kernel's raw pages and merges them by time.
//!
//! No I/O. Pages may have any content: whatever can be decoded is returned, the rest is counted, and nothing panics.

mod merge;
mod page;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use merge::{Counted, Formats, Stream, merge};
pub use page::{Events, Missed, Page};

use crate::format::EventFormat;

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The processor.
    pub cpu: u32,
    /// The thread (`common_pid`); 0 is an idle processor, often in an interrupt.
    pub thread: u32,
    /// The kind of event.
    pub format: &'a EventFormat,
    /// The whole record, including the common fields.
    pub data: &'a [u8],
}

impl<'a> Record<'a> {
    /// The value of a numeric field.
    #[must_use]
    pub fn number(&self, field: &str) -> Option<u64> {
        self.format.field(field)?.number(self.data)
    }

    /// The value of a text field.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<Cow<'a, str>> {
        self.format.field(field)?.text(self.data)
    }

    /// `system:name`.
    #[must_use]
    pub fn is(&self, system: &str, name: &str) -> bool {
        self.format.name == name && self.format.system == system
    }
}
