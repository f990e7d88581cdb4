//! One page of the kernel's ring buffer, as read from `per_cpu/cpuN/trace_pipe_raw`.
//!
//! ```text
//! time stamp (8 bytes) | used bytes and flags (8; 4 on 32 bits) | events … | count of missed events (8; 4), if flagged
//! event: type_len (5 bits) + time_delta (27 bits) | array …
//!   29  padding: the rest of the page if time_delta is 0, else array[0] + 4 bytes in total
//!   30  time extend: advances the time by (array[0] << 27) + time_delta nanoseconds
//!   31  time stamp: array[0] << 27 | time_delta is the time without its 5 highest bits
//!    0  data of array[0] - 4 bytes, starting at array[1]
//!  1-28 data of 4 * type_len bytes, starting at array[0]
//! ```

use crate::format::PageLayout;

/// Events were lost before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// The count of lost events follows the events.
const MISSED_STORED: u64 = 1 << 30;
/// The bits of the commit field that hold the count of used bytes.
const COMMIT_MASK: u64 = (1 << 27) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of a time stamp that fit in an event: 27 + 32.
const STAMP_BITS: u32 = 59;

/// Events that the kernel lost before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    None,
    /// This many.
    Counted(u64),
    /// Some; the page had no room for their count.
    Uncounted,
}

/// A page's header and its events.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Time base: the time of the first event less its delta.
    pub begin_ns: u64,
    /// Events lost before the page.
    pub missed: Missed,
    /// Bytes of events, as declared by the page.
    pub declared_bytes: usize,
    /// Those of them that are present.
    events: &'a [u8],
}

impl<'a> Page<'a> {
    /// Parses the header; `None` if it is incomplete.
    #[must_use]
    pub fn parse(layout: &PageLayout, bytes: &'a [u8]) -> Option<Page<'a>> {
        let begin_ns = number(bytes, layout.time_offset, 8)?;
        let commit = number(bytes, layout.commit_offset, layout.commit_bytes)?;
        let data = bytes.get(layout.data_offset..)?;
        let data = &data[..data.len().min(layout.data_bytes)];
        let declared_bytes = ((commit & COMMIT_MASK) as usize).min(layout.data_bytes);
        let (events, behind) = data.split_at(declared_bytes.min(data.len()));
        let missed = match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::None,
            (true, true) => number(behind, 0, layout.commit_bytes).map_or(Missed::Uncounted, Missed::Counted),
            (true, false) => Missed::Uncounted,
        };
        Some(Page { begin_ns, missed, declared_bytes, events })
    }

    /// Iterates over the events.
    #[must_use]
    pub fn events(&self) -> Events<'a> {
        Events { left: self.events, time_ns: self.begin_ns, missing_bytes: self.declared_bytes - self.events.len() }
    }
}

/// Iterates over the events of a page: time and data of each.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    left: &'a [u8],
    time_ns: u64,
    missing_bytes: usize,
}

impl Events<'_> {
    /// After the last event: bytes declared as events that could not be decoded or are missing.
    #[must_use]
    pub fn unreadable_bytes(&self) -> usize {
        self.left.len() + self.missing_bytes
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        loop {
            let head = number(self.left, 0, 4)? as u32;
            let (type_len, delta) = (head & 31, u64::from(head >> 5));
            // An event without its second word is damaged; it remains in `left` and is counted as unreadable.
            let array = || number(self.left, 4, 4);
            match type_len {
                PADDING if delta == 0 => self.left = &[],
                PADDING => {
                    self.left = self.left.get(usize::try_from(array()?).ok()?.checked_add(4)?..)?;
                    // A discarded event advances the time, but the kernel writes a delta of 0 as 1.
                    self.time_ns = self.time_ns.wrapping_add(if delta == 1 { 0 } else { delta });
                }
                TIME_EXTEND => {
                    self.time_ns = self.time_ns.wrapping_add((array()? << 27) + delta);
                    self.left = &self.left[8..];
                }
                TIME_STAMP => {
                    self.time_ns = whole_stamp((array()? << 27) | delta, self.time_ns);
                    self.left = &self.left[8..];
                }
                _ => {
                    let (begin, bytes): (usize, usize) = match type_len {
                        0 => (8, usize::try_from(array()?.checked_sub(4)?).ok()?),
                        words => (4, words as usize * 4),
                    };
                    let data = self.left.get(begin..begin.checked_add(bytes)?)?;
                    // Events are aligned to 4 bytes, whatever the length of this one.
                    let next = (begin + bytes).checked_next_multiple_of(4)?.min(self.left.len());
                    self.left = &self.left[next..];
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    return Some((self.time_ns, data));
                }
            }
        }
    }
}

/// Takes the 5 highest bits, which are not stored, from the previous time; plus one if the lower bits wrapped around.
fn whole_stamp(stamp: u64, before_ns: u64) -> u64 {
    let high = before_ns >> STAMP_BITS;
    let whole = (high << STAMP_BITS) | stamp;
    let is_past = before_ns.checked_sub(whole).is_some_and(|by| by > 1 << (STAMP_BITS - 1));
    if is_past { whole.wrapping_add(1 << STAMP_BITS) } else { whole }
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut all = [0; 8];
    all.get_mut(..size)?.copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(all))
}
