//! Passes: when they begin, where they are, and what they wait for.

use std::time::Duration;

use super::super::{Copies, Cx, bit};
use super::fit::unfit;
use super::{PassKept, Scrub};
use crate::units::Time;

/// How often it is looked whether devices are fit, or nodes back.
const POLL: Duration = Duration::from_secs(1);
/// How long a pass waits for nodes that are away, and for chunks that are being compared, in sum. Then it leaves them out.
const PATIENCE: Duration = Duration::from_secs(600);
/// Most slots and chunks without a copy to look at that are passed at a time.
const PASSED_MAX: u32 = 4096;
/// A range that fails so often is left out.
pub const TRIES_MAX: u8 = 3;
/// After a range failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a pass is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Compare,
    /// Of this member's copies.
    Verify(u16),
}

/// One kind of scrubs.
#[derive(Debug, Default)]
pub struct Pass {
    /// For how long none had ended, `counted_from` then.
    age: Duration,
    counted_from: Option<Time>,
    pub was_done: bool,
    /// What the last one found, and left out, since the gateway's start.
    pub found: u64,
    pub left_out: u32,
    /// Copies that it could not compare, as they lacked something.
    pub behind: u32,
    /// The one that is under way.
    pub run: Option<Run>,
}

/// A scrub that is under way.
#[derive(Debug, Default)]
pub struct Run {
    /// The chunk, or the slot of the member, where it is.
    pub place: u32,
    /// The offset in the chunk.
    pub at: u32,
    /// It goes on whatever the devices do.
    pub is_forced: bool,
    /// Since when it goes on, and from which place.
    pub began: Option<(Time, u32)>,
    /// A range of it is out, or a job looks again at one.
    pub is_out: bool,
    /// The range that a job is to look at again, and the copies there.
    pub suspect: Option<(u32, u32, u8)>,
    /// That job.
    pub job: Option<u64>,
    /// How often the present range has failed.
    pub tries: u8,
    /// When it may be tried again.
    pub try_at: Time,
    /// Ranges that were left out, of some copies or of all.
    pub left_out: u32,
    /// Copies that lacked something when it came to their chunk.
    pub behind: u32,
    /// Blocks that did not match, or differed.
    pub found: u64,
    /// Why it does not go on.
    pub waits: Option<String>,
    /// Since when it waits for what may be left out.
    waiting_since: Option<Time>,
    /// How long it has waited for such before.
    waited: Duration,
}

/// What a pass does next.
enum Next {
    /// These copies of the range at its place are hashed.
    Scan { chunk: u32, copies: u8, is_whole: bool },
    /// It waits for so long, for that.
    Wait(Duration, String),
    /// There is nothing to look at there.
    Skip,
    /// It is through.
    End,
}

impl Pass {
    pub fn new(kept: &PassKept) -> Pass {
        let run = kept.place.map(|place| Run { place, is_forced: kept.is_forced, ..Run::default() });
        Pass { age: kept.age, was_done: kept.was_done, run, ..Pass::default() }
    }

    pub fn kept(&self, now: Time) -> PassKept {
        let run = self.run.as_ref();
        PassKept {
            age: self.age(now),
            was_done: self.was_done,
            place: run.map(|run| run.place),
            is_forced: run.is_some_and(|run| run.is_forced),
        }
    }

    /// For how long none has ended.
    pub fn age(&self, now: Time) -> Duration {
        self.age + self.counted_from.map_or(Duration::ZERO, |from| now - from)
    }

    /// When the next one is due.
    fn due(&self, now: Time, every: Option<Duration>) -> Option<Time> {
        Some(now + every?.saturating_sub(self.age(now)))
    }

    /// None has ended since now.
    pub fn count_from(&mut self, now: Time) {
        (self.age, self.counted_from) = (Duration::ZERO, Some(now));
    }

    fn begin(&mut self, is_forced: bool) {
        self.run = Some(Run { is_forced, ..Run::default() });
    }
}

impl Run {
    /// The range at its place is done.
    fn step(&mut self, to: u32, chunk_bytes: u32) {
        (self.at, self.tries) = (to, 0);
        if to >= chunk_bytes {
            self.next_place();
        }
    }

    /// The chunk at its place is done.
    fn next_place(&mut self) {
        (self.place, self.at, self.tries) = (self.place + 1, 0, 0);
    }

    /// What it waited for is there.
    fn end_waiting(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now - since;
        }
    }
}

impl Scrub {
    pub fn every(&self, of: Of) -> Option<Duration> {
        match of {
            Of::Compare => self.compare_every,
            Of::Verify(_) => self.verify_every,
        }
    }

    fn all(&self) -> impl Iterator<Item = Of> + use<> {
        std::iter::once(Of::Compare).chain((0..self.verify.len() as u16).map(Of::Verify))
    }

    /// The passes that are under way.
    pub fn running(&self) -> Vec<Of> {
        self.all().filter(|&of| self.run(of).is_some()).collect()
    }

    pub fn run(&self, of: Of) -> Option<&Run> {
        self.pass(of)?.run.as_ref()
    }

    pub fn run_mut(&mut self, of: Of) -> Option<&mut Run> {
        self.pass_mut(of)?.run.as_mut()
    }
}

impl Copies {
    /// Begins passes whose time has come. While all copies are compared, which verifies them, none is verified by itself.
    pub(super) fn begin_due_passes(&mut self, cx: &Cx<'_>) {
        for of in self.scrub.all() {
            let (every, is_comparing) = (self.scrub.every(of), self.scrub.compare.run.is_some());
            let Some(pass) = self.scrub.pass_mut(of) else { continue };
            pass.counted_from.get_or_insert(cx.now);
            let is_due = every.is_some_and(|every| pass.age(cx.now) >= every);
            if is_due && pass.run.is_none() && !is_comparing {
                pass.begin(false);
                self.scrub.turns += 1;
            }
        }
    }

    /// When to look again.
    pub(super) fn plan_scrubs(&mut self, now: Time) {
        let idle = self.scrub.all().filter(|&of| self.scrub.run(of).is_none());
        let dues = idle.filter_map(|of| self.scrub.pass(of)?.due(now, self.scrub.every(of)));
        // One that is due waits for the comparison.
        let due = dues.min().map(|due| due.max(now + POLL));
        // A range that is out may get no answer.
        let soon = (!self.scrub.ranges.is_empty()).then_some(now + POLL);
        for at in due.into_iter().chain(soon) {
            self.scrub.look_at(at);
        }
    }

    pub(super) fn begin_asked(&mut self, cx: &mut Cx<'_>, is_forced: bool) {
        match &mut self.scrub.compare.run {
            Some(run) => run.is_forced |= is_forced,
            None => self.scrub.compare.begin(is_forced),
        }
        self.scrub.turns += 1;
        self.scrub(cx);
    }

    pub(super) fn stop_asked(&mut self, cx: &mut Cx<'_>) {
        self.drop_scrubs(cx, |_| true);
        for of in self.scrub.running() {
            if let Some(pass) = self.scrub.pass_mut(of) {
                pass.run = None;
                pass.count_from(cx.now);
                self.scrub.turns += 1;
            }
        }
        self.scrub(cx);
    }

    /// Chunks from this one on are gone: nothing is looked at there any more.
    pub(in super::super) fn end_scrubs_behind(&mut self, cx: &mut Cx<'_>, chunks: u32) {
        self.drop_scrubs(cx, |_| true);
        self.scrub.bad.forget_behind(chunks);
        // Only copies that are compared can differ.
        if let Some(run) = self.scrub.run_mut(Of::Compare).filter(|run| run.place >= chunks) {
            (run.suspect, run.job) = (None, None);
        }
        self.scrub.look_at(cx.now);
    }

    /// A member's extent was replaced: what is on it is written anew.
    pub(in super::super) fn forget_scrub_of(&mut self, cx: &mut Cx<'_>, member: u16) {
        self.drop_scrubs(cx, |of| of == Of::Verify(member));
        if let Some(pass) = self.scrub.verify.get_mut(usize::from(member)) {
            *pass = Pass::default();
            pass.count_from(cx.now);
            self.scrub.turns += 1;
        }
    }

    /// A member was converted just now: what it holds is read once, so that all of it gets checksums.
    pub(in super::super) fn scrub_converted(&mut self, cx: &mut Cx<'_>, member: u16) {
        let pass = self.scrub.verify.get_mut(usize::from(member)).filter(|pass| pass.run.is_none());
        if let Some(pass) = pass {
            pass.begin(false);
            self.scrub.turns += 1;
        }
        self.scrub.look_at(cx.now);
    }

    /// Takes the next steps of a pass that need not wait.
    pub(super) fn advance_pass(&mut self, cx: &mut Cx<'_>, of: Of) {
        for _ in 0..PASSED_MAX {
            let Some(run) = self.scrub.run_mut(of).filter(|run| !run.is_out) else { return };
            if cx.now < run.try_at {
                let at = run.try_at;
                return self.scrub.look_at(at);
            }
            if let Some(suspect) = run.suspect {
                match self.look_again(cx, of, suspect) {
                    true => continue,
                    false => return,
                }
            }
            match self.next_of(cx, of) {
                Next::Skip => {
                    if let Some(run) = self.scrub.run_mut(of) {
                        run.next_place();
                    }
                }
                Next::End => return self.end_pass(cx, of),
                Next::Wait(time, why) => {
                    if let Some(run) = self.scrub.run_mut(of) {
                        run.waits = Some(why);
                    }
                    return self.scrub.look_at(cx.now + time);
                }
                Next::Scan { chunk, copies, is_whole } => {
                    if !self.send_range(cx, of, chunk, copies) {
                        return;
                    }
                    let behind = self.image.copies() as u32 - self.current(chunk).count_ones();
                    if let Some(run) = self.scrub.run_mut(of) {
                        let is_first = of == Of::Compare && run.at == 0 && run.tries == 0;
                        run.behind += if is_first { behind } else { 0 };
                        (run.is_out, run.waits) = (true, None);
                        run.left_out += u32::from(!is_whole);
                        run.began.get_or_insert((cx.now, run.place));
                    }
                    return;
                }
            }
        }
        self.scrub.look_at(cx.now);
    }

    /// What a pass does at its place.
    fn next_of(&mut self, cx: &Cx<'_>, of: Of) -> Next {
        let Some(place) = self.scrub.run(of).map(|run| run.place) else { return Next::End };
        match of {
            Of::Verify(member) => {
                let Some(&chunk) = self.slots.get(usize::from(member)).and_then(|slots| slots.get(place as usize))
                else {
                    return Next::End;
                };
                // What is behind is written anew.
                let copy = self.copy_on(chunk, member).filter(|&copy| self.current(chunk) & bit(copy) != 0);
                let Some(copy) = copy.filter(|_| chunk != u32::MAX) else { return Next::Skip };
                self.scan(cx, of, chunk, bit(copy))
            }
            Of::Compare if place >= self.image.chunks() => Next::End,
            Of::Compare if self.is_on_hold(place) || self.jobs.contains_key(&place) => {
                match self.loses_patience(cx.now, of) {
                    true => {
                        self.leave_out(of);
                        Next::Skip
                    }
                    false => Next::Wait(POLL / 20, "a chunk is being made equal".to_string()),
                }
            }
            Of::Compare => self.scan(cx, of, place, self.current(place)),
        }
    }

    /// Copies of a chunk are to be hashed: those of them that can be.
    fn scan(&mut self, cx: &Cx<'_>, of: Of, chunk: u32, copies: u8) -> Next {
        let present = self.usable_of(cx, chunk, copies);
        if present != copies && !self.loses_patience(cx.now, of) {
            let away = self.members_of(chunk, copies & !present);
            let name = away.first().map(|&member| cx.name(member)).unwrap_or_default();
            return Next::Wait(POLL, format!("node {name} is away"));
        }
        if present == 0 {
            self.leave_out(of);
            return Next::Skip;
        }
        if present == copies
            && let Some(run) = self.scrub.run_mut(of)
        {
            run.end_waiting(cx.now);
        }
        let members = self.members_of(chunk, present);
        if !self.scrub.run(of).is_some_and(|run| run.is_forced)
            && let Some((&member, why)) =
                members.iter().find_map(|member| Some((member, unfit(cx.condition(*member)?)?)))
        {
            return Next::Wait(POLL, format!("node {} {why}", cx.name(member)));
        }
        if members.iter().any(|&member| self.scrub.is_busy(member)) {
            // It goes on when that range is answered.
            return Next::Wait(POLL, "another scrub has the node".to_string());
        }
        Next::Scan { chunk, copies: present, is_whole: present == copies }
    }

    /// Whether a pass has waited long enough for what may be left out.
    pub(super) fn loses_patience(&mut self, now: Time, of: Of) -> bool {
        let Some(run) = self.scrub.run_mut(of) else { return true };
        run.waited + (now - *run.waiting_since.get_or_insert(now)) >= PATIENCE
    }

    fn leave_out(&mut self, of: Of) {
        if let Some(run) = self.scrub.run_mut(of) {
            run.left_out += 1;
        }
    }

    /// The range of a pass that was out is done: it goes on behind it.
    pub(super) fn range_done(&mut self, of: Of, to: u32) {
        let chunk_bytes = self.image.chunk_bytes() as u32;
        if let Some(run) = self.scrub.run_mut(of) {
            run.is_out = false;
            run.step(to, chunk_bytes);
        }
    }

    /// The range that was out failed. Returns whether it is to be left out, as it fails again and again.
    pub(super) fn range_failed(&mut self, cx: &Cx<'_>, of: Of) -> bool {
        let Some(run) = self.scrub.run_mut(of) else { return true };
        run.is_out = false;
        run.tries += 1;
        if run.tries >= TRIES_MAX {
            run.left_out += 1;
            return true;
        }
        run.try_at = cx.now + RETRY_AFTER;
        self.scrub.look_at(cx.now + RETRY_AFTER);
        false
    }

    /// A pass has gone through all of its volume or member.
    fn end_pass(&mut self, cx: &mut Cx<'_>, of: Of) {
        let Some(pass) = self.scrub.pass_mut(of) else { return };
        let Some(run) = pass.run.take() else { return };
        pass.was_done = true;
        (pass.found, pass.left_out, pass.behind) = (run.found, run.left_out, run.behind);
        pass.count_from(cx.now);
        self.counters.scrubs += 1;
        self.scrub.turns += 1;
        if of == Of::Compare && run.left_out == 0 {
            // It has verified all copies that are current.
            self.drop_scrubs(cx, |_| true);
            for pass in &mut self.scrub.verify {
                (pass.was_done, pass.run) = (true, None);
                pass.count_from(cx.now);
            }
        }
        self.scrub.look_at(cx.now);
    }
}
