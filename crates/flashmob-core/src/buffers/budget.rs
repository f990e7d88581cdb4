//! The limit on memory.

/// A limit in bytes, and how much of it is reserved.
///
/// While nothing is reserved, any reservation is granted, so that a single request larger than the limit makes progress.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    used_bytes: u64,
    peak_bytes: u64,
    /// Nothing is granted while this is set.
    closed: bool,
    /// Most bytes that may be reserved at once for what has not arrived, if it is large.
    arriving_room_bytes: u64,
}

/// Most bytes of what is never held back because it has not arrived.
const SMALL_BYTES: u64 = 128 * 1024;

impl Budget {
    /// A budget of `limit_bytes` with nothing reserved.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Budget {
        Budget { limit_bytes, used_bytes: 0, peak_bytes: 0, closed: false, arriving_room_bytes: u64::MAX }
    }

    /// Reserves `bytes` if they fit. The caller returns them with [`Budget::release`].
    #[must_use]
    pub fn try_reserve(&mut self, bytes: u64) -> bool {
        if self.closed || (self.used_bytes != 0 && self.used_bytes + bytes > self.limit_bytes) {
            return false;
        }
        self.used_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        true
    }

    /// Whether so many bytes that have not arrived count as a large arrival.
    #[must_use]
    pub fn is_large(&self, bytes: u64) -> bool {
        bytes > SMALL_BYTES.min(self.limit_bytes / 256)
    }

    /// Lets the next large arrival have so many bytes at most.
    pub fn set_arriving_room(&mut self, bytes: u64) {
        self.arriving_room_bytes = bytes;
    }

    /// Whether so many bytes may be reserved before they have arrived.
    #[must_use]
    pub fn may_arrive(&self, bytes: u64) -> bool {
        !self.is_large(bytes) || bytes <= self.arriving_room_bytes
    }

    /// Grants nothing while `closed`: for clients whose turn it is not.
    pub fn set_closed(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// Returns reserved bytes.
    pub fn release(&mut self, bytes: u64) {
        assert!(bytes <= self.used_bytes, "released {bytes} of {} bytes", self.used_bytes);
        self.used_bytes -= bytes;
    }

    /// Bytes reserved now.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The most bytes that were ever reserved at once.
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
