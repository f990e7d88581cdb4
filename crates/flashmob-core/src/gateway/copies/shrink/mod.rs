//! A volume with copies shrinks while it is used: the chunks behind its new end are given up.
//!
//! ```text
//!  asked ─▶ mirrors have what the map had ─▶ if it is given up: a former gateway cannot change it ─▶ changes behind the end are refused
//!                                                                                                         │
//!     ┌─ all copies that are there are holes (if it is not given up) ◀─ changes that are under way end ◀──┘
//!     └─▶ the end is the new one for clients ─▶ reads behind it end ─▶ decided, in mirrors as well ─▶ the slots are freed
//! ```
//!
//! Until it is decided nothing is lost: whatever prevents it before, and a gateway that is killed, leave the volume as it was.

mod looks;

use super::log::Waiter;
use super::resize::{ResizeError, Resized};
use super::{Copies, Cx, Inner};
use crate::copies::Record;
use crate::gateway::Gateway;
use crate::op::{Failure, Op};
use crate::planted::{self, Bug};
use crate::units::Time;
use looks::{Looks, untold};

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
    /// Of a chunk that cannot be looked at, a member that is away.
    awaits: Option<u16>,
}

#[derive(Debug)]
enum Step {
    /// It is not known yet which nodes keep mirrors of the map.
    Mirrors,
    /// What is given up has to be beyond the reach of a former gateway, which is so before this chunk.
    Fence(u32),
    /// Changes behind the end have to end.
    Changes,
    /// Chunks behind it are looked at.
    Looks(Looks),
    /// Reads behind the end have to end.
    Reads,
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
            let has_begun = !shrink.is_dry && !matches!(shrink.step, Step::Mirrors | Step::Fence(_));
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
                Step::Fence(next) => self.is_fenced_behind_end(cx, *next),
                Step::Changes => {
                    shrink.is_dry || !self.changes.iter().any(|(_, change)| shrink.is_behind(change.chunk))
                }
                Step::Looks(_) => self.look_behind_end(cx),
                Step::Reads => !self.is_read_behind_end(),
            };
            let Some(shrink) = &self.shrink else { return };
            if !is_over {
                if cx.now - shrink.since >= self.timeout {
                    let error = match (&shrink.step, shrink.awaits) {
                        (Step::Mirrors, _) => ResizeError::Unmirrored,
                        (Step::Fence(chunk), _) => ResizeError::Unfenced { names: self.names_of(cx, *chunk) },
                        (Step::Looks(_), Some(member)) => ResizeError::Away { name: cx.name(member) },
                        (Step::Looks(looks), None) => {
                            looks.failure().map_or(ResizeError::Busy, |failed| untold(cx, failed))
                        }
                        _ => ResizeError::Busy,
                    };
                    return self.end_shrink(cx, Err(error));
                }
                return self.look_at(cx.now + super::watch::WATCH_INTERVAL);
            }
            let Some(shrink) = &mut self.shrink else { return };
            shrink.since = cx.now;
            match shrink.step {
                Step::Mirrors if shrink.gives_up => shrink.step = Step::Fence(shrink.chunks),
                Step::Mirrors | Step::Fence(_) => shrink.step = Step::Changes,
                Step::Changes if !shrink.gives_up => {
                    shrink.step = Step::Looks(Looks::from(shrink.chunks));
                }
                Step::Changes | Step::Looks(_) if shrink.is_dry => {
                    let chunks = shrink.chunks;
                    let resized = self.resized_to(chunks);
                    return self.end_shrink(cx, Ok(resized));
                }
                Step::Changes | Step::Looks(_) => {
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
        self.heals.split_off(&chunks);
        self.hopeless.split_off(&chunks);
        self.stuck.split_off(&chunks);
        self.behind_last.split_off(&chunks);
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
            Step::Mirrors | Step::Fence(_) | Step::Changes => 0,
            Step::Looks(looks) => looks.done(shrink.chunks),
            Step::Reads => all,
        };
        let bytes = |chunks: u32| u64::from(chunks) * self.image.chunk_bytes();
        Some(ShrinkStatus { done_bytes: bytes(done), total_bytes: bytes(all) })
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
