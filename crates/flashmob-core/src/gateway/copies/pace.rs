//! How fast copies are made current.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::Time;

/// The speed is that of the last half minute.
const WINDOW: Duration = Duration::from_secs(30);
/// After such a pause the speed of before says nothing.
const PAUSE: Duration = Duration::from_secs(10);
const BUCKET: Duration = Duration::from_secs(1);

/// The bytes of copies that were made current lately, by the second.
#[derive(Debug, Default)]
pub struct Pace {
    /// When work began after the last pause.
    began: Time,
    last: Time,
    /// The beginning of a second, and the bytes in it.
    buckets: VecDeque<(Time, u64)>,
}

impl Pace {
    /// Work on copies goes on.
    pub fn works(&mut self, now: Time) {
        if self.last == Time::default() || now - self.last > PAUSE {
            self.began = now;
            self.buckets.clear();
        }
        self.last = now;
    }

    /// So many bytes of copies are current now.
    pub fn note(&mut self, now: Time, bytes: u64) {
        self.works(now);
        match self.buckets.back_mut().filter(|bucket| now - bucket.0 < BUCKET) {
            Some(bucket) => bucket.1 += bytes,
            None => self.buckets.push_back((now, bytes)),
        }
        while self.buckets.front().is_some_and(|bucket| now - bucket.0 > WINDOW) {
            self.buckets.pop_front();
        }
    }

    /// Bytes a second; `None` while nothing was finished lately.
    pub fn bytes_per_s(&self, now: Time) -> Option<f64> {
        if now - self.last > PAUSE {
            return None;
        }
        let lately = self.buckets.iter().filter(|bucket| now - bucket.0 <= WINDOW);
        let bytes: u64 = lately.map(|bucket| bucket.1).sum();
        let elapsed = (now - self.began).min(WINDOW).max(BUCKET);
        (bytes > 0).then(|| bytes as f64 / elapsed.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(1_000_000 + ms)
    }

    #[test]
    fn the_speed_is_that_of_the_last_half_minute() {
        let mut pace = Pace::default();
        assert_eq!(pace.bytes_per_s(at(0)), None);
        pace.works(at(0));
        assert_eq!(pace.bytes_per_s(at(500)), None, "nothing is finished");
        for step in 1..=100 {
            pace.note(at(step * 100), 1000);
        }
        assert_eq!(pace.bytes_per_s(at(10_000)), Some(10_000.0));
        for step in 1..=400 {
            pace.note(at(10_000 + step * 100), 100);
        }
        let speed = pace.bytes_per_s(at(50_000)).unwrap();
        assert!((1000.0..1050.0).contains(&speed), "the fast part is long ago: {speed}");
        assert!(pace.buckets.len() < 40, "{}", pace.buckets.len());
    }

    #[test]
    fn after_a_pause_it_begins_anew() {
        let mut pace = Pace::default();
        pace.note(at(0), 1_000_000);
        assert!(pace.bytes_per_s(at(10_000)).is_some());
        assert_eq!(pace.bytes_per_s(at(10_001)), None);
        pace.works(at(20_000));
        assert_eq!(pace.bytes_per_s(at(21_000)), None, "what was before does not count");
        pace.note(at(24_000), 400);
        assert_eq!(pace.bytes_per_s(at(24_000)), Some(100.0));
    }
}
