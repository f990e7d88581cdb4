//! TCP segments in IP fragments: the first has the TCP header, the last shows the length, and all together the data.
//!
//! Only headers and lengths are kept. At most [`DATAGRAMS_MAX`] packets of at most [`PARTS_MAX`] parts wait at once.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::{Piece, Rest, Segment, tcp};

/// Packets that wait for fragments at once; beyond these the oldest is given up.
pub const DATAGRAMS_MAX: usize = 64;
/// Parts of a packet: 64 KiB in fragments of 576 bytes.
pub const PARTS_MAX: usize = 128;
/// A TCP header with all options.
const HEADER_BYTES_MAX: usize = 60;

/// The identity of a fragmented packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub from: IpAddr,
    pub to: IpAddr,
    pub identification: u32,
}

/// A part of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    key: Key,
    offset_bytes: u32,
    is_last: bool,
    data: &'a [u8],
    bytes: u32,
}

impl<'a> Fragment<'a> {
    pub(super) fn new(key: Key, offset_bytes: u32, is_last: bool, payload: Rest<'a>) -> Fragment<'a> {
        let bytes = u32::try_from(payload.bytes).unwrap_or(u32::MAX >> 1);
        Fragment { key, offset_bytes, is_last, data: payload.data, bytes }
    }
}

/// The header of a packet in fragments could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeader;

/// A packet of which parts were captured.
#[derive(Clone, Debug)]
struct Datagram {
    key: Key,
    /// Begin of the first part, as far as it was captured.
    header: Option<Vec<u8>>,
    /// Parts, ascending and disjoint.
    parts: Vec<(u32, u32)>,
    total_bytes: Option<u32>,
    first_number: u64,
    packets: u64,
}

impl Datagram {
    fn add(&mut self, fragment: &Fragment<'_>) {
        let (begin, end) = (fragment.offset_bytes, fragment.offset_bytes.saturating_add(fragment.bytes));
        if begin == 0 {
            self.header = Some(fragment.data[..fragment.data.len().min(HEADER_BYTES_MAX)].to_vec());
        }
        if fragment.is_last {
            self.total_bytes = Some(end);
        }
        let at = self.parts.partition_point(|part| part.0 < begin);
        let is_free = at.checked_sub(1).is_none_or(|before| self.parts[before].1 <= begin)
            && self.parts.get(at).is_none_or(|next| next.0 >= end);
        if is_free && self.parts.len() < PARTS_MAX {
            self.parts.insert(at, (begin, end));
        }
    }

    fn is_complete(&self) -> bool {
        let held = self.parts.iter().map(|(begin, end)| u64::from(end - begin)).sum::<u64>();
        self.header.is_some() && self.total_bytes.is_some_and(|total| held == u64::from(total))
    }
}

/// Joins fragments.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    waiting: VecDeque<Datagram>,
    lost_packets: u64,
    first_lost: Option<u64>,
}

impl Fragments {
    /// Adds a fragment captured at `time_ns`, number `number` of its capture; returns the segment that it completes.
    ///
    /// # Errors
    /// All parts are there, and the TCP header in the first is cut off or malformed.
    pub fn take(&mut self, fragment: &Fragment<'_>, time_ns: i64, number: u64) -> Result<Option<Segment>, NoHeader> {
        let at = self.waiting.iter().position(|datagram| datagram.key == fragment.key);
        let at = match at {
            // Identifications are used again: a second beginning is another packet's.
            Some(at) if fragment.offset_bytes == 0 && self.waiting[at].header.is_some() => {
                self.give_up(at);
                None
            }
            found => found,
        };
        let at = at.unwrap_or_else(|| {
            if self.waiting.len() >= DATAGRAMS_MAX {
                self.give_up(0);
            }
            self.waiting.push_back(Datagram {
                key: fragment.key,
                header: None,
                parts: Vec::new(),
                total_bytes: None,
                first_number: number,
                packets: 0,
            });
            self.waiting.len() - 1
        });
        let datagram = &mut self.waiting[at];
        datagram.packets += 1;
        datagram.add(fragment);
        if !datagram.is_complete() {
            return Ok(None);
        }
        let Some(datagram) = self.waiting.remove(at) else { return Ok(None) };
        let Key { from, to, .. } = datagram.key;
        let data = datagram.header.unwrap_or_default();
        let bytes = datagram.total_bytes.unwrap_or(0) as usize;
        // Fragments of one packet share its identification: it tells no copies apart.
        tcp(time_ns, number, &Piece { from, to, identification: None, data: &data, bytes }).map(Some).ok_or(NoHeader)
    }

    fn give_up(&mut self, at: usize) {
        if let Some(datagram) = self.waiting.remove(at) {
            self.lost_packets += datagram.packets;
            self.first_lost = Some(self.first_lost.map_or(datagram.first_number, |n| n.min(datagram.first_number)));
        }
    }

    /// Fragments without the others, and the number of the first; those that still wait count as well.
    #[must_use]
    pub fn lost(mut self) -> Option<(u64, u64)> {
        while !self.waiting.is_empty() {
            self.give_up(0);
        }
        self.first_lost.map(|first| (self.lost_packets, first))
    }
}
