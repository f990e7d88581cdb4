//! Pacing to a rate, on average over the whole time, as iperf3 does.

use std::time::{Duration, Instant};

/// Longest sleep between checks for the end.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// When the next bytes may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    bits_per_second: Option<u64>,
    begun: Instant,
    sent_bits: u64,
}

impl Pacer {
    pub fn new(bits_per_second: Option<u64>, begun: Instant) -> Pacer {
        Pacer { bits_per_second: bits_per_second.filter(|&rate| rate > 0), begun, sent_bits: 0 }
    }

    /// How long to sleep before the next bytes; `None` if they may be sent.
    pub fn sleep(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        let rate = self.bits_per_second?;
        let due_ns = u128::from(self.sent_bits) * 1_000_000_000 / u128::from(rate);
        let due = self.begun + Duration::from_nanos(u64::try_from(due_ns).unwrap_or(u64::MAX / 2));
        Some(due.saturating_duration_since(now()).min(SLEEP_MAX)).filter(|left| !left.is_zero())
    }

    /// Counts sent bytes.
    pub fn sent(&mut self, bytes: usize) {
        self.sent_bits += 8 * bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_the_rate_however_late_it_is() {
        let begun = Instant::now();
        let mut pacer = Pacer::new(Some(8_000_000), begun);
        assert_eq!(pacer.sleep(|| begun), None, "the first bytes may go at once");
        pacer.sent(10_000);
        assert_eq!(pacer.sleep(|| begun + Duration::from_millis(4)), Some(Duration::from_millis(6)));
        pacer.sent(990_000);
        assert_eq!(pacer.sleep(|| begun), Some(SLEEP_MAX), "and it looks up now and then");
        assert_eq!(pacer.sleep(|| begun + Duration::from_secs(1)), None);
    }

    #[test]
    fn without_a_rate_nobody_waits() {
        let begun = Instant::now();
        for rate in [None, Some(0)] {
            let mut pacer = Pacer::new(rate, begun);
            pacer.sent(usize::MAX >> 8);
            assert_eq!(pacer.sleep(|| begun), None);
        }
    }
}
