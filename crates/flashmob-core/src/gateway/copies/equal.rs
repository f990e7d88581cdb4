//! Making copies equal: after a crash of the gateway, and for copies that are behind.
//!
//! A job goes through one chunk range by range. It locks a range against changes, has its blocks hashed on all copies concerned, copies those
//! that differ from the source, and goes on. Changes of the rest of the chunk go on meanwhile, to the targets as well; so a range stays
//! equal, unless a target misses a change: then the job is void, and begins anew later.
//!
//! The ranges of a job that *mends* are those in which a copy was found not to match its checksums ([`super::mend`]).
//!
//! A job that *compares* makes the current copies of a chunk in doubt equal, and all requests to the chunk wait for it. It asks first whether
//! there is anything: all copies of a chunk may be holes. One that *resyncs* makes
//! copies current that are behind: in the end they are flushed, and their mark is cleared.

use super::change::At;
use super::log::Waiter;
use super::mend::PAUSE;
use super::repair::Run;
use super::{Copies, Cx, Inner, bit, each, mask};
use crate::copies::{COPIES_MAX, Marks};
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::digest::DIGEST_BLOCK_BYTES;
use crate::wire::map::{MAP_BYTES, Map};

/// Most bytes of a range: what one digest covers. A smaller chunk has up to 16 ranges.
const RANGE_BYTES_MAX: u32 = 256 << 10;
/// Most jobs at once that nobody waits for, and of all.
pub(super) const JOBS_MAX: usize = 4;
const JOBS_WANTED_MAX: usize = 64;
/// Most chunks in doubt that are looked at at a time: all of a new volume are, and most may have to wait for a member.
const SEARCHED_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Compare,
    Resync,
    /// Blocks that do not match their checksums are written again.
    Mend,
}

#[derive(Debug)]
pub enum Step {
    /// The copies are to be asked whether they hold anything.
    Look,
    /// They were asked. False once one of them holds something.
    Blank(bool),
    /// The next range is to be locked.
    Next,
    /// Changes under way in the range have to end.
    Lock,
    Digest([Option<Vec<u8>>; COPIES_MAX]),
    Fetch,
    Repair,
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
    pub step: Step,
    /// What differs in the range, the first of it last.
    pub runs: Vec<Run>,
    /// Requests of it that are not answered: by copy.
    pub open: Vec<(usize, RequestKey)>,
    pub since: Time,
}

/// Whether a map shows one hole and nothing else.
fn is_blank(map: &[u8], len_bytes: u32) -> bool {
    Map::decode(map, len_bytes).is_ok_and(|map| map.runs().eq([(len_bytes, true)]))
}

impl Copies {
    /// Somebody waits for a chunk that is on hold.
    pub(super) fn compare_soon(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.jobs.len() < JOBS_WANTED_MAX {
            self.compare(cx, chunk);
        }
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
    }

    /// Begins to compare the current copies of a chunk in doubt, if they can be used.
    fn compare(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if !self.doubt.contains(&chunk) || self.doubtful.contains(&chunk) || self.jobs.contains_key(&chunk) {
            return;
        }
        let current = self.current(chunk);
        let (out, present) = (self.out_of(chunk, current), self.usable_of(cx, chunk, current));
        let left = current & !out;
        if out != 0 && present != 0 && left.count_ones() as usize >= self.min_current {
            self.open_chunk(cx, chunk);
        } else if out != 0 {
            return;
        }
        if left & !present != 0 {
            return;
        }
        let Some(source) = each(present & left).next() else { return };
        self.begin_job(cx, chunk, Goal::Compare, source, present & left & !bit(source));
    }

    /// Begins to make copies current that are behind, where a source and a target can be used.
    fn resync(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.is_on_hold(chunk) || self.jobs.contains_key(&chunk) || self.is_stuck(cx, chunk) {
            return;
        }
        let behind = self.image.marks(chunk).behind;
        let is_calm = |copy: &usize| {
            let member = self.members.get(usize::from(self.member_of(chunk, *copy)));
            member.is_some_and(|member| cx.now >= member.calm_until)
        };
        let targets = mask(each(self.usable_of(cx, chunk, behind)).filter(is_calm));
        let sources = self.usable_of(cx, chunk, self.current(chunk));
        let corrupt = self.corrupt_of(chunk);
        let Some(source) = each(sources & !corrupt).next().or(each(sources).next()) else { return };
        if targets != 0 {
            self.begin_job(cx, chunk, Goal::Resync, source, targets);
        }
    }

    /// The first step of a job. Copies that are holes are equal without a look at their zeros: most of a new volume is. A copy that may be torn
    /// is hashed.
    fn first_step(&self, chunk: u32, goal: Goal, targets: u8) -> Step {
        let is_plain = goal == Goal::Compare && targets != 0 && !self.image.marks(chunk).is_torn;
        // Earlier changes, whose clients were told that they failed, may be under way.
        if is_plain && !self.is_range_busy(chunk, (0, self.image.chunk_bytes() as u32)) {
            return Step::Look;
        }
        Step::Next
    }

    pub(super) fn begin_job(&mut self, cx: &mut Cx<'_>, chunk: u32, goal: Goal, source: usize, targets: u8) {
        self.next_serial += 1;
        let step = self.first_step(chunk, goal, targets);
        let state = self.chunks.entry(chunk).or_default();
        if goal == Goal::Resync {
            self.pace.works(cx.now);
            state.joined |= targets;
            state.voided &= !targets;
        }
        let job = Job {
            serial: self.next_serial,
            goal,
            source,
            targets,
            range: (0, 0),
            step,
            runs: Vec::new(),
            open: Vec::new(),
            since: cx.now,
        };
        self.jobs.insert(chunk, job);
        self.advance(cx, chunk);
    }

    /// Starts jobs that nobody waits for, as many as may run.
    pub(super) fn search_work(&mut self, cx: &mut Cx<'_>) {
        let in_doubt = self.doubt.range(self.next_compare..).chain(self.doubt.range(..self.next_compare));
        for chunk in in_doubt.take(SEARCHED_MAX).copied().collect::<Vec<_>>() {
            if self.jobs.len() >= JOBS_MAX {
                return;
            }
            self.compare(cx, chunk);
            self.next_compare = chunk + 1;
        }
        self.search_rot(cx);
        if self.image.counts().behind == 0 {
            return;
        }
        let (chunks, first) = (self.image.chunks(), self.next_search);
        for step in 0..chunks {
            if self.jobs.len() >= JOBS_MAX {
                return;
            }
            let chunk = (first + step) % chunks;
            if self.image.marks(chunk).behind != 0 {
                self.resync(cx, chunk);
                self.next_search = chunk + 1;
            }
        }
    }

    /// Something that the job on a chunk may wait for has ended.
    pub(super) fn poke_job(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.jobs.get(&chunk).is_some_and(|job| matches!(job.step, Step::Lock)) {
            self.advance(cx, chunk);
        }
    }

    /// Whether a change of a range is under way at a copy that matters.
    fn is_range_busy(&self, chunk: u32, (from, to): (u32, u32)) -> bool {
        let Some(state) = self.chunks.get(&chunk) else { return false };
        let mut changes = state.changes.iter().filter_map(|&place| self.changes.get(place));
        changes.any(|change| change.overlaps(from, to - from) && self.awaited(change) != 0)
    }

    /// Takes the next steps of a job that need not wait.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        loop {
            // Where a job that mends goes on.
            let rot = self.next_rot(chunk, self.jobs.get(&chunk).map_or(0, |job| job.range.1));
            let Some(job) = self.jobs.get_mut(&chunk) else { return };
            job.since = cx.now;
            match &job.step {
                Step::Look => {
                    let all = job.targets | bit(job.source);
                    self.set_step(chunk, Step::Blank(true));
                    let len = self.image.chunk_bytes() as u32;
                    for copy in each(all) {
                        self.ask(cx, chunk, copy, (Op::Map, OpFlags::NONE), (0, len), vec![0; MAP_BYTES]);
                    }
                    return;
                }
                Step::Next => {
                    let end = self.image.chunk_bytes() as u32;
                    // A copy that is alone is equal to itself, but it may be torn.
                    let is_alone = job.targets == 0 && !self.image.marks(chunk).is_torn;
                    let (from, end) = match job.goal {
                        Goal::Mend => rot,
                        _ if is_alone => (end, end),
                        _ => (job.range.1, end),
                    };
                    let range_bytes = (self.image.chunk_bytes() as u32 / 16).clamp(DIGEST_BLOCK_BYTES, RANGE_BYTES_MAX);
                    let is_last_skipped =
                        planted::is(Bug::BehindClearedUnproven) && from > 0 && from + range_bytes >= end;
                    if from >= end || is_last_skipped {
                        return self.finish_job(cx, chunk);
                    }
                    job.range = (from, end.min(from + range_bytes));
                    job.step = Step::Lock;
                    let range = job.range;
                    if !planted::is(Bug::ResyncOverwritesNewer) {
                        self.chunks.entry(chunk).or_default().lock = Some(range);
                    }
                }
                Step::Lock => {
                    let (range, all) = (job.range, job.targets | bit(job.source));
                    if self.is_range_busy(chunk, range) && !planted::is(Bug::ResyncOverwritesNewer) {
                        return;
                    }
                    self.set_step(chunk, Step::Digest(Default::default()));
                    let len = range.1 - range.0;
                    for copy in each(all) {
                        let room = vec![0; Op::Digest.reply_bytes(len) as usize];
                        self.ask(cx, chunk, copy, (Op::Digest, OpFlags::NONE), (range.0, len), room);
                    }
                    return;
                }
                Step::Blank(_) | Step::Digest(_) | Step::Fetch | Step::Repair | Step::Flush | Step::Commit => return,
            }
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
        if job.goal == Goal::Resync {
            self.pace.works(cx.now);
        }
        if self.void_jobs.contains(&chunk) {
            return;
        }
        let data = match result {
            Ok(data) => data,
            Err(failure) => return self.job_failed(cx, chunk, copy, failure),
        };
        match &mut job.step {
            Step::Blank(are_blank) => {
                *are_blank &= is_blank(&data, self.image.chunk_bytes() as u32);
                let are_blank = *are_blank;
                if job.open.is_empty() && are_blank {
                    self.counters.blank += 1;
                    self.finish_job(cx, chunk);
                } else if job.open.is_empty() {
                    job.step = Step::Next;
                    self.advance(cx, chunk);
                }
            }
            Step::Digest(answers) => {
                answers[copy] = Some(data);
                if job.open.is_empty() {
                    self.find_differences(cx, chunk);
                }
            }
            Step::Fetch => self.repair(cx, chunk, data),
            Step::Repair if job.open.is_empty() => {
                job.runs.pop();
                self.fetch(cx, chunk);
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

    /// All ranges are equal.
    fn finish_job(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let (goal, targets) = (job.goal, job.targets);
        if goal == Goal::Mend {
            return self.end_mend(cx, chunk);
        }
        if goal == Goal::Compare {
            self.set_step(chunk, Step::Commit);
            let seq = self.marks_seq(chunk);
            if self.log.is_durable(seq) {
                return self.end_compare(cx, chunk);
            }
            return self.log.wait(seq, Waiter::Job(chunk));
        }
        let state = self.chunks.entry(chunk).or_default();
        if state.voided & targets != 0 || state.joined & targets != targets {
            return self.give_up(cx, chunk);
        }
        // From now on changes wait for them.
        state.decided |= targets;
        self.set_step(chunk, Step::Flush);
        for copy in each(targets) {
            self.ask(cx, chunk, copy, (Op::Flush, OpFlags::NONE), (0, 0), Vec::new());
        }
    }

    fn end_compare(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        self.jobs.remove(&chunk);
        self.counters.compared += 1;
        self.doubt.remove(&chunk);
        let marks = self.image.marks(chunk);
        self.mark(chunk, Marks { is_torn: false, ..marks });
        // What the copies have may not be permanent.
        let serials = self.serials(cx, chunk);
        let state = self.chunks.entry(chunk).or_default();
        (state.lock, state.sync_after, state.used) = (None, serials, cx.now);
        self.release(cx, chunk);
        self.look_at(cx.now);
    }

    /// The last serial of the queue of each copy's node.
    fn serials(&self, cx: &Cx<'_>, chunk: u32) -> [u64; COPIES_MAX] {
        let mut serials = [0; COPIES_MAX];
        for (copy, place) in self.image.places(chunk).iter().enumerate() {
            serials[copy] = cx.queues[cx.node(place.member)].last_serial();
        }
        serials
    }

    /// The targets have what the source has, permanently: they are current.
    fn clear_behind(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let targets = job.targets;
        let state = self.chunks.entry(chunk).or_default();
        if state.voided & targets != 0 || state.decided & targets != targets {
            return self.give_up(cx, chunk);
        }
        let Some(job) = self.jobs.remove(&chunk) else { return };
        self.counters.resynced += 1;
        self.pace.note(cx.now, self.image.chunk_bytes() * u64::from(targets.count_ones()));
        let marks = self.image.marks(chunk);
        self.mark(chunk, Marks { behind: marks.behind & !job.targets, ..marks });
        self.leave(chunk, targets);
        for place in self.chunks.get(&chunk).map(|c| c.changes.clone()).unwrap_or_default() {
            if let Some(change) = self.changes.get_mut(place) {
                for copy in each(targets) {
                    if change.copies[copy] != At::Sent {
                        change.copies[copy] = At::Done;
                    }
                }
            }
        }
        self.unlock(cx, chunk);
        self.review_chunk(cx, chunk);
        self.forget_if_idle(chunk);
        self.look_at(cx.now);
    }

    /// A copy has failed a piece of a job.
    fn job_failed(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize, failure: Failure) {
        let Some(job) = self.jobs.get(&chunk) else { return };
        self.counters.failed_copies += 1;
        let (goal, left) = (job.goal, self.current(chunk) & !bit(copy));
        if goal == Goal::Mend && failure != Failure::Corrupt {
            // A copy that cannot be read or written is found out by what clients do.
            self.forget_rot(chunk);
        }
        if goal == Goal::Compare && left.count_ones() as usize >= self.min_current.max(1) {
            self.fall_behind(chunk, bit(copy));
            self.give_up(cx, chunk);
            return self.compare_soon(cx, chunk);
        }
        self.give_up(cx, chunk);
        if goal == Goal::Resync {
            self.stuck_for(cx, chunk, PAUSE);
        }
        self.look_at(cx.now + PAUSE);
    }

    /// Ends a job without a result. It begins anew later.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.remove(&chunk) else { return };
        for (_, key) in job.open {
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
        }
        if job.goal == Goal::Resync {
            self.leave(chunk, job.targets);
        }
        self.counters.jobs_given_up += 1;
        self.unlock(cx, chunk);
        self.review_chunk(cx, chunk);
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
    }

    /// Ends the job on a chunk if a copy has a part in it: that copy is not what it was.
    pub(super) fn drop_job_of(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize) {
        let has_part = |job: &Job| (job.targets | bit(job.source)) & bit(copy) != 0;
        if self.jobs.get(&chunk).is_some_and(has_part) {
            self.give_up(cx, chunk);
        }
    }

    /// What a job waited for is durable.
    pub(super) fn job_durable(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.jobs.get(&chunk).is_some_and(|job| job.goal == Goal::Compare && matches!(job.step, Step::Commit)) {
            self.end_compare(cx, chunk);
        }
    }

    /// The copies whose answers the job on a chunk waits for, and since when.
    pub(super) fn job_waits_for(&self, chunk: u32) -> Option<(u8, Time)> {
        let job = self.jobs.get(&chunk)?;
        Some((mask(job.open.iter().map(|&(copy, _)| copy)), job.since))
    }
}
