//! A capture: the kernel's raw pages, and their events in time order.

use flashmob_results::trace::{Losses, Source};

use super::tracing::Texts;
use crate::format::{EventFormat, PageLayout};
use crate::record::{Counted, Formats, Record, Stream, merge};

/// A capture.
#[derive(Debug, Default)]
pub struct Capture {
    /// The kernel's layouts.
    pub formats: Vec<EventFormat>,
    /// Lost events.
    pub losses: Losses,
    /// The sources of the data.
    pub sources: Vec<Source>,
    /// Kernel release.
    pub kernel: String,
    /// Events were lost because [`Wanted::memory_bytes`](super::Wanted::memory_bytes) was reached, and not because the kernel's buffers were too small.
    pub is_memory_full: bool,
    /// The kernel's format files.
    pub(super) texts: Texts,
    pub(super) pages: Vec<Pages>,
}

/// The pages of one processor's buffer of an instance.
#[derive(Debug)]
pub struct Pages {
    /// The instance: `threads` or `devices`.
    pub instance: String,
    /// The processor.
    pub cpu: u32,
    /// Layout of the pages.
    pub layout: PageLayout,
    /// Whole pages; no page is split between chunks.
    pub chunks: Vec<Vec<u8>>,
}

impl Pages {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().flat_map(|chunk| chunk.chunks(self.layout.page_bytes()))
    }
}

impl Capture {
    /// All events in time order. Each call decodes the pages again; keep the result.
    #[must_use]
    pub fn records(&self) -> Vec<Record<'_>> {
        self.read().0
    }

    /// The events, with counts of lost events and unreadable bytes.
    pub(super) fn read(&self) -> (Vec<Record<'_>>, Counted) {
        let formats = Formats::new(&self.formats);
        let streams =
            self.pages.iter().map(|pages| Stream { layout: &pages.layout, cpu: pages.cpu, pages: pages.iter() });
        merge(&formats, streams)
    }
}
