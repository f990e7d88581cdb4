//! What the scheduler knows of a thread.

use std::time::Duration;

/// How long the calling thread has run since its start, and how long it was runnable and waited for a processor. `None` where the kernel does
/// not tell.
#[must_use]
pub fn own_times() -> Option<(Duration, Duration)> {
    parse(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The first two numbers of a `schedstat`, in nanoseconds (Documentation/scheduler/sched-stats.rst).
fn parse(schedstat: &str) -> Option<(Duration, Duration)> {
    let mut numbers = schedstat.split_ascii_whitespace().map(|number| number.parse().ok().map(Duration::from_nanos));
    let (running, waited) = (numbers.next()??, numbers.next()??);
    // A kernel that does not count says so by zeros: what asks has run.
    (running > Duration::ZERO).then_some((running, waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_are_taken() {
        let nanos = Duration::from_nanos;
        assert_eq!(parse("123 45 6\n"), Some((nanos(123), nanos(45))));
        assert_eq!(parse("1 0 0"), Some((nanos(1), nanos(0))));
        for text in ["0 0 0", "", "1", "1 x 2", "-1 2 3", "18446744073709551616 1 1"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_thread_that_works_has_run() {
        let Some((before, _)) = own_times() else { return };
        // The kernel may count only at its next tick, which can be longer than any fixed piece of work.
        let has_run = (0..10_000).any(|_| {
            let sum: u64 = (0..10_000_000u64).map(std::hint::black_box).sum();
            let (after, _) = own_times().expect("as before");
            after > before && sum > 0
        });
        assert!(has_run, "{before:?}");
    }
}
