//! Periods in which the node did not serve, with their duration and, as far as known, the reason.
//!
//! There are three causes: the device sleeps (the clock of time since boot runs on, the other does not), the process is stopped
//! or gets no processor time (both run on, but a timer is late), or the network is down. The condition before the pause is
//! the likely reason, so it is reported with it.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use flashmob_core::condition::{Condition, LastPause, Network};

/// Pauses that are kept.
pub const KEPT_MAX: usize = 16;
/// A timer that is late by less is attributed to a busy machine.
pub const LATE_MIN: Duration = Duration::from_secs(2);

/// Two clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// CLOCK_MONOTONIC: stands still while the device sleeps.
    pub awake: Duration,
    /// CLOCK_BOOTTIME: does not.
    pub since_boot: Duration,
}

impl Moment {
    pub fn now() -> Moment {
        let read = |id| {
            let now = rustix::time::clock_gettime(id);
            let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
            Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
        };
        Moment { awake: read(rustix::time::ClockId::Monotonic), since_boot: read(rustix::time::ClockId::Boottime) }
    }
}

/// The cause of a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// The device was suspended.
    Slept,
    /// The process stood still while the device was awake.
    Stopped,
    /// All links were lost, with this error.
    Network(String),
}

/// One period in which the node did not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Its end.
    pub ended: SystemTime,
    /// Its duration, accurate to about a second.
    pub lasted: Duration,
    /// The reason, and the condition of the device.
    pub reason: String,
}

/// The pauses since the start.
#[derive(Debug, Default)]
pub struct Pauses {
    count: u32,
    last: VecDeque<Pause>,
}

/// Whether a thread that slept for `planned` was paused, and for how long.
pub(super) fn gap(before: Moment, now: Moment, planned: Duration) -> Option<(Cause, Duration)> {
    let awake = now.awake.saturating_sub(before.awake);
    let slept = now.since_boot.saturating_sub(before.since_boot).saturating_sub(awake);
    let late = awake.saturating_sub(planned);
    // A device may sleep for moments, hundreds of times: that alone is not a pause.
    if slept >= LATE_MIN {
        return Some((Cause::Slept, slept + if late >= LATE_MIN { late } else { Duration::ZERO }));
    }
    (late >= LATE_MIN).then_some((Cause::Stopped, late))
}

impl Pauses {
    /// Records a pause that ends now, with the condition before it. Returns its description.
    pub(super) fn note(&mut self, cause: &Cause, lasted: Duration, before: &Condition) -> String {
        let what = match cause {
            Cause::Slept if before.doze == Some(true) => "the device dozed and slept".to_string(),
            Cause::Slept => "the device slept".to_string(),
            Cause::Stopped if before.thermal_status.is_some_and(|status| status >= 3) => {
                "the process was frozen, perhaps because the device is too hot".to_string()
            }
            Cause::Stopped => "the process was stopped, or got no CPU time".to_string(),
            Cause::Network(_) if before.network == Some(Network::None) => "the device has no network".to_string(),
            Cause::Network(_) if before.doze == Some(true) => "no gateway was linked: the device dozes".to_string(),
            Cause::Network(error) => format!("no gateway was linked ({error})"),
        };
        let circumstances = before.circumstances();
        let reason = if circumstances.is_empty() { what } else { format!("{what} ({circumstances})") };
        if self.last.len() >= KEPT_MAX {
            self.last.pop_front();
        }
        self.count = self.count.saturating_add(1);
        self.last.push_back(Pause { ended: SystemTime::now(), lasted, reason });
        self.last_told().map(|pause| pause.sentence()).unwrap_or_default()
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The last of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Pause> {
        self.last.iter()
    }

    /// The last one, in the form for gateways.
    #[must_use]
    pub fn last_told(&self) -> Option<LastPause> {
        self.last.back().map(|pause| LastPause {
            lasted_ms: u64::try_from(pause.lasted.as_millis()).unwrap_or(u64::MAX).max(1),
            reason: pause.reason.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(awake_ms: u64, slept_ms: u64) -> Option<(Cause, Duration)> {
        let before = Moment { awake: Duration::from_secs(100), since_boot: Duration::from_secs(900) };
        let now = Moment {
            awake: before.awake + Duration::from_millis(awake_ms),
            since_boot: before.since_boot + Duration::from_millis(awake_ms + slept_ms),
        };
        gap(before, now, Duration::from_secs(1))
    }

    #[test]
    fn sleep_is_told_from_standing_still_and_from_a_busy_machine() {
        let seconds = Duration::from_secs;
        for (awake_ms, slept_ms, expected) in [
            (1_000, 0, None),
            (2_999, 0, None),
            (3_000, 0, Some((Cause::Stopped, seconds(2)))),
            (1_000, 1_999, None),
            (1_000, 2_000, Some((Cause::Slept, seconds(2)))),
            (1_000, 312_000, Some((Cause::Slept, seconds(312)))),
            (6_000, 10_000, Some((Cause::Slept, seconds(15)))),
            (0, 0, None),
        ] {
            assert_eq!(after(awake_ms, slept_ms), expected, "{awake_ms} {slept_ms}");
        }
    }

    #[test]
    fn a_pause_says_how_long_and_what_the_device_was_like() {
        let mut pauses = Pauses::default();
        let before = Condition {
            screen_on: Some(false),
            charging: Some(false),
            battery_percent: Some(41),
            ..Condition::default()
        };
        let text = pauses.note(&Cause::Slept, Duration::from_millis(312_400), &before);
        assert_eq!(text, "paused 312 s: the device slept (screen off, not charging, battery 41 %)");
        let text = pauses.note(&Cause::Stopped, Duration::from_millis(2_340), &Condition::default());
        assert_eq!(text, "paused 2.3 s: the process was stopped, or got no CPU time");
        let dozing = Condition { doze: Some(true), network: Some(Network::Wifi), ..Condition::default() };
        let text = pauses.note(&Cause::Network("timed out".to_string()), Duration::from_secs(60), &dozing);
        assert_eq!(text, "paused 60 s: no gateway was linked: the device dozes (dozing)");
    }

    #[test]
    fn the_last_sixteen_are_kept_and_all_are_counted() {
        let mut pauses = Pauses::default();
        for n in 1..=40 {
            pauses.note(&Cause::Stopped, Duration::from_secs(n), &Condition::default());
        }
        assert_eq!((pauses.count(), pauses.iter().count()), (40, KEPT_MAX));
        assert_eq!(pauses.iter().next().map(|p| p.lasted), Some(Duration::from_secs(25)));
        assert_eq!(pauses.last_told().map(|p| p.lasted_ms), Some(40_000));
    }
}
