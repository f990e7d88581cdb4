//! A volume with copies shrinks while it is used: the chunks behind its new end are given up.
//!
//! ```text
//!  asked ─▶ changes behind the end are refused ─▶ those under way end ─▶ a copy of each chunk is a hole ─▶ the end is the new one for clients
//!                                                                      (or what it holds is given up)        │
//!                               the slots are freed ◀─ decided, in mirrors as well ◀─ reads behind it end ◀──┘
//! ```
//!
//! Until it is decided nothing is lost: whatever prevents it before, and a gateway that is killed, leave the volume as it was.

use std::collections::{BTreeMap, BTreeSet};

use super::log::Waiter;
use super::resize::{ResizeError, Resized};
use super::{Copies, Cx, Inner, bit};
use crate::copies::Record;
use crate::gateway::Gateway;
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::map::{MAP_BYTES, Map};

/// Chunks that are looked at at a time.
const LOOKS_MAX: usize = 16;

/// A volume that is to shrink.
#[derive(Debug)]
pub struct Shrink {
    /// So many chunks it will have.
    chunks: u32,
    /// What lies behind the end is given up, whatever it is.
    gives_up: bool,
    /// It is only looked whether it can be.
    is_dry: bool,
    step: Step,
    /// When it last went on.
    since: Time,
    /// Of a chunk that cannot be looked at, or given up, a member that is away.
    awaits: Option<u16>,
}

#[derive(Debug)]
enum Step {
    /// It is not known yet which nodes keep mirrors of the map.
    Mirrors,
    /// Changes behind the end have to end.
    Changes,
    /// Chunks behind it are looked at.
    Looks(Looks),
    /// Reads behind the end have to end.
    Reads,
}

/// Which chunks behind the end hold nothing.
#[derive(Debug, Default)]
struct Looks {
    /// No chunk from this one on was asked for yet.
    next: u32,
    /// Those before it that are to be asked for again.
    again: BTreeSet<u32>,
    /// Those that were asked for: by chunk and member, from where in it.
    out: BTreeMap<(u32, u16), (u32, RequestKey)>,
    /// Members that failed to tell it, by chunk, and the last of these failures.
    failed: BTreeMap<u32, Vec<u16>>,
    failure: Option<(u16, Failure)>,
}

/// How far a volume is with shrinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShrinkStatus {
    /// Bytes behind the new end that were looked at.
    pub done_bytes: u64,
    /// All of them.
    pub total_bytes: u64,
}

impl Shrink {
    fn is_behind(&self, chunk: u32) -> bool {
        chunk >= self.chunks
    }
}

impl Copies {
    /// Begins to shrink to this size. [`Copies::shrunk`] will have the outcome.
    fn begin_shrink(&mut self, cx: &Cx<'_>, size_bytes: u64, gives_up: bool, is_dry: bool) -> Result<(), ResizeError> {
        self.may_decide()?;
        let chunk_bytes = self.image.chunk_bytes();
        if !size_bytes.is_multiple_of(chunk_bytes) || size_bytes == 0 {
            let next_bytes = size_bytes.max(1).next_multiple_of(chunk_bytes);
            return Err(ResizeError::PartOfChunk { size_bytes, chunk_bytes, next_bytes });
        }
        if self.shrink.is_some() || self.is_growing() {
            return Err(ResizeError::UnderWay);
        }
        // Not more than it has.
        let chunks = u32::try_from(size_bytes / chunk_bytes).unwrap_or(u32::MAX).min(self.image.chunks());
        self.shrunk = None;
        self.shrink = Some(Shrink { chunks, gives_up, is_dry, step: Step::Mirrors, since: cx.now, awaits: None });
        self.look_at(cx.now);
        Ok(())
    }

    /// Why a request of a client is refused: it is for what lies behind the end, or will, if it is a change.
    pub(super) fn behind_end(&self, op: Op, spans: &[(u64, u32)]) -> Option<Failure> {
        let is_ending = |shrink: &&Shrink| {
            let has_begun = !shrink.is_dry && !matches!(shrink.step, Step::Mirrors);
            has_begun && op.mutates() && !planted::is(Bug::ShrinkTakesChanges)
        };
        let chunks = self.shrink.as_ref().filter(is_ending).map(|shrink| shrink.chunks);
        // Clients that connected before the volume shrank know another end.
        let end = chunks.map_or(self.growth.has_bytes(), |chunks| u64::from(chunks) * self.image.chunk_bytes());
        let is_behind = spans.iter().any(|&(at, len)| at + u64::from(len) > end);
        is_behind.then_some(if op.mutates() { Failure::NoSpace } else { Failure::Invalid })
    }

    /// Takes the next steps that need not wait.
    pub(super) fn go_on_shrinking(&mut self, cx: &mut Cx<'_>) {
        while let Some(shrink) = &self.shrink {
            if let Err(error) = self.may_decide() {
                return self.end_shrink(cx, Err(error.into()));
            }
            let is_over = match &shrink.step {
                // A map that is recovered from mirrors must not have the chunks that are cut off: it has to be known who keeps one.
                Step::Mirrors => shrink.is_dry || self.is_mirrored(),
                Step::Changes => {
                    shrink.is_dry || !self.changes.iter().any(|(_, change)| shrink.is_behind(change.chunk))
                }
                Step::Looks(_) if shrink.gives_up => self.is_fenced_behind_end(),
                Step::Looks(_) => self.look_behind_end(cx),
                Step::Reads => !self.is_read_behind_end(),
            };
            let Some(shrink) = &mut self.shrink else { return };
            if !is_over {
                if cx.now - shrink.since >= self.timeout {
                    let error = match (&shrink.step, shrink.awaits) {
                        (Step::Mirrors, _) => ResizeError::Unmirrored,
                        (Step::Looks(_), Some(member)) if shrink.gives_up => {
                            ResizeError::Unfenced { name: cx.name(member) }
                        }
                        (Step::Looks(_), Some(member)) => ResizeError::Away { name: cx.name(member) },
                        (Step::Looks(Looks { failure: Some(failed), .. }), _) => untold(cx, *failed),
                        _ => ResizeError::Busy,
                    };
                    return self.end_shrink(cx, Err(error));
                }
                return self.look_at(cx.now + super::watch::WATCH_INTERVAL);
            }
            shrink.since = cx.now;
            match shrink.step {
                Step::Mirrors => shrink.step = Step::Changes,
                Step::Changes => {
                    shrink.step = Step::Looks(Looks { next: shrink.chunks, ..Looks::default() });
                }
                Step::Looks(_) if shrink.is_dry => {
                    let chunks = shrink.chunks;
                    let resized = self.resized_to(chunks);
                    return self.end_shrink(cx, Ok(resized));
                }
                Step::Looks(_) => {
                    shrink.step = Step::Reads;
                    self.growth.told_bytes = Some(u64::from(shrink.chunks) * self.image.chunk_bytes());
                }
                Step::Reads => {
                    let chunks = shrink.chunks;
                    return self.cut_off(cx, chunks);
                }
            }
        }
    }

    fn resized_to(&self, chunks: u32) -> Resized {
        let chunk_bytes = self.image.chunk_bytes();
        let (from_bytes, to_bytes) = (self.image.size_bytes(), u64::from(chunks) * chunk_bytes);
        Resized { from_bytes, to_bytes, number: 0 }
    }

    /// Whether a client's read has a part behind the end.
    fn is_read_behind_end(&self) -> bool {
        let Some(shrink) = &self.shrink else { return false };
        let end = u64::from(shrink.chunks) * self.image.chunk_bytes();
        let is_behind = |inner: &Inner| matches!(inner, Inner::Read(read) if read.spans.iter().any(|&(at, len)| at + u64::from(len) > end));
        self.inner.iter().any(|(_, inner)| is_behind(inner))
    }

    fn looks(&mut self) -> Option<&mut Looks> {
        match &mut self.shrink {
            Some(Shrink { step: Step::Looks(looks), .. }) => Some(looks),
            _ => None,
        }
    }

    /// Asks the copies of each chunk behind the end that are current and there where they hold data: a flash may have lost what another has. True if all
    /// were looked at, and are holes.
    fn look_behind_end(&mut self, cx: &mut Cx<'_>) -> bool {
        let chunks = self.image.chunks();
        loop {
            let Some(looks) = self.looks() else { return false };
            let Some(chunk) = looks.again.first().copied().or((looks.next < chunks).then_some(looks.next)) else {
                return looks.out.is_empty();
            };
            if looks.out.len() >= LOOKS_MAX {
                return false;
            }
            if self.is_on_hold(chunk) {
                self.compare_soon(cx, chunk);
            }
            if self.is_on_hold(chunk) || !self.ask_copies(cx, chunk) {
                self.await_chunk(cx, chunk);
                return false;
            }
            if let Some(looks) = self.looks() {
                looks.again.remove(&chunk);
                looks.next = looks.next.max(chunk + 1);
            }
        }
    }

    /// Whether a former gateway that does not know that it is one cannot change what is given up any more: it needs all copies that are not behind for
    /// that, and can have none put behind. So one of them on a node that takes nothing from it is enough. Where data is looked for, a node was asked for it.
    fn is_fenced_behind_end(&mut self) -> bool {
        let chunks = self.image.chunks();
        let first = self.looks().map_or(chunks, |looks| looks.next);
        let unfenced = (first..chunks).find_map(|chunk| {
            let members = self.members_of(chunk, self.holders(chunk));
            let is_fenced = members.iter().any(|&member| self.is_known(member));
            members.first().filter(|_| !is_fenced).map(|&member| (chunk, member))
        });
        if let Some(looks) = self.looks() {
            looks.next = unfenced.map_or(chunks, |(chunk, _)| chunk);
        }
        if let Some(shrink) = &mut self.shrink {
            shrink.awaits = unfenced.map(|(_, member)| member);
        }
        unfenced.is_none()
    }

    /// A chunk cannot be looked at now.
    fn await_chunk(&mut self, cx: &Cx<'_>, chunk: u32) {
        let holders = self.members_of(chunk, self.holders(chunk));
        let awaits = holders.into_iter().find(|&member| !self.is_usable(cx, member));
        if let Some(shrink) = &mut self.shrink {
            shrink.awaits = awaits;
        }
    }

    /// Asks for the holes of a chunk. False if no current copy can be asked.
    fn ask_copies(&mut self, cx: &mut Cx<'_>, chunk: u32) -> bool {
        let usable = self.usable_of(cx, chunk, self.current(chunk)) & !self.failed_looks(chunk);
        let members = self.members_of(chunk, usable);
        usable != 0 && members.into_iter().all(|member| self.ask_behind_end(cx, (chunk, member), 0))
    }

    /// Asks a member for the holes of the rest of a chunk, unless it is asked already. False if it has no copy of it.
    fn ask_behind_end(&mut self, cx: &mut Cx<'_>, (chunk, member): (u32, u16), from: u32) -> bool {
        if self.looks().is_some_and(|looks| looks.out.contains_key(&(chunk, member))) {
            return true;
        }
        let place = self.copy_on(chunk, member).and_then(|copy| self.locate(chunk, copy, from));
        let Some((_, offset_bytes)) = place else { return false };
        let what = (Op::Map, OpFlags::NONE);
        let key = self.insert_inner(cx, Inner::Look { chunk, member }, what.0, what.1, vec![0; MAP_BYTES]);
        let len = self.image.chunk_bytes() as u32 - from;
        self.send(cx, key, member, what, (offset_bytes, len));
        if let Some(shrink) = &mut self.shrink {
            shrink.awaits = None;
        }
        if let Some(looks) = self.looks() {
            looks.out.insert((chunk, member), (from, key));
        }
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
        true
    }

    /// A copy of a chunk behind the end has told where it holds data.
    pub(super) fn looked(
        &mut self,
        cx: &mut Cx<'_>,
        (chunk, member): (u32, u16),
        key: RequestKey,
        result: Result<Vec<u8>, Failure>,
    ) {
        let asked = self.looks().and_then(|looks| looks.out.get(&(chunk, member)).copied());
        let Some((from, _)) = asked.filter(|asked| asked.1 == key) else { return };
        self.looks().map(|looks| looks.out.remove(&(chunk, member)));
        self.look_at(cx.now);
        let len = self.image.chunk_bytes() as u32 - from;
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(failure) => return self.look_failed(cx, chunk, member, failure),
        };
        let Ok(map) = Map::decode(&bytes, len) else {
            return self.look_failed(cx, chunk, member, Failure::Invalid);
        };
        let mut looked = 0;
        let mut data_at = None;
        for (run_bytes, is_hole) in map.runs() {
            data_at = data_at.or((!is_hole).then_some(looked));
            looked += run_bytes;
        }
        if let Some(at) = data_at.filter(|_| !planted::is(Bug::ShrinkUnlooked)) {
            let offset_bytes = u64::from(chunk) * self.image.chunk_bytes() + u64::from(from + at);
            return self.end_shrink(cx, Err(ResizeError::HoldsData { offset_bytes }));
        }
        if looked == 0 {
            return self.look_failed(cx, chunk, member, Failure::Invalid);
        }
        if let Some(shrink) = &mut self.shrink {
            shrink.since = cx.now;
        }
        let goes_on =
            looked >= len || (self.is_usable(cx, member) && self.ask_behind_end(cx, (chunk, member), from + looked));
        if !goes_on {
            self.ask_again(chunk);
        }
    }

    /// A copy does not tell it: another is asked, if there is one.
    fn look_failed(&mut self, cx: &mut Cx<'_>, chunk: u32, member: u16, failure: Failure) {
        self.ask_again(chunk);
        let Some(looks) = self.looks().filter(|_| failure != Failure::ShuttingDown) else { return };
        looks.failed.entry(chunk).or_default().push(member);
        looks.failure = Some((member, failure));
        if self.current(chunk) & !self.failed_looks(chunk) == 0 {
            self.end_shrink(cx, Err(untold(cx, (member, failure))));
        }
    }

    /// Copies of a chunk that do not tell it.
    fn failed_looks(&mut self, chunk: u32) -> u8 {
        let failed = self.looks().and_then(|looks| looks.failed.get(&chunk).cloned()).unwrap_or_default();
        failed.into_iter().filter_map(|member| self.copy_on(chunk, member)).map(bit).fold(0, |mask, copy| mask | copy)
    }

    fn ask_again(&mut self, chunk: u32) {
        if let Some(looks) = self.looks() {
            looks.again.insert(chunk);
        }
    }

    /// A member has no link any more: others are asked.
    pub(super) fn drop_looks(&mut self, cx: &mut Cx<'_>, member: Option<u16>) {
        let Some(looks) = self.looks() else { return };
        let of_member = looks.out.extract_if(.., |(_, of), _| member.is_none_or(|member| *of == member));
        for ((chunk, _), (_, key)) in of_member.collect::<Vec<_>>() {
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
            self.ask_again(chunk);
        }
    }

    /// It is over, or prevented.
    fn end_shrink(&mut self, cx: &mut Cx<'_>, outcome: Result<Resized, ResizeError>) {
        self.drop_looks(cx, None);
        let Some(shrink) = self.shrink.take() else { return };
        if outcome.is_err() && matches!(shrink.step, Step::Reads) {
            // Clients have the old end again.
            self.growth.told_bytes = Some(self.image.size_bytes());
        }
        self.shrunk = Some(outcome);
    }

    /// Nothing is addressed to chunks behind the end by clients any more: they are given up.
    fn cut_off(&mut self, cx: &mut Cx<'_>, chunks: u32) {
        let resized = self.resized_to(chunks);
        let behind = chunks..self.image.chunks();
        if behind.is_empty() {
            let number = self.log.wanted();
            return self.end_shrink(cx, Ok(Resized { number, ..resized }));
        }
        for chunk in self.jobs.range(chunks..).map(|(&chunk, _)| chunk).collect::<Vec<_>>() {
            self.give_up(cx, chunk);
        }
        self.void_jobs.split_off(&chunks);
        self.end_scrubs_behind(cx, chunks);
        let places: Vec<_> = behind.flat_map(|chunk| self.image.places(chunk).to_vec()).collect();
        let number = self.decide(Record::Shrunk { chunks });
        let after = if planted::is(Bug::ShrunkFreedEarly) { 0 } else { number };
        places.into_iter().for_each(|place| self.free(place, after));
        self.log.wait(number, Waiter::Freed);
        self.chunks.split_off(&chunks);
        self.rot.split_off(&chunks);
        self.stuck.split_off(&chunks);
        self.moves.forget_behind(chunks);
        self.lately.forget_behind(chunks);
        for set in [&mut self.doubt, &mut self.doubtful, &mut self.reopened] {
            set.split_off(&chunks);
        }
        self.order_anew();
        self.plan_anew(cx);
        self.end_shrink(cx, Ok(Resized { number, ..resized }));
        // They may have waited for doubtful copies.
        self.review_flushes(cx);
    }

    /// How far it is.
    pub(super) fn shrink_status(&self) -> Option<ShrinkStatus> {
        let shrink = self.shrink.as_ref()?;
        let all = self.image.chunks() - shrink.chunks;
        let done = match &shrink.step {
            Step::Mirrors | Step::Changes => 0,
            Step::Looks(looks) => {
                // At most as many as there are chunks.
                let left =
                    looks.out.keys().map(|(chunk, _)| chunk).chain(&looks.again).collect::<BTreeSet<_>>().len() as u32;
                (looks.next - shrink.chunks).saturating_sub(left)
            }
            Step::Reads => all,
        };
        let bytes = |chunks: u32| u64::from(chunks) * self.image.chunk_bytes();
        Some(ShrinkStatus { done_bytes: bytes(done), total_bytes: bytes(all) })
    }
}

/// Why it is not known what lies behind the end.
fn untold(cx: &Cx<'_>, (member, failure): (u16, Failure)) -> ResizeError {
    let name = cx.name(member);
    match failure {
        Failure::NotSupported => ResizeError::CannotTell { name },
        _ => ResizeError::Failed { name, failure },
    }
}

impl Gateway {
    /// Begins to make a volume with copies smaller. What lies behind its new end must be holes, unless it `gives_up` that. If `is_dry`, it is only looked
    /// whether that can be.
    ///
    /// [`Gateway::take_shrunk`] will have the outcome. Clients that were told the former size get errors for what lies behind the new one.
    pub fn shrink(
        &mut self,
        now: Time,
        volume: usize,
        size_bytes: u64,
        gives_up: bool,
        is_dry: bool,
    ) -> Result<(), ResizeError> {
        let begun = self.with_copies(now, volume, |copies, cx| copies.begin_shrink(cx, size_bytes, gives_up, is_dry));
        begun.unwrap_or(Err(super::MoveError::NoCopies.into()))
    }

    /// What came of making a volume smaller, once.
    pub fn take_shrunk(&mut self, volume: usize) -> Option<Result<Resized, ResizeError>> {
        let copies = self.volumes.get_mut(volume)?.copies.as_deref_mut()?;
        if let Some(reason) = copies.deposed.clone().filter(|_| copies.shrink.is_some()) {
            copies.shrink = None;
            return Some(Err(super::MoveError::Deposed(reason).into()));
        }
        copies.shrunk.take()
    }

    /// How far a volume is with getting smaller; `None` if it does not.
    #[must_use]
    pub fn shrink_status(&self, volume: usize) -> Option<ShrinkStatus> {
        self.volumes.get(volume)?.copies.as_deref()?.shrink_status()
    }
}
