//! Distinguishes differences between points from noise.

use flashmob_results::disk::{Point, Repetition, Spread};

/// Minimum difference of medians: two runs of one benchmark may differ by less.
pub const DIFFERENCE_MIN: f64 = 0.10;
/// Repetitions per side that a rank test needs: with 3 and 3 its smallest p is 0.1.
const RANK_TEST_REPETITIONS_MIN: usize = 4;
/// |z| above which ranks differ at p < 0.05, both sides.
const Z_LIMIT: f64 = 1.96;

/// True if all of it is finite and the median above zero.
pub fn usable(spread: &Spread) -> bool {
    [spread.median, spread.min, spread.max].iter().all(|v| v.is_finite()) && spread.median > 0.0
}

/// Requests per second of the complete repetitions, or of all if none is complete.
pub fn rates(point: &Point) -> Vec<f64> {
    values(point, |r| r.requests_per_second)
}

/// Bytes per second of the same repetitions.
pub fn byte_rates(point: &Point) -> Vec<f64> {
    values(point, |r| r.bytes_per_second)
}

fn values(point: &Point, of: impl Fn(&Repetition) -> f64) -> Vec<f64> {
    let whole: Vec<f64> = point.repetitions.iter().filter(|r| !r.interrupted).map(&of).collect();
    if whole.is_empty() { point.repetitions.iter().map(of).collect() } else { whole }
}

/// The rates of two points compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median of the first over that of the second.
    pub ratio: f64,
    /// The medians differ by more than [`DIFFERENCE_MIN`], and the repetitions are [`apart`].
    pub differ: bool,
}

impl Comparison {
    /// Compares requests per second. Both medians must be above zero.
    pub fn of(a: &Point, b: &Point) -> Comparison {
        let ratio = a.summary.requests_per_second.median / b.summary.requests_per_second.median;
        let far = ratio.max(ratio.recip()) > 1.0 + DIFFERENCE_MIN;
        Comparison { ratio, differ: far && apart(&rates(a), &rates(b)) }
    }

    pub fn first_is_faster(self) -> bool {
        self.differ && self.ratio > 1.0
    }
}

/// True if a rank test says so, or, with few repetitions, if the ranges do not overlap.
pub fn apart(a: &[f64], b: &[f64]) -> bool {
    if a.is_empty() || b.is_empty() {
        return false;
    }
    if a.len().min(b.len()) >= RANK_TEST_REPETITIONS_MIN {
        return rank_z(a, b).abs() > Z_LIMIT;
    }
    let range = |values: &[f64]| {
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), &v| (min.min(v), max.max(v)))
    };
    let ((a_min, a_max), (b_min, b_max)) = (range(a), range(b));
    a_max < b_min || b_max < a_min
}

/// z of the Mann-Whitney U test, with the correction for ties and for continuity. Positive if `a` is the larger.
fn rank_z(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = a.iter().map(|&v| (v, true)).chain(b.iter().map(|&v| (v, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (n_a, n_b, n) = (a.len() as f64, b.len() as f64, all.len() as f64);
    let (mut rank_sum, mut ties, mut at) = (0.0, 0.0, 0);
    while at < all.len() {
        let equal = all[at..].iter().take_while(|v| v.0.total_cmp(&all[at].0).is_eq()).count();
        // Equal values share the mean of the ranks that they take: at+1 ..= at+equal.
        let rank = at as f64 + (equal as f64 + 1.0) / 2.0;
        rank_sum += rank * all[at..at + equal].iter().filter(|v| v.1).count() as f64;
        let t = equal as f64;
        ties += t * t * t - t;
        at += equal;
    }
    let u = rank_sum - n_a * (n_a + 1.0) / 2.0;
    let variance = n_a * n_b / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 0.0;
    }
    let distance = u - n_a * n_b / 2.0;
    distance.signum() * (distance.abs() - 0.5).max(0.0) / variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_tell_apart_what_lies_apart() {
        // Four against four without overlap: U = 0, sd = sqrt(12), z = 7.5 / 3.464.
        assert!((rank_z(&[5., 6., 7., 8.], &[1., 2., 3., 4.]) - 2.165).abs() < 0.001);
        assert!(apart(&[1., 2., 3., 4.], &[5., 6., 7., 8.]));
        assert!(!apart(&[1., 3., 5., 7.], &[2., 4., 6., 8.]));
        assert!(rank_z(&[1.; 5], &[1.; 5]).abs() < 1e-9);
    }

    #[test]
    fn ties_share_ranks() {
        // Ranks 1.5 1.5 3.5 3.5 against 3.5 3.5 7.5 7.5 ... by hand: a = {1,1,2,2}, b = {2,2,3,3}.
        // Rank sum of a: 1.5 + 1.5 + 4.5 + 4.5 = 12, U = 2; ties 6 + 60 + 6 = 72; variance 16/12 * (9 - 72/56) = 10.286.
        assert!((rank_z(&[1., 1., 2., 2.], &[2., 2., 3., 3.]) + 5.5 / 10.285_714_f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn few_repetitions_must_not_overlap() {
        assert!(apart(&[1., 2., 3.], &[4., 5., 6.]));
        assert!(!apart(&[1., 2., 4.], &[4., 5., 6.]));
        assert!(apart(&[1.], &[2.]));
        assert!(!apart(&[], &[]) && !apart(&[1.], &[]));
    }
}
