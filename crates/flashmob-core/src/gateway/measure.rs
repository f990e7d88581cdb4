//! Measuring one node while the cluster goes on: its flash, or the way to it.
//!
//! The gateway asks the node itself, past the layout and the copies: one request at a time first, then several. For the way these are reads of the
//! first bytes of the extent, which its page cache has after the first. For the flash they are digests of blocks that are drawn from the whole
//! extent and read past the page cache; a node of an earlier build hashes what its page cache has. Blocks of zeros are not counted: a hole is not
//! on the flash. Nothing is changed on the node.
//!
//! The requests are queued as those of clients are, with a turn of their own: they take from clients as one more client would.

use std::time::Duration;

use super::Gateway;
use super::state::queue::Piece;
use super::state::{InHand, RequestKey};
use crate::op::{Op, OpFlags};
use crate::units::Time;
use crate::wire::digest::{DIGEST_BLOCK_BYTES, put_digest_of_zeros};

/// [`InHand::inner`] of such requests.
pub(super) const INNER: u32 = u32::MAX;
/// How long requests are asked one at a time.
const ONE_LASTS: Duration = Duration::from_secs(2);
/// How long several are outstanding.
const MANY_LASTS: Duration = Duration::from_secs(3);
/// How long is waited for answers behind that.
const GRACE: Duration = Duration::from_secs(5);
/// Times of the first so many answers of a step are kept for its percentiles.
const TIMES_MAX: usize = 1 << 16;
/// Fewer blocks with data say nothing about a flash.
const BLOCKS_MIN: u64 = 20;

/// The longest read of the way.
const SIZE_MIN_BYTES: u64 = 64 << 10;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// How fast the flash answers reads of 4 KiB.
    Flash,
    /// How long a request takes there and back, and how many bytes come back in a second.
    Way,
}

/// Requests of one kind, so many at a time.
#[derive(Debug, Clone, Copy)]
struct Step {
    op: Op,
    flags: OpFlags,
    len_bytes: u32,
    outstanding: u32,
    lasts: Duration,
}

impl Aspect {
    fn steps(self) -> [Step; 2] {
        let (op, flags) = match self {
            Aspect::Flash => (Op::Digest, OpFlags::FROM_FLASH),
            Aspect::Way => (Op::Read, OpFlags::NONE),
        };
        let (one_bytes, many_bytes, outstanding) = match self {
            Aspect::Flash => (DIGEST_BLOCK_BYTES, DIGEST_BLOCK_BYTES, 16),
            Aspect::Way => (1, SIZE_MIN_BYTES as u32, 8),
        };
        let one = Step { op, flags, len_bytes: one_bytes, outstanding: 1, lasts: ONE_LASTS };
        [one, Step { len_bytes: many_bytes, outstanding, lasts: MANY_LASTS, ..one }]
    }
}

/// What one step has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests at a time.
    pub outstanding: u32,
    /// Bytes that each asked for.
    pub request_bytes: u32,
    /// Those that were answered, without the first ones and without blocks of zeros.
    pub answers: u64,
    /// In what time.
    pub took: Duration,
    /// The time of the median request.
    pub p50: Duration,
    /// The time that one request in a hundred exceeds.
    pub p99: Duration,
}

/// A node is measured, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// The node, counted over all volumes.
    pub node: usize,
    /// What of it.
    pub aspect: Aspect,
    /// It goes on for so much longer; `None` if it has ended.
    pub left: Option<Duration>,
    /// How long ago it began.
    pub begun_ago: Duration,
    /// Why there are no figures.
    pub trouble: Option<String>,
    /// Each step that has ended, or is under way.
    pub steps: Vec<Figures>,
    /// Blocks of zeros that were read from the flash.
    pub empty_blocks: u64,
}

/// Why a node is not measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum MeasureError {
    /// No such node.
    #[error("the volume has no node {number}; it has {count}, counted from 0")]
    NoNode { number: usize, count: usize },
    /// There is nothing to ask for.
    #[error("its extent has fewer than {} bytes", SIZE_MIN_BYTES)]
    TooSmall,
    /// It cannot be asked.
    #[error("the node is not linked, so that it cannot be measured")]
    NotLinked,
    /// One at a time.
    #[error("node {0} is being measured; wait until that has ended")]
    Busy(String),
    /// The gateway ends.
    #[error("the gateway is exiting")]
    Draining,
}

/// A step and what it found.
#[derive(Debug)]
struct Taken {
    step: Step,
    /// When it began, and when its first requests were answered.
    begun: Time,
    counted_from: Option<Time>,
    last: Time,
    /// Answers that are not counted.
    skipped: u32,
    answers: u64,
    /// Blocks of zeros.
    empty: u64,
    /// The time of all answers that count, each for itself.
    sum: Duration,
    times_us: Vec<u32>,
}

impl Taken {
    fn begin(step: Step, now: Time) -> Taken {
        Taken {
            step,
            begun: now,
            counted_from: None,
            last: now,
            skipped: 0,
            answers: 0,
            empty: 0,
            sum: Duration::ZERO,
            times_us: Vec::new(),
        }
    }

    fn note(&mut self, now: Time, took: Duration, is_counted: bool) {
        if self.skipped < self.step.outstanding {
            // The first ones may find nothing in the page cache, and the device asleep.
            self.skipped += 1;
            (self.counted_from, self.last) = (Some(now), now);
            return;
        }
        self.last = now;
        if !is_counted {
            self.empty += 1;
            return;
        }
        self.answers += 1;
        self.sum += took;
        if self.times_us.len() < TIMES_MAX {
            self.times_us.push(took.as_micros().min(u128::from(u32::MAX)) as u32);
        }
    }

    fn figures(&self) -> Figures {
        let mut times_us = self.times_us.clone();
        times_us.sort_unstable();
        let at = |percent: usize| times_us.get(times_us.len().saturating_sub(1) * percent / 100).copied();
        let time_of = |percent| Duration::from_micros(at(percent).unwrap_or_default().into());
        Figures {
            outstanding: self.step.outstanding,
            request_bytes: self.step.len_bytes,
            answers: self.answers,
            // Beside others that do not count, as many as were outstanding are taken to have shared the time (Little's law).
            took: match self.counted_from {
                Some(from) if self.empty == 0 => self.last - from,
                _ => self.sum / self.step.outstanding,
            },
            p50: time_of(50),
            p99: time_of(99),
        }
    }
}

/// The measurement under way, or the last one.
#[derive(Debug)]
pub(super) struct Measuring {
    node: usize,
    aspect: Aspect,
    /// Blocks of the extent.
    blocks: u64,
    begun: Time,
    steps: Vec<Taken>,
    keys: Vec<RequestKey>,
    random: u64,
    ended: Option<Time>,
    trouble: Option<String>,
}

impl Measuring {
    /// Blocks of zeros that were read.
    fn empty_blocks(&self) -> u64 {
        self.steps.iter().map(|taken| taken.empty).sum()
    }

    /// The next block, drawn by splitmix64.
    fn draw_block(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % self.blocks.max(1)
    }

    fn until(&self) -> Time {
        let steps = self.aspect.steps().into_iter().skip(self.steps.len());
        let begun = self.steps.last().map_or(self.begun, |taken| taken.begun + taken.step.lasts);
        begun + steps.map(|step| step.lasts).sum::<Duration>()
    }

    fn trouble_of_result(&self) -> Option<String> {
        let least = self.steps.iter().map(|taken| taken.answers).min().unwrap_or_default();
        match self.aspect {
            Aspect::Flash if least < BLOCKS_MIN => Some(format!(
                "too little is written there: of the blocks that were read, {} were zeros, and holes are not on the flash",
                self.empty_blocks()
            )),
            Aspect::Way if least == 0 => Some("too few requests were answered".to_string()),
            _ => None,
        }
    }
}

impl Gateway {
    /// Begins to measure a node of a volume.
    pub fn measure_node(
        &mut self,
        now: Time,
        volume: usize,
        number: usize,
        aspect: Aspect,
    ) -> Result<(), MeasureError> {
        if self.draining {
            return Err(MeasureError::Draining);
        }
        if let Some(running) = self.measuring.as_ref().filter(|measuring| measuring.ended.is_none()) {
            return Err(MeasureError::Busy(self.nodes[running.node].name.clone()));
        }
        let count = self.volumes.get(volume).map_or(0, |state| state.spec.extents.len());
        let node = self.node_number(volume, number).ok_or(MeasureError::NoNode { number, count })?;
        let state = &self.volumes[volume];
        let size_bytes = match state.sizes_bytes.get(number) {
            Some(&Some(size_bytes)) if self.nodes[node].links_up > 0 => size_bytes,
            _ => return Err(MeasureError::NotLinked),
        };
        if size_bytes < SIZE_MIN_BYTES {
            return Err(MeasureError::TooSmall);
        }
        self.measuring = Some(Box::new(Measuring {
            node,
            aspect,
            blocks: size_bytes / u64::from(DIGEST_BLOCK_BYTES),
            begun: now,
            steps: Vec::new(),
            keys: Vec::new(),
            random: self.config.seed ^ now.nanos_since(Time::default()),
            ended: None,
            trouble: None,
        }));
        self.next_sweep = self.next_sweep.max(now);
        self.next_step(now);
        Ok(())
    }

    /// What is being measured, or was measured last.
    #[must_use]
    pub fn measurement(&self, now: Time) -> Option<Measurement> {
        let measuring = self.measuring.as_deref()?;
        Some(Measurement {
            node: measuring.node,
            aspect: measuring.aspect,
            left: measuring.ended.is_none().then(|| measuring.until().max(now) - now),
            begun_ago: now - measuring.begun,
            trouble: measuring.trouble.clone(),
            steps: measuring.steps.iter().map(Taken::figures).collect(),
            empty_blocks: measuring.empty_blocks(),
        })
    }

    /// Whether a node (counted over all volumes) is being measured, or was so lately that recorded seconds show it.
    #[must_use]
    pub fn is_measured(&self, node: usize, now: Time) -> bool {
        let is_it = |measuring: &&Measuring| {
            let lasts_until = measuring.ended.map(|ended| ended + GRACE);
            measuring.node == node && lasts_until.is_none_or(|until| now < until)
        };
        self.measuring.as_deref().filter(is_it).is_some()
    }

    /// Begins the next step, or ends the measurement behind the last.
    fn next_step(&mut self, now: Time) {
        let Some(measuring) = self.measuring.as_deref_mut() else { return };
        let Some(&step) = measuring.aspect.steps().get(measuring.steps.len()) else {
            measuring.ended = Some(now);
            measuring.trouble = measuring.trouble_of_result();
            return;
        };
        measuring.steps.push(Taken::begin(step, now));
        for _ in 0..step.outstanding {
            self.ask_measured(now, step);
        }
    }

    /// Queues one request of a step.
    fn ask_measured(&mut self, now: Time, step: Step) {
        let reserved_bytes = u64::from(step.op.reply_bytes(step.len_bytes));
        let Some(measuring) = self.measuring.as_deref_mut().filter(|measuring| measuring.ended.is_none()) else {
            return;
        };
        if !self.memory.budget.try_reserve(reserved_bytes) {
            // Clients need it more.
            return self.end_measurement(now, "the gateway is short of memory");
        }
        let offset_bytes = match measuring.aspect {
            Aspect::Flash => measuring.draw_block() * u64::from(DIGEST_BLOCK_BYTES),
            Aspect::Way => 0,
        };
        let node = measuring.node;
        let (what, volume) = ((step.op, step.flags), self.nodes[node].volume as u32);
        let request = InHand::of_gateway((volume, INNER), what, vec![0; reserved_bytes as usize], now);
        let key = self.requests.insert(InHand { reserved_bytes, ..request });
        measuring.keys.push(key);
        self.queues.give(node, Piece::of_gateway(key, what, (offset_bytes, step.len_bytes), now));
    }

    /// A request of a measurement has been answered.
    pub(super) fn measured(&mut self, now: Time, key: RequestKey) {
        let Some(request) = self.requests.remove(key) else { return };
        self.memory.budget.release(request.reserved_bytes);
        let Some(measuring) = self.measuring.as_deref_mut().filter(|measuring| measuring.ended.is_none()) else {
            return;
        };
        let Some(place) = measuring.keys.iter().position(|known| *known == key) else { return };
        measuring.keys.swap_remove(place);
        if let Some(failure) = request.failure {
            return self.end_measurement(now, &format!("the node answered with an error: {failure}"));
        }
        let mut zeros = [0; 8];
        put_digest_of_zeros(&mut zeros);
        let is_empty = request.op == Op::Digest && request.buffer == zeros;
        let Some(taken) = measuring.steps.last_mut() else { return };
        taken.note(now, now - request.received, !is_empty);
        let (step, is_over) = (taken.step, now - taken.begun >= taken.step.lasts);
        if !is_over {
            self.ask_measured(now, step);
        } else if measuring.keys.is_empty() {
            self.next_step(now);
        }
    }

    /// Ends a measurement whose node does not answer.
    pub(super) fn sweep_measurement(&mut self, now: Time) {
        let is_late = |measuring: &Measuring| {
            let step = measuring.steps.last();
            step.is_some_and(|taken| now - taken.begun >= taken.step.lasts + GRACE)
        };
        if self.measuring.as_deref().is_some_and(|measuring| measuring.ended.is_none() && is_late(measuring)) {
            self.end_measurement(now, "the node did not answer in time");
        }
    }

    /// Ends a measurement that is under way, as the gateway is exiting.
    pub(super) fn drop_measurement(&mut self) {
        if let Some(begun) = self.measuring.as_deref().map(|measuring| measuring.begun) {
            self.end_measurement(begun, "the gateway is exiting");
        }
    }

    /// Ends a measurement that is under way, without figures.
    pub(super) fn end_measurement(&mut self, now: Time, why: &str) {
        let Some(measuring) = self.measuring.as_deref_mut().filter(|measuring| measuring.ended.is_none()) else {
            return;
        };
        (measuring.ended, measuring.trouble) = (Some(now), Some(why.to_string()));
        for key in std::mem::take(&mut measuring.keys) {
            if let Some(request) = self.requests.remove(key) {
                self.memory.budget.release(request.reserved_bytes);
            }
        }
        self.drop_dead_pieces();
    }
}
