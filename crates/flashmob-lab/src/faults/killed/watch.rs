//! How far the change of a run is, and whether it has to come to its end.

use std::collections::BTreeSet;

use flashmob_core::copies::{MapImage, replay};
use flashmob_core::units::Time;

use super::{Change, ChangePlan, Victim};
use crate::faults::World;

/// A copy has moved, or was made where a chunk is new.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub at: Time,
    pub from: Option<u16>,
    pub to: u16,
}

/// How far the change of a run is.
#[derive(Debug, Default)]
pub(in super::super) struct Watch {
    /// When it was on record.
    pub(super) recorded: Option<Time>,
    /// When its end was.
    pub(super) ended: Option<Time>,
    /// When the slots that it left were free again, too.
    pub(super) done: Option<Time>,
    pub(super) moves: Vec<Move>,
    /// The most chunks that the volume has had, and the nodes with copies of the last of them.
    pub(super) most_chunks: u32,
    pub(super) last_chunk_on: Vec<usize>,
}

impl ChangePlan {
    fn is_recorded(self, image: &MapImage, world: &World) -> bool {
        let member = self.node as u16;
        match self.change {
            Change::Add => self.node < image.members().len(),
            Change::Drain => image.is_leaving(member),
            Change::Replace => {
                let node = &world.nodes[self.node];
                node.other.is_some() && image.members()[self.node].extent_id == node.extent_id()
            }
            Change::Grow => image.chunks() > self.first_chunks,
            Change::Shrink => image.chunks() < world.watched.most_chunks,
            Change::Rebalance => image.is_balancing(),
        }
    }

    /// Whether it is at its end, once it was on record.
    fn has_ended(self, image: &MapImage, most_chunks: u32) -> bool {
        let member = self.node as u16;
        match self.change {
            Change::Add => !image.is_joining(member) && !image.is_balancing() && image.copies_on(member) > 0,
            Change::Drain => image.copies_on(member) == 0,
            Change::Replace => {
                let behind = |chunk| image.marks(chunk).behind;
                image.chunks_of(member).all(|(chunk, copy)| behind(chunk) & 1 << copy == 0)
            }
            Change::Grow => image.shown() == image.chunks() && image.chunks() >= self.first_chunks + self.chunks,
            Change::Shrink => image.chunks() < most_chunks,
            Change::Rebalance => {
                !image.is_balancing() && image.plan(&BTreeSet::new(), true, &BTreeSet::new()).steps.is_empty()
            }
        }
    }
}

impl World {
    /// Decisions are on record.
    pub(in super::super) fn watch_change(&mut self) {
        let Some(plan) = self.scenario.change else { return };
        let Ok(replayed) = replay(self.map.bytes()) else { return };
        let (image, now) = (&replayed.image, self.ctx.now);
        if image.chunks() >= self.watched.most_chunks {
            self.watched.most_chunks = image.chunks();
            let places = image.places(image.chunks() - 1).iter();
            self.watched.last_chunk_on = places.map(|place| usize::from(place.member)).collect();
        }
        if now < Time::default() + plan.begins {
            return;
        }
        if self.watched.recorded.is_none() && plan.is_recorded(image, self) {
            self.watched.recorded = Some(now);
        }
        let watch = &mut self.watched;
        if watch.recorded.is_some() && watch.ended.is_none() && plan.has_ended(image, watch.most_chunks) {
            watch.ended = Some(now);
        }
    }

    /// The slots that a change has left may be free by now.
    pub(in super::super) fn watch_slots(&mut self) {
        if self.watched.ended.is_none() || self.watched.done.is_some() {
            return;
        }
        let status = self.gateway.core.as_ref().and_then(|core| core.copies_status(self.ctx.now, 0));
        if status.is_some_and(|status| status.moves.freed == 0) {
            self.watched.done = Some(self.ctx.now);
        }
    }

    pub(in super::super) fn note_move(&mut self, from: Option<u16>, to: u16) {
        if self.scenario.change.is_some() {
            self.watched.moves.push(Move { at: self.ctx.now, from, to });
        }
    }

    /// A change that was on record has come to its end. Only a gateway that is killed forgets one that was not.
    pub(in super::super) fn check_change(&mut self) {
        let Some(plan) = self.scenario.change else { return };
        let name = plan.change.name();
        if !plan.has_kill {
            return self.ctx.fail(format!("{name} comes to no end, or fails, though nobody is killed"));
        }
        let counts = &mut self.ctx.totals.changes[plan.change as usize][plan.victim as usize];
        let Some(recorded) = self.watched.recorded else {
            counts.forgotten += 1;
            if matches!(plan.victim, Victim::Source | Victim::Target) {
                self.ctx.fail(format!("{name} was forgotten, though the gateway was not killed"));
            }
            return;
        };
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return };
        if plan.has_ended(image, self.watched.most_chunks) {
            counts.ended += 1;
        } else {
            self.ctx.fail(format!("{name} was on record at {recorded:?}, and is not at its end"));
        }
    }
}
