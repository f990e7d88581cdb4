//! Merges the events of all processors by time.

use super::Record;
use super::page::{Missed, Page};
use crate::format::{EventFormat, PageLayout};

/// Pages of one processor's buffer, in the order in which the kernel returned them.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a, P> {
    /// The layout of the pages.
    pub layout: &'a PageLayout,
    /// The processor.
    pub cpu: u32,
    /// The pages.
    pub pages: P,
}

/// Counts of the pages that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Decoded events.
    pub events: u64,
    /// Events reported as lost before a page; an unknown number counts as one.
    pub missed: u64,
    /// Bytes that could not be decoded, and those of events without a known format.
    pub unreadable_bytes: u64,
}

/// Formats by event ID.
#[derive(Debug)]
pub struct Formats<'a> {
    by_id: Vec<Option<(&'a EventFormat, usize)>>,
}

impl<'a> Formats<'a> {
    /// If two formats have the same ID, the later one is used.
    #[must_use]
    pub fn new(formats: &'a [EventFormat]) -> Formats<'a> {
        let longest = formats.iter().map(|format| usize::from(format.id) + 1).max().unwrap_or(0);
        let mut by_id = vec![None; longest];
        for format in formats {
            let thread = format.field("common_pid").map_or(4, |field| field.offset);
            by_id[usize::from(format.id)] = Some((format, thread));
        }
        Formats { by_id }
    }

    /// Decodes the record in `data`.
    #[must_use]
    pub fn record(&self, time_ns: u64, cpu: u32, data: &'a [u8]) -> Option<Record<'a>> {
        let id = u16::from_le_bytes(data.get(..2)?.try_into().ok()?);
        let (format, thread) = (*self.by_id.get(usize::from(id))?)?;
        let thread = u32::from_le_bytes(data.get(thread..thread.checked_add(4)?)?.try_into().ok()?);
        Some(Record { time_ns, cpu, thread, format, data })
    }
}

/// Merges the events of all streams by time; at equal times in the order of the streams.
pub fn merge<'a, P>(
    formats: &Formats<'a>,
    streams: impl IntoIterator<Item = Stream<'a, P>>,
) -> (Vec<Record<'a>>, Counted)
where
    P: Iterator<Item = &'a [u8]>,
{
    let (mut records, mut counted) = (Vec::new(), Counted::default());
    for stream in streams {
        for bytes in stream.pages {
            read_page(formats, stream.layout, stream.cpu, bytes, &mut counted, |record| records.push(record));
        }
    }
    counted.events = records.len() as u64;
    // Each stream is sorted except around interrupts. The sort detects such runs and merges them.
    records.sort_by_key(|record| record.time_ns);
    (records, counted)
}

fn read_page<'a>(
    formats: &Formats<'a>,
    layout: &PageLayout,
    cpu: u32,
    bytes: &'a [u8],
    counted: &mut Counted,
    mut take: impl FnMut(Record<'a>),
) {
    let Some(page) = Page::parse(layout, bytes) else {
        counted.unreadable_bytes += bytes.len() as u64;
        return;
    };
    // A damaged page may contain any number.
    counted.missed = counted.missed.saturating_add(match page.missed {
        Missed::None => 0,
        Missed::Counted(events) => events,
        Missed::Uncounted => 1,
    });
    let mut events = page.events();
    for (time_ns, data) in events.by_ref() {
        match formats.record(time_ns, cpu, data) {
            Some(record) => take(record),
            None => counted.unreadable_bytes += data.len() as u64,
        }
    }
    counted.unreadable_bytes += events.unreadable_bytes() as u64;
}
