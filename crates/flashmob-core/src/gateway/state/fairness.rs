//! How much of a turn and of a batch one client may have, while another asks for little.
//!
//! Whoever asks for much waits for its own requests anyway, and large batches are cheap: among equals nothing is
//! bounded further. A client with few requests outstanding waits for what others have in the same turn and in the batches
//! before its own. So while such a client is there, those are kept small.

use std::time::Duration;

use super::clients::ClientId;
use super::queue::BatchLimits;
use crate::planted::{self, Bug};
use crate::units::Time;

/// What is taken of one client in one turn: what others wait for at most, and about what the caches of a small
/// processor hold.
const PART: Part = Part { requests: 128, bytes: 512 * 1024 };
/// The same while another client asks for little.
const PART_BESIDE_MODEST: Part = Part { requests: 64, bytes: 256 * 1024 };
/// The most in a batch meanwhile, where the way to the node and back takes next to nothing. On a longer way a batch
/// may hold as much for each of these times: there the way is what a client waits for, and few small batches at a
/// time would leave it empty.
const SHORT_WAY: Duration = Duration::from_micros(250);
const BATCH_BESIDE_MODEST: BatchLimits = BatchLimits { pieces: 32, bytes: 128 * 1024 };
/// A longer way than this, two kernels and a switch do not take: there is air between, where a frame costs about as much as a hundred
/// small answers.
const WAY_OF_DEAR_FRAMES: Duration = Duration::from_micros(150);
/// What a lane of a node's queue gives in one turn. Among equals it is long: then answers for one client come together, and
/// cost fewer writes and wake-ups.
const LANE_TURN: BatchLimits = BatchLimits { pieces: 128, bytes: 512 * 1024 };
const LANE_TURN_BESIDE_MODEST: BatchLimits = BatchLimits { pieces: 8, bytes: 32 * 1024 };
/// A client that never has more than this outstanding asks for little: requests, and what they hold of the memory.
const MODEST_REQUESTS: u64 = 8;
const MODEST_BYTES: u64 = 256 * 1024;
/// The shortest and the longest time that a link with a batch out waits for another to gather.
const HOLD_MIN: Duration = Duration::from_millis(1);
const HOLD_MAX: Duration = Duration::from_millis(10);
const HOLD_DEAR_MAX: Duration = Duration::from_millis(50);
/// For how long the shortest way is remembered, and as long again.
const WAY_FOR: Duration = Duration::from_secs(5);
/// How long a client counts as what it was last: some round trips.
const LATELY: Duration = Duration::from_millis(10);

/// What one client may bring in one turn; it ends with the request that reaches either.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub requests: u64,
    pub bytes: u64,
}

/// Requests outstanding at once, and what they hold of the memory.
#[derive(Debug, Clone, Copy, Default)]
struct Most {
    requests: u64,
    bytes: u64,
}

/// The most that a client asked for at once, lately: in this while and in the one before, so that a client of many
/// requests does not look modest in the moment in which it has just been answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Demand {
    most: Most,
    before: Most,
    since: Time,
}

impl Demand {
    pub fn note(&mut self, now: Time, requests: u64, bytes: u64) {
        if now - self.since >= LATELY {
            *self = Demand { most: Most::default(), before: self.most, since: now };
        }
        self.most = Most { requests: self.most.requests.max(requests), bytes: self.most.bytes.max(bytes) };
    }

    fn is_modest(&self) -> bool {
        let is_little = |most: Most| most.requests <= MODEST_REQUESTS && most.bytes <= MODEST_BYTES;
        is_little(self.most) && is_little(self.before)
    }
}

/// How long the way to a node and back takes when nothing holds an answer up: the shortest of some seconds. Of what is
/// longer nobody can tell whether it was the way or the load.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way {
    shortest: Option<Duration>,
    before: Option<Duration>,
    since: Time,
    /// How long batches lately took until all was answered, smoothed.
    batch_took: Duration,
}

impl Way {
    /// An answer came after `took`, the time at the node not counted.
    pub fn note(&mut self, now: Time, took: Duration) {
        if now - self.since >= WAY_FOR {
            (self.shortest, self.before, self.since) = (None, self.shortest, now);
        }
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
    }

    /// A batch is answered, after `took`.
    pub fn note_batch(&mut self, took: Duration) {
        self.batch_took = (7 * self.batch_took + took) / 8;
    }

    /// Whether a frame costs so much that it pays to wait for more.
    pub fn has_dear_frames(&self) -> bool {
        self.shortest() > WAY_OF_DEAR_FRAMES
    }

    /// How long a link that is busy may wait for more to gather: twice the way, within bounds. Where frames are dear a part of
    /// what the batch that is out will take: the node has work until then.
    pub fn hold_time(&self) -> Duration {
        let by_way = (2 * self.shortest()).clamp(HOLD_MIN, HOLD_MAX);
        if self.has_dear_frames() { (self.batch_took / 2).clamp(by_way, HOLD_DEAR_MAX) } else { by_way }
    }

    fn shortest(&self) -> Duration {
        self.shortest.into_iter().chain(self.before).min().unwrap_or_default()
    }
}

/// The client that asked for little last, and when.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modest {
    last: Option<(ClientId, Time)>,
}

impl Modest {
    /// A client's demand has changed.
    pub fn note(&mut self, now: Time, id: ClientId, demand: Demand) {
        if demand.is_modest() {
            self.last = Some((id, now));
        } else if self.last.is_some_and(|(last, _)| last == id) {
            self.last = None;
        }
    }

    /// What this client may bring in this turn.
    pub fn part_of_turn(&self, now: Time, id: ClientId) -> Part {
        if planted::is(Bug::FairnessOff) {
            return Part { requests: u64::MAX, bytes: u64::MAX };
        }
        if self.is_beside(now, id) { PART_BESIDE_MODEST } else { PART }
    }

    /// What a lane gives in one turn now.
    pub fn lane_turn(&self, now: Time) -> BatchLimits {
        if self.is_there(now) { LANE_TURN_BESIDE_MODEST } else { LANE_TURN }
    }

    /// How much a batch on this way may hold now; `limits` is what one ever may.
    pub fn batch_limits(&self, now: Time, limits: BatchLimits, way: &Way) -> BatchLimits {
        if !self.is_there(now) {
            return limits;
        }
        let times = (way.shortest().as_nanos() / SHORT_WAY.as_nanos()).clamp(1, 1 << 20) as usize;
        BatchLimits {
            pieces: limits.pieces.min(BATCH_BESIDE_MODEST.pieces * times),
            bytes: limits.bytes.min(BATCH_BESIDE_MODEST.bytes * times as u64),
        }
    }

    /// Whether there is one.
    pub fn is_there(&self, now: Time) -> bool {
        self.last.is_some_and(|(_, at)| now - at < LATELY) && !planted::is(Bug::FairnessOff)
    }

    fn is_beside(&self, now: Time, id: ClientId) -> bool {
        self.last.is_some_and(|(last, at)| last != id && now - at < LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(1) + Duration::from_millis(ms)
    }

    #[test]
    fn a_client_of_many_requests_is_not_modest_when_it_has_just_been_answered() {
        let mut demand = Demand::default();
        demand.note(at(100), 64, 4096);
        demand.note(at(105), 1, 4096);
        demand.note(at(111), 1, 4096);
        assert!(!demand.is_modest());
        demand.note(at(122), 1, 4096);
        assert!(demand.is_modest(), "it has asked for little long enough");
        demand.note(at(123), 1, 1 << 20);
        assert!(!demand.is_modest(), "few requests, but large ones");
    }

    #[test]
    fn the_shortest_way_of_the_last_seconds_counts() {
        let us = Duration::from_micros;
        let mut way = Way::default();
        assert_eq!(way.shortest(), us(0), "nothing is known");
        assert_eq!(way.hold_time(), HOLD_MIN);
        way.note(at(6_000), us(3_000));
        way.note(at(6_001), us(9_000));
        assert_eq!(way.shortest(), us(3_000));
        way.note(at(11_000), us(5_000));
        assert_eq!(way.shortest(), us(3_000), "still remembered");
        way.note(at(16_000), us(6_000));
        assert_eq!(way.shortest(), us(5_000), "no longer");
        assert_eq!(way.hold_time(), HOLD_MAX);
        way.note(at(16_002), us(700));
        assert_eq!(way.hold_time(), us(1_400));
    }

    #[test]
    fn nobody_is_held_back_for_a_client_that_is_gone_or_for_itself() {
        let modest = Modest { last: Some((ClientId { index: 1, serial: 1 }, at(0))) };
        assert!(modest.is_there(at(9)) && !modest.is_there(at(10)));
        assert!(modest.is_beside(at(1), ClientId { index: 1, serial: 2 }));
        assert!(!modest.is_beside(at(1), ClientId { index: 1, serial: 1 }));
    }
}
