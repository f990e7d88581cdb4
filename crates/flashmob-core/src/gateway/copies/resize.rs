//! A volume with copies grows while it is used: chunks are appended in slots that are free.
//!
//! Nothing is known of what a slot holds that never had a copy, so new chunks are like those of a new volume: open, and compared before they are used.
//! Where free slots were looked through, all of them are holes by then, which takes no time. The volume is larger for clients once all its chunks
//! are on record, in mirrors as well.

use super::log::Waiter;
use super::moves::unheard;
use super::{Copies, Cx, MoveError};
use crate::copies::{PlacementError, Record};
use crate::gateway::Gateway;
use crate::op::Failure;
use crate::planted::{self, Bug};
use crate::units::{Bytes, Time};

/// How far the volume is with growing.
#[derive(Debug, Default)]
pub struct Growth {
    /// The last chunks that were appended are durable from this number on, and that clients may use them from that one.
    appended: u64,
    shown: u64,
    /// It has grown, durably, or it shrinks: so large is it for clients.
    pub(super) told_bytes: Option<u64>,
    /// What it has for clients.
    has_bytes: u64,
}

impl Growth {
    /// Of a volume that has this size at the gateway's start.
    pub fn new(has_bytes: u64) -> Growth {
        Growth { has_bytes, ..Growth::default() }
    }

    /// The size that it has for clients.
    pub fn has_bytes(&self) -> u64 {
        self.has_bytes
    }
}

/// A volume has, or will have, another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resized {
    /// What it has now, in bytes.
    pub from_bytes: u64,
    /// What it will have.
    pub to_bytes: u64,
    /// The number of the record with which it will: see [`Gateway::is_recorded`]. 0 if nothing was decided.
    pub number: u64,
}

/// Why a volume does not get another size. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum ResizeError {
    /// A part of a chunk.
    #[error("{size_bytes} bytes are not a multiple of the chunk of {chunk_bytes}; {} would be", Bytes(*next_bytes))]
    PartOfChunk { size_bytes: u64, chunk_bytes: u64, next_bytes: u64 },
    /// It has more, or is growing to it: see [`Gateway::shrink`].
    #[error("the volume has {}, or is still growing to that; ask for a smaller size when it has grown", Bytes(*from_bytes))]
    Shrinks { from_bytes: u64 },
    /// It would lose what lies behind the new end.
    #[error(
        "what would be cut off holds data, at byte {offset_bytes} for example: trim it first, as `blkdiscard --offset` does, or give it up \
         with --yes"
    )]
    HoldsData { offset_bytes: u64 },
    /// Nobody can say whether something lies there.
    #[error(
        "it cannot be seen whether what would be cut off holds data, as node {name} is away; start that node and try again, or give it up with --yes"
    )]
    Away { name: String },
    /// A former gateway may still change what would be cut off.
    #[error(
        "none of the nodes with a part of what would be cut off has been linked since the gateway started, so a former gateway could still write there; start one of them: {names}"
    )]
    Unfenced { names: String },
    /// A node's store cannot tell it.
    #[error("node {name} cannot tell whether what would be cut off holds data; give it up with --yes")]
    CannotTell { name: String },
    /// No copy tells it.
    #[error(
        "node {name} does not tell whether what would be cut off holds data: {failure}; give it up with --yes, or try again"
    )]
    Failed { name: String, failure: Failure },
    /// Clients use what would be cut off.
    #[error("reads or changes of what would be cut off do not end; try again")]
    Busy,
    /// The gateway has just begun, and the nodes that keep mirrors of the map are away.
    #[error("no node that keeps a mirror of the map is there; try again once nodes are linked")]
    Unmirrored,
    /// It has not the size yet that was asked for before.
    #[error("the size of the volume is being changed already; try again in a moment")]
    UnderWay,
    /// Nodes are full.
    #[error(
        "there is no room for so much: {} would fit on the nodes that are there; add a node (`flashmob volume add`), or fill nodes evenly first \
         (`flashmob volume rebalance`)",
        Bytes(*fit_bytes)
    )]
    NoRoom { fit_bytes: u64 },
    /// Nodes that are linked are full, and some are not linked.
    #[error("there is no room for so much on the nodes that are linked: {} would fit; {}", Bytes(*fit_bytes), unheard(names))]
    NoRoomYet { fit_bytes: u64, names: String },
    /// It is not known yet what a node's free slots hold.
    #[error("the free room of node {node} is being looked through; try again in a moment")]
    Searching { node: u16 },
    /// Nothing can be decided.
    #[error(transparent)]
    Undecided(#[from] MoveError),
    /// Anything else that prevents it.
    #[error(transparent)]
    Placement(PlacementError),
}

impl Copies {
    /// Appends chunks until the volume has this size.
    fn grow(&mut self, cx: &mut Cx<'_>, size_bytes: u64, is_dry: bool) -> Result<Resized, ResizeError> {
        self.may_decide()?;
        if self.shrink.is_some() {
            return Err(ResizeError::UnderWay);
        }
        let (from_bytes, chunk_bytes) = (self.image.size_bytes(), self.image.chunk_bytes());
        // With what was asked for before and is not shown yet.
        let has_bytes = u64::from(self.image.chunks()) * chunk_bytes;
        if !size_bytes.is_multiple_of(chunk_bytes) {
            let next_bytes = size_bytes.next_multiple_of(chunk_bytes);
            return Err(ResizeError::PartOfChunk { size_bytes, chunk_bytes, next_bytes });
        }
        if size_bytes < has_bytes {
            return Err(ResizeError::Shrinks { from_bytes: has_bytes });
        }
        let resized = Resized { from_bytes, to_bytes: size_bytes, number: 0 };
        let chunks = u32::try_from((size_bytes - has_bytes) / chunk_bytes).unwrap_or(u32::MAX);
        if chunks == 0 {
            return Ok(Resized { number: if is_dry { 0 } else { self.log.wanted() }, ..resized });
        }
        let closed = self.closed(cx);
        // At most MEMBERS_MAX.
        let mut open = (0..self.members.len() as u16).filter(|member| !closed.contains(member));
        if let Some(node) =
            open.find(|&member| !self.image.takes_no_copies(member) && !self.is_searched_for_good(cx, member))
        {
            return Err(ResizeError::Searching { node });
        }
        let records = self.image.grown(chunks, &closed, |member, slot| self.takes_chunk(cx, member, slot));
        let records = records.map_err(|error| match (error, self.unsynced_slot(cx, &closed)) {
            (PlacementError::TooLarge { .. }, Some(node)) => ResizeError::Searching { node },
            (PlacementError::TooLarge { fit, .. }, None) => {
                let fit_bytes = has_bytes + fit * chunk_bytes;
                let unlinked = self.names_of_unlinked(cx, &self.image.leaving().collect());
                unlinked.map_or(ResizeError::NoRoom { fit_bytes }, |names| ResizeError::NoRoomYet { fit_bytes, names })
            }
            (other, _) => ResizeError::Placement(other),
        })?;
        if is_dry {
            return Ok(resized);
        }
        let first = self.image.chunks();
        for record in records {
            self.decide(record);
        }
        for chunk in first..self.image.chunks() {
            let mut sync_after = [0; super::PLACES_MAX];
            for (copy, place) in self.image.places(chunk).to_vec().into_iter().enumerate() {
                self.reserve(chunk, place);
                // That its slot was cleared may not be permanent.
                sync_after[copy] = cx.queues[cx.node(place.member)].last_change();
            }
            self.inherit(chunk, self.image.marks(chunk));
            // Those that are compared first are flushed after that.
            if let Some(state) = self.chunks.get_mut(&chunk) {
                (state.sync_after, state.used) = (sync_after, cx.now);
            }
        }
        self.order_anew();
        let number = self.log.wanted();
        self.growth.appended = number;
        self.log.wait(number, Waiter::Grown);
        if planted::is(Bug::GrownToldEarly) {
            self.growth.told_bytes = Some(u64::from(self.image.chunks()) * chunk_bytes);
        }
        // What was planned counts on slots that are not free any more.
        self.plan_anew(cx);
        Ok(Resized { number, ..resized })
    }

    /// Chunks that were appended are durable, in mirrors as well: clients may use them once that is on record. A map that says so is never lost without
    /// the chunks.
    pub(super) fn show_chunks(&mut self, cx: &mut Cx<'_>) {
        if self.image.shown() == self.image.chunks() {
            if self.log.is_durable(self.growth.shown) {
                self.growth.told_bytes = Some(self.image.size_bytes());
            }
        } else if self.is_mirrored() && self.log.is_durable(self.growth.appended) && self.may_decide().is_ok() {
            self.growth.shown = self.decide(Record::Shown { chunks: self.image.chunks() });
            self.log.wait(self.growth.shown, Waiter::Grown);
            self.look_at(cx.now);
        }
    }

    /// Whether clients do not have all of its chunks yet.
    pub(super) fn is_growing(&self) -> bool {
        self.image.shown() < self.image.chunks() || !self.log.is_durable(self.growth.shown)
    }

    /// A gateway before this one was killed before it could show chunks.
    pub(super) fn resume_growth(&mut self, cx: &mut Cx<'_>) {
        if self.image.shown() < self.image.chunks() {
            self.show_chunks(cx);
        }
    }

    /// The size that the volume has got, if that is news.
    pub(super) fn take_size(&mut self) -> Option<u64> {
        let told_bytes = self.growth.told_bytes.take()?;
        self.growth.has_bytes = told_bytes;
        Some(told_bytes)
    }
}

impl Gateway {
    /// Gives a volume with copies another size, which is larger. If `is_dry`, it only says whether that can be.
    ///
    /// It has that once the layout has it: [`Gateway::layout`]. Clients that are connected keep to the size that they were told.
    pub fn resize(&mut self, now: Time, volume: usize, size_bytes: u64, is_dry: bool) -> Result<Resized, ResizeError> {
        let grown = self.with_copies(now, volume, |copies, cx| copies.grow(cx, size_bytes, is_dry));
        grown.unwrap_or(Err(MoveError::NoCopies.into()))
    }
}
