//! How fast copies are made current, and how fast the others will be.
//!
//! Copies cost differently: one that turns out equal is only hashed, one that differs is copied. So what is left is expected to cost what copies
//! did on average since the work began, at the speed of late. Chunks are visited in an order that scatters them ([`super::equal`]), so what was
//! done is like what is left, even if all that differs lies together.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::Time;

/// The speed is that of the last minute.
const WINDOW: Duration = Duration::from_secs(60);
/// After such a pause the speed of before says nothing.
const PAUSE: Duration = Duration::from_secs(10);
const BUCKET: Duration = Duration::from_secs(1);
/// What comes after such a break is other work.
const BREAK: Duration = Duration::from_secs(1);
/// Work that takes less says nothing about how long other work will take.
const TELLS_AFTER: Duration = Duration::from_secs(2);

/// What copies have cost that were made current.
#[derive(Debug, Default)]
pub struct Pace {
    /// When work began after the last pause.
    began: Time,
    last: Time,
    /// The beginning of a second, and what was spent in it.
    buckets: VecDeque<(Time, u64)>,
    /// Copies that were made current since, and what they have cost.
    copies: u64,
    cost_bytes: u64,
    stretch: Stretch,
    /// How often the speed has clearly changed, and what it was then.
    news: (u64, Option<f64>),
}

/// Work without a break.
#[derive(Debug, Default)]
struct Stretch {
    began: Time,
    last: Time,
    copies: u64,
    /// The speed of the last one that took long enough.
    copies_per_s: Option<f64>,
}

/// A speed that differs by more than this part is worth keeping.
const NEWS_PART: f64 = 0.05;

impl Pace {
    /// Before this gateway, a copy took so long.
    pub fn resumed(copy_time: Option<Duration>) -> Pace {
        let copies_per_s = copy_time.filter(|time| !time.is_zero()).map(|time| 1.0 / time.as_secs_f64());
        Pace { stretch: Stretch { copies_per_s, ..Stretch::default() }, news: (0, copies_per_s), ..Pace::default() }
    }

    /// Work on copies goes on.
    pub fn works(&mut self, now: Time) {
        let Stretch { last, copies_per_s, .. } = self.stretch;
        if last == Time::default() || now - last > BREAK {
            self.stretch = Stretch { began: now, last, copies: 0, copies_per_s };
        }
        self.stretch.last = now;
        if self.last == Time::default() || now - self.last > PAUSE {
            let stretch = std::mem::take(&mut self.stretch);
            *self = Pace { began: now, stretch, news: self.news, ..Pace::default() };
        }
        self.last = now;
    }

    /// Work goes on, and costs so much.
    pub fn spent(&mut self, now: Time, cost_bytes: u64) {
        self.works(now);
        match self.buckets.back_mut().filter(|bucket| now - bucket.0 < BUCKET) {
            Some(bucket) => bucket.1 += cost_bytes,
            None => self.buckets.push_back((now, cost_bytes)),
        }
        while self.buckets.front().is_some_and(|bucket| now - bucket.0 > WINDOW) {
            self.buckets.pop_front();
        }
    }

    /// So many copies of a chunk are current now, and have cost so much together.
    pub fn made(&mut self, now: Time, copies: u32, cost_bytes: u64) {
        self.works(now);
        self.copies += u64::from(copies);
        self.cost_bytes += cost_bytes;
        let stretch = &mut self.stretch;
        stretch.copies += u64::from(copies);
        let took = now - stretch.began;
        if took >= TELLS_AFTER {
            let speed = stretch.copies as f64 / took.as_secs_f64();
            stretch.copies_per_s = Some(speed);
            let (number, known) = self.news;
            if known.is_none_or(|known| (speed - known).abs() > known * NEWS_PART) {
                self.news = (number + 1, Some(speed));
            }
        }
    }

    /// Copies that were made current in a second when that was done last; `None` if that took a moment only, or was never done.
    pub fn last_copies_per_s(&self) -> Option<f64> {
        self.stretch.copies_per_s
    }

    /// How long a copy took when that was done last.
    pub fn copy_time(&self) -> Option<Duration> {
        self.last_copies_per_s().and_then(|copies_per_s| Duration::try_from_secs_f64(1.0 / copies_per_s).ok())
    }

    /// Grows when that time has clearly changed.
    pub fn news(&self) -> u64 {
        self.news.0
    }

    /// Copies that will be made current in a second; `None` while none was lately.
    pub fn copies_per_s(&self, now: Time) -> Option<f64> {
        if now - self.last > PAUSE || self.copies == 0 || self.cost_bytes == 0 {
            return None;
        }
        let lately = self.buckets.iter().filter(|bucket| now - bucket.0 <= WINDOW);
        let cost_bytes: u64 = lately.map(|bucket| bucket.1).sum();
        let elapsed = (now - self.began).min(WINDOW).max(BUCKET);
        let cost_per_s = cost_bytes as f64 / elapsed.as_secs_f64();
        (cost_bytes > 0).then(|| cost_per_s / (self.cost_bytes as f64 / self.copies as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(1_000_000 + ms)
    }

    #[test]
    fn the_speed_is_that_of_the_last_minute() {
        let mut pace = Pace::default();
        assert_eq!(pace.copies_per_s(at(0)), None);
        pace.spent(at(0), 1000);
        assert_eq!(pace.copies_per_s(at(500)), None, "nothing is finished");
        for step in 1..=100 {
            pace.spent(at(step * 100), 1000);
            pace.made(at(step * 100), 1, 1000);
        }
        let speed = pace.copies_per_s(at(10_000)).unwrap();
        assert!((10.0..10.2).contains(&speed), "{speed}");
        for step in 1..=800 {
            pace.spent(at(10_000 + step * 100), 100);
        }
        let speed = pace.copies_per_s(at(90_000)).unwrap();
        assert!((1.0..1.05).contains(&speed), "the fast part is long ago: {speed}");
        assert!(pace.buckets.len() < 70, "{}", pace.buckets.len());
    }

    #[test]
    fn what_is_left_costs_what_the_others_did() {
        let mut pace = Pace::default();
        // One in ten is copied, and costs as much as 160 that are hashed.
        for step in 0..1000 {
            let cost_bytes = if step % 10 == 0 { 1600 } else { 10 };
            pace.spent(at(step), cost_bytes);
            pace.made(at(step), 1, cost_bytes);
        }
        let speed = pace.copies_per_s(at(1000)).unwrap();
        assert!((990.0..1010.0).contains(&speed), "{speed}");
        // Now all that is seen for a while are equal ones.
        for step in 0..80 {
            pace.spent(at(1000 + 1000 * step), 1690);
        }
        let speed = pace.copies_per_s(at(80_000)).unwrap();
        assert!((9.5..10.5).contains(&speed), "{speed}");
    }

    #[test]
    fn the_last_speed_is_kept() {
        let mut pace = Pace::default();
        for (step, expected) in [(19, None), (20, Some(10.0)), (50, Some(10.0))] {
            let mut pace = Pace::default();
            (0..=step).for_each(|step| {
                pace.spent(at(step * 100), 1000);
                pace.made(at(step * 100), 1, 1000);
            });
            let is_near = |speed: f64| expected.is_some_and(|expected: f64| (speed - expected).abs() < 0.6);
            assert!(
                pace.last_copies_per_s().map_or(expected.is_none(), is_near),
                "{step}: {:?}",
                pace.last_copies_per_s()
            );
        }
        for step in 0..=30 {
            pace.spent(at(step * 100), 1000);
            pace.made(at(step * 100), 1, 1000);
        }
        let last = pace.last_copies_per_s();
        pace.works(at(100_000));
        assert_eq!((pace.copies_per_s(at(100_000)), pace.last_copies_per_s()), (None, last));
        assert!(last.is_some());
    }

    #[test]
    fn the_next_gateway_knows_the_last_speed() {
        let mut pace = Pace::resumed(None);
        assert_eq!((pace.news(), pace.copy_time(), pace.last_copies_per_s()), (0, None, None));
        assert_eq!(Pace::resumed(Some(Duration::ZERO)).last_copies_per_s(), None, "no speed");
        (0..=600).for_each(|step| pace.made(at(step * 100), 1, 1000));
        assert!((1..10).contains(&pace.news()), "not with each copy: {}", pace.news());
        let copy_time = pace.copy_time();
        assert!(copy_time.is_some_and(|time| (95..=100).contains(&time.as_millis())), "{copy_time:?}");
        let mut next = Pace::resumed(copy_time);
        assert_eq!((next.news(), next.copies_per_s(at(0))), (0, None));
        assert_eq!(next.copy_time(), copy_time);
        // Work that takes a moment changes nothing; work at another speed does.
        (0..=19).for_each(|step| next.made(at(step * 100), 1, 1000));
        assert_eq!((next.news(), next.copy_time()), (0, copy_time));
        (0..=19).for_each(|step| next.made(at(100_000 + step * 200), 1, 1000));
        assert_eq!(next.news(), 1);
        assert!(next.copy_time() > copy_time.map(|time| time * 3 / 2));
    }

    #[test]
    fn after_a_pause_it_begins_anew() {
        let mut pace = Pace::default();
        pace.spent(at(0), 1_000_000);
        pace.made(at(0), 1, 1_000_000);
        assert!(pace.copies_per_s(at(10_000)).is_some());
        assert_eq!(pace.copies_per_s(at(10_001)), None);
        pace.works(at(20_000));
        assert_eq!(pace.copies_per_s(at(21_000)), None, "what was before does not count");
        pace.spent(at(24_000), 400);
        pace.made(at(24_000), 1, 4);
        assert_eq!(pace.copies_per_s(at(24_000)), Some(25.0));
    }
}
