//! Scales and their ticks.

use crate::words::short;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// From 0 to this.
    Linear {
        /// The top.
        max: f64,
    },
    /// From minus this to this.
    Signed {
        /// The right end.
        max: f64,
    },
    /// Powers of ten.
    Log {
        /// The bottom, above 0.
        min: f64,
        /// The top, above the bottom.
        max: f64,
    },
}

impl Scale {
    /// From 0 to the next tick above `max`.
    #[must_use]
    pub fn linear(max: f64) -> Scale {
        Scale::Linear { max: next_tick(max) }
    }

    /// As far below 0 as above, to the next tick beyond `most` in magnitude.
    #[must_use]
    pub fn signed(most: f64) -> Scale {
        Scale::Signed { max: next_tick(most.abs()) }
    }

    /// From `min` down and from `max` up to 1, 2 or 5 times a power of ten.
    #[must_use]
    pub fn log(min: f64, max: f64) -> Scale {
        let max = if max.is_finite() && max > 0.0 { max.clamp(1e-9, 1e300) } else { 1.0 };
        let min = if min > 0.0 { min.clamp(max / 1e15, max) } else { max / 10.0 };
        let (below, above) = (round_to_125(min, false), round_to_125(max, true));
        Scale::Log { min: below, max: if above > below { above } else { below * 10.0 } }
    }

    /// The position of a value between bottom (0) and top (1).
    #[must_use]
    pub fn part(&self, value: f64) -> f64 {
        let part = match *self {
            Scale::Linear { max } => value / max,
            Scale::Signed { max } => 0.5 + value / max / 2.0,
            Scale::Log { min, max } => (value.max(min).ln() - min.ln()) / (max.ln() - min.ln()),
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The ticks with their labels.
    #[must_use]
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let values: Vec<f64> = match *self {
            Scale::Linear { max } => {
                let step = step(max);
                (0..=((max / step).round() as u32).min(20)).map(|n| f64::from(n) * step).collect()
            }
            // Both ends, halfway to each, and the middle.
            Scale::Signed { max } => [-1.0, -0.5, 0.0, 0.5, 1.0].map(|part| part * max).to_vec(),
            Scale::Log { min, max } => log_ticks(min, max),
        };
        values.into_iter().map(|v| (v, short(v))).collect()
    }
}

/// The next tick above `max`.
fn next_tick(max: f64) -> f64 {
    let max = if max.is_finite() && max > 0.0 { max.clamp(1e-300, 1e300) } else { 1.0 };
    let step = step(max);
    (max / step).ceil() * step
}

/// 1, 2, 2.5 or 5 times a power of ten, so that four to seven steps reach the top.
fn step(max: f64) -> f64 {
    let rough = max / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let of_power = rough / power;
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|n| *n >= of_power * 0.999_999).unwrap_or(10.0);
    nice * power
}

/// The next of 1, 2, 5 times a power of ten, above or below.
fn round_to_125(value: f64, up: bool) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    let found = if up {
        steps.into_iter().find(|s| *s >= value * 0.999_999)
    } else {
        steps.into_iter().rev().find(|s| *s <= value * 1.000_001)
    };
    found.unwrap_or(value)
}

/// Powers of ten, with 2 and 5 times these if there are few; every n-th if there are many.
fn log_ticks(min: f64, max: f64) -> Vec<f64> {
    let (first, last) = (min.log10().floor() as i32, max.log10().ceil() as i32);
    let every = ((last - first) / 6).max(1) as usize;
    let within: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    (first..=last)
        .step_by(every)
        .flat_map(|power| within.iter().map(move |n| n * 10f64.powi(power)))
        .filter(|v| *v >= min * 0.999_999 && *v <= max * 1.000_001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_reach_above_the_values() {
        for (max, top) in [(2_100.0, 2_500.0), (1.0, 1.0), (97.0, 100.0), (0.3, 0.3), (16_000.0, 20_000.0)] {
            let scale = Scale::linear(max);
            let Scale::Linear { max: reached } = scale else { panic!() };
            assert!((reached - top).abs() < top * 1e-9, "{max}: {reached}");
            assert!((4..=8).contains(&scale.ticks().len()), "{max}: {:?}", scale.ticks());
        }
    }

    #[test]
    fn scales_take_anything() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE] {
            for other in [0.0, f64::NAN, 1.0, f64::MAX] {
                for scale in [Scale::linear(value), Scale::signed(value), Scale::log(value, other)] {
                    assert!((0.0..=1.0).contains(&scale.part(other)));
                    assert!(scale.ticks().len() < 30, "{scale:?}");
                }
            }
        }
    }

    #[test]
    fn a_signed_scale_has_its_middle_at_0() {
        let scale = Scale::signed(-97.0);
        assert_eq!(scale, Scale::Signed { max: 100.0 });
        assert_eq!([-100.0, -50.0, 0.0, 100.0].map(|v| scale.part(v)), [0.0, 0.25, 0.5, 1.0]);
        let labels: Vec<String> = scale.ticks().into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["-100", "-50", "0", "50", "100"]);
    }

    #[test]
    fn log_ticks_are_few_and_within() {
        assert_eq!(log_ticks(1.0, 100.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(log_ticks(1.0, 10_000.0).len(), 5);
        assert_eq!(Scale::log(3.0, 700.0), Scale::Log { min: 2.0, max: 1_000.0 });
    }
}
