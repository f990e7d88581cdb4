//! How long requests take in quiet times: the time in which 99 of 100 are answered.

use std::time::Duration;

use crate::units::Time;

/// Cells for each doubling of the time, so that they are 6 % wide at most.
const PER_DOUBLING: u32 = 16;
/// Times are counted in units of 4.096 us, up to 4.6 minutes.
const UNIT_BITS: u32 = 12;
const CELLS: usize = 368;
/// With fewer requests nothing is known.
const REQUESTS_MIN: f32 = 50.0;
/// One in so many takes longer.
const ONE_IN: f32 = 100.0;
/// After so long what was before counts less. On a busy medium one second in many has most of the late requests: with a shorter memory the time
/// found would sway, and each time that it is too long the window would grow.
const FADES_EVERY: Duration = Duration::from_secs(60);
const FADES_TO: f32 = 0.8;

/// The times of requests, those of long ago counting less.
#[derive(Debug)]
pub struct Usual {
    cells: Box<[f32; CELLS]>,
    all: f32,
    faded: Time,
    /// What was found last, and how many requests came since.
    time: Option<Duration>,
    since: f32,
}

impl Default for Usual {
    fn default() -> Usual {
        Usual { cells: Box::new([0.0; CELLS]), all: 0.0, faded: Time::default(), time: None, since: 0.0 }
    }
}

impl Usual {
    /// A request `took` so long.
    pub fn note(&mut self, now: Time, took: Duration) {
        if now - self.faded >= FADES_EVERY {
            self.faded = now;
            self.cells.iter_mut().for_each(|count| *count *= FADES_TO);
            self.all *= FADES_TO;
        }
        self.cells[cell(took)] += 1.0;
        self.all += 1.0;
        self.since += 1.0;
        if self.all >= REQUESTS_MIN && self.since >= self.all / 16.0 {
            self.since = 0.0;
            self.time = Some(self.find());
        }
    }

    /// In how much time 99 of 100 are answered.
    pub fn time(&self) -> Option<Duration> {
        self.time
    }

    fn find(&self) -> Duration {
        let mut longer = self.all / ONE_IN;
        for (index, count) in self.cells.iter().enumerate().rev() {
            longer -= count;
            if longer < 0.0 {
                return middle(index);
            }
        }
        Duration::ZERO
    }
}

/// The cell of a time.
fn cell(took: Duration) -> usize {
    let units = (took.as_nanos() >> UNIT_BITS).min(u128::from(u32::MAX)) as u32;
    if units < PER_DOUBLING {
        return units as usize;
    }
    let doublings = units.ilog2() - PER_DOUBLING.ilog2();
    let within = (units >> doublings) - PER_DOUBLING;
    (((doublings + 1) * PER_DOUBLING + within) as usize).min(CELLS - 1)
}

/// The time in the middle of a cell.
fn middle(index: usize) -> Duration {
    let index = index as u32;
    let (first, width) = match (index / PER_DOUBLING).checked_sub(1) {
        None => (u64::from(index), 1),
        Some(doublings) => (u64::from(PER_DOUBLING + index % PER_DOUBLING) << doublings, 1u64 << doublings),
    };
    Duration::from_nanos((2 * first + width) << (UNIT_BITS - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::testing::{at, ms};

    #[test]
    fn one_in_a_hundred_takes_longer() {
        let mut usual = Usual::default();
        for n in 0..10_000 {
            // 1 ms to 100 ms, evenly, in no order.
            usual.note(at(n), ms(n * 37 % 100 + 1));
        }
        let time = usual.time().unwrap();
        assert!((ms(95)..=ms(103)).contains(&time), "{time:?}");
    }

    #[test]
    fn of_few_requests_nothing_is_known() {
        let mut usual = Usual::default();
        for n in 1..50 {
            usual.note(at(n), ms(5));
            assert_eq!(usual.time(), None, "after {n}");
        }
        usual.note(at(50), ms(5));
        assert!(usual.time().is_some_and(|time| (ms(4)..ms(6)).contains(&time)), "{:?}", usual.time());
    }

    #[test]
    fn what_was_long_ago_counts_less_and_what_takes_longer_shows_soon() {
        let mut usual = Usual::default();
        let note = |usual: &mut Usual, from_s: u64, seconds: u64, took: u64| {
            (from_s * 100..(from_s + seconds) * 100).for_each(|n| usual.note(at(n * 10), ms(took)));
            usual.time().unwrap()
        };
        assert!(note(&mut usual, 0, 60, 40) > ms(38));
        assert!(note(&mut usual, 60, 4, 80) > ms(76), "one in a hundred is enough");
        assert!(note(&mut usual, 64, 60, 10) > ms(38), "there were more before");
        assert!(note(&mut usual, 124, 1800, 10) < ms(11), "they are forgotten");
    }

    #[test]
    fn the_longest_times_count_as_the_last_cell() {
        assert_eq!(cell(Duration::from_secs(274)), CELLS - 1);
        assert_eq!(cell(Duration::MAX), CELLS - 1);
        assert_eq!(cell(Duration::ZERO), 0);
    }

    proptest! {
        #[test]
        fn a_cell_is_narrow_and_holds_its_middle(nanos in 0u64..274_000_000_000) {
            let time = Duration::from_nanos(nanos);
            let middle = middle(cell(time));
            prop_assert_eq!(cell(middle), cell(time));
            let off = middle.as_nanos().abs_diff(time.as_nanos());
            prop_assert!(off <= 2048.max(time.as_nanos() * 32 / 1000), "{:?} is told as {:?}", time, middle);
        }
    }
}
