//! What the log says of connections that are refused or dropped. Anybody can cause any number of them, and the log is for people: each reason is
//! logged once a minute for each address, few reasons, and of the rest their number. One address cannot keep another one's reasons from the log.

use std::time::{Duration, Instant};

/// How long a reason is not repeated, and when the rest is summed up.
const EVERY: Duration = Duration::from_secs(60);
/// Most reasons that are logged in that time: for one address, and for all.
const REASONS_MAX: usize = 3;
const LINES_MAX: usize = 30;

/// The connections that were turned away lately.
#[derive(Debug, Default)]
pub(crate) struct TurnedAway {
    /// When the first of them was.
    since: Option<Instant>,
    /// What was logged since then: for which address, and why.
    told: Vec<(String, String)>,
    /// How many were not, and the last of them.
    untold: u64,
    last: String,
}

impl TurnedAway {
    /// A connection is refused or dropped.
    pub fn note(&mut self, peer: &str, reason: &str) {
        match self.line(Instant::now(), peer, reason) {
            Some(line) => log::warn!("{line}"),
            None => log::debug!("{peer}: {reason}"),
        }
    }

    /// Sums up what was not logged, if the time for that has come.
    pub fn sum_up(&mut self) {
        if self.untold > 0
            && let Some(line) = self.summary(Instant::now())
        {
            log::warn!("{line}");
        }
    }

    /// When to sum up.
    pub fn due_in(&self) -> Option<Duration> {
        let since = self.since.filter(|_| self.untold > 0)?;
        Some((since + EVERY).saturating_duration_since(Instant::now()))
    }

    fn line(&mut self, now: Instant, peer: &str, reason: &str) -> Option<String> {
        let is_over = self.since.is_none_or(|since| now - since >= EVERY);
        if is_over && self.untold == 0 {
            self.told.clear();
            self.since = Some(now);
        }
        let address = peer.rsplit_once(':').map_or(peer, |(address, _)| address);
        let of_it = self.told.iter().filter(|told| told.0 == address);
        let is_known = of_it.clone().any(|told| told.1 == reason);
        if !is_known && of_it.count() < REASONS_MAX && self.told.len() < LINES_MAX {
            self.told.push((address.to_string(), reason.to_string()));
            return Some(format!("{peer}: {reason}"));
        }
        self.untold += 1;
        self.last = format!("{peer}: {reason}");
        None
    }

    fn summary(&mut self, now: Instant) -> Option<String> {
        self.since.filter(|since| now - *since >= EVERY)?;
        let text = self.rest();
        (self.since, self.untold) = (None, 0);
        Some(text)
    }

    fn rest(&self) -> String {
        let were = if self.untold == 1 { "connection was" } else { "connections were" };
        format!("{} more {were} refused or dropped in the last minute; the last: {}", self.untold, self.last)
    }
}

impl Drop for TurnedAway {
    fn drop(&mut self) {
        if self.untold > 0 {
            log::warn!("{}", self.rest());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_logged_once_a_minute_and_the_rest_counted() {
        let (mut away, start) = (TurnedAway::default(), Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        assert_eq!(away.line(at(0), "a:1", "no hello").as_deref(), Some("a:1: no hello"));
        assert_eq!((away.due_in(), away.line(at(1), "a:2", "busy").as_deref()), (None, Some("a:2: busy")));
        for second in 2..50 {
            assert_eq!(away.line(at(second), "a:3", "no hello"), None);
        }
        assert!(away.due_in().is_some_and(|time| time <= EVERY));
        assert_eq!(away.summary(at(59)), None, "the minute is not over");
        let summary = "48 more connections were refused or dropped in the last minute; the last: a:3: no hello";
        assert_eq!(away.summary(at(60)).as_deref(), Some(summary));
        assert_eq!((away.summary(at(200)), away.due_in()), (None, None));
        assert_eq!(away.line(at(61), "a:1", "no hello").as_deref(), Some("a:1: no hello"), "a new minute");
        assert_eq!(away.line(at(121), "a:1", "no hello").as_deref(), Some("a:1: no hello"), "and one more");
    }

    #[test]
    fn reasons_that_somebody_makes_up_are_counted_and_hide_nobody_elses() {
        let (mut away, now) = (TurnedAway::default(), Instant::now());
        let mut logged =
            |host: u32, n: u32| away.line(now, &format!("{host}:{n}"), &format!("volume {n} is unknown")).is_some();
        assert_eq!((0..1000).filter(|&n| logged(1, n)).count(), REASONS_MAX);
        assert!(logged(2, 7), "another address");
        assert_eq!((10..1000).filter(|&host| logged(host, 1)).count(), LINES_MAX - REASONS_MAX - 1);
        let summary = away.summary(now + EVERY).unwrap();
        assert!(summary.starts_with("1961 more") && summary.ends_with("999:1: volume 1 is unknown"), "{summary}");
    }
}
