//! What is told of a volume's copies.

use std::collections::BTreeSet;
use std::time::Duration;

use super::accept::View;
use super::{Copies, LeaseStatus, MovesStatus, bit};
use crate::counters::counters;
use crate::units::Time;

counters! {
    /// Counters of a volume's copies since the gateway's start.
    pub struct CopiesCounters {
        evictions: "Times that a node was put out because it left I/O unanswered",
        evicted_copies: "Copies of chunks that were declared behind",
        restored: "Times that a node showed an older copy of its extent",
        replaced: "Extents that were given up, with a fresh one in their place",
        accepted: "Chunks of which a copy that lacked something became current, as somebody accepted the loss of the current ones",
        resynced: "Times that copies of a chunk were made current again",
        compared: "Chunks whose copies were compared because they might have differed",
        blank: "Chunks that were compared without hashing them, because all copies are holes",
        copied_bytes: "Bytes that were copied to make copies equal",
        digested_bytes: "Bytes that nodes hashed to compare copies",
        digest_bytes: "Bytes of these hashes, which nodes sent in place of the bytes",
        gave_way: "Times that a resync let changes go on that it kept waiting, before it was through",
        corrupt: "Reads that a copy failed because bytes did not match their checksums",
        mended: "Blocks that did not match their checksums and were written again with what another copy has",
        unreadable: "Times that a block was found that matches its checksum on no current copy",
        scrubs: "Scrubs that went through all of a volume or of a node's copies",
        scrubbed_bytes: "Bytes of copies that scrubs have read from the flash and verified",
        scrub_corrupt: "Blocks that scrubs found not to match their checksums",
        scrub_differing: "Times that a block was found to differ between copies although it matches its checksum on each",
        adopted: "Blocks that were kept as they are, because they were torn on all copies",
        settled: "Chunks that were settled: idle, and permanent on all current copies",
        settled_early: "Chunks that were settled before their time, because many were open",
        reboots: "Restarts of nodes' devices that were noticed",
        failed_copies: "Changes, flushes and comparisons that one copy failed",
        moved: "Copies that were moved to another node",
        orphans: "Places without a copy that held data, found after a start",
        freed: "Places of copies that moved, whose bytes were given back to the flash",
        jobs_given_up: "Comparisons and resyncs that were broken off",
        held_answers: "Reads whose answer waited for changes of the same bytes",
        waited_for_lease: "Answers to reads that waited until the gateway's lease was renewed",
        rereads: "Reads that were repeated on another copy or after a comparison",
        rerouted_reads: "Reads that were sent to another copy because a node was lost or late",
        hedged_reads: "Late reads that were sent to a second copy as well",
        hedges_first: "Hedged reads that the second copy answered first",
    }
}

/// The state of a volume's copies.
#[derive(Debug, Clone, PartialEq)]
pub struct CopiesStatus {
    /// Copies of each chunk.
    pub copies: usize,
    /// Chunks of the volume.
    pub chunks: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// The number of this gateway's start, as nodes know it.
    pub epoch: u64,
    /// Chunks that may have unsynced changes.
    pub open: u32,
    /// Chunks with a copy that lacks something.
    pub behind: u32,
    /// Copies that lack something, of all chunks.
    pub behind_copies: u32,
    /// Bytes of copies that are made current in a second, by what they cost so far and how fast the work went lately; `None` while none were made.
    pub rebuilt_bytes_per_s: Option<f64>,
    /// Chunks with a copy of which it is not known whether it lacks something.
    pub doubtful: u32,
    /// Chunks whose copies may differ and are to be compared.
    pub in_doubt: u32,
    /// The copies that the worst chunk has left.
    pub fewest_current: usize,
    /// Chunks that are being compared, made current or moved.
    pub jobs: usize,
    /// What moves.
    pub moves: MovesStatus,
    /// Why no decisions can be recorded, while that is so.
    pub map_trouble: Option<String>,
    /// For how long nothing is served at most, as the end of the map was dropped.
    pub waits_for: Option<Duration>,
    /// Why this gateway is no longer in charge.
    pub deposed: Option<String>,
    /// The lease of this gateway, where another stands by.
    pub lease: Option<LeaseStatus>,
    /// Decisions recorded, and decided.
    pub decisions: (u64, u64),
    /// Nodes that have a mirror of the map which lacks nothing but the last changes.
    pub mirrors: usize,
    /// Counters.
    pub counters: CopiesCounters,
}

/// The copies on one node of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// The extent that the map knows; `None` before the node was linked for the first time.
    pub extent_id: Option<[u8; 16]>,
    /// Nodes of one domain may fail together.
    pub domain: String,
    /// Its size as the map has it.
    pub size_bytes: u64,
    /// Copies on it.
    pub copies: u32,
    /// Those that lack something.
    pub behind: u32,
    /// Those of which it is not known whether they lack something.
    pub doubtful: u32,
    /// Those whose chunks have no other current copy.
    pub only: u32,
    /// If it has only current copies and is not linked: of how many chunks another copy can become current if the loss is accepted, or why none can now.
    pub loss: Option<Result<u32, String>>,
    /// For how long it has been out: it left I/O unanswered, or is paused.
    pub out_for: Option<Duration>,
    /// Chunks that it has room for.
    pub slots: u32,
    /// It was added, and is not used yet: it was not linked, or its extent was not looked through.
    pub is_joining: bool,
    /// It is not used, as its extent holds data, or cannot show that it does not.
    pub holds_data: bool,
    /// It was removed.
    pub is_gone: bool,
    /// Its copies are to be moved to others.
    pub is_leaving: bool,
    /// That is done, durably.
    pub is_drained: bool,
    /// It is not used, as somebody wants it.
    pub is_paused: bool,
    /// The extent that its node serves now instead, which is refused.
    pub offered: Option<[u8; 16]>,
}

impl Copies {
    /// The state by member. `offers`: what their nodes serve instead.
    pub(super) fn members_status(
        &self,
        view: &View<'_>,
        offers: impl Iterator<Item = Option<[u8; 16]>>,
    ) -> Vec<MemberStatus> {
        let now = view.now;
        let known = self.image.members().iter().zip(&self.members).zip(offers).enumerate();
        let mut members: Vec<MemberStatus> = known
            .map(|(number, ((member, state), offered))| MemberStatus {
                extent_id: self.known_extent(number),
                domain: member.domain.clone(),
                size_bytes: member.size_bytes,
                copies: 0,
                behind: 0,
                doubtful: 0,
                only: 0,
                loss: None,
                out_for: state.out_since.map(|since| now - since),
                // At most MEMBERS_MAX.
                slots: self.image.slots(number as u16),
                is_joining: self.image.is_joining(number as u16),
                holds_data: self.holds_data(number as u16),
                is_gone: self.image.is_gone(number as u16),
                is_leaving: self.image.is_leaving(number as u16),
                is_drained: self.image.is_leaving(number as u16) && self.is_empty(number as u16),
                is_paused: state.is_paused,
                offered,
            })
            .collect();
        for chunk in 0..self.image.chunks() {
            let (marks, current) = (self.image.marks(chunk), self.current(chunk));
            for (copy, place) in self.image.places(chunk).iter().enumerate() {
                let Some(member) = members.get_mut(usize::from(place.member)) else { continue };
                member.copies += 1;
                member.behind += u32::from(marks.behind & bit(copy) != 0);
                member.doubtful += u32::from(marks.doubtful & bit(copy) != 0);
                member.only += u32::from(current == bit(copy));
            }
        }
        for (number, member) in (0..).zip(&mut members) {
            if member.only > 0 && !(view.is_linked)(number) {
                let plan = self.plan_loss(view, &BTreeSet::from([number]));
                member.loss = Some(plan.map(|plan| plan.chunks()).map_err(|error| error.to_string()));
            }
        }
        members
    }

    /// The state now.
    pub fn status(&self, now: Time) -> CopiesStatus {
        let counts = self.image.counts();
        CopiesStatus {
            copies: self.image.copies(),
            chunks: self.image.chunks(),
            chunk_bytes: self.image.chunk_bytes(),
            epoch: self.image.epoch(),
            open: counts.open,
            behind: counts.behind,
            behind_copies: counts.behind_copies,
            rebuilt_bytes_per_s: self.pace.copies_per_s(now).map(|copies| copies * self.image.chunk_bytes() as f64),
            doubtful: counts.doubtful,
            in_doubt: self.doubt.len() as u32,
            fewest_current: counts.fewest_current,
            jobs: self.jobs.len(),
            moves: self.moves_status(now),
            map_trouble: self.log.trouble().map(|failure| failure.to_string()),
            waits_for: self.cut_status(now),
            deposed: self.deposed.clone(),
            lease: self.lease.status(now),
            decisions: self.log.progress(),
            mirrors: self.mirrors.in_step(),
            counters: self.counters,
        }
    }
}
