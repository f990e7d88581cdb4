//! Bytes on their way in and out, and the limit on how many there may be.
//!
//! [`RxBuf`] collects what a socket gives until a message is whole. [`OutQueue`] collects what a
//! socket is to take: small messages share a segment, large buffers are chained without a copy.
//! [`Budget`] is the limit that everything held in memory counts against.

use std::collections::VecDeque;
use std::io::IoSlice;

/// Size of a segment into which small messages are gathered, in bytes.
const SEGMENT_BYTES: usize = 64 * 1024;
/// Buffers of at least this many bytes are chained, smaller ones are copied: below it one copy costs
/// less than another entry in a gathering write.
const CHAIN_BYTES: usize = 16 * 1024;
/// Most drained segments kept by one queue.
const SPARES_MAX: usize = 2;
/// First size of a receive buffer, in bytes.
const RX_BYTES_INITIAL: usize = 64 * 1024;

/// Received bytes that are not yet decoded.
#[derive(Debug, Default)]
pub struct RxBuf {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl RxBuf {
    /// An empty buffer that holds no memory until it is used.
    #[must_use]
    pub fn new() -> RxBuf {
        RxBuf::default()
    }

    /// The bytes that wait to be decoded.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// How many bytes wait to be decoded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether none wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Marks the first `n` bytes as decoded. Panics if fewer wait: that is a bug of the decoder.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len(), "consumed {n} of {} bytes", self.len());
        self.start += n;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Room for at least `wanted` more bytes (all the room there is), to be filled from a socket.
    /// Follow it with [`RxBuf::filled`].
    pub fn space(&mut self, wanted: usize) -> &mut [u8] {
        let wanted = wanted.max(1);
        if self.buf.len() - self.end < wanted && self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buf.len() - self.end < wanted {
            let size = (self.end + wanted).next_multiple_of(4096).max(RX_BYTES_INITIAL);
            self.buf.resize(size, 0);
        }
        &mut self.buf[self.end..]
    }

    /// Marks the first `n` bytes of the last [`RxBuf::space`] as received.
    pub fn filled(&mut self, n: usize) {
        assert!(n <= self.buf.len() - self.end, "filled {n} of {} bytes", self.buf.len() - self.end);
        self.end += n;
    }

    /// Appends a copy of `bytes`, as a socket would.
    pub fn extend(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            self.filled(bytes.len());
        }
    }
}

/// Bytes that a socket is to take, in order.
#[derive(Debug, Default)]
pub struct OutQueue {
    segments: VecDeque<Vec<u8>>,
    /// Bytes of the first segment that are already written.
    head: usize,
    bytes: usize,
    /// Drained segments, kept for the next messages.
    spares: Vec<Vec<u8>>,
}

impl OutQueue {
    /// An empty queue that holds no memory until it is used.
    #[must_use]
    pub fn new() -> OutQueue {
        OutQueue::default()
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether none wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends to the last segment through `write`, which must only append. `hint` is how many bytes
    /// it will append at most; a segment with that much room is chosen.
    pub fn append(&mut self, hint: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let fits = self.segments.back().is_some_and(|s| s.capacity() - s.len() >= hint);
        if !fits {
            let mut segment = self.spares.pop().unwrap_or_default();
            segment.reserve(hint.max(SEGMENT_BYTES));
            self.segments.push_back(segment);
        }
        if let Some(segment) = self.segments.back_mut() {
            let before = segment.len();
            write(segment);
            self.bytes += segment.len() - before;
        }
        // Nothing may have been written: an empty segment in front would hide what comes behind it.
        if self.segments.back().is_some_and(Vec::is_empty)
            && let Some(segment) = self.segments.pop_back()
        {
            self.keep(segment);
        }
    }

    /// Keeps a drained segment for later, if it is of a common size and there are few.
    fn keep(&mut self, mut segment: Vec<u8>) {
        if segment.capacity() <= 2 * SEGMENT_BYTES && self.spares.len() < SPARES_MAX {
            segment.clear();
            self.spares.push(segment);
        }
    }

    /// Appends a copy of `bytes`.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.append(bytes.len(), |segment| segment.extend_from_slice(bytes));
    }

    /// Appends a whole buffer: chained if it is large, copied if it is small.
    pub fn push_buffer(&mut self, buffer: Vec<u8>) {
        if buffer.len() < CHAIN_BYTES {
            self.push_bytes(&buffer);
        } else {
            self.bytes += buffer.len();
            self.segments.push_back(buffer);
        }
    }

    /// The waiting bytes as slices for one gathering write, at most `slices.len()` of them.
    /// Returns how many were filled in.
    pub fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let mut head = self.head;
        for (slot, segment) in slices.iter_mut().zip(&self.segments) {
            *slot = IoSlice::new(&segment[head..]);
            head = 0;
            filled += 1;
        }
        filled
    }

    /// The first contiguous run of waiting bytes.
    #[must_use]
    pub fn front(&self) -> &[u8] {
        self.segments.front().map_or(&[], |s| &s[self.head..])
    }

    /// Marks the first `n` bytes as written. Panics if fewer wait: that is a bug of the caller.
    pub fn advance(&mut self, mut n: usize) {
        assert!(n <= self.bytes, "wrote {n} of {} bytes", self.bytes);
        self.bytes -= n;
        while let Some(segment) = self.segments.front() {
            let left = segment.len() - self.head;
            if n < left {
                self.head += n;
                return;
            }
            n -= left;
            self.head = 0;
            if let Some(segment) = self.segments.pop_front() {
                self.keep(segment);
            }
        }
    }

    /// Takes everything that waits as one buffer (for tests, the simulator and links in memory).
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

    /// Forgets everything that waits.
    pub fn clear(&mut self) {
        *self = OutQueue::default();
    }
}

/// A limit in bytes, and how much of it is taken.
///
/// One reservation is always granted when nothing else is held, so that a single request larger than
/// the limit makes progress instead of waiting for ever.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    used_bytes: u64,
    peak_bytes: u64,
    /// Nothing is granted while this is set.
    closed: bool,
}

impl Budget {
    /// A budget of `limit_bytes` with nothing taken.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Budget {
        Budget { limit_bytes, used_bytes: 0, peak_bytes: 0, closed: false }
    }

    /// Takes `bytes` if they fit. The caller gives them back with [`Budget::release`].
    #[must_use]
    pub fn try_reserve(&mut self, bytes: u64) -> bool {
        if self.closed || (self.used_bytes != 0 && self.used_bytes + bytes > self.limit_bytes) {
            return false;
        }
        self.used_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        true
    }

    /// Grants nothing while `closed`, for somebody whose turn it is not.
    pub fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// Gives back bytes taken before.
    pub fn release(&mut self, bytes: u64) {
        assert!(bytes <= self.used_bytes, "released {bytes} of {} bytes", self.used_bytes);
        self.used_bytes -= bytes;
    }

    /// Bytes taken now.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The most that was ever taken at once.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// The limit.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
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

        #[test]
        fn rx_buf_gives_back_what_came_in(steps in prop::collection::vec((0usize..100_000, 0usize..100_000), 0..30)) {
            let mut rx = RxBuf::new();
            let (mut written, mut read) = (0u64, 0u64);
            for (write, consume) in steps {
                let bytes: Vec<u8> = (0..write).map(|i| ((written + i as u64) % 251) as u8).collect();
                rx.extend(&bytes);
                written += write as u64;
                let n = consume.min(rx.len());
                for (i, &b) in rx.data()[..n].iter().enumerate() {
                    prop_assert_eq!(b, ((read + i as u64) % 251) as u8);
                }
                rx.consume(n);
                read += n as u64;
                prop_assert_eq!(rx.len() as u64, written - read);
            }
        }
    }

    #[test]
    fn budget_holds_below_at_and_above_its_limit() {
        let mut budget = Budget::new(100);
        assert!(budget.try_reserve(60));
        assert!(budget.try_reserve(40), "at the limit");
        assert!(!budget.try_reserve(1), "above the limit");
        budget.release(1);
        assert!(budget.try_reserve(1));
        budget.release(100);
        assert!(budget.try_reserve(500), "alone, even above the limit");
        assert!(!budget.try_reserve(1));
        assert_eq!(budget.peak_bytes(), 500);
        budget.release(500);
        budget.set_closed(true);
        assert!(!budget.try_reserve(1), "closed");
        budget.set_closed(false);
        assert!(budget.try_reserve(1));
    }
}
