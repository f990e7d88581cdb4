//! How late clients' requests are beside a rebuild, and how many bytes of it may be under way therefore: a window.
//!
//! A request is late if it takes longer than [`LATE_PERCENT`] of the time in which 99 of 100 are answered in quiet times. Each late request shrinks
//! the window by a fraction; each one in time grows it by a 99th of that. So the window settles where one in a hundred is late: where the 99th
//! percentile is [`LATE_PERCENT`] of the usual one, at any size of the window and any number of requests.
//!
//! It begins small and grows faster, until more requests were late than one in a hundred explains. Then it is halved: it grew on while the
//! requests that it made late were under way.

use std::time::Duration;

use super::usual::Usual;
use crate::units::{KIB, Time};

/// The first window, before anything is known of what clients feel, and the least.
const FIRST_BYTES: f64 = 16.0 * KIB as f64;
const LEAST_BYTES: f64 = KIB as f64;
/// A request that takes longer is late, in percent of the usual time.
const LATE_PERCENT: u32 = 185;
/// A late request shrinks the window by this fraction. With many requests a second it is less, so that a moment in which all are late does not
/// end all work.
const STEP: f64 = 1.0 / 32.0;
const STEPS_PER_S: f64 = 8.0;
/// Requests in time for each late one, at which the window stays as it is.
const ON_TIME: f64 = 99.0;
/// The first growth, and when it ends: when so many requests were late, or one in a hundred of those of so many seconds, beyond one in a hundred of
/// those so far. Many a second are late together, without any work.
const FIRST_LATE: f64 = 3.0;
const FIRST_LATE_S: f64 = 1.0;
const FIRST_STEP: f64 = 1.0 / 128.0;
const FIRST_STEPS_PER_S: f64 = 1.5;
/// What is left of the window then.
const FIRST_LEFT: f64 = 0.5;
/// How much larger it may be than what was under way.
const BEYOND_USED: f64 = 2.0;
/// Requests of which none was answered for so long, and for so many times what is usual, are not in use.
const IN_USE_FOR: Duration = Duration::from_secs(1);
const IN_USE_TIMES: u32 = 4;

/// What the clients of a volume feel in some kind of requests.
#[derive(Debug)]
pub struct Felt {
    pub usual: Usual,
    /// Bytes of work that may be under way.
    pub window: f64,
    /// At first: how many came in beside work, and how many of them were late.
    first: Option<(u32, u32)>,
    /// When one was answered last.
    last: Option<Time>,
    /// How many are answered in a second: since when they are counted, how many since, and in the second before.
    since: Time,
    requests: u32,
    before: u32,
}

impl Felt {
    pub fn new() -> Felt {
        Felt {
            usual: Usual::default(),
            window: FIRST_BYTES,
            first: Some((0, 0)),
            last: None,
            since: Time::default(),
            requests: 0,
            before: 0,
        }
    }

    /// Whether clients have such requests.
    pub fn is_in_use(&self, now: Time) -> bool {
        let usual = self.usual.time().unwrap_or_default();
        self.last.is_some_and(|last| now - last < IN_USE_FOR.max(IN_USE_TIMES * usual))
    }

    /// A request was answered.
    pub fn note(&mut self, now: Time) {
        self.last = Some(now);
        let seconds = (now - self.since).as_secs();
        if seconds > 0 {
            self.before = if seconds == 1 { self.requests } else { 0 };
            (self.since, self.requests) = (now, 0);
        }
        self.requests += 1;
    }

    /// One was answered that came in beside work, of which so many bytes were under way.
    pub fn answered(&mut self, took: Duration, used_bytes: u32) {
        let Some(usual) = self.usual.time() else { return };
        let per_s = f64::from(self.requests.max(self.before).max(1));
        let step = STEP.min(STEPS_PER_S / per_s);
        let is_late = took > usual * LATE_PERCENT / 100;
        if let Some((all, late)) = self.first {
            let (all, late) = (all.saturating_add(1), late + u32::from(is_late));
            let allowed = FIRST_LATE.max(FIRST_LATE_S * per_s / (ON_TIME + 1.0)) + f64::from(all) / (ON_TIME + 1.0);
            self.first = (f64::from(late) < allowed).then_some((all, late));
            if self.first.is_none() {
                self.window *= FIRST_LEFT;
            }
        }
        if is_late {
            self.window = (self.window * (1.0 - step)).max(LEAST_BYTES);
            return;
        }
        let step = if self.first.is_some() { FIRST_STEP.min(FIRST_STEPS_PER_S / per_s) } else { step / ON_TIME };
        // A window that is not filled says nothing.
        let most = (BEYOND_USED * f64::from(used_bytes)).max(FIRST_BYTES);
        self.window = self.window.max((self.window * (1.0 + step)).min(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::testing::{at, ms};

    /// 10 ms are usual, and the beginning is over.
    fn felt(window: f64) -> Felt {
        let mut felt = Felt::new();
        (0..100).for_each(|n| felt.usual.note(at(n), ms(10)));
        (felt.window, felt.first) = (window, None);
        felt
    }

    /// So many requests, 500 in a second, `late` of each hundred too late.
    fn answer(felt: &mut Felt, count: u64, late: u64, used_bytes: u32) -> f64 {
        for n in 0..count {
            felt.note(at(1000 + 2 * n));
            felt.answered(if n % 100 < late { ms(20) } else { ms(10) }, used_bytes);
        }
        felt.window / 1024.0
    }

    #[test]
    fn it_stays_where_one_in_a_hundred_is_late() {
        let kib = answer(&mut felt(65536.0), 10_000, 1, 65536);
        assert!((60.0..68.0).contains(&kib), "{kib}");
        let kib = answer(&mut felt(65536.0), 1_000, 2, 65536);
        assert!((40.0..55.0).contains(&kib), "{kib}");
        let kib = answer(&mut felt(65536.0), 1_000, 0, 65536);
        assert!((75.0..100.0).contains(&kib), "{kib}");
    }

    #[test]
    fn if_all_are_late_little_is_left_soon() {
        let kib = answer(&mut felt(262_144.0), 250, 100, 65536);
        assert!(kib < 4.0, "{kib} after half a second");
        assert_eq!(answer(&mut felt(65536.0), 10_000, 100, 65536), 1.0);
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        assert_eq!(answer(&mut felt(30_000.0), 100_000, 0, 20 << 10), 40.0);
        assert_eq!(answer(&mut felt(30_000.0), 100_000, 0, 0), 30_000.0 / 1024.0, "and is not taken away");
    }

    #[test]
    fn at_first_it_grows_fast_until_more_than_one_in_a_hundred_are_late() {
        let mut new = felt(FIRST_BYTES);
        new.first = Some((0, 0));
        let kib = answer(&mut new, 500, 1, 1 << 20);
        assert!(kib > 100.0 && new.first.is_some(), "{kib} after a second");
        let before = new.window;
        answer(&mut new, 200, 20, 1 << 20);
        assert!(new.first.is_none() && new.window < before / 2.0, "{} of {before}", new.window);
    }

    #[test]
    fn late_is_what_takes_185_hundredths_of_the_usual_time() {
        for (took, is_late) in [(ms(18), false), (ms(20), true)] {
            let mut felt = felt(65536.0);
            felt.note(at(1000));
            felt.answered(took, 65536);
            assert_eq!(felt.window < 65536.0, is_late, "{took:?}");
        }
        let mut unknown = Felt::new();
        unknown.note(at(1));
        unknown.answered(ms(1000), 65536);
        assert_eq!(unknown.window, FIRST_BYTES, "nothing is known of what is usual");
    }

    #[test]
    fn clients_are_there_for_a_second_after_an_answer_or_four_times_what_is_usual() {
        let mut felt = Felt::new();
        assert!(!felt.is_in_use(at(0)));
        felt.note(at(0));
        assert!(felt.is_in_use(at(999)) && !felt.is_in_use(at(1000)));
        (0..100).for_each(|n| felt.usual.note(at(n), ms(1000)));
        let usual = felt.usual.time().unwrap();
        felt.note(at(5000));
        assert!(felt.is_in_use(at(4999) + 4 * usual) && !felt.is_in_use(at(5000) + 4 * usual));
    }
}
