//! A logarithmic axis of round-trip times, on which 0 is one doubling below the minimum.

use crate::plots::threads::spread_evenly;
use crate::words;

/// Ticks that fit beside each other.
const TICKS_MAX: usize = 9;
/// Values outside of these are clamped.
const RTT_MS_MIN: f64 = 1e-3;
const RTT_MS_MAX: f64 = 1e7;

pub(super) struct RttAxis {
    rtts: Vec<f64>,
    /// Binary logarithms of both ends.
    left: f64,
    right: f64,
}

impl RttAxis {
    pub fn of(rtts: impl Iterator<Item = f64>) -> RttAxis {
        let mut rtts: Vec<f64> = rtts.filter(|rtt| rtt.is_finite() && *rtt >= 0.0).collect();
        rtts.sort_by(f64::total_cmp);
        rtts.dedup();
        let logs = || rtts.iter().filter(|rtt| **rtt > 0.0).map(|rtt| log(*rtt));
        let least = logs().fold(f64::INFINITY, f64::min);
        let right = logs().fold(f64::NEG_INFINITY, f64::max);
        let has_none = rtts.first().is_some_and(|rtt| *rtt <= 0.0);
        let left = if has_none { least - 1.0 } else { least };
        RttAxis { rtts, left, right }
    }

    pub fn part(&self, rtt_ms: f64) -> f64 {
        let span = self.right - self.left;
        if !span.is_finite() || span <= 0.0 {
            return 0.5;
        }
        let at = if rtt_ms > 0.0 { log(rtt_ms) } else { self.left };
        ((at - self.left) / span).clamp(0.0, 1.0)
    }

    /// The measured round-trip times, at most [`TICKS_MAX`].
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let some = spread_evenly(self.rtts.clone(), TICKS_MAX);
        some.into_iter().map(|rtt| (self.part(rtt), words::short(rtt))).collect()
    }

    /// Round-trip times from this one to the maximum, dense enough for a curve.
    pub fn steps_from(&self, rtt_ms: f64) -> Vec<f64> {
        const STEPS: u32 = 24;
        let from = log(rtt_ms).max(self.left);
        let span = self.right - from;
        if !span.is_finite() || span <= 0.0 {
            return Vec::new();
        }
        (0..=STEPS).map(|n| (from + span * f64::from(n) / f64::from(STEPS)).exp2()).collect()
    }
}

fn log(rtt_ms: f64) -> f64 {
    rtt_ms.clamp(RTT_MS_MIN, RTT_MS_MAX).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doublings_take_the_same_room_and_none_has_a_place() {
        let axis = RttAxis::of([128.0, 0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 2.0].into_iter());
        let labels: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["0", "2", "4", "8", "16", "32", "64", "128"]);
        for (nth, (part, _)) in axis.ticks().into_iter().enumerate() {
            assert!((part - nth as f64 / 7.0).abs() < 1e-9, "{nth}: {part}");
        }
        let steps = axis.steps_from(16.0);
        assert!((steps[0] - 16.0).abs() < 1e-9 && (steps[24] - 128.0).abs() < 1e-6);
    }

    #[test]
    fn anything_has_a_place() {
        for rtts in [vec![], vec![0.0], vec![5.0], vec![f64::NAN, -1.0, 1e300, 1e-300]] {
            let axis = RttAxis::of(rtts.into_iter());
            for rtt in [0.0, 1.0, 1e300, f64::NAN] {
                assert!((0.0..=1.0).contains(&axis.part(rtt)));
                assert!(axis.steps_from(rtt).len() < 30);
            }
            assert!(axis.ticks().len() <= TICKS_MAX);
        }
    }
}
