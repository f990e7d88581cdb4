//! The send queue: bytes gathered in segments, written with few calls.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::units::MIB;

/// Size of a segment into which small messages are gathered, in bytes.
const SEGMENT_BYTES: usize = 64 * 1024;
/// Buffers of at least this many bytes are chained, smaller ones are copied: below it a copy costs less than another `IoSlice`.
pub(super) const CHAIN_BYTES: usize = 16 * 1024;
/// Most bytes of drained segments that a queue can keep: two of the largest frames, one being written and one being made.
pub const SPARE_BYTES_MAX: usize = 5 * MIB as usize / 2;
/// Most bytes of drained segments that a queue keeps by default.
const SPARE_BYTES_DEFAULT: usize = 256 * 1024;

/// A buffer that is filled from the front. Old bytes stay behind `used`, so that reuse costs no clearing.
#[derive(Debug, Default)]
struct Segment {
    buf: Vec<u8>,
    used: usize,
    /// A caller's buffer, appended without a copy.
    is_chained: bool,
}

impl Segment {
    fn with_room(bytes: usize) -> Segment {
        Segment { buf: vec![0; bytes], used: 0, is_chained: false }
    }

    fn room(&self) -> usize {
        self.buf.len() - self.used
    }
}

/// Bytes to send, in order.
#[derive(Debug)]
pub struct OutQueue {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are already written.
    head: usize,
    bytes: usize,
    /// Drained segments, kept for the next messages.
    spares: Vec<Segment>,
    spare_bytes: usize,
    spare_bytes_max: usize,
    /// Where small messages are encoded.
    scratch: Vec<u8>,
}

impl Default for OutQueue {
    fn default() -> OutQueue {
        OutQueue {
            segments: VecDeque::new(),
            head: 0,
            bytes: 0,
            spares: Vec::new(),
            spare_bytes: 0,
            spare_bytes_max: SPARE_BYTES_DEFAULT,
            scratch: Vec::new(),
        }
    }
}

impl OutQueue {
    /// An empty queue, which allocates at its first use.
    #[must_use]
    pub fn new() -> OutQueue {
        OutQueue::default()
    }

    /// Sets how many bytes of drained segments are kept for later messages, at most [`SPARE_BYTES_MAX`].
    pub fn keep_spares(&mut self, bytes_max: usize) {
        self.spare_bytes_max = bytes_max.min(SPARE_BYTES_MAX);
        while self.spare_bytes > self.spare_bytes_max
            && let Some(spare) = self.spares.pop()
        {
            self.spare_bytes -= spare.buf.len();
        }
    }

    /// Bytes to write.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Lets `fill` write at the front of a slice of `room_bytes` and appends as many bytes as it returns. The slice is not cleared: it
    /// holds bytes of earlier messages.
    pub fn append_with(&mut self, room_bytes: usize, fill: impl FnOnce(&mut [u8]) -> usize) {
        if self.segments.back().is_none_or(|s| s.room() < room_bytes) {
            let segment = self.segment_with(room_bytes);
            self.segments.push_back(segment);
        }
        if let Some(segment) = self.segments.back_mut() {
            let room = &mut segment.buf[segment.used..segment.used + room_bytes];
            let filled = fill(room).min(room_bytes);
            segment.used += filled;
            self.bytes += filled;
        }
        // Nothing may have been written: an empty segment in front would hide what comes behind it.
        if self.segments.back().is_some_and(|s| s.used == 0)
            && let Some(segment) = self.segments.pop_back()
        {
            self.keep(segment);
        }
    }

    /// Appends what `write` appends to a vector. That is copied once, so use it for small messages.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        write(&mut scratch);
        self.push_bytes(&scratch);
        self.scratch = scratch;
    }

    /// A segment with at least this much room: the smallest spare one that fits, or a new one.
    fn segment_with(&mut self, room_bytes: usize) -> Segment {
        let fitting = self.spares.iter().enumerate().filter(|(_, s)| s.buf.len() >= room_bytes);
        match fitting.min_by_key(|(_, s)| s.buf.len()) {
            Some((at, _)) => {
                let mut segment = self.spares.swap_remove(at);
                self.spare_bytes -= segment.buf.len();
                segment.used = 0;
                segment
            }
            // Rounded up, so that it fits messages of similar sizes.
            None => Segment::with_room(room_bytes.max(1).next_multiple_of(SEGMENT_BYTES)),
        }
    }

    /// Keeps a drained segment for later messages, within the limit.
    fn keep(&mut self, segment: Segment) {
        if segment.buf.len() >= SEGMENT_BYTES && self.spare_bytes + segment.buf.len() <= self.spare_bytes_max {
            self.spare_bytes += segment.buf.len();
            self.spares.push(segment);
        }
    }

    /// Appends a copy of `bytes`, split where a segment ends: a queue for a slow peer has no gaps.
    pub fn push_bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.segments.back().map_or(0, Segment::room);
            let part = if room == 0 { SEGMENT_BYTES } else { room };
            let (head, rest) = bytes.split_at(part.min(bytes.len()));
            self.append_with(head.len(), |room| {
                room.copy_from_slice(head);
                head.len()
            });
            bytes = rest;
        }
    }

    /// Appends a whole buffer: chained if it is large, copied if it is small.
    pub fn push_buffer(&mut self, buffer: Vec<u8>) {
        if buffer.len() < CHAIN_BYTES {
            self.push_bytes(&buffer);
        } else {
            self.bytes += buffer.len();
            self.segments.push_back(Segment { used: buffer.len(), buf: buffer, is_chained: true });
        }
    }

    /// Fills `slices` with the bytes to write, for one vectored write. Returns how many slices were filled.
    pub fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let mut head = self.head;
        for (slot, segment) in slices.iter_mut().zip(&self.segments) {
            *slot = IoSlice::new(&segment.buf[head..segment.used]);
            head = 0;
            filled += 1;
        }
        filled
    }

    /// The first contiguous run of bytes to write.
    #[must_use]
    pub fn front(&self) -> &[u8] {
        self.segments.front().map_or(&[], |s| &s.buf[self.head..s.used])
    }

    /// Marks the first `n` bytes as written. Panics if there are fewer: that is a bug of the caller.
    pub fn advance(&mut self, n: usize) {
        self.advance_with(n, drop);
    }

    /// The same; buffers that were chained and are now written go to `take_back`.
    pub fn advance_with(&mut self, mut n: usize, mut take_back: impl FnMut(Vec<u8>)) {
        assert!(n <= self.bytes, "wrote {n} of {} bytes", self.bytes);
        self.bytes -= n;
        while let Some(segment) = self.segments.front() {
            let left = segment.used - self.head;
            if n < left {
                self.head += n;
                return;
            }
            n -= left;
            self.head = 0;
            match self.segments.pop_front() {
                Some(segment) if segment.is_chained => take_back(segment.buf),
                Some(segment) => self.keep(segment),
                None => {}
            }
        }
    }

    /// Removes all bytes and returns them as one buffer (for tests, the simulator and links in memory).
    pub fn take_all(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes);
        while !self.is_empty() {
            let front = self.front();
            all.extend_from_slice(front);
            let n = front.len();
            self.advance(n);
        }
        all
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        *self = OutQueue { spare_bytes_max: self.spare_bytes_max, ..OutQueue::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn out_queue_gives_back_what_went_in(parts in prop::collection::vec((any::<bool>(), 0usize..40_000), 0..20), step in 1usize..30_000) {
            let mut queue = OutQueue::new();
            let mut expected = Vec::new();
            for (i, (chain, len)) in parts.iter().enumerate() {
                let bytes: Vec<u8> = (0..*len).map(|j| (i * 31 + j) as u8).collect();
                expected.extend_from_slice(&bytes);
                if *chain { queue.push_buffer(bytes) } else { queue.push_bytes(&bytes) }
            }
            prop_assert_eq!(queue.len(), expected.len());
            let mut got = Vec::new();
            while !queue.is_empty() {
                let mut slices = [IoSlice::new(&[]); 8];
                let filled = queue.fill_slices(&mut slices);
                let mut taken = 0;
                for slice in &slices[..filled] {
                    let n = slice.len().min(step - taken);
                    got.extend_from_slice(&slice[..n]);
                    taken += n;
                    if taken == step { break; }
                }
                queue.advance(taken);
            }
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn what_is_not_filled_is_not_sent_and_old_bytes_never_show() {
        let mut queue = OutQueue::new();
        queue.push_bytes(&[7; 100]);
        queue.advance(100);
        queue.append_with(50, |room| {
            room[..3].copy_from_slice(&[1, 2, 3]);
            3
        });
        queue.append_with(50, |_| 0);
        queue.push_bytes(&[4]);
        assert_eq!(queue.take_all(), [1, 2, 3, 4]);
    }

    #[test]
    fn spares_are_held_below_at_and_above_their_limit() {
        let mut queue = OutQueue::new();
        for extra in [0, 1] {
            let count = SPARE_BYTES_DEFAULT / SEGMENT_BYTES + extra;
            for _ in 0..count {
                queue.push_bytes(&[1; SEGMENT_BYTES]);
            }
            queue.advance(count * SEGMENT_BYTES);
            assert_eq!(queue.spare_bytes, SPARE_BYTES_DEFAULT);
        }
        queue.push_bytes(&[1; SEGMENT_BYTES]);
        assert_eq!(queue.spare_bytes, SPARE_BYTES_DEFAULT - SEGMENT_BYTES);
        queue.keep_spares(SEGMENT_BYTES);
        assert_eq!(queue.spare_bytes, SEGMENT_BYTES);
    }

    #[test]
    fn chained_buffers_are_given_back_whole() {
        let mut queue = OutQueue::new();
        queue.push_bytes(&[1; 10]);
        queue.push_buffer(vec![2; CHAIN_BYTES]);
        let mut back = Vec::new();
        queue.advance_with(10 + CHAIN_BYTES - 1, |buffer| back.push(buffer));
        assert!(back.is_empty(), "a byte of it is still to be written");
        queue.advance_with(1, |buffer| back.push(buffer));
        assert_eq!(back, [vec![2; CHAIN_BYTES]]);
    }
}
