//! Jobs: the ways in which copies are made equal ([`super::equal`]) or mended ([`super::mend`]), step by step.
//!
//! A job goes through one chunk range by range. It locks a range against changes, has its blocks hashed on all copies concerned, copies those
//! that differ from the source, and goes on. Changes of the rest of the chunk go on meanwhile, to the targets as well; so a range stays
//! equal, unless a target misses a change: then the job is void, and begins anew later.
//!
//! Nobody waits for one that resyncs: it does so in pieces, and takes its time ([`super::pieces`]).

use super::change::Change;
use super::pieces::Pieces;
use super::ranges::{DataRanges, range_bytes};
use super::repair::{Run, RunKind};
use super::rescue::Rescue;
use super::{Copies, Cx, Inner, PLACES_MAX, bit, each, mask};
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::map::MAP_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Compare,
    Resync,
    /// A copy is made on another member.
    Move,
    /// Blocks that do not match their checksums are written again.
    Mend,
    /// A scrub has found that copies differ: it is looked again.
    Scrub,
    /// Blocks that no current copy has are looked for on copies that are behind: clients wait for them.
    Heal,
}

impl Goal {
    /// Whether a copy is made from another, which is believed. Nobody waits for that.
    pub fn is_copying(self) -> bool {
        matches!(self, Goal::Resync | Goal::Move)
    }

    /// Whether a block that its source lacks is looked for on copies that are behind.
    pub fn can_rescue(self) -> bool {
        self.is_copying() || self == Goal::Heal
    }

    /// Whether it is for what the flash has. The others are for what readers get.
    pub fn is_of_flash(self) -> bool {
        matches!(self, Goal::Mend | Goal::Scrub)
    }
}

#[derive(Debug)]
pub enum Step {
    /// The copies are to be asked where they hold data.
    Look,
    /// They were asked: what those that answered hold.
    Holes(DataRanges),
    /// The next range is to be locked, or the next run of this one.
    Next,
    /// Changes under way in what is locked have to end.
    Lock,
    Digest([Option<Vec<u8>>; PLACES_MAX]),
    Fetch,
    Repair,
    /// A block of the source does not match its checksum.
    Rescue(Box<Rescue>),
    /// The targets make what they got permanent.
    Flush,
    /// The marks have to be durable.
    Commit,
}

#[derive(Debug)]
pub struct Job {
    pub serial: u64,
    pub goal: Goal,
    pub source: usize,
    pub targets: u8,
    pub range: (u32, u32),
    /// The ranges to go through, if not all. Nothing changes the chunk meanwhile.
    pub data: Option<DataRanges>,
    pub step: Step,
    /// The digests of the range tell what corrupt blocks should be.
    pub is_told: bool,
    /// Bytes of the range that differ. The last is taken first: blocks to rescue, then the others from the first on.
    pub runs: Vec<Run>,
    /// Requests of it that are not answered: by copy.
    pub open: Vec<(usize, RequestKey)>,
    pub since: Time,
    /// Of one that copies: how it takes its time.
    pub pieces: Pieces,
}

impl Job {
    /// The copies that it works with.
    pub fn copies(&self) -> u8 {
        let witnesses = if let Step::Rescue(rescue) = &self.step { rescue.witnesses | rescue.reading } else { 0 };
        self.targets | bit(self.source) | witnesses
    }
}

impl Copies {
    /// The first step of a job. Where all copies are holes they are equal without a look at their zeros: most of a new volume is. A copy that
    /// may be torn is hashed.
    fn first_step(&self, cx: &Cx<'_>, chunk: u32, goal: Goal, targets: u8) -> Step {
        let is_plain = goal == Goal::Compare && targets != 0 && !self.image.marks(chunk).is_torn;
        // Earlier changes, whose clients were told that they failed, may be under way.
        if is_plain && !self.is_range_busy(cx, chunk, (0, self.image.chunk_bytes() as u32)) {
            return Step::Look;
        }
        Step::Next
    }

    pub(super) fn begin_job(&mut self, cx: &mut Cx<'_>, chunk: u32, goal: Goal, source: usize, targets: u8) {
        self.begin_job_on(cx, chunk, goal, (source, targets), None);
    }

    /// The same on some ranges of the chunk. Returns its serial.
    pub(super) fn begin_job_on(
        &mut self,
        cx: &mut Cx<'_>,
        chunk: u32,
        goal: Goal,
        (source, targets): (usize, u8),
        data: Option<DataRanges>,
    ) -> u64 {
        self.next_serial += 1;
        let serial = self.next_serial;
        let step = self.first_step(cx, chunk, goal, targets);
        let state = self.chunks.entry(chunk).or_default();
        if goal.is_copying() {
            state.joined |= targets;
            state.voided &= !targets;
            self.pace_of(goal).works(cx.now);
        }
        let job = Job {
            serial,
            goal,
            source,
            targets,
            range: (0, 0),
            data,
            step,
            is_told: false,
            runs: Vec::new(),
            open: Vec::new(),
            since: cx.now,
            pieces: Pieces::default(),
        };
        self.jobs.insert(chunk, job);
        self.advance(cx, chunk);
        serial
    }

    /// Something that the job on a chunk may wait for has ended.
    pub(super) fn poke_job(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.jobs.get(&chunk).is_some_and(|job| matches!(job.step, Step::Lock)) {
            self.advance(cx, chunk);
        }
    }

    /// Whether a change of a range is under way at a copy that matters, or a copy that failed one is still to be declared behind.
    fn is_range_busy(&self, cx: &Cx<'_>, chunk: u32, (from, to): (u32, u32)) -> bool {
        let Some(state) = self.chunks.get(&chunk) else { return false };
        let mut changes = state.changes.iter().filter_map(|&place| self.changes.get(place));
        let is_open = |change: &Change| self.awaited_or_kept(cx, change) != 0 || self.is_undecided(change);
        changes.any(|change| change.overlaps(from, to - from) && is_open(change))
    }

    /// Takes the next steps of a job that need not wait.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        loop {
            // Where a job that mends goes on.
            let done = self.jobs.get(&chunk).map_or(0, |job| job.range.1);
            let (rot, heal) = (self.next_rot(chunk, done), self.next_heal(chunk, done));
            let Some(job) = self.jobs.get_mut(&chunk) else { return };
            job.since = cx.now;
            match &job.step {
                Step::Look => {
                    let all = job.targets | bit(job.source);
                    self.set_step(chunk, Step::Holes(DataRanges::default()));
                    let len = self.image.chunk_bytes() as u32;
                    for copy in each(all) {
                        self.ask(cx, chunk, copy, (Op::Map, OpFlags::NONE), (0, len), vec![0; MAP_BYTES]);
                    }
                    return;
                }
                Step::Next if !job.runs.is_empty() => {
                    let Some(run) = self.next_piece(cx, chunk) else { return };
                    self.lock(cx, chunk, (run.at, run.at + run.len));
                    self.set_step(chunk, Step::Lock);
                }
                Step::Next => {
                    let chunk_bytes = self.image.chunk_bytes() as u32;
                    let end = chunk_bytes;
                    let next = job.data.as_ref().map(|data| data.next(job.range.1, chunk_bytes).unwrap_or(end));
                    // A copy that is alone is equal to itself, but it may be torn.
                    let is_alone = job.targets == 0 && !self.image.marks(chunk).is_torn;
                    let (from, end) = match job.goal {
                        Goal::Mend => rot,
                        Goal::Heal => heal,
                        _ if is_alone => (end, end),
                        _ => (next.unwrap_or(job.range.1), end),
                    };
                    let mut range_bytes = range_bytes(chunk_bytes);
                    if job.goal.is_copying() {
                        range_bytes = range_bytes.min(job.pieces.hashed_bytes(cx));
                    }
                    let is_last_skipped = (planted::is(Bug::BehindClearedUnproven)
                        || (job.goal == Goal::Move && planted::is(Bug::MovedUnproven)))
                        && from > 0
                        && from + range_bytes >= end;
                    if from >= end || is_last_skipped {
                        return self.finish_job(cx, chunk);
                    }
                    let range = (from, end.min(from + range_bytes));
                    if job.goal.is_copying() && !self.may_hash(cx, chunk, range.1 - range.0) {
                        return;
                    }
                    let Some(job) = self.jobs.get_mut(&chunk) else { return };
                    (job.range, job.step) = (range, Step::Lock);
                    self.lock(cx, chunk, range);
                }
                Step::Lock => {
                    let (mut range, all, goal) = (job.range, job.targets | bit(job.source), job.goal);
                    let run = job.runs.last().copied();
                    if let Some(run) = run {
                        range = (run.at, run.at + run.len);
                    }
                    let flags = if goal.is_of_flash() { OpFlags::FROM_FLASH } else { OpFlags::NONE };
                    if self.is_range_busy(cx, chunk, range) && !planted::is(Bug::ResyncOverwritesNewer) {
                        return;
                    }
                    match run {
                        Some(Run { kind: RunKind::Rescue, .. }) => return self.begin_rescue(cx, chunk),
                        Some(_) => return self.fetch(cx, chunk),
                        None => {}
                    }
                    // Repairs of what readers find do without: their blocks come from any copy that matches.
                    let is_told = !goal.is_of_flash() && self.know_marks(cx, chunk, all);
                    let flags = if is_told { OpFlags::EXPECTED } else { flags };
                    if let Some(job) = self.jobs.get_mut(&chunk) {
                        (job.step, job.is_told) = (Step::Digest(Default::default()), is_told);
                    }
                    let len = range.1 - range.0;
                    for copy in each(all) {
                        let room = vec![0; Op::Digest.reply_bytes(len) as usize];
                        self.ask(cx, chunk, copy, (Op::Digest, flags), (range.0, len), room);
                    }
                    return;
                }
                Step::Holes(_) | Step::Digest(_) | Step::Fetch | Step::Repair => return,
                Step::Rescue(_) | Step::Flush | Step::Commit => return,
            }
        }
    }

    fn lock(&mut self, cx: &Cx<'_>, chunk: u32, range: (u32, u32)) {
        if let Some(job) = self.jobs.get_mut(&chunk) {
            job.pieces.locked = cx.now;
        }
        if !planted::is(Bug::ResyncOverwritesNewer) {
            self.chunks.entry(chunk).or_default().lock = Some(range);
        }
    }

    pub(super) fn set_step(&mut self, chunk: u32, step: Step) {
        if let Some(job) = self.jobs.get_mut(&chunk) {
            job.step = step;
        }
    }

    /// Sends a piece of a job to a copy.
    pub(super) fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        chunk: u32,
        copy: usize,
        (op, flags): (Op, OpFlags),
        (at, len): (u32, u32),
        buffer: Vec<u8>,
    ) {
        let Some((member, offset_bytes)) = self.locate(chunk, copy, at) else { return };
        let Some(serial) = self.jobs.get(&chunk).map(|job| job.serial) else { return };
        let key = self.insert_inner(cx, Inner::Job { chunk, serial, copy }, op, flags, buffer);
        let range = if op == Op::Flush { (0, 0) } else { (offset_bytes, len) };
        self.send(cx, key, member, (op, flags), range);
        cx.lane.works(cx.now);
        let sent = cx.queues[cx.node(member)].last_change();
        if op.mutates()
            && let Some(state) = self.chunks.get_mut(&chunk)
        {
            state.sync_after[copy] = sent;
            state.used = cx.now;
        }
        if let Some(job) = self.jobs.get_mut(&chunk) {
            job.open.push((copy, key));
        }
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
    }

    /// A copy has answered a piece of a job.
    pub(super) fn job_answered(
        &mut self,
        cx: &mut Cx<'_>,
        (chunk, serial, copy): (u32, u64, usize),
        key: RequestKey,
        result: Result<Vec<u8>, Failure>,
    ) {
        let Some(job) = self.jobs.get_mut(&chunk).filter(|job| job.serial == serial) else { return };
        job.open.retain(|&(_, other)| other != key);
        job.since = cx.now;
        cx.lane.works(cx.now);
        let goal = job.goal;
        if goal.is_copying() {
            self.pace_of(goal).works(cx.now);
        }
        if self.void_jobs.contains(&chunk) {
            return;
        }
        if self.jobs.get(&chunk).is_some_and(|job| matches!(job.step, Step::Rescue(_))) {
            return self.rescue_answered(cx, (chunk, copy), result);
        }
        let data = match result {
            Ok(data) => data,
            Err(failure) => return self.job_failed(cx, chunk, copy, failure),
        };
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        match &mut job.step {
            Step::Holes(data_ranges) => {
                if copy == job.source || !planted::is(Bug::SourceHolesBelieved) {
                    data_ranges.add(&data, self.image.chunk_bytes() as u32);
                }
                if !job.open.is_empty() {
                    return;
                }
                let data_ranges = std::mem::take(data_ranges);
                self.counters.blank += u64::from(data_ranges.is_empty());
                (job.data, job.step) = (Some(data_ranges), Step::Next);
                self.advance(cx, chunk);
            }
            Step::Digest(answers) => {
                self.counters.digested_bytes += u64::from(job.range.1 - job.range.0);
                self.counters.digest_bytes += data.len() as u64;
                answers[copy] = Some(data);
                if job.open.is_empty() {
                    self.piece_ended(cx, chunk);
                    self.find_differences(cx, chunk);
                }
            }
            Step::Fetch => self.repair(cx, chunk, data),
            Step::Repair if job.open.is_empty() => {
                job.runs.pop();
                self.piece_ended(cx, chunk);
                self.next_run(cx, chunk);
            }
            Step::Flush if job.open.is_empty() => self.clear_behind(cx, chunk),
            _ => {}
        }
    }

    pub(super) fn unlock(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if let Some(state) = self.chunks.get_mut(&chunk)
            && state.lock.take().is_some()
        {
            self.release(cx, chunk);
        }
    }

    /// Ends a job without a result. It begins anew later.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.remove(&chunk) else { return };
        for (_, key) in job.open {
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
        }
        if job.goal.is_copying() {
            self.leave(chunk, job.targets);
        }
        self.drop_guest(cx, chunk);
        self.counters.jobs_given_up += 1;
        self.unlock(cx, chunk);
        self.review_chunk(cx, chunk);
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
    }

    /// Ends the job on a chunk if a copy has a part in it: that copy is not what it was.
    pub(super) fn drop_job_of(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize) {
        let has_part = |job: &Job| job.copies() & bit(copy) != 0;
        if self.jobs.get(&chunk).is_some_and(has_part) {
            self.give_up(cx, chunk);
        }
    }

    /// The copies whose answers the job on a chunk waits for, and since when.
    pub(super) fn job_waits_for(&self, chunk: u32) -> Option<(u8, Time)> {
        let job = self.jobs.get(&chunk)?;
        Some((mask(job.open.iter().map(|&(copy, _)| copy)), job.since))
    }
}
