//! Events as they come out of the kernel's raw pages, in the order of their times.
//!
//! No I/O. Pages may hold anything: what can be read is given, the rest is counted, and nothing panics.

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
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// On which processor.
    pub cpu: u32,
    /// By which thread (`common_pid`); 0 is an idle processor, often in an interrupt.
    pub thread: u32,
    /// What it is.
    pub format: &'a EventFormat,
    /// All of its bytes, common fields included.
    pub data: &'a [u8],
}

impl<'a> Record<'a> {
    /// A field that is a number.
    #[must_use]
    pub fn number(&self, field: &str) -> Option<u64> {
        self.format.field(field)?.number(self.data)
    }

    /// A field that is text.
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
