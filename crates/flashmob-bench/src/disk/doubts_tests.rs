use flashmob_core::units::MIB;
use flashmob_results::disk::Engine;
use flashmob_results::latency::{Latency, histogram};

use super::*;

fn parameters(pattern: Pattern, cache: Cache) -> Parameters {
    Parameters {
        operation: Operation::Read,
        pattern,
        block_bytes: 4096,
        threads: 1,
        depth: 1,
        engine: Engine::Pread,
        cache,
        sync: None,
        scheduler: None,
        range_bytes: 100 * MIB,
        requests: None,
        time_s: Some(1.0),
    }
}

fn repetition(requests: u64) -> Repetition {
    let mut latencies = histogram();
    latencies.record_n(1000, requests).unwrap();
    Repetition {
        begin_s: 0.0,
        elapsed_s: 1.0,
        requests,
        bytes: requests * 4096,
        errors: 0,
        first_error: None,
        requests_per_second: requests as f64,
        bytes_per_second: requests as f64 * 4096.0,
        latency_ns: Latency::new(&latencies),
        cpu_user_s: 0.0,
        cpu_system_s: 0.0,
        cached_before_bytes: Some(0),
        cached_after_bytes: Some(0),
        fetched_bytes: None,
        foreign_bytes: None,
        upward_fraction: None,
        interrupted: false,
    }
}

fn codes(parameters: Parameters, repetitions: Vec<Repetition>) -> Vec<Code> {
    of_point(&Point::new(parameters, repetitions)).into_iter().map(|w| w.code).collect()
}

fn random(change: impl Fn(&mut Repetition)) -> Vec<Code> {
    let mut one = repetition(10_000);
    change(&mut one);
    codes(parameters(Pattern::Random, Cache::Cold), vec![one])
}

#[test]
fn a_clean_point_raises_no_doubt() {
    assert_eq!(random(|_| {}), []);
}

#[test]
fn memory_that_answers_instead_of_the_disk() {
    assert_eq!(random(|r| r.cached_before_bytes = Some(6 * MIB)), [Code::ServedFromCache]);
    assert_eq!(random(|r| r.cached_before_bytes = Some(5 * MIB)), []);
    assert_eq!(random(|r| r.cached_after_bytes = Some(11 * MIB)), [Code::ServedFromCache]);
    assert_eq!(random(|r| r.cached_after_bytes = Some(10 * MIB)), []);
    assert_eq!(random(|r| (r.cached_before_bytes, r.cached_after_bytes) = (None, None)), []);
    let twice = |pattern, requests| codes(parameters(pattern, Cache::Cold), vec![repetition(requests)]);
    assert_eq!(twice(Pattern::Sequential, 25_600), [], "once through");
    assert_eq!(twice(Pattern::Sequential, 30_000), [Code::ServedFromCache]);
    assert_eq!(twice(Pattern::Sort, 6000), [Code::ServedFromCache], "100 heads, 60 times");
    let warm = |cached| {
        let one =
            Repetition { cached_before_bytes: Some(cached), cached_after_bytes: Some(cached), ..repetition(10_000) };
        codes(parameters(Pattern::Random, Cache::Warm), vec![one])
    };
    assert_eq!((warm(100 * MIB), warm(98 * MIB)), (vec![], vec![Code::NotCached]));
}

#[test]
fn a_range_that_is_soon_in_memory_is_answered_by_it_almost_always() {
    let message = |requests, after| {
        let one = Repetition { cached_after_bytes: Some(after), ..repetition(requests) };
        let point = Point::new(parameters(Pattern::Random, Cache::Cold), vec![one]);
        of_point(&point).into_iter().find(|w| w.code == Code::ServedFromCache).map(|w| w.message)
    };
    // The range has 25,600 blocks.
    assert!(message(2_560_000, 100 * MIB).unwrap().starts_with("about 99 %"), "{:?}", message(2_560_000, 100 * MIB));
    assert!(message(25_600, 64 * MIB).unwrap().starts_with("about 37 %"), "{:?}", message(25_600, 64 * MIB));
    assert_eq!(message(2_560_000, 9 * MIB), None, "what was fetched did not stay");
}

#[test]
fn writes_into_a_small_range_that_is_in_memory_are_warm() {
    let parameters = Parameters {
        operation: Operation::Write,
        sync: Some(Sync::Dsync),
        range_bytes: 8192,
        ..parameters(Pattern::Random, Cache::Warm)
    };
    let cached =
        |bytes| Repetition { cached_before_bytes: Some(bytes), cached_after_bytes: Some(bytes), ..repetition(10_000) };
    assert_eq!(codes(parameters.clone(), vec![cached(4096)]), [], "the mark is not written");
    assert_eq!(codes(parameters, vec![cached(0)]), [Code::NotCached]);
}

#[test]
fn repetitions_that_differ_and_are_short_or_few() {
    let of = |counts: [u64; 2]| codes(parameters(Pattern::Random, Cache::Direct), counts.map(repetition).to_vec());
    assert_eq!(of([10_000, 12_000]), []);
    assert_eq!(of([10_000, 12_500]), [Code::WideSpread]);
    assert_eq!(random(|r| r.elapsed_s = 0.19), [Code::Short]);
    assert_eq!(codes(parameters(Pattern::Random, Cache::Direct), vec![repetition(4_999)]), [Code::FewSamples]);
    assert_eq!(codes(parameters(Pattern::Random, Cache::Direct), vec![repetition(5_001)]), []);
    assert!(
        of_point(&Point::new(parameters(Pattern::Random, Cache::Direct), vec![])).len() < 3,
        "nothing measured, no panic"
    );
}

#[test]
fn failures_and_writes_into_memory() {
    assert_eq!(random(|r| (r.errors, r.first_error) = (2, Some("read at 0: EIO".into()))), [Code::Errors]);
    let write = |sync, cache| {
        let parameters =
            Parameters { operation: Operation::Write, sync: Some(sync), ..parameters(Pattern::Random, cache) };
        codes(parameters, vec![repetition(10_000)])
    };
    assert_eq!(write(Sync::None, Cache::Cold), [Code::ServedFromCache]);
    assert_eq!(write(Sync::Dsync, Cache::Cold), []);
    assert_eq!(write(Sync::None, Cache::Direct), []);
}
