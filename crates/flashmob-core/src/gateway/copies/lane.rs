//! The lane: how much work that no client waits for is done beside clients' requests.
//!
//! ```text
//!  a request is answered ─▶ received while no work was under way ─▶ how long requests take in quiet times         (usual.rs)
//!                        ─▶ received beside work                 ─▶ late: less work under way, else more         (felt.rs)
//!  a piece of work       ─▶ may_start: now, or when to ask again ─▶ ended
//! ```
//!
//! The bytes under way are limited, not those in a second: a piece that takes longer because clients do more holds up the next one at once. Each
//! volume has a window for its clients' reads and changes, and one for their flushes; the smallest of those in use counts. A window below the
//! smallest piece means a pause after each. Without requests of clients there is no limit.
//!
//! Work rests now and then, to measure a quiet time again. Ranges that a scrub hashes are no work in this sense: they have their own limit
//! ([`super::scrub`]), and go on for days.

use std::time::Duration;

use super::felt::Felt;
use crate::op::Op;
use crate::units::{KIB, Time};

/// The least speed, whatever the latency of clients: a rebuild has to end. In bytes copied in a second.
const FLOOR_BYTES_PER_S: f64 = 256.0 * KIB as f64;
/// Limits of a piece, which are multiples of the lower one.
const PIECE_BYTES_MIN: u32 = 4 * KIB as u32;
const PIECE_BYTES_MAX: u32 = 64 * KIB as u32;
/// When to ask again if no piece ends.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// A time is quiet so long after the last piece of work has ended, or so many times what is usual: what had to wait then makes others wait for some
/// time, the longer the more there are.
const SETTLED: Duration = Duration::from_millis(50);
const SETTLED_TIMES: u32 = 8;
/// Requests that come in later than so many times what is usual before a quiet time ends may be answered beside work.
const ANSWERED_TIMES: u32 = 2;
/// How long work rests, once it has settled: so long, or so many times what is usual. Queues of a busy medium live long, and a rest has to see more
/// than one of them.
const REST: Duration = Duration::from_secs(1);
const REST_TIMES: u32 = 30;
const REST_MAX: Duration = Duration::from_secs(2);
/// How often: more often while it is not known what is usual, or nothing but the floor is left, as clients may ask for more than they did; then
/// after so many times the rest at the earliest.
const REST_EVERY: Duration = Duration::from_secs(30);
const REST_OFTEN_EVERY: Duration = Duration::from_secs(4);
const REST_OFTEN_TIMES: u32 = 3;
/// For how long it counts what was under way.
const USED_FOR: Duration = Duration::from_secs(1);

/// The lane of work that nobody waits for, of all volumes of a gateway: they share the air.
#[derive(Debug)]
pub struct Lane {
    /// By volume: reads and changes, and flushes.
    felt: Vec<[Felt; 2]>,
    /// The most bytes that were under way at once: since when, since then, and before.
    used: (Time, u32, u32),
    /// How long a piece takes lately.
    takes: Duration,
    /// Nothing may start before this.
    pause_until: Time,
    /// When a piece of work was last begun or ended, of this lane or of another.
    worked: Time,
    /// How long requests take that are in use.
    usual: Duration,
    /// The last quiet time before that.
    quiet: (Time, Time),
    /// When the present rest ends, and when the next begins.
    rests_until: Time,
    rest_at: Time,
}

impl Lane {
    pub fn new(volumes: usize) -> Lane {
        Lane {
            felt: (0..volumes).map(|_| [Felt::new(), Felt::new()]).collect(),
            used: Default::default(),
            takes: Duration::ZERO,
            pause_until: Time::default(),
            worked: Time::default(),
            usual: Duration::ZERO,
            quiet: Default::default(),
            rests_until: Time::default(),
            rest_at: Time::default(),
        }
    }

    /// Asks whether a piece of work of so many `bytes` may start, while `out_bytes` of the volume's are under way. If so, [`Lane::ended`] is to be
    /// called in the end. If not, it may ask again then, and when a piece has ended.
    pub fn may_start(&mut self, now: Time, out_bytes: u32, bytes: u32) -> Result<(), Time> {
        let all_bytes = out_bytes.saturating_add(bytes);
        if let Some(window) = self.window(now) {
            self.plan_rest(now, window);
            let until = self.rests_until.max(self.pause_until);
            if now < until {
                return Err(until);
            }
            // One piece may be under way in any case.
            if out_bytes > 0 && f64::from(all_bytes) > window {
                return Err(now + ASK_AGAIN);
            }
        }
        self.note_used(now);
        self.used.1 = self.used.1.max(all_bytes);
        self.works(now);
        Ok(())
    }

    /// A piece of work that was begun then has ended.
    pub fn ended(&mut self, now: Time, begun: Time) {
        self.works(now);
        self.takes = (7 * self.takes + (now - begun)) / 8;
        let piece = f64::from(PIECE_BYTES_MIN);
        if let Some(window) = self.window(now).filter(|window| *window < piece) {
            self.pause_until = now + (now - begun).mul_f64(piece / window - 1.0);
        }
    }

    /// How many bytes a piece should have at most.
    pub fn piece_bytes(&self, now: Time) -> u32 {
        let window = self.window(now).map_or(PIECE_BYTES_MAX, |window| window as u32);
        (window / PIECE_BYTES_MIN * PIECE_BYTES_MIN).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// A piece of work that clients may feel begins or ends, in this lane or beside it.
    pub fn works(&mut self, now: Time) {
        let since = self.worked + self.settles();
        if now > since {
            self.quiet = (since, now);
        }
        self.worked = self.worked.max(now);
    }

    /// A client's request was answered.
    pub fn answered(&mut self, now: Time, volume: usize, op: Op, received: Time) {
        let kind = match op {
            Op::Read | Op::Write | Op::Trim | Op::WriteZeroes => 0,
            Op::Flush => 1,
            Op::Map | Op::Digest => return,
        };
        let is_quiet = self.was_quiet(received);
        self.note_used(now);
        let used_bytes = self.used.1.max(self.used.2);
        debug_assert!(volume < self.felt.len(), "it knows all volumes");
        let Some(felt) = self.felt.get_mut(volume).map(|kinds| &mut kinds[kind]) else { return };
        felt.note(now);
        match is_quiet {
            Some(true) => felt.usual.note(now, now - received),
            Some(false) => felt.answered(now - received, used_bytes),
            None => {}
        }
    }

    /// Whether no work was under way from when a request came in until it was answered, usually; `None` if it may have begun meanwhile.
    fn was_quiet(&self, received: Time) -> Option<bool> {
        let since = self.worked + self.settles();
        let (from, to) = self.quiet;
        if received >= since {
            let ends_soon = self.rests_until > self.worked && received + ANSWERED_TIMES * self.usual > self.rests_until;
            return (!ends_soon).then_some(true);
        }
        if received >= from && received < to {
            return (received + ANSWERED_TIMES * self.usual <= to).then_some(true);
        }
        Some(false)
    }

    fn note_used(&mut self, now: Time) {
        let (since, most, _) = self.used;
        if now - since >= 2 * USED_FOR {
            self.used = (now, 0, 0);
        } else if now - since >= USED_FOR {
            self.used = (now, 0, most);
        }
    }

    /// How many bytes may be under way beside clients; `None` if there are none.
    fn window(&self, now: Time) -> Option<f64> {
        let in_use = self.felt.iter().flatten().filter(|felt| felt.is_in_use(now));
        Some(in_use.map(|felt| felt.window).reduce(f64::min)?.max(self.floor()))
    }

    /// How long it takes until it is quiet.
    fn settles(&self) -> Duration {
        SETTLED.max(SETTLED_TIMES * self.usual)
    }

    /// The window that keeps up the least speed.
    fn floor(&self) -> f64 {
        FLOOR_BYTES_PER_S * self.takes.as_secs_f64()
    }

    fn plan_rest(&mut self, now: Time, window: f64) {
        let in_use = self.felt.iter().flatten().filter(|felt| felt.is_in_use(now));
        let usual: Vec<Option<Duration>> = in_use.map(|felt| felt.usual.time()).collect();
        let are_known = usual.iter().all(Option::is_some);
        self.usual = usual.into_iter().flatten().max().unwrap_or_default();
        let rest = REST.max(REST_TIMES * self.usual).min(REST_MAX);
        let is_often = !are_known || window <= self.floor();
        let every = if is_often { REST_OFTEN_EVERY.max(REST_OFTEN_TIMES * rest) } else { REST_EVERY };
        if now - self.worked > REST {
            // It was quiet long enough.
            self.rest_at = now + every;
        } else if now >= self.rest_at.min(self.rests_until + every) && now >= self.rests_until {
            self.rests_until = now + self.settles() + rest + ANSWERED_TIMES * self.usual;
            self.rest_at = self.rests_until + every;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::testing::{at, ms};

    const KIB4: u32 = PIECE_BYTES_MIN;

    /// A client reads, each 10 ms, and is answered after 5 ms.
    fn read(lane: &mut Lane, from: u64, to: u64) {
        (from..to).step_by(10).for_each(|n| lane.answered(at(n + 5), 0, Op::Read, at(n)));
    }

    #[test]
    fn without_clients_nothing_is_limited() {
        let mut lane = Lane::new(1);
        for n in 0..100_000 {
            assert_eq!(lane.may_start(at(n), 1 << 20, 1 << 20), Ok(()));
            lane.ended(at(n), at(n));
        }
        assert_eq!(lane.piece_bytes(at(100_000)), PIECE_BYTES_MAX);
    }

    #[test]
    fn beside_clients_as_much_may_be_under_way_as_the_window_has() {
        let mut lane = Lane::new(1);
        read(&mut lane, 0, 2000);
        let now = at(2000);
        assert_eq!(lane.piece_bytes(now), 4 * KIB4);
        assert_eq!(lane.may_start(now, 0, 1 << 20), Ok(()), "one may be in any case");
        assert_eq!(lane.may_start(now, 2 * KIB4, 2 * KIB4), Ok(()));
        assert_eq!(lane.may_start(now, 2 * KIB4, 2 * KIB4 + 1), Err(now + ASK_AGAIN));
        assert_eq!(lane.may_start(at(3006), 1 << 20, 1 << 20), Ok(()), "they are gone");
    }

    #[test]
    fn the_smallest_window_of_those_in_use_counts() {
        let mut lane = Lane::new(2);
        read(&mut lane, 0, 1000);
        lane.answered(at(1000), 1, Op::Flush, at(995));
        lane.felt[0][0].window = f64::from(9 * KIB4);
        lane.felt[1][1].window = f64::from(2 * KIB4);
        assert_eq!(lane.piece_bytes(at(1000)), 2 * KIB4);
        read(&mut lane, 1000, 2010);
        assert_eq!(lane.piece_bytes(at(2010)), 9 * KIB4, "nobody flushes any more");
        lane.answered(at(2010), 1, Op::Map, at(2000));
        assert_eq!(lane.piece_bytes(at(2010)), 9 * KIB4);
    }

    #[test]
    fn below_the_smallest_piece_there_is_a_pause_after_each_but_a_least_speed_is_kept() {
        let mut lane = Lane::new(1);
        read(&mut lane, 0, 1000);
        lane.felt[0][0].window = 1024.0;
        assert_eq!((lane.piece_bytes(at(1000)), lane.may_start(at(1000), 0, KIB4)), (KIB4, Ok(())));
        lane.ended(at(1002), at(1000));
        assert_eq!(lane.may_start(at(1002), 0, KIB4), Err(at(1008)), "a quarter of the time");
        assert_eq!(lane.may_start(at(1008), 0, KIB4), Ok(()));
        lane.takes = ms(125);
        assert_eq!(lane.piece_bytes(at(1008)), 8 * KIB4, "256 KiB in a second");
    }

    #[test]
    fn work_rests_to_see_what_is_usual() {
        let mut lane = Lane::new(1);
        read(&mut lane, 0, 2000);
        let (mut rests, mut started) = (Vec::new(), 0);
        for n in (2000..100_000).step_by(10) {
            lane.answered(at(n + 5), 0, Op::Read, at(n));
            match lane.may_start(at(n + 6), 0, KIB4) {
                Ok(()) => started += 1,
                Err(until) if rests.last() != Some(&until) => rests.push(until),
                Err(_) => {}
            }
        }
        assert_eq!(rests.len(), 3, "{rests:?}");
        assert!(started > 9_000, "{started}");
        let quiet = rests[0] + ms(1);
        assert_eq!(lane.limits(quiet), (true, false));
    }

    impl Lane {
        /// Whether it is known what is usual, and whether a request that came in then counts as one of a quiet time.
        fn limits(&self, received: Time) -> (bool, bool) {
            (self.felt[0][0].usual.time().is_some(), self.was_quiet(received) == Some(true))
        }
    }

    #[test]
    fn only_requests_of_quiet_times_tell_what_is_usual() {
        let mut lane = Lane::new(1);
        lane.usual = ms(20);
        lane.works(at(1000));
        for (received, is_quiet) in
            [(960, Some(true)), (961, None), (1000, Some(false)), (1159, Some(false)), (1160, Some(true))]
        {
            assert_eq!(lane.was_quiet(at(received)), is_quiet, "{received}");
        }
        lane.works(at(2000));
        let expected = [(1159, Some(false)), (1160, Some(true)), (1960, Some(true)), (1961, None), (2000, Some(false))];
        for (received, is_quiet) in expected {
            assert_eq!(lane.was_quiet(at(received)), is_quiet, "{received}, and work began again");
        }
        lane.rests_until = at(3000);
        for (received, is_quiet) in [(2160, Some(true)), (2960, Some(true)), (2961, None), (3200, None)] {
            assert_eq!(lane.was_quiet(at(received)), is_quiet, "{received}, in a rest");
        }
    }
}
