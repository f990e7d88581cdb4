//! What outlives the gateway: kept by its shell, and given back at its next start.
//!
//! It is no part of the map: nothing is decided by it. If it is lost, scrubs begin anew, and blocks that cannot be mended are found again.

use std::time::Duration;

use super::bad::BadBlock;
use crate::gateway::Gateway;
use crate::units::Time;

/// What is known of one kind of scrubs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassKept {
    /// For how long none has ended; or, before the first one, for how long the volume has been there.
    pub age: Duration,
    /// Whether one has ended.
    pub was_done: bool,
    /// Where the one that is under way goes on: a chunk, or a slot of a member.
    pub place: Option<u32>,
    /// It goes on whatever the devices do.
    pub is_forced: bool,
}

/// What is known of the scrubs of a volume, and of its moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubKept {
    /// Of the comparison of all copies.
    pub compare: PassKept,
    /// Of the verification of each member's copies.
    pub members: Vec<PassKept>,
    /// Blocks that cannot be mended.
    pub bad: Vec<BadBlock>,
    /// How long one copy took when copies were moved last.
    pub move_time: Option<Duration>,
}

impl Gateway {
    /// What the shell should keep of a volume's scrubs; `None` if it has no copies.
    #[must_use]
    pub fn scrub_kept(&self, now: Time, volume: usize) -> Option<ScrubKept> {
        let copies = self.volumes.get(volume)?.copies.as_deref()?;
        let scrub = &copies.scrub;
        Some(ScrubKept {
            compare: scrub.compare.kept(now),
            members: scrub.verify.iter().map(|pass| pass.kept(now)).collect(),
            bad: scrub.bad.all().collect(),
            move_time: copies.moves.pace.copy_time(),
        })
    }

    /// A number that is another one whenever something has changed that should be kept soon; and whether scrubs are under way, which should
    /// be kept now and then.
    #[must_use]
    pub fn scrub_news(&self, volume: usize) -> Option<(u64, bool)> {
        let copies = self.volumes.get(volume)?.copies.as_deref()?;
        let scrub = &copies.scrub;
        let number = scrub.turns.wrapping_add(scrub.bad.version()).wrapping_add(copies.moves.pace.news());
        Some((number, !scrub.running().is_empty()))
    }
}
