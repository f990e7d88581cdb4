//! How much of a turn and of a batch one client may use beside a modest one.
//!
//! A client with many requests outstanding waits for its own anyway, and large batches are cheap, so nothing is bounded among equals.
//! A *modest* client, with few requests outstanding, waits for those of others in the same turn and in the batches before its own. So
//! while there is one, turns and batches are kept small, and beside a greedy client it is attended to between the parts of a turn.

use std::time::Duration;

use super::clients::ClientId;
use super::pace::Shortest;
use super::queue::BatchLimits;
use crate::planted::{self, Bug};
use crate::units::Time;

/// What one client may bring in one turn, for which others wait; about the size of a small processor's caches.
const PART: Part = Part { requests: 128, bytes: 512 * 1024 };
/// The same beside a modest client.
const PART_BESIDE_MODEST: Part = Part { requests: 64, bytes: 256 * 1024 };
/// The limits of a batch beside a modest client, for each [`SHORT_WAY`] of the round trip: on a long way a client waits for the round
/// trip, and a few small batches would leave the link empty.
const SHORT_WAY: Duration = Duration::from_micros(250);
const BATCH_BESIDE_MODEST: BatchLimits = BatchLimits { pieces: 32, bytes: 128 * 1024 };
/// A round trip longer than this is not wired: on Wi-Fi a frame costs about as much as a hundred small answers.
const WAY_OF_DEAR_FRAMES: Duration = Duration::from_micros(150);
/// A lane's turn in a node's queue. Among equals it is long, so that answers for one client come together, with fewer writes and
/// wake-ups.
const LANE_TURN: BatchLimits = BatchLimits { pieces: 128, bytes: 512 * 1024 };
const LANE_TURN_BESIDE_MODEST: BatchLimits = BatchLimits { pieces: 8, bytes: 32 * 1024 };
/// The most that a modest client has outstanding: requests, and the memory that they hold.
const MODEST_REQUESTS: u64 = 8;
const MODEST_BYTES: u64 = 256 * 1024;
/// Limits of the time that a link with a batch out waits for another to gather; the last where frames are expensive.
const HOLD_MIN: Duration = Duration::from_millis(1);
const HOLD_MAX: Duration = Duration::from_millis(10);
const HOLD_DEAR_MAX: Duration = Duration::from_millis(50);
/// The shortest round trip is that of the current and the previous period of this length.
const WAY_FOR: Duration = Duration::from_secs(5);
/// How long a client's last demand counts: some round trips.
const LATELY: Duration = Duration::from_millis(10);
/// Of how long a client's peak is, and the one before.
const PEAK_OF: Duration = Duration::from_secs(1);
/// How long a client that makes a request now and then counts as being there: others keep their parts of a turn and their batches small
/// for it. A person who waits for each answer asks that often.
const THERE_FOR: Duration = Duration::from_secs(1);

/// What one client may bring in one turn, which ends with the request that reaches either limit.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub requests: u64,
    pub bytes: u64,
}

/// Requests outstanding at once, and the memory that they hold.
#[derive(Debug, Clone, Copy, Default)]
struct Most {
    requests: u64,
    bytes: u64,
}

/// The most that a client had outstanding in the current and the previous period, so that a client of many requests does not look
/// modest when it has just been answered.
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

    pub fn is_modest(&self) -> bool {
        let is_little = |most: Most| most.requests <= MODEST_REQUESTS && most.bytes <= MODEST_BYTES;
        is_little(self.most) && is_little(self.before)
    }
}

/// The most requests that a client had outstanding in the current and the previous second. A moment tells little: among equals one may
/// just have been answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peak {
    most: u64,
    before: u64,
    since: Time,
}

impl Peak {
    #[inline]
    pub fn note(&mut self, now: Time, requests: u64) {
        if now - self.since >= PEAK_OF {
            let before = if now - self.since < 2 * PEAK_OF { self.most } else { 0 };
            *self = Peak { most: 0, before, since: now };
        }
        self.most = self.most.max(requests);
    }

    /// 0 if it has made no request for as long.
    pub fn get(&self, now: Time) -> u64 {
        if now - self.since < 2 * PEAK_OF { self.most.max(self.before) } else { 0 }
    }
}

/// The round trip to a node without load: the shortest of some seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way {
    shortest: Shortest,
    /// How long recent batches took to be answered, smoothed.
    batch_took: Duration,
}

impl Way {
    /// An answer came after `took`, without the time at the node.
    pub fn note(&mut self, now: Time, took: Duration) {
        self.shortest.note(now, took, WAY_FOR);
    }

    /// A batch is answered, after `took`.
    pub fn note_batch(&mut self, took: Duration) {
        self.batch_took = (7 * self.batch_took + took) / 8;
    }

    /// Whether frames are so expensive that waiting for more pieces pays.
    pub fn has_dear_frames(&self) -> bool {
        self.shortest() > WAY_OF_DEAR_FRAMES
    }

    /// How long a busy link may wait for more pieces: twice the round trip, within limits; where frames are expensive, half of the time
    /// that the batch that is out will take, as the node has work until then.
    pub fn hold_time(&self) -> Duration {
        let by_way = (2 * self.shortest()).clamp(HOLD_MIN, HOLD_MAX);
        if self.has_dear_frames() { (self.batch_took / 2).clamp(by_way, HOLD_DEAR_MAX) } else { by_way }
    }

    /// The shortest of some seconds; zero if none is known.
    pub fn shortest(&self) -> Duration {
        self.shortest.get()
    }
}

/// The last modest client, and the last one that is not, and when they were seen: never the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modest {
    last: Option<(ClientId, Time)>,
    other: Option<(ClientId, Time)>,
}

impl Modest {
    /// A client's demand has changed.
    pub fn note(&mut self, now: Time, id: ClientId, demand: Demand) {
        if demand.is_modest() {
            self.last = Some((id, now));
            self.other.take_if(|(other, _)| *other == id);
            return;
        }
        self.other = Some((id, now));
        if self.last.is_some_and(|(last, _)| last == id) {
            self.last = None;
        }
    }

    /// This client's part of the turn.
    pub fn part_of_turn(&self, now: Time, id: ClientId) -> Part {
        if planted::is(Bug::FairnessOff) {
            return Part { requests: u64::MAX, bytes: u64::MAX };
        }
        if self.is_beside(now, id) { PART_BESIDE_MODEST } else { PART }
    }

    /// A lane's turn now.
    pub fn lane_turn(&self, now: Time) -> BatchLimits {
        if self.is_there(now) { LANE_TURN_BESIDE_MODEST } else { LANE_TURN }
    }

    /// The limits of a batch on this way now; `limits` are those without a modest client.
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
        self.last.is_some_and(|(_, at)| now - at < THERE_FOR) && !planted::is(Bug::FairnessOff)
    }

    /// Whether there is one beside another that is not: then turns are divided.
    pub fn divides_turns(&self, now: Time) -> bool {
        self.is_there(now) && self.is_another_there(now)
    }

    /// Whether the reads of a client with this demand go before those of others: it is modest, with what it has in hand as well, and another is
    /// not.
    #[inline]
    pub fn is_urgent(&self, now: Time, demand: &Demand, (requests, bytes): (u64, u64)) -> bool {
        let is_little = requests <= MODEST_REQUESTS && bytes <= MODEST_BYTES;
        is_little && demand.is_modest() && self.is_another_there(now) && !planted::is(Bug::FairnessOff)
    }

    /// Whether one that is not modest is there.
    fn is_another_there(&self, now: Time) -> bool {
        self.other.is_some_and(|(_, at)| now - at < THERE_FOR)
    }

    fn is_beside(&self, now: Time, id: ClientId) -> bool {
        self.last.is_some_and(|(last, at)| last != id && now - at < THERE_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::testing::at;

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
        let modest = Modest { last: Some((ClientId { index: 1, serial: 1 }, at(0))), other: None };
        assert!(modest.is_there(at(999)) && !modest.is_there(at(1000)));
        assert!(modest.is_beside(at(1), ClientId { index: 1, serial: 2 }));
        assert!(!modest.is_beside(at(1), ClientId { index: 1, serial: 1 }));
    }

    #[test]
    fn a_peak_lasts_for_the_second_after_it() {
        let mut peak = Peak::default();
        peak.note(at(5_000), 64);
        peak.note(at(5_999), 1);
        assert_eq!((peak.get(at(5_999)), peak.get(at(6_999)), peak.get(at(7_000))), (64, 64, 0), "then nobody asks");
        peak.note(at(6_000), 2);
        assert_eq!(peak.get(at(6_999)), 64);
        peak.note(at(7_000), 3);
        assert_eq!(peak.get(at(7_000)), 3);
        peak.note(at(9_000), 1);
        assert_eq!(peak.get(at(9_000)), 1, "what was long before counts no more");
    }

    #[test]
    fn a_client_is_not_beside_itself() {
        let [much, little] = [64, 1].map(|requests| {
            let mut demand = Demand::default();
            demand.note(at(0), requests, 4096);
            demand
        });
        let (one, another) = (ClientId { index: 1, serial: 1 }, ClientId { index: 2, serial: 2 });
        let mut modest = Modest::default();
        modest.note(at(0), one, much);
        assert!(!modest.divides_turns(at(0)), "nobody is modest");
        modest.note(at(30), one, little);
        assert!(!modest.divides_turns(at(30)) && !modest.is_urgent(at(30), &little, (1, 4096)), "it has no other");
        modest.note(at(40), another, much);
        assert!(modest.divides_turns(at(40)) && modest.is_urgent(at(40), &little, (1, 4096)));
        assert!(!modest.is_urgent(at(40), &much, (1, 4096)) && !modest.is_urgent(at(40), &little, (9, 4096)));
        assert!(modest.is_urgent(at(1039), &little, (8, 256 * 1024)) && !modest.is_urgent(at(1040), &little, (1, 1)));
        modest.note(at(50), one, much);
        assert!(!modest.divides_turns(at(50)), "both have asked for much");
    }
}
