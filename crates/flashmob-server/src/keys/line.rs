//! Those who wait for a handshake on threads or tasks of their own: who comes first is up to the doorman.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::doorman::Doorman;
use super::lock;

/// How soon one whose turn is after another's asks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The line.
#[derive(Debug, Default)]
pub(super) struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    doorman: Doorman,
    waiting: HashMap<u64, Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    from: IpAddr,
    /// Its own allowance is used up until then, or that of strangers.
    until: Option<Instant>,
}

/// One who waits; who leaves is not waited for.
#[derive(Debug)]
pub struct Turn<'a> {
    line: &'a Line,
    number: u64,
}

impl Line {
    pub fn join(&self, from: IpAddr) -> Turn<'_> {
        let mut state = lock(&self.0);
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, Waiting { from, until: None });
        Turn { line: self, number }
    }

    pub fn let_in(&self, from: IpAddr) {
        lock(&self.0).doorman.let_in(Some(from));
    }
}

impl Turn<'_> {
    /// When to ask again; none if the handshake may begin.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait_at(Instant::now())
    }

    fn wait_at(&self, now: Instant) -> Option<Duration> {
        let mut state = lock(&self.line.0);
        let from = state.waiting.get(&self.number)?.from;
        let turn = state.doorman.turn_of(Some(from));
        let is_first = |other: &Waiting| {
            other.until.is_none_or(|until| until <= now) && state.doorman.turn_of(Some(other.from)) < turn
        };
        if state.waiting.values().any(is_first) {
            return Some(LOOK_AGAIN);
        }
        let wait = state.doorman.admit(now, Some(from)).err()?;
        if let Some(waiting) = state.waiting.get_mut(&self.number) {
            waiting.until = Some(now + wait);
        }
        Some(wait)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.line.0).waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    #[test]
    fn who_is_known_comes_before_strangers_and_nobody_waits_for_who_left() {
        let line = Line::default();
        let now = Instant::now();
        line.let_in(from(1));
        // All that strangers may begin at once.
        let begun = (2..=255).filter(|host| line.join(from(*host)).wait_at(now).is_none()).count();
        assert!((1..254).contains(&begun), "{begun}");
        let (stranger, known) = (line.join(from(2)), line.join(from(1)));
        assert_eq!(stranger.wait_at(now), Some(LOOK_AGAIN));
        assert_eq!(known.wait_at(now), None);
        drop(known);
        let wait = stranger.wait_at(now).unwrap();
        assert!(wait > Duration::ZERO && wait < Duration::from_secs(1), "{wait:?}");
        assert_eq!(stranger.wait_at(now + wait), None);
    }

    #[test]
    fn one_who_must_wait_in_any_case_keeps_nobody_waiting() {
        let line = Line::default();
        let now = Instant::now();
        line.let_in(from(1));
        while line.join(from(1)).wait_at(now).is_none() {}
        let (greedy, other) = (line.join(from(1)), line.join(from(2)));
        assert!(greedy.wait_at(now).is_some_and(|wait| wait > Duration::ZERO));
        assert_eq!(other.wait_at(now), None);
    }
}
