//! Quantiles of any number of values in bounded memory.

use flashmob_results::capture::Quantiles;

/// Every n-th of a sequence of values. Count, mean, minimum and maximum are of all values.
#[derive(Clone, Debug)]
pub struct Samples {
    kept: Vec<f32>,
    limit: usize,
    /// One in this many is kept.
    stride: u64,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Samples {
    /// Without values; at most `limit` are kept.
    pub fn new(limit: usize) -> Samples {
        Samples { kept: Vec::new(), limit: limit.max(2), stride: 1, count: 0, sum: 0.0, min: f64::MAX, max: f64::MIN }
    }

    pub fn add(&mut self, value: f64) {
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() == self.limit {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.kept.push(value as f32);
            }
        }
        self.count += 1;
        self.sum += value;
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value that this part of them does not exceed; 0 without values.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.kept.clone();
        sorted.sort_by(f32::total_cmp);
        of_sorted(&sorted, part)
    }

    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The form of results; `None` without values.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let mut sorted = self.kept.clone();
        sorted.sort_by(f32::total_cmp);
        (self.count > 0).then(|| Quantiles {
            count: self.count,
            min: self.min,
            median: of_sorted(&sorted, 0.5).clamp(self.min, self.max),
            mean: self.mean(),
            p99: of_sorted(&sorted, 0.99).clamp(self.min, self.max),
            max: self.max,
        })
    }
}

fn of_sorted(sorted: &[f32], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((part * last as f64).round() as usize).map_or(0.0, |value| f64::from(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_stay_right_when_most_values_are_dropped() {
        for count in [99, 100, 101, 10_000] {
            let mut samples = Samples::new(100);
            (0..count).for_each(|value| samples.add(f64::from(value)));
            assert!(samples.kept.len() <= 100, "{}", samples.kept.len());
            let found = samples.quantiles().unwrap();
            let last = f64::from(count - 1);
            assert_eq!((found.count, found.min, found.max), (count as u64, 0.0, last));
            assert!((found.mean - last / 2.0).abs() < 1e-9);
            assert!((found.median - last / 2.0).abs() < 0.02 * last, "{found:?}");
            assert!((found.p99 - 0.99 * last).abs() < 0.02 * last, "{found:?}");
        }
        assert_eq!(Samples::new(1).quantiles(), None);
    }
}
