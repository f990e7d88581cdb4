//! Large buffers that are reused, which saves the page faults of new ones.

/// Unused buffers, up to a limit in bytes.
#[derive(Debug)]
pub struct BufferPool {
    /// Longest unused first.
    free: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> BufferPool {
        BufferPool { free: Vec::new(), bytes: 0, bytes_max }
    }

    /// A buffer of `len_bytes`. It is not cleared, so the caller must fill all of it.
    #[must_use]
    pub fn take(&mut self, len_bytes: usize) -> Vec<u8> {
        let fits = |b: &Vec<u8>| b.capacity() >= len_bytes && b.capacity() / 2 <= len_bytes;
        let Some(at) = self.free.iter().rposition(fits) else { return vec![0; len_bytes] };
        let mut buffer = self.free.remove(at);
        self.bytes -= buffer.capacity();
        buffer.resize(len_bytes, 0);
        buffer
    }

    /// Keeps a buffer; those that were unused longest are freed above the limit.
    pub fn give(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() < super::out::CHAIN_BYTES || buffer.capacity() > self.bytes_max {
            return;
        }
        self.bytes += buffer.capacity();
        self.free.push(buffer);
        let mut surplus = 0;
        while self.bytes > self.bytes_max {
            self.bytes -= self.free[surplus].capacity();
            surplus += 1;
        }
        self.free.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_in_the_size_that_is_asked_for() {
        let mut pool = BufferPool::new(1 << 20);
        pool.give(vec![7; 100_000]);
        assert_eq!(pool.take(49_999), vec![0; 49_999], "twice too large: left for others");
        let buffer = pool.take(90_000);
        assert_eq!(buffer.len(), 90_000);
        assert!(buffer.capacity() >= 100_000, "the one that was given");
        assert_eq!(pool.bytes, 0);
        pool.give(buffer);
        assert_eq!(pool.take(100_000).len(), 100_000, "and grown again");
    }

    #[test]
    fn what_is_kept_is_held_below_at_and_above_the_limit() {
        let mut pool = BufferPool::new(100_000);
        pool.give(vec![0; 100_001]);
        assert_eq!(pool.bytes, 0, "alone over the limit");
        pool.give(vec![0; 50_000]);
        pool.give(vec![0; 50_000]);
        assert_eq!((pool.free.len(), pool.bytes), (2, 100_000), "at the limit");
        pool.give(vec![0; 16_384]);
        assert_eq!((pool.free.len(), pool.bytes), (2, 66_384), "the oldest went");
        pool.give(vec![0; 100_000]);
        assert_eq!((pool.free.len(), pool.bytes), (1, 100_000));
    }
}
