//! How often a handshake may begin: one costs a small board some milliseconds, and anybody may ask for it.
//!
//! Each address may begin [`EACH_PER_S`] a second, and [`EACH_AT_ONCE`] at once; IPv6 counts by /64, but an address that was let in counts alone, for in most
//! networks all devices have one /64. All that were not let in lately may begin [`STRANGERS_PER_S`] together, in [`STRANGERS_PART`] of a processor's time, so
//! that strangers do not keep known gateways waiting, nor those that are linked. Of those that wait, known ones come first, then those that have waited longest: who takes a new
//! address for each connection gains nothing by it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use flashmob_core::strangers::origin;

/// Handshakes that one address may begin in a second, and at once.
const EACH_PER_S: f64 = 8.0;
const EACH_AT_ONCE: f64 = 64.0;
/// Handshakes of all addresses together that were not let in lately. More than a laptop easily makes addresses for, as who is one among them gets in only if all do.
const STRANGERS_PER_S: f64 = 256.0;
const STRANGERS_AT_ONCE: f64 = 64.0;
/// The part of one processor that these handshakes may take: on a small board it is the limit.
const STRANGERS_PART: f64 = 0.25;
/// A wait is never so short that it is over at once.
const WAIT_MIN: Duration = Duration::from_micros(100);
/// Most addresses that are remembered; the one that came longest ago is forgotten first, one that was let in last.
const ORIGINS_MAX: usize = 1024;

/// An allowance, some of which comes back with time.
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

    /// How long it takes until there is as much as `wanted`; none if there is now.
    fn wait(&mut self, now: Instant, wanted: f64) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_s).min(self.most);
        self.at = now.max(self.at);
        (self.left < wanted).then(|| Duration::from_secs_f64((wanted - self.left) / self.per_s))
    }
}

#[derive(Debug)]
struct Origin {
    own: Allowance,
    was_let_in: bool,
}

/// The allowances that all strangers share: handshakes, and seconds of a processor's time.
#[derive(Debug)]
struct Strangers {
    handshakes: Allowance,
    time_s: Allowance,
}

impl Strangers {
    fn full(now: Instant) -> Strangers {
        Strangers {
            handshakes: Allowance::full(now, STRANGERS_PER_S, STRANGERS_AT_ONCE),
            time_s: Allowance::full(now, STRANGERS_PART, STRANGERS_PART),
        }
    }
}

/// Who may begin a handshake.
#[derive(Debug, Default)]
pub struct Doorman {
    /// By the whole address if that was let in, else by [`origin`].
    origins: HashMap<Option<IpAddr>, Origin>,
    strangers: Option<Strangers>,
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
        let key = self.key_of(from);
        let entry = self.entry(now, key);
        if let Some(wait) = entry.own.wait(now, 1.0) {
            return Err(wait);
        }
        if !entry.was_let_in {
            let strangers = self.strangers.get_or_insert_with(|| Strangers::full(now));
            let waits = [strangers.handshakes.wait(now, 1.0), strangers.time_s.wait(now, f64::MIN_POSITIVE)];
            if let Some(wait) = waits.into_iter().flatten().max() {
                return Err(wait.max(WAIT_MIN));
            }
            strangers.handshakes.left -= 1.0;
        }
        self.entry(now, key).own.left -= 1.0;
        Ok(())
    }

    /// The handshake of this peer took so much of a processor's time.
    pub fn took(&mut self, from: Option<IpAddr>, time: Duration) {
        if let Some(strangers) =
            self.strangers.as_mut().filter(|_| !self.origins.get(&whole(from)).is_some_and(|known| known.was_let_in))
        {
            strangers.time_s.left -= time.as_secs_f64();
        }
    }

    /// Whether somebody at this address was let in lately.
    #[must_use]
    pub fn was_let_in(&self, from: Option<IpAddr>) -> bool {
        self.origins.get(&whole(from)).is_some_and(|origin| origin.was_let_in)
    }

    /// The order in which those that wait are asked: by who they are, then since when they wait.
    #[must_use]
    pub fn turn_of(&self, from: Option<IpAddr>, since: Instant) -> (bool, Instant) {
        (!self.was_let_in(from), since)
    }

    /// A peer has shown a valid grant.
    pub fn let_in(&mut self, from: Option<IpAddr>) {
        self.entry(Instant::now(), whole(from)).was_let_in = true;
    }

    fn key_of(&self, from: Option<IpAddr>) -> Option<IpAddr> {
        if self.was_let_in(from) { whole(from) } else { origin(from) }
    }

    fn entry(&mut self, now: Instant, key: Option<IpAddr>) -> &mut Origin {
        self.forget_one(key);
        let own = || Allowance::full(now, EACH_PER_S, EACH_AT_ONCE);
        self.origins.entry(key).or_insert_with(|| Origin { own: own(), was_let_in: false })
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

fn whole(from: Option<IpAddr>) -> Option<IpAddr> {
    from.map(|from| from.to_canonical())
}

/// The processor's time that this thread has used, for [`Doorman::took`]: being kept waiting by others is no cost of a handshake.
#[must_use]
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
#[path = "tests/doorman.rs"]
mod tests;
