//! One page of the kernel's ring buffer, as `per_cpu/cpuN/trace_pipe_raw` gives it.
//!
//! ```text
//! time stamp (8 bytes) | used bytes and flags (8; 4 on 32 bits) | events … | count of missed events (8; 4), if a flag says so
//! event: type_len (5 bits) + time_delta (27 bits) | array …
//!   29  padding: the rest of the page if time_delta is 0, else array[0] + 4 bytes in all
//!   30  time extend: array[0] << 27 more nanoseconds
//!   31  time stamp: array[0] << 27 | time_delta is the time, but for its 5 highest bits
//!    0  data of array[0] - 4 bytes, from array[1] on
//!  1-28 data of 4 times as many bytes, from array[0] on
//! ```

use crate::format::PageLayout;

/// The page comes after events that were lost.
const MISSED_EVENTS: u64 = 1 << 31;
/// Their count stands behind the events.
const MISSED_STORED: u64 = 1 << 30;
/// The bits of the commit field that are a count.
const COMMIT_MASK: u64 = (1 << 27) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of a time stamp that an event has room for: 27 + 32.
const STAMP_BITS: u32 = 59;

/// Events that the kernel lost before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    None,
    /// As many.
    Counted(u64),
    /// Some; the page had no room to say how many.
    Uncounted,
}

/// The head of a page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// When its first event was, less that one's own delta.
    pub begin_ns: u64,
    /// Events that were lost before it.
    pub missed: Missed,
    /// Bytes of events, as the page says.
    pub declared_bytes: usize,
    /// Those that are there.
    events: &'a [u8],
}

impl<'a> Page<'a> {
    /// Reads the head; nothing if there is not even that.
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

    /// Its events, one after the other.
    #[must_use]
    pub fn events(&self) -> Events<'a> {
        Events { left: self.events, time_ns: self.begin_ns, missing_bytes: self.declared_bytes - self.events.len() }
    }
}

/// Goes through the events of a page: the time of each, and its data.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    left: &'a [u8],
    time_ns: u64,
    missing_bytes: usize,
}

impl Events<'_> {
    /// Once all were given: bytes that the page says are events and that could not be understood, or were not there.
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
            // What has no second number is damage, and stays where it is to be counted.
            let array = || number(self.left, 4, 4);
            match type_len {
                PADDING if delta == 0 => self.left = &[],
                PADDING => {
                    self.left = self.left.get(usize::try_from(array()?).ok()?.checked_add(4)?..)?;
                    // An event that was thrown away; its time counts, but the kernel writes a 1 for 0.
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
                    // The next one begins at a multiple of 4, whatever this one says.
                    let next = (begin + bytes).checked_next_multiple_of(4)?.min(self.left.len());
                    self.left = &self.left[next..];
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    return Some((self.time_ns, data));
                }
            }
        }
    }
}

/// The 5 highest bits, which do not fit, are those of the time before; one more if time has passed over.
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
