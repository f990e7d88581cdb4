//! How often a handshake may begin: one costs a small board some milliseconds, and anybody may ask for it.
//!
//! Each address may begin [`EACH_PER_S`] a second, and [`EACH_AT_ONCE`] at once. All addresses that were not let in lately may begin
//! [`STRANGERS_PER_S`] together, so that strangers do not keep known gateways waiting. Of those that wait, known ones come first, then those whose last handshake
//! began longest ago: who has many connections from few addresses waits behind who has one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Handshakes that one address may begin in a second, and at once.
const EACH_PER_S: f64 = 8.0;
const EACH_AT_ONCE: f64 = 64.0;
/// The same of all addresses together that were not let in lately.
const STRANGERS_PER_S: f64 = 16.0;
const STRANGERS_AT_ONCE: f64 = 64.0;
/// Most addresses that are remembered; the one that came longest ago is forgotten first, one that was let in last.
const ORIGINS_MAX: usize = 1024;

/// Handshakes that may begin now: some come back with time.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: f64,
    at: Instant,
    per_s: f64,
    most: f64,
}

impl Allowance {
    fn full(now: Instant, per_s: f64, most: f64) -> Allowance {
        Allowance { left: most, at: now, per_s, most }
    }

    /// How long it takes until there is one; none if there is one now.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_s).min(self.most);
        self.at = now;
        (self.left < 1.0).then(|| Duration::from_secs_f64((1.0 - self.left) / self.per_s))
    }
}

#[derive(Debug)]
struct Origin {
    own: Allowance,
    was_let_in: bool,
    /// When its last handshake began.
    served: Option<Instant>,
}

/// Who may begin a handshake.
#[derive(Debug, Default)]
pub struct Doorman {
    origins: HashMap<Option<IpAddr>, Origin>,
    strangers: Option<Allowance>,
}

impl Doorman {
    /// One that has let these in before.
    pub fn knowing(addresses: impl Iterator<Item = IpAddr>) -> Doorman {
        let mut doorman = Doorman::default();
        addresses.for_each(|address| doorman.let_in(Some(address)));
        doorman
    }

    /// Whether a peer may begin a handshake.
    ///
    /// # Errors
    /// Not yet: it may after this time, if nobody else comes first.
    pub fn admit(&mut self, now: Instant, from: Option<IpAddr>) -> Result<(), Duration> {
        let origin = self.origin(now, from);
        if let Some(wait) = origin.own.wait(now) {
            return Err(wait);
        }
        if !origin.was_let_in {
            let new = || Allowance::full(now, STRANGERS_PER_S, STRANGERS_AT_ONCE);
            let strangers = self.strangers.get_or_insert_with(new);
            if let Some(wait) = strangers.wait(now) {
                return Err(wait);
            }
            strangers.left -= 1.0;
        }
        let origin = self.origin(now, from);
        origin.own.left -= 1.0;
        origin.served = Some(now);
        Ok(())
    }

    /// The order in which those that wait are asked.
    #[must_use]
    pub fn turn_of(&self, from: Option<IpAddr>) -> (bool, Option<Instant>) {
        let origin = self.origins.get(&from.map(|from| from.to_canonical()));
        (!origin.is_some_and(|origin| origin.was_let_in), origin.and_then(|origin| origin.served))
    }

    /// A peer has shown a valid grant.
    pub fn let_in(&mut self, from: Option<IpAddr>) {
        self.origin(Instant::now(), from).was_let_in = true;
    }

    fn origin(&mut self, now: Instant, from: Option<IpAddr>) -> &mut Origin {
        let from = from.map(|from| from.to_canonical());
        self.forget_one(from);
        let own = || Allowance::full(now, EACH_PER_S, EACH_AT_ONCE);
        self.origins.entry(from).or_insert_with(|| Origin { own: own(), was_let_in: false, served: None })
    }

    fn forget_one(&mut self, newcomer: Option<IpAddr>) {
        if self.origins.len() >= ORIGINS_MAX && !self.origins.contains_key(&newcomer) {
            let oldest = self.origins.iter().min_by_key(|(_, origin)| (origin.was_let_in, origin.own.at));
            if let Some(oldest) = oldest.map(|(from, _)| *from) {
                self.origins.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u16) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, (host >> 8) as u8, host as u8]))
    }

    /// How many handshakes begin of those that are asked for at once.
    fn begun(doorman: &mut Doorman, now: Instant, hosts: impl Iterator<Item = u16>) -> usize {
        hosts.filter(|&host| doorman.admit(now, from(host)).is_ok()).count()
    }

    #[test]
    fn one_address_gets_as_many_as_a_gateway_needs_and_then_few() {
        let (mut doorman, start) = (Doorman::default(), Instant::now());
        assert_eq!(begun(&mut doorman, start, std::iter::repeat_n(1, 100)), EACH_AT_ONCE as usize);
        let wait = doorman.admit(start, from(1)).unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs_f64(1.0 / EACH_PER_S), "{wait:?}");
        assert!(doorman.admit(start + wait + Duration::from_millis(1), from(1)).is_ok());
        let later = start + Duration::from_secs(10);
        assert_eq!(begun(&mut doorman, later, std::iter::repeat_n(1, 100)), EACH_AT_ONCE as usize);
    }

    #[test]
    fn strangers_share_theirs_and_known_addresses_do_not_wait_for_them() {
        let (mut doorman, start) = (Doorman::default(), Instant::now());
        assert!(doorman.admit(start, from(1)).is_ok());
        doorman.let_in(from(1));
        let strangers = begun(&mut doorman, start, 2..2000);
        assert_eq!(strangers, STRANGERS_AT_ONCE as usize - 1);
        assert!(doorman.turn_of(from(1)) < doorman.turn_of(from(5000)), "and it comes first");
        assert!(doorman.admit(start, from(1)).is_ok(), "and it is remembered among so many");
        assert!(doorman.origins.len() <= ORIGINS_MAX);
        let later = start + Duration::from_secs(1);
        assert_eq!(begun(&mut doorman, later, 3000..4000), STRANGERS_PER_S as usize);
    }

    #[test]
    fn who_was_let_in_before_a_restart_does_not_wait_for_strangers() {
        let (mut doorman, start) = (Doorman::knowing(from(1).into_iter()), Instant::now());
        begun(&mut doorman, start, 2..2000);
        assert!(doorman.turn_of(from(1)) < doorman.turn_of(from(5000)));
        assert!(doorman.admit(start, from(1)).is_ok());
        assert!(Doorman::default().turn_of(from(1)).0, "a stranger else");
    }

    #[test]
    fn who_began_longest_ago_comes_first() {
        let (mut doorman, start) = (Doorman::default(), Instant::now());
        let after = |ms: u64| start + Duration::from_millis(ms);
        for (host, ms) in [(1, 0), (2, 1), (1, 2)] {
            assert!(doorman.admit(after(ms), from(host)).is_ok());
        }
        let mut hosts = [1, 2, 3];
        hosts.sort_by_key(|&host| doorman.turn_of(from(host)));
        assert_eq!(hosts, [3, 2, 1]);
        doorman.let_in(from(1));
        hosts.sort_by_key(|&host| doorman.turn_of(from(host)));
        assert_eq!(hosts, [1, 3, 2]);
    }
}
