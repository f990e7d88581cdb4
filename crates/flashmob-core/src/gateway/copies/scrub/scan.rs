//! Ranges that are out: hashed by the nodes that have a copy, and what follows from the hashes.

use std::time::Duration;

use super::super::jobs::Goal;
use super::super::ranges::{DataRanges, range_bytes};
use super::super::{Copies, Cx, Inner, bit, each};
use super::passes::{Of, TRIES_MAX};
use super::{BadBlock, Flaw, Scrub};
use crate::copies::COPIES_MAX;
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::digest::{CORRUPT, DIGEST_BLOCK_BYTES, digests};

/// A range that is out for so long has failed, though its nodes answer others.
const OUT_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether the job on a chunk is over.
const POLL: Duration = Duration::from_millis(20);

/// A range that is hashed.
#[derive(Debug)]
pub struct Range {
    serial: u64,
    of: Of,
    chunk: u32,
    from: u32,
    to: u32,
    /// Its copies that were asked.
    copies: u8,
    /// The members that have them.
    members: Vec<u16>,
    answers: [Option<Vec<u8>>; COPIES_MAX],
    failed: u8,
    /// Requests that are not answered: by copy.
    open: Vec<(usize, RequestKey)>,
    slot: usize,
    sent: Time,
}

impl Scrub {
    /// Whether a range of a member is out.
    pub fn is_busy(&self, member: u16) -> bool {
        self.ranges.iter().any(|range| range.members.contains(&member))
    }
}

impl Copies {
    /// Has the range at the place of a pass hashed on some copies. False if there is no time for it now.
    pub(super) fn send_range(&mut self, cx: &mut Cx<'_>, of: Of, chunk: u32, copies: u8) -> bool {
        let Some(from) = self.scrub.run(of).map(|run| run.at) else { return false };
        let slot = match self.scrub.throttle.take(cx.now) {
            Ok(slot) => slot,
            Err(at) => {
                at.into_iter().for_each(|at| self.scrub.look_at(at));
                return false;
            }
        };
        let chunk_bytes = self.image.chunk_bytes() as u32;
        let to = (from + range_bytes(chunk_bytes)).min(chunk_bytes);
        self.scrub.next_serial += 1;
        let serial = self.scrub.next_serial;
        let from_flash = if planted::is(Bug::ScrubTrustsCache) { OpFlags::NONE } else { OpFlags::FROM_FLASH };
        let what = (Op::Digest, from_flash.with(OpFlags::BACKGROUND));
        let mut open = Vec::with_capacity(1);
        for copy in each(copies) {
            let Some((member, offset_bytes)) = self.locate(chunk, copy, from) else { continue };
            let room = vec![0; Op::Digest.reply_bytes(to - from) as usize];
            let key = self.insert_inner(cx, Inner::Scrub { serial, copy }, what.0, what.1, room);
            self.send(cx, key, member, what, (offset_bytes, to - from));
            open.push((copy, key));
        }
        self.scrub.ranges.push(Range {
            serial,
            of,
            chunk,
            from,
            to,
            copies,
            members: self.members_of(chunk, copies),
            answers: Default::default(),
            failed: 0,
            open,
            slot,
            sent: cx.now,
        });
        self.look_at(cx.now + super::super::watch::WATCH_INTERVAL);
        true
    }

    /// A copy has hashed a range.
    pub(in super::super) fn scrub_answered(
        &mut self,
        cx: &mut Cx<'_>,
        (serial, copy): (u64, usize),
        key: RequestKey,
        result: Result<Vec<u8>, Failure>,
    ) {
        let Some(at) = self.scrub.ranges.iter().position(|range| range.serial == serial) else { return };
        let range = &mut self.scrub.ranges[at];
        range.open.retain(|&(_, other)| other != key);
        match result {
            Ok(digest) => range.answers[copy] = Some(digest),
            Err(_) => range.failed |= bit(copy),
        }
        if range.open.is_empty() {
            let range = self.take_range(cx, at);
            self.range_answered(cx, &range);
        }
        self.scrub(cx);
    }

    /// Takes a range out of those that are out.
    fn take_range(&mut self, cx: &mut Cx<'_>, at: usize) -> Range {
        let range = self.scrub.ranges.swap_remove(at);
        let is_wanted = self.scrub.run(range.of).is_some_and(|run| run.is_forced);
        let used = self.scrub.used;
        self.scrub.throttle.give_back(cx.now, range.slot, range.sent, used, is_wanted);
        for &(_, key) in &range.open {
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
        }
        range
    }

    /// Gives up the ranges of some passes.
    pub(super) fn drop_scrubs(&mut self, cx: &mut Cx<'_>, is_dropped: impl Fn(Of) -> bool) {
        while let Some(at) = self.scrub.ranges.iter().position(|range| is_dropped(range.of)) {
            let range = self.take_range(cx, at);
            if let Some(run) = self.scrub.run_mut(range.of) {
                run.is_out = false;
            }
        }
    }

    /// Gives up ranges that get no answer: a node is gone, or its flash hangs.
    pub(super) fn drop_stuck_ranges(&mut self, cx: &mut Cx<'_>) {
        let is_stuck = |range: &Range| {
            let is_gone = range.open.iter().any(|&(copy, _)| !self.is_usable(cx, self.member_of(range.chunk, copy)));
            is_gone || cx.now - range.sent >= OUT_MAX
        };
        let stuck: Vec<u64> = self.scrub.ranges.iter().filter(|r| is_stuck(r)).map(|r| r.serial).collect();
        for serial in stuck {
            let Some(at) = self.scrub.ranges.iter().position(|range| range.serial == serial) else { continue };
            let mut range = self.take_range(cx, at);
            for (copy, _) in std::mem::take(&mut range.open) {
                range.failed |= bit(copy);
            }
            self.range_answered(cx, &range);
        }
    }

    /// All copies of a range have been hashed, or failed.
    fn range_answered(&mut self, cx: &mut Cx<'_>, range: &Range) {
        // One that has ended or begun anew meanwhile has another place.
        if range.failed != 0 && !self.range_failed(cx, range.of) {
            return;
        }
        let current = self.current(range.chunk);
        let answered = each(range.copies & current).filter(|&copy| range.answers[copy].is_some()).collect::<Vec<_>>();
        self.counters.scrubbed_bytes += u64::from(range.to - range.from) * answered.len() as u64;
        let hashes: Vec<(usize, Vec<u64>)> = answered
            .into_iter()
            .map(|copy| (copy, digests(range.answers[copy].as_deref().unwrap_or_default()).collect()))
            .collect();
        let first_block = range.from / DIGEST_BLOCK_BYTES;
        for (copy, hashes) in &hashes {
            self.look_for_rot(cx, range, *copy, hashes, first_block);
        }
        // Read without a lock: changes may have come in between.
        let of_block = |index: usize| hashes.iter().filter_map(move |(_, hashes)| hashes.get(index).copied());
        let differs = |index: usize| {
            let mut valid = of_block(index).filter(|&hash| hash != CORRUPT);
            let first = valid.next();
            valid.any(|hash| Some(hash) != first)
        };
        let blocks = range.to.div_ceil(DIGEST_BLOCK_BYTES).saturating_sub(first_block);
        let is_whole = hashes.len() as u32 == current.count_ones();
        for index in 0..if is_whole { blocks as usize } else { 0 } {
            if !differs(index) && of_block(index).all(|hash| hash != CORRUPT) {
                let block = first_block + index as u32;
                self.scrub.bad.clear(range.chunk, block..block + 1, |flaw| flaw == Flaw::Differs);
            }
        }
        if (0..blocks as usize).any(differs)
            && let Some(run) = self.scrub.run_mut(range.of)
        {
            (run.is_out, run.suspect) = (false, Some((range.from, range.to, range.copies)));
            return;
        }
        self.range_done(range.of, range.to);
    }

    /// Looks for blocks of one copy that do not match their checksums, and has them mended.
    fn look_for_rot(&mut self, cx: &mut Cx<'_>, range: &Range, copy: usize, hashes: &[u64], first_block: u32) {
        let is_corrupt = |index: &usize| hashes[*index] == CORRUPT;
        let corrupt: Vec<u32> = (0..hashes.len()).filter(is_corrupt).map(|index| first_block + index as u32).collect();
        for index in (0..hashes.len()).filter(|index| !is_corrupt(index)) {
            // It is there after all.
            let block = first_block + index as u32;
            self.scrub.bad.clear(range.chunk, block..block + 1, |flaw| flaw == Flaw::Unreadable);
        }
        let (Some(first), Some(last)) = (corrupt.first(), corrupt.last()) else { return };
        self.counters.scrub_corrupt += corrupt.len() as u64;
        if let Some(run) = self.scrub.run_mut(range.of) {
            run.found += corrupt.len() as u64;
        }
        if self.current(range.chunk) == bit(copy) {
            // Nothing to mend it with.
            for &block in &corrupt {
                self.tell_unreadable(cx, range.chunk, block * DIGEST_BLOCK_BYTES);
            }
            return;
        }
        let (at, end) = (first * DIGEST_BLOCK_BYTES, (last + 1) * DIGEST_BLOCK_BYTES);
        if !self.remember_rot(cx, range.chunk, copy, (at, end - at))
            && let Some(run) = self.scrub.run_mut(range.of)
        {
            run.left_out += 1;
        }
    }

    /// Has a job look again, under lock, at a range in which copies differ. Returns whether the pass can go on behind it.
    pub(super) fn look_again(&mut self, cx: &mut Cx<'_>, of: Of, (from, to, copies): (u32, u32, u8)) -> bool {
        let Some((chunk, job, tries)) = self.scrub.run(of).map(|run| (run.place, run.job, run.tries)) else {
            return false;
        };
        let running = self.jobs.get(&chunk).map(|job| job.serial);
        match job {
            Some(job) if running == Some(job) => {}
            Some(job) if self.scrub.last_job == Some(job) => return self.looked_again(of, to, false),
            // It was broken off.
            Some(_) if tries >= TRIES_MAX => return self.looked_again(of, to, true),
            Some(_) => {
                if let Some(run) = self.scrub.run_mut(of) {
                    run.job = None;
                }
                return true;
            }
            None if running.is_some() || self.is_on_hold(chunk) => {
                if self.loses_patience(cx.now, of) {
                    return self.looked_again(of, to, true);
                }
            }
            None => {
                let present = self.usable_of(cx, chunk, copies & self.current(chunk));
                let Some(source) = each(present).next().filter(|_| present.count_ones() > 1) else {
                    // The copies are not there any more.
                    return self.looked_again(of, to, true);
                };
                let data = DataRanges::only(from, self.image.chunk_bytes() as u32);
                let serial = self.begin_job_on(cx, chunk, Goal::Scrub, (source, present & !bit(source)), Some(data));
                if let Some(run) = self.scrub.run_mut(of) {
                    (run.job, run.tries) = (Some(serial), tries + 1);
                }
            }
        }
        self.scrub.look_at(cx.now + POLL);
        false
    }

    /// A range was looked at again, or cannot be. Returns that the pass goes on.
    fn looked_again(&mut self, of: Of, to: u32, is_left_out: bool) -> bool {
        if let Some(run) = self.scrub.run_mut(of) {
            (run.suspect, run.job) = (None, None);
            run.left_out += u32::from(is_left_out);
        }
        self.range_done(of, to);
        true
    }

    /// Copies of a block differ, though each matches its checksum.
    pub(in super::super) fn tell_differs(
        &mut self,
        cx: &mut Cx<'_>,
        (chunk, at): (u32, u32),
        copies: u8,
        hashes: [u64; COPIES_MAX],
    ) {
        self.counters.scrub_differing += 1;
        let bad = BadBlock { chunk, block: at / DIGEST_BLOCK_BYTES, flaw: Flaw::Differs, copies, hashes };
        if let Some(run) = self.scrub.run_mut(Of::Compare) {
            run.found += 1;
        }
        if self.scrub.bad.note(bad) && cx.now >= self.scrub.tell_at {
            self.scrub.tell_at = cx.now + super::super::mend::TELL_EVERY;
            let text = format!(
                "copies of the block at byte {} differ, though each matches its checksum: a flash has lost a write. `flashmob volume show` \
                 lists such blocks",
                self.volume_offset(chunk, at)
            );
            cx.tell_of_volume(text);
        }
    }
}
