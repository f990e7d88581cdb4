//! Resyncs in pieces, as no client waits for them.
//!
//! A piece is a range to hash, or a run of blocks to copy. It asks the lane whether it may start ([`super::lane`]), and locks its bytes only then. A
//! run is unlocked as soon as it is in the queues of its targets: later changes of it are behind it there. A piece that keeps changes waiting gives
//! way: it is tried again with half the bytes and twice the patience. What was proven equal before stays so, as the targets get these changes, too.
//! The smallest piece does not give way, as it takes no longer than a change. So a resync ends, however slow a flash is.

use std::time::Duration;

use super::jobs::{Goal, Job, Step};
use super::pace::Pace;
use super::ranges::RANGE_BYTES_MAX;
use super::repair::{Run, RunKind};
use super::{Copies, Cx};
use crate::planted::{self, Bug};
use crate::units::{Time, bring_forward};
use crate::wire::digest::DIGEST_BLOCK_BYTES;

/// How long a piece may keep changes waiting. Each time that it gave way it may for twice as long, up to four times as long.
const PATIENCE: Duration = Duration::from_millis(250);
const PATIENCE_DOUBLINGS_MAX: u32 = 2;
/// Hashing so many bytes counts like copying one: it takes time of the flash, and hardly any of the air.
const HASHED_PER_COPIED: u32 = 16;

/// How a resync takes its time.
#[derive(Debug, Default)]
pub struct Pieces {
    /// How often it gave way to changes, and when it may go on after the last time.
    gave_way: u32,
    rests_until: Time,
    /// When it locked something last.
    pub locked: Time,
    /// The piece that is under way: what it costs, and when it was begun.
    piece: Option<(u32, Time)>,
    /// What all have cost the lane.
    pub cost_bytes: u64,
}

impl Pieces {
    /// Most bytes of a piece after it gave way.
    fn bytes_max(&self) -> u32 {
        (RANGE_BYTES_MAX >> self.gave_way.min(31)).max(DIGEST_BLOCK_BYTES)
    }

    /// Most bytes to hash at once.
    pub fn hashed_bytes(&self, cx: &Cx<'_>) -> u32 {
        self.bytes_max().min(cx.lane.piece_bytes(cx.now) * HASHED_PER_COPIED)
    }

    /// How long it may keep changes waiting, if it has to give way at all.
    fn patience(&self) -> Option<Duration> {
        let patience = PATIENCE * (1 << self.gave_way.min(PATIENCE_DOUBLINGS_MAX));
        (self.bytes_max() > DIGEST_BLOCK_BYTES).then_some(patience)
    }
}

impl Job {
    /// Whether it is to go on once the lane lets it. It has locked nothing.
    pub(super) fn waits_for_lane(&self) -> bool {
        self.goal.is_copying() && matches!(self.step, Step::Next)
    }
}

impl Copies {
    /// Asks the lane whether a range of so many bytes may be hashed. If not, the job goes on later.
    pub(super) fn may_hash(&mut self, cx: &mut Cx<'_>, chunk: u32, bytes: u32) -> bool {
        self.may_start(cx, chunk, bytes / HASHED_PER_COPIED)
    }

    /// The next run to copy, cut to what clients may wait for; `None` if it may not start yet.
    pub(super) fn next_piece(&mut self, cx: &mut Cx<'_>, chunk: u32) -> Option<Run> {
        let job = self.jobs.get(&chunk)?;
        let run = *job.runs.last()?;
        let bytes_max = cx.lane.piece_bytes(cx.now).min(job.pieces.bytes_max());
        let is_whole = run.kind == RunKind::Rescue;
        let piece = if is_whole { run } else { Run { len: run.len.min(bytes_max), ..run } };
        let is_waited_for = is_whole && self.heals.contains_key(&chunk);
        if !is_waited_for && !self.may_start(cx, chunk, piece.len * run.targets.count_ones()) {
            return None;
        }
        let job = self.jobs.get_mut(&chunk)?;
        if piece.len < run.len {
            job.runs.pop();
            job.runs.push(Run { at: run.at + piece.len, len: run.len - piece.len, ..run });
            job.runs.push(piece);
        }
        Some(piece)
    }

    /// Asks the lane whether a piece may start. If not, the job goes on later: it must have locked nothing.
    fn may_start(&mut self, cx: &mut Cx<'_>, chunk: u32, cost_bytes: u32) -> bool {
        let out_bytes = self.jobs.values().filter_map(|job| job.pieces.piece).map(|(bytes, _)| bytes).sum();
        let Some(job) = self.jobs.get_mut(&chunk) else { return false };
        let pieces = &mut job.pieces;
        let answer = if cx.now < pieces.rests_until {
            Err(pieces.rests_until)
        } else {
            cx.lane.may_start(cx.now, out_bytes, cost_bytes)
        };
        match answer {
            Ok(()) => {
                pieces.piece = Some((cost_bytes, cx.now));
                pieces.cost_bytes += u64::from(cost_bytes);
                let goal = job.goal;
                self.pace_of(goal).spent(cx.now, cost_bytes.into());
            }
            Err(at) => bring_forward(&mut self.lane_due, at),
        }
        answer.is_ok()
    }

    /// How fast such work goes.
    pub(super) fn pace_of(&mut self, goal: Goal) -> &mut Pace {
        if goal == Goal::Move { &mut self.moves.pace } else { &mut self.pace }
    }

    /// The piece of a job is done. Others may go on.
    pub(super) fn piece_ended(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let piece = self.jobs.get_mut(&chunk).and_then(|job| job.pieces.piece.take());
        if let Some((_, begun)) = piece {
            cx.lane.ended(cx.now, begun);
            self.lane_due = Some(cx.now);
        }
    }

    /// Lets the jobs go on that wait for the lane.
    pub(super) fn go_on(&mut self, cx: &mut Cx<'_>) {
        self.lane_due = None;
        for chunk in
            self.jobs.iter().filter(|(_, job)| job.waits_for_lane()).map(|(&chunk, _)| chunk).collect::<Vec<_>>()
        {
            self.advance(cx, chunk);
        }
    }

    /// When [`Copies::go_on`] must be called.
    pub fn lane_due(&self) -> Option<Time> {
        self.lane_due
    }

    /// Lets changes go on that a resync keeps waiting for long.
    pub(super) fn give_way(&mut self, cx: &mut Cx<'_>) {
        let is_late = |job: &Job| {
            let patience = job.pieces.patience().filter(|_| job.goal.is_copying());
            patience.is_some_and(|patience| cx.now - job.pieces.locked >= patience)
        };
        let is_in_the_way = |chunk: u32| {
            let state = self.chunks.get(&chunk);
            state.is_some_and(|state| state.lock.is_some() && state.is_waited_for())
        };
        let late = self.jobs.iter().filter(|(chunk, job)| is_late(job) && is_in_the_way(**chunk));
        for chunk in late.map(|(&chunk, _)| chunk).collect::<Vec<_>>() {
            let Some(job) = self.jobs.get_mut(&chunk) else { continue };
            job.pieces.gave_way += 1;
            job.pieces.rests_until = cx.now + PATIENCE;
            job.pieces.piece = None;
            job.step = Step::Next;
            if job.runs.is_empty() && !planted::is(Bug::GaveWayProven) {
                // The range was not hashed.
                job.range.1 = job.range.0;
            }
            for (_, key) in std::mem::take(&mut job.open) {
                self.remove_inner(cx, key);
                cx.has_dead_pieces = true;
            }
            self.counters.gave_way += 1;
            self.unlock(cx, chunk);
            self.advance(cx, chunk);
        }
    }
}
