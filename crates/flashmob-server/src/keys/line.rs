//! Those who wait for a handshake on threads or tasks of their own: who comes first is up to the doorman.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::doorman::Doorman;
use super::lock;

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
    since: Instant,
    /// The time until which the allowance of its address is used up, or that of strangers.
    until: Option<Instant>,
    /// Permission to begin; one behind it had asked for it.
    is_admitted: bool,
}

/// One who waits; who leaves is not waited for.
#[derive(Debug)]
pub struct Turn<'a> {
    line: &'a Line,
    number: u64,
}

impl Line {
    /// With a doorman who knows these.
    pub fn knowing(addresses: impl Iterator<Item = IpAddr>) -> Line {
        Line(Mutex::new(State { doorman: Doorman::knowing(addresses), ..State::default() }))
    }

    /// Whether somebody at this address was let in lately.
    pub fn was_let_in(&self, from: IpAddr) -> bool {
        lock(&self.0).doorman.was_let_in(Some(from))
    }

    pub fn join(&self, from: IpAddr) -> Turn<'_> {
        let mut state = lock(&self.0);
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, Waiting { from, since: Instant::now(), until: None, is_admitted: false });
        Turn { line: self, number }
    }

    /// The handshake of somebody at this address took so much of a processor's time.
    pub fn took(&self, from: IpAddr, time: Duration) {
        lock(&self.0).doorman.took(Some(from), time);
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
        let State { doorman, waiting, .. } = &mut *lock(&self.line.0);
        loop {
            let own = waiting.get(&self.number)?;
            if own.is_admitted {
                return None;
            }
            if let Some(until) = own.until.filter(|until| *until > now) {
                return Some(until - now);
            }
            // Whoever asks, the first one gets what there is.
            let is_due = |one: &Waiting| !one.is_admitted && one.until.is_none_or(|until| until <= now);
            let due = waiting.iter_mut().filter(|(_, one)| is_due(one));
            let first = due.min_by_key(|(number, one)| (doorman.turn_of(Some(one.from), one.since), **number));
            let (_, first) = first?;
            match doorman.admit(now, Some(first.from)) {
                Ok(()) => first.is_admitted = true,
                Err(wait) => first.until = Some(now + wait),
            }
        }
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
        let wait = stranger.wait_at(now).unwrap();
        assert!(wait > Duration::ZERO && wait < Duration::from_secs(1), "{wait:?}");
        assert_eq!(known.wait_at(now), None);
        assert_eq!(stranger.wait_at(now), Some(wait));
        drop(known);
        let wait = stranger.wait_at(now).unwrap();
        assert!(wait > Duration::ZERO && wait < Duration::from_secs(1), "{wait:?}");
        assert_eq!(stranger.wait_at(now + wait), None);
    }

    #[test]
    fn who_has_waited_longest_gets_what_there_is_whoever_asks() {
        let line = Line::default();
        let now = Instant::now();
        while line.join(from(2)).wait_at(now).is_none() {}
        let (first, second, third) = (line.join(from(2)), line.join(from(2)), line.join(from(2)));
        let soon = now + third.wait_at(now).unwrap();
        assert_eq!((second.wait_at(soon).is_some(), third.wait_at(soon).is_some()), (true, true));
        assert_eq!(first.wait_at(soon), None);
        drop(first);
        let later = soon + Duration::from_millis(130);
        assert_eq!((third.wait_at(later).is_some(), second.wait_at(later)), (true, None));
    }

    #[test]
    fn strangers_have_a_part_of_a_processor_and_who_is_known_does_not_wait_for_it() {
        let line = Line::default();
        let now = Instant::now();
        line.let_in(from(1));
        assert_eq!(line.join(from(2)).wait_at(now), None);
        line.took(from(1), Duration::from_secs(9));
        assert_eq!(line.join(from(3)).wait_at(now), None, "known ones count for themselves");
        line.took(from(2), Duration::from_secs(1));
        let wait = line.join(from(4)).wait_at(now).unwrap();
        assert!(wait > Duration::from_secs(2) && wait < Duration::from_secs(4), "{wait:?}");
        assert_eq!(line.join(from(1)).wait_at(now), None);
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
