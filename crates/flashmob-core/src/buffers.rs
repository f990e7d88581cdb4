//! Receive and send buffers, and the memory limit.
//!
//! [`RxBuf`] collects received bytes until a message is complete. [`OutQueue`] collects bytes to send: small messages share a
//! segment, large buffers are chained without a copy. [`Budget`] limits everything that is held in memory.

mod budget;
mod out;
mod pool;

pub use budget::Budget;
pub use out::{OutQueue, SPARE_BYTES_MAX};
pub use pool::BufferPool;

/// Received bytes that are not yet decoded.
#[derive(Debug, Default)]
pub struct RxBuf {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl RxBuf {
    /// An empty buffer, which allocates at its first use.
    #[must_use]
    pub fn new() -> RxBuf {
        RxBuf::default()
    }

    /// The bytes to decode.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// How many bytes are to be decoded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Marks the first `n` bytes as decoded. Panics if there are fewer: that is a bug of the decoder.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len(), "consumed {n} of {} bytes", self.len());
        self.start += n;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// All free space, at least `wanted` bytes, to be filled from a socket. Follow it with [`RxBuf::filled`].
    pub fn space(&mut self, wanted: usize) -> &mut [u8] {
        let wanted = wanted.max(1);
        if self.buf.len() - self.end < wanted && self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buf.len() - self.end < wanted {
            self.buf.resize((self.end + wanted).next_multiple_of(4096), 0);
        }
        &mut self.buf[self.end..]
    }

    /// Marks the first `n` bytes of the last [`RxBuf::space`] as received.
    pub fn filled(&mut self, n: usize) {
        assert!(n <= self.buf.len() - self.end, "filled {n} of {} bytes", self.buf.len() - self.end);
        self.end += n;
    }

    /// Appends a copy of `bytes`.
    pub fn extend(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            self.filled(bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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
}
