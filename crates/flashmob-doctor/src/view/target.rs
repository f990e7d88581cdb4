//! The path that settings are judged by.

use flashmob_path::buffers::bandwidth_delay_bytes;

use crate::{rate, time};

/// Assumed rate: a tablet's Wi-Fi.
const ASSUMED_BITS_PER_SECOND: f64 = 100e6;
/// Assumed round-trip time: the median of those in P4, and typical for mobile and home lines to the next data centre.
const ASSUMED_RTT_S: f64 = 0.04;

/// A rate with its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Given by the user.
    Said(f64),
    /// Measured.
    Measured(f64),
    /// The interface's speed.
    Link(f64),
}

impl Rate {
    /// Its value.
    #[must_use]
    pub fn bits_per_second(self) -> f64 {
        match self {
            Rate::Said(bits) | Rate::Measured(bits) | Rate::Link(bits) => bits,
        }
    }
}

/// A path with its round trip and rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Round-trip time.
    pub rtt_s: f64,
    /// Its rate.
    pub bits_per_second: f64,
    /// It is neither measured nor given.
    pub is_assumed: bool,
}

impl Default for Target {
    fn default() -> Target {
        Target { rtt_s: ASSUMED_RTT_S, bits_per_second: ASSUMED_BITS_PER_SECOND, is_assumed: true }
    }
}

impl Target {
    /// The path by given and measured values; missing ones are assumed. A path with a smaller window than the assumed one is used only if the
    /// user gave both values.
    #[must_use]
    pub fn of(said_rtt_s: Option<f64>, found_rtt_s: Option<f64>, rate: Option<Rate>) -> Target {
        let assumed = Target::default();
        let rtt_s = said_rtt_s.or(found_rtt_s);
        let known = Target {
            rtt_s: rtt_s.unwrap_or(assumed.rtt_s),
            bits_per_second: rate.map_or(assumed.bits_per_second, Rate::bits_per_second),
            is_assumed: rtt_s.is_none() && rate.is_none(),
        };
        let is_said = said_rtt_s.is_some() && matches!(rate, Some(Rate::Said(_)));
        if is_said || known.window_bytes() >= assumed.window_bytes() { known } else { assumed }
    }

    /// The bandwidth-delay product.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        // Saturates; no real path needs more.
        bandwidth_delay_bytes(self.bits_per_second, self.rtt_s).ceil() as u64
    }

    /// The maximum rate with a window of this size.
    #[must_use]
    pub fn cap_bits_per_second(&self, window_bytes: u64) -> f64 {
        (window_bytes as f64 * 8.0 / self.rtt_s).min(self.bits_per_second)
    }

    /// The bandwidth-delay product in full packets, at 1,448 bytes of data each.
    #[must_use]
    pub fn window_segments(&self) -> f64 {
        self.window_bytes() as f64 / 1448.0
    }

    /// Its description: `a path of 100 Mbit/s and 40 ms (assumed)`.
    #[must_use]
    pub fn words(&self) -> String {
        let how = if self.is_assumed { " (assumed)" } else { "" };
        format!("a path of {} and {}{how}", rate(self.bits_per_second), time(self.rtt_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_of_what_is_known_and_assumed_counts_unless_both_were_said() {
        let assumed = Target::default();
        assert_eq!(assumed.window_bytes(), 500_000);
        assert_eq!(Target::of(None, None, None), assumed);
        assert_eq!(Target::of(None, Some(0.001), Some(Rate::Link(1e9))), assumed, "125 kB is less");
        let far = Target::of(None, Some(0.1), None);
        assert_eq!((far.window_bytes(), far.is_assumed), (1_250_000, false));
        let said = Target::of(Some(0.001), Some(0.1), Some(Rate::Said(1e6)));
        assert_eq!((said.window_bytes(), said.is_assumed), (125, false));
        assert_eq!(Target::of(Some(0.001), None, Some(Rate::Measured(1e6))), assumed);
    }

    #[test]
    fn a_window_carries_itself_once_each_round_trip() {
        let path = Target::default();
        assert!((path.cap_bits_per_second(65_535) - 13_107_000.0).abs() < 1.0);
        assert!((path.cap_bits_per_second(u64::MAX) - 100e6).abs() < 1.0, "never more than the path");
    }
}
