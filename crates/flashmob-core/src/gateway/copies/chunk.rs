//! One chunk in use: the changes under way there, what waits, and which of its copies get changes.

use std::collections::VecDeque;

use super::kept::Kept;
use super::log::Waiter;
use super::{Copies, Cx, PLACES_MAX};
use crate::gateway::state::RequestKey;
use crate::units::Time;

/// What waits for a chunk: in order.
#[derive(Debug, Clone, Copy)]
pub enum Waiting {
    Change(usize),
    /// A part of a read: its request, the offset in the chunk, the length, and the place in the request's buffer.
    Read {
        request: RequestKey,
        at: u32,
        len: u32,
        buffer_at: u32,
    },
}

#[derive(Debug, Default)]
pub struct Chunk {
    /// Changes that were sent and have not ended, in the order of sending.
    pub changes: Vec<usize>,
    /// Sent changes that change a part of a block.
    pub partial: Vec<usize>,
    pub waiting: VecDeque<Waiting>,
    /// Changes that wait for the chunk to be durably open. They go before what waits.
    pub launching: VecDeque<usize>,
    /// Its marks are durable from this number on.
    pub marks_seq: u64,
    /// By copy: a flush after this serial of its queue makes everything permanent there.
    pub sync_after: [u64; PLACES_MAX],
    /// When a change was last sent.
    pub used: Time,
    /// Copies behind that get changes.
    pub joined: u8,
    /// Those of them whose answers are awaited.
    pub decided: u8,
    /// Joined copies that missed a change since.
    pub voided: u8,
    /// A range that no change may touch: the job on the chunk copies it.
    pub lock: Option<(u32, u32)>,
    /// Blocks that copies behind have all the same.
    pub kept: Kept,
}

impl Chunk {
    /// Whether changes or reads wait for it.
    pub fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty() || !self.launching.is_empty()
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.changes.is_empty() && !self.is_waited_for() && self.joined == 0 && self.lock.is_none()
    }

    /// A change has ended, or is to be sent again.
    pub fn take_back(&mut self, place: usize) {
        self.changes.retain(|&other| other != place);
        self.partial.retain(|&other| other != place);
    }

    /// Whether a range is locked.
    pub fn is_locked(&self, at: u32, len: u32) -> bool {
        self.lock.is_some_and(|(from, to)| at < to && from < at + len)
    }
}

impl Copies {
    /// Whether requests to a chunk must wait: its copies may differ, or it is not known yet which of them are right.
    pub(super) fn is_on_hold(&self, chunk: u32) -> bool {
        self.serves_nothing() || self.doubt.contains(&chunk) || self.doubtful.contains(&chunk)
    }

    /// Decides the marks that a chunk needs before a change is sent: it is open, and copies on members that are out are behind, unless no
    /// other copy is left that is there. Returns the number after which they are durable.
    pub(super) fn open_chunk(&mut self, cx: &Cx<'_>, chunk: u32) -> u64 {
        let mut marks = self.image.marks(chunk);
        marks.is_open = true;
        let current = self.current(chunk);
        let out = self.out_of(chunk, current);
        let others = current & !out;
        // A dead member that was not asked anything yet is not out. It must not be the only one that is current.
        let is_any_there = self.usable_of(cx, chunk, others) != 0;
        if out != 0 && is_any_there && others.count_ones() as usize >= self.min_current {
            self.fall_behind(chunk, out);
            self.keep(chunk, out);
            marks.behind |= out;
        }
        let seq = self.mark(chunk, marks);
        if !self.log.is_durable(seq) {
            self.log.wait(seq, Waiter::Review(chunk));
        }
        seq
    }

    /// Lets what waits for a chunk go on, in order.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.is_on_hold(chunk) {
            return;
        }
        self.launch_waiting(cx, chunk);
        let Some(state) = self.chunks.get_mut(&chunk) else { return };
        let mut waiting = std::mem::take(&mut state.waiting);
        while let Some(first) = waiting.pop_front() {
            match first {
                Waiting::Change(place) => {
                    let Some((at, len)) = self.changes.get(place).map(|c| (c.at, c.len)) else { continue };
                    if self.chunks.get(&chunk).is_some_and(|c| c.is_locked(at, len)) {
                        waiting.push_front(first);
                        break;
                    }
                    self.launch(cx, place);
                }
                Waiting::Read { request, at, len, buffer_at } => {
                    self.give_read(cx, request, (chunk, at, len), buffer_at, None);
                }
            }
        }
        if let Some(state) = self.chunks.get_mut(&chunk) {
            // What came to wait meanwhile is behind these.
            waiting.append(&mut state.waiting);
            state.waiting = waiting;
        }
    }

    /// Whether changes or reads wait for a chunk.
    pub(super) fn is_waited_for(&self, chunk: u32) -> bool {
        self.chunks.get(&chunk).is_some_and(Chunk::is_waited_for)
    }

    /// Lets all that waits go on, where it may.
    pub(super) fn serve_waiting(&mut self, cx: &mut Cx<'_>) {
        let waited_for = self.chunks.iter().filter(|(_, state)| state.is_waited_for());
        for chunk in waited_for.map(|(&chunk, _)| chunk).collect::<Vec<_>>() {
            self.compare_soon(cx, chunk);
            self.release(cx, chunk);
        }
    }

    /// Copies that are being made equal may differ from their source: the job begins anew.
    pub(super) fn void_joined(&mut self, chunk: u32) {
        if let Some(state) = self.chunks.get_mut(&chunk) {
            (state.voided, state.decided) = (state.voided | state.joined, 0);
        }
    }

    /// Forgets the state of a chunk that is not in use.
    pub(super) fn forget_if_idle(&mut self, chunk: u32) {
        let is_open = self.image.marks(chunk).is_open;
        if let Some(state) = self.chunks.get(&chunk)
            && state.is_idle()
            && !state.kept.is_wanted()
            && !is_open
            && self.log.is_durable(state.marks_seq)
            && !self.jobs.contains_key(&chunk)
        {
            self.chunks.remove(&chunk);
        }
    }
}
