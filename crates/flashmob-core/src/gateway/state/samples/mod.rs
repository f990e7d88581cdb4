//! Samples: every nth request is followed through all stages, at the gateway and at the nodes.
//!
//! Memory is bounded: a limited number of samples in flight, and the last finished ones. A sample ends when its request has ended and
//! each of its nodes has reported its times; one that cannot end so is counted and dropped. A request that is not sampled costs only a
//! counter: everything else here happens while a sample is in flight.

mod sample;

use std::collections::VecDeque;
use std::time::Duration;

use super::links::LinkId;
use super::queue::Piece;
use super::requests::RequestKey;
use crate::clocks::{ClockRelation, Exchange};
use crate::counters::counters;
use crate::op::Failure;
use crate::units::Time;
use crate::wire::replies::Run;
use crate::wire::trace::{FOLLOWED_MAX, PieceTimes};
use sample::Outlook;
pub use sample::{AtOnce, Placed, Sample, SampledPiece};

/// Most samples in flight; further requests are not sampled.
pub const IN_FLIGHT_MAX: usize = 64;
/// How many finished samples are kept.
pub const FINISHED_MAX: usize = 256;
/// Most followed pieces of a sample: the first ones of a call with many parts.
pub const SAMPLED_PIECES_MAX: usize = 16;
/// How long a node may take to report its times, which it sends right behind its answers.
const TELL_PATIENCE: Duration = Duration::from_secs(5);

/// How requests are sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sampling {
    /// One request in this many is sampled; 0: none.
    pub one_in: u64,
    /// The device's monotonic clock at time zero, in nanoseconds.
    pub clock_start_ns: u64,
}

counters! {
    /// Counters of samples since the start.
    pub struct SampleCounters {
        begun: "Begun",
        finished: "Ended with all their times known",
        failed: "Ended with the failure of their request",
        crowded_out: "Not begun, for too many were in flight",
        abandoned: "Dropped: the client went before its request was answered",
        untold: "Dropped: a link broke, or was silent, before its node reported its times",
    }
}

/// A sample in flight.
#[derive(Debug)]
struct InFlight {
    key: RequestKey,
    sample: Sample,
    /// When its request ended.
    ended: Option<Time>,
}

/// The samples of a gateway.
#[derive(Debug)]
pub struct Samples {
    pub sampling: Sampling,
    /// Requests until the next sample.
    until_next: u64,
    /// Numbered from 1: a piece with 0 is not followed.
    slots: Vec<Option<InFlight>>,
    in_flight: usize,
    finished: VecDeque<Sample>,
    pub counters: SampleCounters,
    // Reused memory.
    marked: Vec<u16>,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples {
            sampling: Sampling::default(),
            until_next: u64::MAX,
            slots: Vec::new(),
            in_flight: 0,
            finished: VecDeque::new(),
            counters: SampleCounters::default(),
            marked: Vec::new(),
        }
    }
}

impl Samples {
    /// Applies from the next request on.
    pub fn set(&mut self, sampling: Sampling) {
        self.sampling = sampling;
        self.until_next = if sampling.one_in == 0 { u64::MAX } else { 1 };
    }

    /// A time of this gateway on its device's monotonic clock.
    pub fn clock_ns(&self, time: Time) -> u64 {
        self.sampling.clock_start_ns.saturating_add(time.as_nanos())
    }

    /// Whether the current request is to be sampled. Called once for each request.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.until_next -= 1;
        self.until_next == 0 && self.begin_round()
    }

    #[cold]
    fn begin_round(&mut self) -> bool {
        self.until_next = if self.sampling.one_in == 0 { u64::MAX } else { self.sampling.one_in };
        self.sampling.one_in != 0
    }

    /// Whether a sample is in flight. Otherwise no other method need be called.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.in_flight > 0
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub fn finished(&self) -> impl Iterator<Item = &Sample> {
        self.finished.iter()
    }

    /// Begins a sample. Returns its slot, for the request and its pieces: 0 if there is no room.
    pub fn begin(&mut self, key: RequestKey, mut sample: Sample) -> u8 {
        if self.in_flight >= IN_FLIGHT_MAX {
            self.counters.crowded_out += 1;
            return 0;
        }
        self.counters.begun += 1;
        sample.number = self.counters.begun;
        let entry = Some(InFlight { key, sample, ended: None });
        self.in_flight += 1;
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if free == self.slots.len() {
            self.slots.push(entry);
        } else {
            self.slots[free] = entry;
        }
        free as u8 + 1
    }

    /// A sample of a read that was answered at once.
    pub fn answered_at_once(&mut self, mut sample: Sample) {
        self.counters.begun += 1;
        sample.number = self.counters.begun;
        self.keep(sample);
    }

    fn of(&mut self, slot: u8, key: RequestKey) -> Option<&mut Sample> {
        let entry = self.slots.get_mut(usize::from(slot).checked_sub(1)?)?.as_mut()?;
        (entry.key == key).then_some(&mut entry.sample)
    }

    /// A piece of a sampled request was queued.
    #[cold]
    #[inline(never)]
    pub fn queued(&mut self, (slot, key): (u8, RequestKey), node: usize, offset_bytes: u64, len_bytes: u32) {
        if let Some(sample) = self.of(slot, key) {
            sample.pieces_in_all += 1;
            if sample.pieces.len() < SAMPLED_PIECES_MAX {
                sample.pieces.push(SampledPiece::new(node, offset_bytes, len_bytes));
            }
        }
    }

    /// Local extents have answered parts of a native read at once.
    pub fn read_parts(&mut self, slot: u8, key: RequestKey, at_once: AtOnce) {
        if let Some(sample) = self.of(slot, key) {
            sample.at_once = Some(at_once);
        }
    }

    /// A batch is being made. Returns the indices of the pieces to mark.
    pub fn batched(&mut self, now: Time, link: LinkId, seq: u32, node: usize, pieces: &[Piece]) -> &[u16] {
        let mut marked = std::mem::take(&mut self.marked);
        marked.clear();
        for (index, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.sample != 0) {
            let Some(sample) = self.of(piece.sample, piece.request) else { continue };
            let is_it = |p: &&mut SampledPiece| p.link.is_none() && p.is_at(node, piece.offset_bytes, piece.len_bytes);
            if let Some(followed) = sample.pieces.iter_mut().find(is_it) {
                if marked.len() == FOLLOWED_MAX {
                    // One mark too many for a batch: its times will not be reported.
                    followed.is_untold = true;
                    continue;
                }
                followed.batched = now;
                followed.batch_pieces = pieces.len() as u16;
                (followed.link, followed.seq, followed.index) = (Some(link), seq, index as u16);
                marked.push(index as u16);
            }
        }
        self.marked = marked;
        &self.marked
    }

    fn pieces_on(&mut self, link: LinkId) -> impl Iterator<Item = &mut SampledPiece> {
        let samples = self.slots.iter_mut().flatten().flat_map(|entry| &mut entry.sample.pieces);
        samples.filter(move |piece| piece.link == Some(link))
    }

    /// Everything queued on a link was written.
    pub fn written(&mut self, now: Time, link: LinkId) {
        for piece in self.pieces_on(link).filter(|p| p.sent.is_none() && p.returned.is_none()) {
            piece.sent = Some(now);
        }
    }

    /// An answer has arrived.
    pub fn returned(&mut self, now: Time, link: LinkId, run: &Run<'_>) {
        for piece in self.pieces_on(link).filter(|p| p.seq == run.seq && p.returned.is_none()) {
            if run.indices().any(|index| index == piece.index) {
                piece.returned = Some(now);
                piece.outcome = run.outcome;
            }
        }
    }

    /// A request has been answered.
    pub fn ended(&mut self, now: Time, key: RequestKey, failure: Option<Failure>) {
        for slot in 0..self.slots.len() {
            if let Some(entry) = self.slots[slot].as_mut().filter(|entry| entry.key == key && entry.ended.is_none()) {
                entry.ended = Some(now);
                entry.sample.replied = now;
                entry.sample.failure = failure;
                self.settle(slot);
            }
        }
    }

    /// A request was dropped with its client.
    pub fn forgotten(&mut self, key: RequestKey) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|entry| entry.key == key) {
                *slot = None;
                self.in_flight -= 1;
                self.counters.abandoned += 1;
            }
        }
    }

    /// A link is lost. Its unanswered pieces will be resent; the times of answered ones that are missing will not come.
    pub fn link_broken(&mut self, link: LinkId) {
        for piece in self.pieces_on(link) {
            if piece.returned.is_none() {
                piece.sent_again();
            } else if piece.times.is_none() {
                piece.is_untold = true;
            }
        }
        (0..self.slots.len()).for_each(|slot| self.settle(slot));
    }

    /// A node reports the times of a piece; ignored if no sample waits for them.
    pub fn told(&mut self, link: LinkId, times: PieceTimes, clock: &mut ClockRelation) {
        let start_ns = self.sampling.clock_start_ns;
        let ns = |time: Time| start_ns.saturating_add(time.as_nanos());
        let is_it = |p: &&mut SampledPiece| p.seq == times.seq && p.index == times.index && p.times.is_none();
        let Some(piece) = self.pieces_on(link).find(is_it) else { return };
        let Some(returned) = piece.returned else { return };
        // A batch is made before it is sent, so this time is certainly not too late.
        clock.note(Exchange {
            sent_ns: ns(piece.batched),
            received_there_ns: times.received_ns,
            sent_there_ns: times.replied_ns,
            returned_ns: ns(returned),
        });
        piece.times = Some(times);
        piece.clock = clock.offset(ns(returned));
        (0..self.slots.len()).for_each(|slot| self.settle(slot));
    }

    /// Gives up waiting for nodes that do not report.
    pub fn sweep(&mut self, now: Time) {
        for slot in 0..self.slots.len() {
            let Some(entry) = &mut self.slots[slot] else { continue };
            if entry.ended.is_some_and(|ended| now - ended >= TELL_PATIENCE) {
                entry.sample.pieces.iter_mut().for_each(|piece| piece.is_untold |= piece.times.is_none());
                self.settle(slot);
            }
        }
    }

    /// Ends a sample that waits for nothing more.
    fn settle(&mut self, slot: usize) {
        let Some(entry) = self.slots[slot].as_ref().filter(|entry| entry.ended.is_some()) else { return };
        let outlook = entry.sample.outlook();
        if outlook == Outlook::Waits {
            return;
        }
        let Some(entry) = self.slots[slot].take() else { return };
        self.in_flight -= 1;
        if outlook == Outlook::Untold {
            self.counters.untold += 1;
        } else {
            self.keep(entry.sample);
        }
    }

    fn keep(&mut self, mut sample: Sample) {
        sample.straighten();
        if sample.failure.is_some() {
            self.counters.failed += 1;
        } else {
            self.counters.finished += 1;
        }
        if self.finished.len() >= FINISHED_MAX {
            self.finished.pop_front();
        }
        self.finished.push_back(sample);
    }
}
