//! What is told of scrubs.

use std::time::Duration;

use super::super::Copies;
use super::passes::{Of, Pass};
use super::{BadRange, Scrub};
use crate::gateway::Gateway;
use crate::units::Time;

/// One kind of scrubs of a volume, or of a member.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PassStatus {
    /// For how long none has ended; `None` if none ever has.
    pub done_ago: Option<Duration>,
    /// In what time the next is due; `None` if none is planned, or one is under way.
    pub due_in: Option<Duration>,
    /// One is under way.
    pub is_running: bool,
    /// It goes on whatever the devices do.
    pub is_forced: bool,
    /// Bytes of the volume, or of a member's copies, that it has gone through.
    pub done_bytes: u64,
    /// All of them.
    pub total_bytes: u64,
    /// In what time it is through, at the speed since it began or went on.
    pub eta: Option<Duration>,
    /// Why it does not go on now.
    pub waits: Option<String>,
    /// Blocks that it found not to match or to differ; while none is under way, the last one since the gateway's start.
    pub found: u64,
    /// Ranges and chunks that it left out, wholly or in part; of the same one.
    pub left_out: u32,
    /// Copies that lacked something, and were not compared; of the same one.
    pub behind: u32,
}

/// The scrubs of a volume.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScrubStatus {
    /// Of the comparison of all copies.
    pub compare: PassStatus,
    /// Of the verification of each member's copies.
    pub verify: Vec<PassStatus>,
    /// Blocks that cannot be mended.
    pub bad_blocks: usize,
    /// How many more there are at least, which found no room in the list.
    pub unlisted_blocks: u64,
    /// Chunks with blocks that are known not to match, and are to be mended.
    pub mending: usize,
}

impl Scrub {
    fn status_of(&self, now: Time, of: Of, pass: &Pass, places: u32, chunk_bytes: u64) -> PassStatus {
        let age = pass.age(now);
        let mut status = PassStatus {
            done_ago: pass.was_done.then_some(age),
            total_bytes: u64::from(places) * chunk_bytes,
            found: pass.found,
            left_out: pass.left_out,
            behind: pass.behind,
            ..PassStatus::default()
        };
        let Some(run) = &pass.run else {
            status.due_in = self.every(of).map(|every| every.saturating_sub(age));
            return status;
        };
        (status.is_running, status.is_forced) = (true, run.is_forced);
        status.done_bytes = (u64::from(run.place) * chunk_bytes + u64::from(run.at)).min(status.total_bytes);
        (status.waits, status.found) = (run.waits.clone(), run.found);
        (status.left_out, status.behind) = (run.left_out, run.behind);
        status.eta = run.began.and_then(|(began, place)| {
            let gone = status.done_bytes.saturating_sub(u64::from(place) * chunk_bytes);
            let left = status.total_bytes - status.done_bytes;
            (gone > 0).then(|| (now - began).mul_f64(left as f64 / gone as f64))
        });
        status
    }
}

impl Copies {
    fn scrub_status(&self, now: Time) -> ScrubStatus {
        let (scrub, chunk_bytes) = (&self.scrub, self.image.chunk_bytes());
        let slots = |member: u16| self.slots.get(usize::from(member)).map_or(0, |slots| slots.len() as u32);
        let verify = (0..).zip(&scrub.verify);
        ScrubStatus {
            compare: scrub.status_of(now, Of::Compare, &scrub.compare, self.image.chunks(), chunk_bytes),
            verify: verify
                .map(|(member, pass)| scrub.status_of(now, Of::Verify(member), pass, slots(member), chunk_bytes))
                .collect(),
            bad_blocks: scrub.bad.len(),
            unlisted_blocks: scrub.bad.unlisted(),
            mending: self.rot.len(),
        }
    }
}

impl Gateway {
    /// The state of a volume's scrubs; `None` if it has no copies.
    #[must_use]
    pub fn scrub_status(&self, now: Time, volume: usize) -> Option<ScrubStatus> {
        self.volumes.get(volume)?.copies.as_deref().map(|copies| copies.scrub_status(now))
    }

    /// The blocks of a volume that cannot be mended, by their places: byte of the volume, bytes, and the members that have the copies.
    #[must_use]
    pub fn bad_ranges(&self, volume: usize) -> Vec<(u64, u64, BadRange, Vec<u16>)> {
        let Some(copies) = self.volumes.get(volume).and_then(|state| state.copies.as_deref()) else {
            return Vec::new();
        };
        let block = u64::from(super::DIGEST_BLOCK_BYTES);
        let placed = copies.scrub.bad.ranges().into_iter().map(|range| {
            let at = u64::from(range.first.chunk) * copies.image.chunk_bytes() + u64::from(range.first.block) * block;
            let members = copies.members_of(range.first.chunk, range.first.copies);
            (at, u64::from(range.count) * block, range, members)
        });
        placed.collect()
    }
}
