//! How much of the time scrubs may take: the one place that knows it.
//!
//! A range takes as long as its slowest copy needs, which is longer where clients keep a node busy. After it, its slot rests for a multiple of that
//! time. So the share of scrubs is bounded on any device, and they give way by themselves.

use std::time::Duration;

use crate::units::Time;

/// Ranges that are out at once.
pub const SLOTS: usize = 2;
/// While clients use the volume, a slot rests so many times as long as it works: both together have 4 % of the time.
const REST_BUSY: u32 = 49;
/// Clients count as using the volume for so long after a request.
const BUSY_FOR: Duration = Duration::from_secs(1);

/// The slots: when each is free, while no range has it.
#[derive(Debug, Default)]
pub struct Throttle {
    free_at: [Time; SLOTS],
    is_taken: [bool; SLOTS],
}

impl Throttle {
    /// Takes a slot that has rested. `Err`: when one will have, if any is not taken.
    pub fn take(&mut self, now: Time) -> Result<usize, Option<Time>> {
        let free = || (0..SLOTS).filter(|&slot| !self.is_taken[slot]);
        match free().find(|&slot| now >= self.free_at[slot]) {
            Some(slot) => {
                self.is_taken[slot] = true;
                Ok(slot)
            }
            None => Err(free().map(|slot| self.free_at[slot]).min()),
        }
    }

    /// The range that has a slot is over, and was out since `sent`. Clients made their last request at `used`. Nobody waits for the scrub
    /// if it is not `wanted`: then it takes half of the time at most, so that devices stay cool.
    pub fn give_back(&mut self, now: Time, slot: usize, sent: Time, used: Option<Time>, is_wanted: bool) {
        let is_busy = used.is_some_and(|used| now - used < BUSY_FOR);
        let rest = match (is_busy, is_wanted) {
            (true, _) => REST_BUSY,
            (false, false) => 1,
            (false, true) => 0,
        };
        self.is_taken[slot] = false;
        self.free_at[slot] = now + (now - sent) * rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(10_000 + ms)
    }

    #[test]
    fn two_ranges_are_out_at_most() {
        let mut throttle = Throttle::default();
        assert_eq!([throttle.take(at(0)), throttle.take(at(0)), throttle.take(at(0))], [Ok(0), Ok(1), Err(None)]);
        throttle.give_back(at(10), 1, at(0), None, true);
        assert_eq!([throttle.take(at(10)), throttle.take(at(10))], [Ok(1), Err(None)]);
    }

    #[test]
    fn a_slot_rests_longer_while_clients_are_there() {
        for (used, is_wanted, rests_ms) in [
            (Some(at(0)), true, 490),
            (Some(at(0)), false, 490),
            (Some(Time(at(10).0 - BUSY_FOR.as_nanos() as u64)), true, 0),
            (None, true, 0),
            (None, false, 10),
        ] {
            let mut throttle = Throttle::default();
            assert_eq!((throttle.take(at(0)), throttle.take(at(0))), (Ok(0), Ok(1)));
            throttle.give_back(at(10), 0, at(0), used, is_wanted);
            if rests_ms > 0 {
                assert_eq!(throttle.take(at(9 + rests_ms)), Err(Some(at(10 + rests_ms))), "{used:?}, {is_wanted}");
            }
            assert_eq!(throttle.take(at(10 + rests_ms)), Ok(0), "{used:?}, {is_wanted}");
        }
    }

    #[test]
    fn all_ranges_together_have_a_twenty_fifth_of_a_busy_time() {
        let mut throttle = Throttle::default();
        let (mut out, mut worked_ms) = ([None; SLOTS], 0);
        for ms in 0..100_000 {
            for (slot, out) in out.iter_mut().enumerate() {
                if let Some(sent) = out.take_if(|sent: &mut Time| at(ms) - *sent >= Duration::from_millis(7)) {
                    worked_ms += 7;
                    throttle.give_back(at(ms), slot, sent, Some(at(ms)), true);
                }
            }
            if let Ok(slot) = throttle.take(at(ms)) {
                out[slot] = Some(at(ms));
            }
        }
        assert!((3_500..=4_500).contains(&worked_ms), "{worked_ms} of 100,000 ms");
    }
}
