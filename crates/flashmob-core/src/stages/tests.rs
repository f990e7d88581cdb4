//! Stages, their intervals, and what histograms keep of them.

use super::*;
use proptest::prelude::*;

type Gateway = StageHistograms<GatewayInterval>;

impl<I: Interval> StageHistograms<I> {
    /// Bytes of memory that all cells take.
    fn memory_bytes(&self) -> usize {
        self.histograms.iter().map(|h| h.distinct_values() * size_of::<u64>()).sum::<usize>() + size_of::<Self>()
    }
}

/// How far a cell may reach beyond a time in it: 512 ns or 1 %.
fn cell_end_max(nanos: u64) -> u64 {
    nanos + 512.max(nanos / 100)
}

fn recorded(times: &[u64]) -> Gateway {
    let mut histograms = Gateway::default();
    times.iter().for_each(|&nanos| histograms.record(GatewayInterval::Total, nanos));
    histograms
}

fn check_intervals<I: Interval>(first: Stage, names: [&str; INTERVALS]) {
    let mut at = first;
    for (i, interval) in I::ALL.into_iter().enumerate() {
        assert_eq!(interval.index(), i);
        assert_eq!(interval.name(), names[i]);
        let (from, to) = interval.stages();
        assert!(from < to);
        if i < INTERVALS - 1 {
            assert_eq!(from, at, "no gap between intervals");
            at = to;
        } else {
            assert_eq!((from, to), (first, at), "the total spans all of them");
        }
    }
}

#[test]
fn stages_are_in_order_and_have_names_of_their_own() {
    assert!(Stage::ALL.is_sorted());
    let names: std::collections::BTreeSet<&str> = Stage::ALL.into_iter().map(Stage::name).collect();
    assert_eq!(names.len(), 9);
    assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
}

#[test]
fn intervals_follow_one_another_and_bear_the_name_of_their_end() {
    check_intervals::<GatewayInterval>(Stage::Received, ["queued", "batched", "sent", "replied", "total"]);
    check_intervals::<NodeInterval>(
        Stage::NodeReceived,
        ["scheduled", "flash_start", "flash_done", "replied", "total"],
    );
}

#[test]
fn a_gateway_and_a_node_in_one_process_stay_below_256_kib() {
    let mut histograms = Gateway::default();
    let before = histograms.memory_bytes();
    assert_eq!(before / 1024, 110);
    let both = before + StageHistograms::<NodeInterval>::default().memory_bytes();
    assert!(both < 256 * 1024, "{both} bytes");
    (0..64).for_each(|shift| histograms.record(GatewayInterval::Sent, 1 << shift));
    assert_eq!(histograms.memory_bytes(), before, "it does not grow");
}

#[test]
fn each_interval_has_its_own_histogram() {
    let mut histograms = StageHistograms::<NodeInterval>::default();
    for (i, interval) in NodeInterval::ALL.into_iter().enumerate() {
        histograms.record_n(interval, 1_000_000, i as u64);
    }
    for (i, interval) in NodeInterval::ALL.into_iter().enumerate() {
        assert_eq!(histograms.count(interval), i as u64);
        assert_eq!(histograms.sum_nanos(interval), i as u64 * 1_000_000);
    }
}

#[test]
fn nothing_recorded_is_zero_everywhere() {
    let histograms = Gateway::default();
    let total = GatewayInterval::Total;
    assert_eq!((histograms.count(total), histograms.sum_nanos(total), histograms.quantile(total, 0.5)), (0, 0, 0));
    assert_eq!(histograms.cumulative(total), [0; BUCKETS]);
    assert_eq!(histograms.cells(total).count(), 0);
}

#[test]
fn times_at_the_ends_of_the_range_are_kept_and_longer_ones_count_as_the_longest() {
    for nanos in [0, 1, 511, 512, 999, 1_000, 1_001, HIGHEST_NANOS - 1, HIGHEST_NANOS] {
        let told = recorded(&[nanos]).quantile(GatewayInterval::Total, 1.0);
        assert!((nanos..=cell_end_max(nanos)).contains(&told), "{nanos} ns told as {told}");
    }
    let longest = recorded(&[HIGHEST_NANOS]).quantile(GatewayInterval::Total, 1.0);
    for nanos in [HIGHEST_NANOS + 1, 2 * HIGHEST_NANOS, u64::MAX] {
        let histograms = recorded(&[nanos]);
        assert_eq!(histograms.quantile(GatewayInterval::Total, 1.0), longest);
        assert_eq!(histograms.count(GatewayInterval::Total), 1);
        assert_eq!(histograms.cumulative(GatewayInterval::Total), [0; BUCKETS], "beyond every bound");
    }
}

#[test]
fn counts_beyond_64_bits_saturate() {
    let mut histograms = Gateway::default();
    let total = GatewayInterval::Total;
    for nanos in [5, 1_000_000, u64::MAX] {
        histograms.record_n(total, nanos, u64::MAX - 1);
        histograms.record(total, nanos);
    }
    assert_eq!((histograms.count(total), histograms.sum_nanos(total)), (u64::MAX, u64::MAX));
    assert!(histograms.quantile(total, 0.99) < 1_000);
    assert_eq!(histograms.cumulative(total), [u64::MAX; BUCKETS]);
}

#[test]
fn a_share_that_is_none_gives_some_time() {
    let histograms = recorded(&[1_000_000, 2_000_000]);
    for q in [-1.0, 0.0, f64::NAN, f64::NEG_INFINITY] {
        assert!(histograms.quantile(GatewayInterval::Total, q) <= cell_end_max(1_000_000), "{q}");
    }
    for q in [1.0, 1.5, f64::INFINITY] {
        assert!(histograms.quantile(GatewayInterval::Total, q) >= 2_000_000, "{q}");
    }
}

#[test]
fn bounds_go_from_10_us_to_10_s_by_1_2_5() {
    let seconds = BUCKET_BOUNDS_NANOS.map(|nanos| (nanos as f64 / 1e9).to_string());
    let expected = "0.00001 0.00002 0.00005 0.0001 0.0002 0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10";
    assert_eq!(seconds.join(" "), expected);
}

#[test]
fn a_time_equal_to_a_bound_counts_below_it() {
    for (i, bound) in BUCKET_BOUNDS_NANOS.into_iter().enumerate() {
        let at = recorded(&[bound]).cumulative(GatewayInterval::Total);
        assert_eq!(at, std::array::from_fn(|j| u64::from(j >= i)), "{bound}");
        let above = recorded(&[cell_end_max(bound) + 1]).cumulative(GatewayInterval::Total);
        assert_eq!(above, std::array::from_fn(|j| u64::from(j > i)), "above {bound}");
    }
}

fn times() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((0u32..40).prop_flat_map(|bits| 0..=(1u64 << bits)), 1..200)
}

proptest! {
    #[test]
    fn quantiles_are_right_to_within_a_cell(mut times in times(), q in 0.0..=1.0f64) {
        let told = recorded(&times).quantile(GatewayInterval::Total, q);
        times.sort_unstable();
        let rank = ((times.len() as f64 * q).ceil() as usize).clamp(1, times.len());
        let exact = times[rank - 1].min(HIGHEST_NANOS);
        prop_assert!((exact..=cell_end_max(exact)).contains(&told), "{} told as {}", exact, told);
    }

    #[test]
    fn buckets_ascend_and_hold_what_is_below_their_bound(times in times()) {
        let counts = recorded(&times).cumulative(GatewayInterval::Total);
        prop_assert!(counts.is_sorted());
        for (count, bound) in counts.into_iter().zip(BUCKET_BOUNDS_NANOS) {
            let at_most = |limit| times.iter().filter(|&&nanos| nanos <= limit).count() as u64;
            prop_assert!((at_most(bound)..=at_most(cell_end_max(bound))).contains(&count));
        }
    }
}

#[test]
fn a_recorder_gives_what_histograms_would_have() {
    let (mut recorder, mut plain) = (StageRecorder::<NodeInterval>::default(), StageHistograms::default());
    for (nanos, count) in [(0, 1), (0, 3), (5_000, 1), (5_000, 2), (0, 1), (9_000_000, 4)] {
        recorder.record_n(NodeInterval::Total, nanos, count);
        plain.record_n(NodeInterval::Total, nanos, count);
    }
    recorder.record(NodeInterval::Replied, 77);
    plain.record(NodeInterval::Replied, 77);
    for interval in NodeInterval::ALL {
        // Read twice: what is read must not be counted again.
        for _ in 0..2 {
            let got: Vec<(u64, u64)> = recorder.histograms().cells(interval).collect();
            assert_eq!(got, plain.cells(interval).collect::<Vec<_>>());
            assert_eq!(recorder.histograms().sum_nanos(interval), plain.sum_nanos(interval));
        }
    }
}
