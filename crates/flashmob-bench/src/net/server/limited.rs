//! Which events are told. Anybody can cause any number of connections that are no successful test: of each kind a few are told each minute, and
//! of the others their number.

use std::time::{Duration, Instant};

use super::Told;

/// Most events of a kind that are told in [`EVERY`].
const TOLD_MAX: u32 = 10;
/// When the others are summed up.
const EVERY: Duration = Duration::from_secs(60);

/// The kinds of events that are limited, each on its own: clients of one kind hide no others.
const KINDS: [&str; 3] = [
    "connections did not send an iperf3 cookie",
    "clients were rejected because another test was running",
    "tests gave no result",
];

#[derive(Default)]
struct Kind {
    /// When its first event was.
    since: Option<Instant>,
    told: u32,
    untold: u64,
}

/// The events of the last minute.
#[derive(Default)]
pub(super) struct Limited {
    kinds: [Kind; KINDS.len()],
}

impl Limited {
    /// Whether this event is told. `is_test` if a test had begun.
    pub fn tells(&mut self, told: &Told, is_test: bool, now: Instant) -> bool {
        let kind = match (told, is_test) {
            (Told::Test { .. } | Told::More { .. }, _) => return true,
            (Told::Failed { .. }, false) => &mut self.kinds[0],
            (Told::Busy { .. }, _) => &mut self.kinds[1],
            (Told::Failed { .. }, true) => &mut self.kinds[2],
        };
        if kind.untold == 0 && kind.since.is_none_or(|since| now - since >= EVERY) {
            *kind = Kind { since: Some(now), ..Kind::default() };
        }
        let is_told = kind.told < TOLD_MAX;
        if is_told {
            kind.told += 1;
        } else {
            kind.untold += 1;
        }
        is_told
    }

    /// Sums up the events that were not told, of each kind whose minute is over.
    pub fn sums(&mut self, now: Instant) -> Vec<Told> {
        self.sums_if(|since| now - since >= EVERY)
    }

    /// Sums up all events that were not told.
    pub fn rest(&mut self) -> Vec<Told> {
        self.sums_if(|_| true)
    }

    fn sums_if(&mut self, is_over: impl Fn(Instant) -> bool) -> Vec<Told> {
        let mut sums = Vec::new();
        for (kind, what) in self.kinds.iter_mut().zip(KINDS) {
            if kind.untold > 0 && kind.since.is_some_and(&is_over) {
                sums.push(Told::More { number: kind.untold, what });
                *kind = Kind::default();
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_a_minute_are_told_and_the_rest_is_summed_up() {
        let (mut limited, start) = (Limited::default(), Instant::now());
        let client = "10.0.0.1:1".parse().unwrap();
        let failed = Told::Failed { client, why: "it did not send an iperf3 cookie".into() };
        let good = Told::Test { client, what: "TCP".into() };
        let at = |s: u64| start + Duration::from_secs(s);
        let told = (0..50).filter(|&s| limited.tells(&failed, false, at(s))).count();
        assert_eq!(told, 10);
        assert!(limited.tells(&failed, true, at(50)), "a test that failed is of another kind");
        assert!(limited.tells(&Told::Busy { client }, false, at(50)));
        assert!((0..50).all(|_| limited.tells(&good, true, at(50))), "tests are always told");
        assert_eq!(limited.sums(at(59)), [], "the minute is not over");
        let sum = Told::More { number: 40, what: KINDS[0] };
        assert_eq!(limited.sums(at(60)), [sum]);
        assert!(limited.tells(&failed, false, at(61)), "a new minute");
        assert_eq!((limited.sums(at(500)), limited.rest()), (vec![], vec![]));
        assert!((0..20).filter(|_| limited.tells(&failed, false, at(600))).count() == 10);
        assert_eq!(limited.rest(), [Told::More { number: 10, what: KINDS[0] }]);
    }
}
