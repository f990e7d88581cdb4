//! How fast a member answers reads.
//!
//! An answer is what comes back together of one batch: as many reads as it may hold, of whatever length, those of the gateway itself too. All of
//! them load the node, and a client's read waits among them.

use std::time::Duration;

use crate::units::Time;

/// What was measured is believed for so long. Then one read finds out anew; while it is not answered, another does after as long again.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// Pieces that make no difference: with few outstanding, the way is longer than the work.
pub const FEW: u64 = 4;
/// No answer is late before this: another would hardly come sooner.
const LATE_MIN: Duration = Duration::from_millis(2);

/// How long a member took to answer reads lately.
#[derive(Debug, Default)]
pub struct Speed {
    /// From sending to the answer, smoothed.
    took: Duration,
    /// How many pieces were out to it then, smoothed; in 256ths.
    pieces: u64,
    /// 95 of 100 answers took no longer.
    late_after: Duration,
    /// When it last answered.
    noted: Option<Time>,
    /// When it was last given a read.
    tried: Option<Time>,
}

impl Speed {
    /// Reads were answered `took` after they were sent, while so many `pieces` were out to the member.
    pub fn note(&mut self, now: Time, took: Duration, pieces: usize) {
        let pieces = pieces as u64 * 256;
        if self.noted.is_none_or(|noted| now - noted > BELIEVED_FOR) {
            (self.took, self.pieces) = (took, pieces);
        } else {
            self.took = (7 * self.took + took) / 8;
            self.pieces = (7 * self.pieces + pieces) / 8;
        }
        // A quantile by steps: up by 19 parts for each answer above it, down by 1 for each below.
        let step = (self.late_after / 256).max(Duration::from_micros(2));
        self.late_after = if self.noted.is_none() {
            2 * took
        } else if took > self.late_after {
            self.late_after + 19 * step
        } else {
            self.late_after.saturating_sub(step)
        };
        self.noted = Some(now);
    }

    /// The member is given a read.
    pub fn try_now(&mut self, now: Time) {
        self.tried = Some(now);
    }

    /// How long one more read is expected to take, for a member that has `pieces`, changes too, and has been silent for `silence` while it had
    /// reads. Of that, `way` does not depend on the load. No longer than the silence if that has to be found out: a member that is given
    /// changes all the time must not stay unread because it was slow once.
    pub fn expected(&self, now: Time, way: Duration, pieces: usize, silence: Duration) -> Duration {
        let is_long_ago = |at: Option<Time>| at.is_none_or(|at| now - at > BELIEVED_FOR);
        if is_long_ago(self.noted) && is_long_ago(self.tried) {
            return silence;
        }
        if self.noted.is_none() {
            return Duration::MAX;
        }
        let way = way.min(self.took);
        let load = 256 * (pieces as u64 + FEW);
        let of_load = (self.took - way).as_nanos() as u64;
        let of_load = u128::from(of_load) * u128::from(load) / u128::from(self.pieces + 256 * (FEW - 1)).max(1);
        (way + Duration::from_nanos(of_load as u64)).max(silence)
    }

    /// An answer that takes longer than this is late.
    pub fn late_after(&self) -> Duration {
        self.late_after.max(LATE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::testing::{at, ms};

    fn of(took: Duration, pieces: usize) -> Speed {
        let mut speed = Speed::default();
        (0..100).for_each(|n| speed.note(at(n), took, pieces));
        speed
    }

    #[test]
    fn what_is_expected_grows_with_the_load_but_the_way_does_not() {
        let speed = of(ms(10), 1);
        let expected = |way, pieces| speed.expected(at(100), ms(way), pieces, ms(0));
        assert_eq!(expected(0, 0), ms(10));
        assert_eq!(expected(0, 96), ms(250));
        assert_eq!(expected(8, 96), ms(8 + 50));
        assert_eq!(expected(20, 96), ms(10), "no more than all is the way");
    }

    #[test]
    fn who_is_silent_is_expected_to_stay_so() {
        let speed = of(ms(1), 1);
        assert_eq!(speed.expected(at(300), ms(0), 1, ms(200)), ms(200));
    }

    #[test]
    fn what_is_long_ago_is_found_out_again_by_one_read() {
        let mut speed = of(ms(500), 1);
        let expected = |speed: &Speed, at_ms| speed.expected(at(at_ms), ms(0), 8, ms(0));
        assert!(expected(&speed, 1_099) >= ms(400));
        assert_eq!(expected(&speed, 1_100), ms(0), "though it has changes to do");
        speed.try_now(at(1_100));
        assert!(expected(&speed, 2_100) >= ms(400), "another does not follow");
        assert_eq!(expected(&speed, 2_101), ms(0), "unless that was not answered");
        assert_eq!(speed.expected(at(2_101), ms(0), 8, ms(1_001)), ms(1_001), "and is out still");
        let mut unknown = Speed::default();
        assert_eq!(expected(&unknown, 1), ms(0));
        unknown.try_now(at(1));
        assert_eq!(expected(&unknown, 1), Duration::MAX);
    }

    #[test]
    fn a_twentieth_of_the_answers_is_late() {
        let mut speed = Speed::default();
        let mut late = 0;
        for n in 0..40_000u64 {
            // 5 ms to 15 ms, evenly.
            let took = ms(5) + Duration::from_micros(n * 7919 % 10_000);
            if n >= 20_000 {
                late += u32::from(took > speed.late_after());
            }
            speed.note(at(n), took, 1);
        }
        assert!((700..=1_300).contains(&late), "{late} of 20,000");
        assert!((ms(14)..=ms(15)).contains(&speed.late_after()), "{:?}", speed.late_after());
        assert_eq!(of(Duration::from_micros(50), 1).late_after(), LATE_MIN);
    }
}
