//! Service times of requests, given the position of the device.

use flashmob_core::planted::{self, Bug};
use flashmob_core::units::Time;

use super::blocks_touched;
use super::profile::{Cost, Profile, Rotation};
use super::request::{Op, Request};
use super::{BLOCK_BYTES, Counters};
use crate::random::Random;

/// The position of a device, and its profile.
#[derive(Clone, Debug)]
pub(super) struct Service {
    profile: Profile,
    /// The block after the last request; `None` before the first one.
    head: Option<u64>,
    /// There were writes since the last flush.
    unflushed: bool,
    random: Random,
}

impl Service {
    pub(super) fn new(profile: Profile, seed: u64) -> Self {
        Service { profile, head: None, unflushed: false, random: Random::new(seed) }
    }

    /// Begins `request` at `now`: moves the head, counts the step, and returns the service time in nanoseconds.
    pub(super) fn begin(&mut self, now: Time, request: &Request, counters: &mut Counters) -> u64 {
        let profile = self.profile;
        let cost = match request.op {
            Op::Flush => {
                let dirty = std::mem::take(&mut self.unflushed);
                let mean_ns = if dirty { profile.flush_ns } else { profile.flush_clean_ns };
                return self.random.around(mean_ns, profile.jitter_percent).max(1);
            }
            Op::Read => profile.read,
            Op::Write => {
                self.unflushed = true;
                profile.write
            }
        };
        let (first, end) = blocks_touched(request.offset_bytes, request.len_bytes);
        let following = self.head == Some(first);
        let place_ns = if following { cost.sequential_ns } else { cost.access_ns + self.penalty_ns(&cost, first) };
        match self.head {
            Some(head) if first < head => counters.downward += 1,
            Some(head) if first > head => counters.upward += 1,
            Some(_) => counters.sequential += 1,
            None => {}
        }
        let electronics_ns =
            self.random.around(place_ns + (end - first - 1) * cost.block_ns, profile.jitter_percent).max(1);
        let turning_ns = match profile.rotation {
            Some(rotation) if !following => self.positioning_ns(&rotation, now, first, electronics_ns),
            _ => 0,
        };
        self.head = Some(end);
        electronics_ns + turning_ns
    }

    /// The drive's own estimate of the positioning time, by which it sorts.
    pub(super) fn reach_ns(&self, now: Time, request: &Request) -> u64 {
        let (first, _) = blocks_touched(request.offset_bytes, request.len_bytes);
        match &self.profile.rotation {
            _ if request.op == Op::Flush || self.head == Some(first) => 0,
            Some(rotation) => self.positioning_ns(rotation, now, first, self.profile.read.access_ns),
            None => self.penalty_ns(&self.profile.read, first),
        }
    }

    /// A downward step costs more, in proportion to its distance up to a limit.
    fn penalty_ns(&self, cost: &Cost, first: u64) -> u64 {
        let back_bytes = self.head.map_or(0, |head| head.saturating_sub(first)) * BLOCK_BYTES;
        let full_bytes = self.profile.backward_full_at_bytes.max(1);
        if planted::is(Bug::OrderCostsNothing) {
            return 0;
        }
        let most_ns = cost.access_ns * u64::from(self.profile.backward_percent) / 100;
        let share = u128::from(most_ns) * u128::from(back_bytes.min(full_bytes)) / u128::from(full_bytes);
        u64::try_from(share).unwrap_or(most_ns)
    }

    /// Seek time follows the square root of the distance (the arm accelerates for half of it and then brakes);
    /// then rotational latency until the address is under the head. The angle follows from the time.
    fn positioning_ns(&self, rotation: &Rotation, now: Time, first: u64, before_ns: u64) -> u64 {
        let track = |block: u64| block * BLOCK_BYTES / rotation.track_bytes;
        let seek_ns = match self.head.map(|head| track(head).abs_diff(track(first))) {
            Some(0) => 0,
            tracks => {
                // Square root and division are bit-exact on every machine.
                let distance_bytes = tracks.unwrap_or(0).saturating_mul(rotation.track_bytes);
                let part = (distance_bytes as f64 / rotation.stroke_bytes as f64).min(1.0).sqrt();
                rotation.seek_min_ns + ((rotation.seek_max_ns - rotation.seek_min_ns) as f64 * part) as u64
            }
        };
        let there_ns = now.as_nanos().wrapping_add(before_ns + seek_ns) % rotation.turn_ns;
        let inside = u128::from(first * BLOCK_BYTES % rotation.track_bytes);
        let angle_ns = inside * u128::from(rotation.turn_ns) / u128::from(rotation.track_bytes);
        let wait_ns = (u64::try_from(angle_ns).unwrap_or(0) + rotation.turn_ns - there_ns) % rotation.turn_ns;
        seek_ns + wait_ns
    }
}
