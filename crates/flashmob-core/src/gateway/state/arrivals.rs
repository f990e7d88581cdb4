//! Large writes that have arrived in part. Each holds memory for all of its payload, so that it can be carried out once it is there; but who sends a header and no
//! more must not hold the memory of others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::units::{KIB, Time};

/// All of them together hold so much of the memory: small requests have the rest.
const PART: f64 = 0.5;
/// With the first ones of users that have no other: who has several keeps nobody else's first one out.
const FIRST_PART: f64 = 0.75;
/// The part of one user's, beside the first, if there are other users.
const USER_PART: f64 = 0.25;
/// How long the next byte may take while another one waits.
const SILENCE: Duration = Duration::from_secs(5);
/// Which part of the memory they hold at least, before one of them makes room for what has arrived.
const NOTICED_PART: f64 = 0.25;
/// How long it may take in all while another one waits, beside what its bytes take at the slowest pace.
const PATIENCE: Duration = Duration::from_secs(10);
const BYTES_PER_S_MIN: u64 = 256 * KIB;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub reserved_bytes: u64,
    pub since: Time,
    /// How much of it had come, and when that was first seen.
    pub come_bytes: u64,
    pub come: Time,
}

impl Arrival {
    pub fn new(now: Time, (reserved_bytes, come_bytes): (u64, u64)) -> Arrival {
        Arrival { reserved_bytes, since: now, come_bytes, come: now }
    }

    /// Notes how much has come.
    pub fn note(&mut self, now: Time, come_bytes: u64) {
        if self.come_bytes != come_bytes {
            (self.come_bytes, self.come) = (come_bytes, now);
        }
    }

    /// Whether it has to make room for one that waits. Time before `running` does not count: nothing was read then.
    pub fn is_late(&self, now: Time, running: Time) -> bool {
        let most = PATIENCE + Duration::from_millis(self.reserved_bytes * 1000 / BYTES_PER_S_MIN);
        now - self.come.max(running) >= SILENCE || now - self.since.max(running) >= most
    }
}

/// The memory that they hold.
#[derive(Debug, Default)]
pub struct Arrivals {
    total_bytes: u64,
    of_user: BTreeMap<u64, u64>,
    /// How many clients each user has.
    users: BTreeMap<u64, usize>,
}

impl Arrivals {
    /// A user has one more client.
    pub fn came(&mut self, user: u64) {
        *self.users.entry(user).or_default() += 1;
    }

    /// And one less.
    pub fn left(&mut self, user: u64) {
        let Some(count) = self.users.get_mut(&user) else { return };
        *count -= 1;
        if *count == 0 {
            self.users.remove(&user);
        }
    }

    pub fn begin(&mut self, user: u64, bytes: u64) {
        self.total_bytes += bytes;
        *self.of_user.entry(user).or_default() += bytes;
    }

    pub fn end(&mut self, user: u64, bytes: u64) {
        self.total_bytes -= bytes;
        let Some(held) = self.of_user.get_mut(&user) else { return };
        *held -= bytes;
        if *held == 0 {
            self.of_user.remove(&user);
        }
    }

    /// Whether all of them hold so much of a memory of so many bytes that others may be short of it for them.
    pub fn are_noticed(&self, limit_bytes: u64) -> bool {
        self.total_bytes as f64 > limit_bytes as f64 * NOTICED_PART
    }

    /// How much the next one of a user may hold, of a memory of so many bytes. The first of all is never held back, else it could be too large for ever.
    pub fn room_bytes(&self, user: u64, limit_bytes: u64) -> u64 {
        if self.total_bytes == 0 {
            return u64::MAX;
        }
        let room = |part: f64, held: u64| ((limit_bytes as f64 * part) as u64).saturating_sub(held);
        let are_others = self.users.len() > 1;
        match self.of_user.get(&user) {
            Some(held) if are_others => room(PART, self.total_bytes).min(room(USER_PART, *held)),
            None if are_others => room(FIRST_PART, self.total_bytes),
            _ => room(PART, self.total_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MIB;

    #[test]
    fn half_of_the_memory_is_for_what_has_arrived_and_users_share_the_rest() {
        let mut arrivals = Arrivals::default();
        arrivals.came(1);
        assert_eq!(arrivals.room_bytes(1, 100), u64::MAX, "the first");
        arrivals.begin(1, 10);
        assert_eq!(arrivals.room_bytes(1, 100), 40, "nobody else is there");
        arrivals.came(2);
        assert_eq!((arrivals.room_bytes(1, 100), arrivals.room_bytes(2, 100)), (15, 65));
        arrivals.begin(2, 30);
        assert_eq!((arrivals.room_bytes(1, 100), arrivals.room_bytes(2, 100)), (10, 0));
        arrivals.end(1, 10);
        arrivals.end(2, 30);
        arrivals.left(2);
        assert_eq!((arrivals.room_bytes(1, 100), arrivals.users.len(), arrivals.of_user.len()), (u64::MAX, 1, 0));
    }

    #[test]
    fn one_that_does_not_come_on_is_late() {
        let at = |ms: u64| Time(1) + Duration::from_millis(ms);
        let mut arrival = Arrival::new(at(0), (MIB, 0));
        assert!(!arrival.is_late(at(4999), at(0)) && arrival.is_late(at(5000), at(0)));
        assert!(!arrival.is_late(at(5000), at(1)), "the loop stood still");
        // A byte every four seconds: all of it takes at most 14 seconds.
        for second in 0..14 {
            arrival.note(at(second * 1000), second / 4);
        }
        assert!(!arrival.is_late(at(13_999), at(0)) && arrival.is_late(at(14_000), at(0)));
    }
}
