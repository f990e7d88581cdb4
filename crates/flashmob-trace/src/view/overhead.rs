//! The cost of tracing, from pairs of runs.

use flashmob_results::trace::Overhead;

/// From pairs of rates in operations per second, without and with tracing; `None` without a pair.
#[must_use]
pub fn overhead(untraced_per_second: Vec<f64>, traced_per_second: Vec<f64>) -> Option<Overhead> {
    let pairs = untraced_per_second.iter().zip(&traced_per_second);
    let mut slower: Vec<f64> = pairs.map(|(without, with)| 100.0 * (1.0 - with / without)).collect();
    slower.sort_by(f64::total_cmp);
    let slowdown_percent = super::median(&slower)?;
    Some(Overhead { untraced_per_second, traced_per_second, slowdown_percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_pair_says_what_it_cost() {
        let cost = |untraced: &[f64], traced: &[f64]| Some(overhead(untraced.into(), traced.into())?.slowdown_percent);
        assert_eq!(cost(&[], &[]), None);
        assert_eq!(cost(&[100.0], &[125.0]), Some(-25.0), "faster");
        assert_eq!(cost(&[100.0, 200.0, 400.0], &[50.0, 150.0, 400.0]), Some(25.0));
        assert_eq!(cost(&[100.0, 100.0], &[75.0, 50.0]), Some(37.5));
        assert_eq!(cost(&[100.0, 100.0], &[75.0]), Some(25.0), "one that has no other is no pair");
    }
}
