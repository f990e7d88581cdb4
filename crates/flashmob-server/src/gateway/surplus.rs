//! Memory that requests no longer need, given back to the system.
//!
//! The budget limits what requests and replies hold; what they held before stays with the allocator, which gives
//! back only what lies at the end of its heap. After a flood of small replies that may be as much as the whole budget,
//! and large requests, which get memory of their own, would come on top of it. Nothing here may cost anything while
//! as much is held as before.

use std::time::Duration;

use flashmob_core::units::{MIB, Time};

/// Minimum decrease of use: less is not worth the blocking search, which takes a microsecond if there is nothing, and a
/// millisecond for some 10 MiB returned.
const FALL_BYTES: u64 = 8 * MIB;
/// Minimum interval: a load that grows again at once pays for fresh pages at most once in that time.
const PAUSE: Duration = Duration::from_secs(1);

/// Decides when memory is returned.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    /// The most that was held since the last time.
    high_bytes: u64,
    last: Option<Time>,
}

impl Surplus {
    /// Notes the memory held now; whether it is time to return the surplus.
    pub fn is_due(&mut self, now: Time, used_bytes: u64) -> bool {
        self.high_bytes = self.high_bytes.max(used_bytes);
        if self.high_bytes - used_bytes < FALL_BYTES || self.last.is_some_and(|last| now < last + PAUSE) {
            return false;
        }
        (self.high_bytes, self.last) = (used_bytes, Some(now));
        true
    }

    /// When to ask again, if there is a surplus and only the interval is not over.
    pub fn due(&self, used_bytes: u64) -> Option<Time> {
        self.last.filter(|_| self.high_bytes.saturating_sub(used_bytes) >= FALL_BYTES).map(|last| last + PAUSE)
    }
}

/// Returns the allocator's free memory to the system.
pub(super) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_below_at_and_above_the_fall_and_once_in_the_pause() {
        let mut surplus = Surplus::default();
        let second = Time::default() + PAUSE;
        assert!(!surplus.is_due(Time::default(), 100 * MIB));
        assert!(!surplus.is_due(Time::default(), 92 * MIB + 1));
        assert!(surplus.is_due(Time::default(), 92 * MIB), "the first time at once");
        assert!(!surplus.is_due(Time::default(), 100 * MIB));
        assert_eq!(surplus.due(100 * MIB), None, "there is nothing to give back");
        assert!(!surplus.is_due(Time(second.0 - 1), 0), "too soon after the last");
        assert_eq!(surplus.due(0), Some(second), "but not forgotten");
        assert!(surplus.is_due(second, 0));
        assert!(!surplus.is_due(second + PAUSE, 0), "nothing more to give");
        assert_eq!(surplus.due(0), None);
    }
}
