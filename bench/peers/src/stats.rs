//! Medians, and ratios within rounds.

/// What some rounds came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one finite value.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] };
        Some(Spread { median, min, max })
    }

    /// Greatest by least.
    pub fn factor(&self) -> f64 {
        if self.min > 0.0 { self.max / self.min } else { f64::INFINITY }
    }
}

/// The best of several measurements of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// Of rates.
    Most,
    /// Of latencies.
    Least,
}

/// The ratio of `ours` to the best of `others`, computed in every round in which there is both.
///
/// Each slice holds a value per round, `None` where a round is missing.
pub fn ratios(ours: &[Option<f64>], others: &[&[Option<f64>]], best: Best) -> Vec<f64> {
    let mut ratios = Vec::new();
    for (round, ours) in ours.iter().enumerate() {
        let Some(ours) = ours else { continue };
        let values = others.iter().filter_map(|other| other.get(round).copied().flatten());
        let other = match best {
            Best::Most => values.reduce(f64::max),
            Best::Least => values.reduce(f64::min),
        };
        if let Some(other) = other.filter(|other| *other > 0.0) {
            ratios.push(ours / other);
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN, 5.0]).unwrap().median, 5.0);
        assert_eq!(Spread::of(&[2.0, 3.0]).unwrap().factor(), 1.5);
        assert_eq!(Spread::of(&[0.0, 3.0]).unwrap().factor(), f64::INFINITY);
    }

    #[test]
    fn ratios_are_computed_within_rounds() {
        // The second round was slow for everybody: its ratio is as good as the others'.
        let ours = [Some(20.0), Some(2.0), Some(30.0), None];
        let a = [Some(10.0), Some(1.0), None, Some(9.0)];
        let b = [Some(5.0), Some(4.0), None, Some(9.0)];
        assert_eq!(ratios(&ours, &[&a], Best::Most), [2.0, 2.0]);
        assert_eq!(ratios(&ours, &[&a, &b], Best::Most), [2.0, 0.5]);
        assert_eq!(ratios(&ours, &[&a, &b], Best::Least), [4.0, 2.0]);
        assert!(ratios(&ours, &[], Best::Most).is_empty());
    }
}
