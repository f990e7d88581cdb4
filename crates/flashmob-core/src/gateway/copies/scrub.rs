//! Scrubs: whether copies still are what they were, read from the flash.
//!
//! A scrub goes through a volume or a node in ranges. It has each range hashed by the nodes that have it, from the flash and in the background
//! ([`crate::op::OpFlags`]), without a lock: no change waits for it. What it learns so is only a suspicion:
//!
//! ```text
//!  range ─▶ a digest of each copy ─▶ a block does not match ─▶ rot: a job mends it, under lock           (mend.rs)
//!                                ─▶ copies differ          ─▶ a job looks again, under lock              (jobs.rs)
//!                                                              still: listed                             (repair.rs)
//! ```
//!
//! Two kinds of *passes*: one *verifies* the copies of one member, by their checksums, in the order of their slots; one *compares* all copies of
//! the volume, which verifies them as well. Each begins when its time has come, goes on where it was after a restart of the gateway, and waits
//! for devices that are fit ([`fit`]). How much time they take is the business of [`throttle`].

pub mod bad;
mod fit;
mod kept;
mod passes;
mod scan;
mod status;
mod throttle;

use std::time::Duration;

use super::{Copies, Cx};
use crate::gateway::Gateway;
use crate::units::{Time, bring_forward};
use crate::wire::digest::DIGEST_BLOCK_BYTES;

use bad::BadBlocks;
pub use bad::{BAD_BLOCKS_MAX, BadBlock, BadRange, Flaw};
pub use kept::{PassKept, ScrubKept};
use passes::{Of, Pass};
use scan::Range;
pub use status::{PassStatus, ScrubStatus};
use throttle::Throttle;

/// How often a volume is scrubbed by itself, and what is known of earlier scrubs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubSpec {
    /// How often the copies of each member are verified; `None`: never.
    pub verify_every: Option<Duration>,
    /// How often all copies are compared; `None`: never.
    pub compare_every: Option<Duration>,
    /// What an earlier start of the gateway knew.
    pub kept: ScrubKept,
}

/// Why a scrub is not begun or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScrubError {
    /// The volume is of another layout.
    #[error("the volume has no copies, and its data has no checksums: there is nothing to verify it with")]
    NoCopies,
    /// A later gateway is in charge.
    #[error("another gateway is in charge of the volume: {0}")]
    Deposed(String),
}

/// The scrubs of one volume.
#[derive(Debug, Default)]
pub struct Scrub {
    verify_every: Option<Duration>,
    compare_every: Option<Duration>,
    compare: Pass,
    /// By member.
    verify: Vec<Pass>,
    /// Blocks that cannot be mended.
    pub bad: BadBlocks,
    throttle: Throttle,
    /// What is out.
    ranges: Vec<Range>,
    next_serial: u64,
    /// When a client last made a request.
    used: Option<Time>,
    /// The gateway ends: nothing is begun any more.
    is_ending: bool,
    /// Passes that have begun or ended.
    turns: u64,
    /// The last job that has looked again at a range to its end.
    pub last_job: Option<u64>,
    /// When the owner may be told again of copies that differ.
    tell_at: Time,
    /// When to call [`Copies::scrub`] next.
    pub due: Option<Time>,
}

impl Scrub {
    /// One more member.
    pub fn add(&mut self, now: Time) {
        let mut pass = Pass::default();
        pass.count_from(now);
        self.verify.push(pass);
    }

    /// At the gateway's start.
    pub fn new(spec: &ScrubSpec, members: usize, chunks: u32, chunk_bytes: u64) -> Scrub {
        let blocks_of_chunk = (chunk_bytes / u64::from(DIGEST_BLOCK_BYTES)) as u32;
        let mut scrub = Scrub {
            verify_every: spec.verify_every,
            compare_every: spec.compare_every,
            compare: Pass::new(&spec.kept.compare),
            verify: (0..members).map(|n| Pass::new(&spec.kept.members.get(n).copied().unwrap_or_default())).collect(),
            bad: BadBlocks::new(&spec.kept.bad, chunks, blocks_of_chunk),
            ..Scrub::default()
        };
        let is_planned = spec.verify_every.is_some() || spec.compare_every.is_some();
        scrub.due = (is_planned || !scrub.running().is_empty()).then_some(Time::default());
        scrub
    }

    fn pass(&self, of: Of) -> Option<&Pass> {
        match of {
            Of::Compare => Some(&self.compare),
            Of::Verify(member) => self.verify.get(usize::from(member)),
        }
    }

    fn pass_mut(&mut self, of: Of) -> Option<&mut Pass> {
        match of {
            Of::Compare => Some(&mut self.compare),
            Of::Verify(member) => self.verify.get_mut(usize::from(member)),
        }
    }

    fn look_at(&mut self, at: Time) {
        bring_forward(&mut self.due, at);
    }
}

impl Copies {
    /// Goes on with scrubs. Call it when [`Scrub::due`] says so.
    pub fn scrub(&mut self, cx: &mut Cx<'_>) {
        self.scrub.due = None;
        if self.deposed.is_some() || self.scrub.is_ending {
            return self.drop_scrubs(cx, |_| true);
        }
        self.drop_stuck_ranges(cx);
        self.begin_due_passes(cx);
        for of in self.scrub.running() {
            self.advance_pass(cx, of);
        }
        self.plan_scrubs(cx.now);
    }

    /// A client uses the volume.
    pub fn note_use(&mut self, now: Time) {
        self.scrub.used = Some(now);
    }

    /// The gateway ends: scrubs do not hold it up.
    pub fn end_scrubs(&mut self) {
        self.scrub.is_ending = true;
    }
}

impl Gateway {
    /// Begins to compare all copies of a volume, unless that is under way. If it `is_forced`, whatever its devices do.
    pub fn begin_scrub(&mut self, now: Time, volume: usize, is_forced: bool) -> Result<(), ScrubError> {
        self.with_scrub(now, volume, |copies, cx| copies.begin_asked(cx, is_forced))
    }

    /// Ends the scrubs of a volume that are under way. They begin again when their time has come, from the beginning.
    pub fn stop_scrub(&mut self, now: Time, volume: usize) -> Result<(), ScrubError> {
        self.with_scrub(now, volume, Copies::stop_asked)
    }

    fn with_scrub(
        &mut self,
        now: Time,
        volume: usize,
        event: impl FnOnce(&mut Copies, &mut Cx<'_>),
    ) -> Result<(), ScrubError> {
        let copies = self.volumes.get(volume).and_then(|state| state.copies.as_deref()).ok_or(ScrubError::NoCopies)?;
        if let Some(reason) = &copies.deposed {
            return Err(ScrubError::Deposed(reason.clone()));
        }
        self.with_copies(now, volume, event);
        Ok(())
    }
}
