//! A model of the air of one cell: frames with the time at which they are submitted in, their fates with the
//! time out.
//!
//! It does no I/O, reads no clock and moves no bytes: time is an argument, frames are lengths with a number, and the same
//! profile, seed and frames give the same fates on every machine, however often it is polled.
//!
//! ```text
//!  submit ─▶ station: queue ─▶ backoff ─▶ air ─▶ access point ─▶ queue for each receiver ─▶ backoff ─▶ air ─▶ outcome
//!  submit ─▶ cable ───────────────────────────▶      │
//!                                                    └─▶ cable ─▶ outcome
//! ```
//!
//! - [`Profile`]: the numbers of an air, and those that are built in
//! - [`Air`]: one cell of stations and their access point; or lines without a cell; or no medium at all
//! - [`bianchi`]: what a cell carries when all have always something to send, in closed form
//!
//! Its purpose is the shared air: all frames wait for all others, small ones cost nearly as much as large
//! ones, several together cost little more than one, and between stations everything crosses twice. **It is no forecast for
//! a particular room**: what it leaves out, and which numbers were published and which chosen, is in `docs/models.md`.

pub mod bianchi;
mod cell;
mod exchange;
mod lines;
mod outcomes;
pub mod profile;

use std::collections::VecDeque;

use flashmob_core::units::Time;

use self::cell::Cell;
use self::lines::Lines;
use self::outcomes::Outcomes;
pub use self::profile::{Dcf, Line, Medium, Profile, ProfileError};

/// A sender and receiver: the gateway or a node. Numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u32);

/// How a port is attached to the access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attachment {
    /// A station: everything between it and another one crosses the air twice.
    Wireless,
    /// By a cable.
    Wired,
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The caller's name for it.
    pub id: u64,
    /// Who sends it.
    pub from: Port,
    /// To whom; `None`: to everybody else.
    pub to: Option<Port>,
    /// Bytes of the Ethernet frame, its header of 14 bytes included, without checksum.
    pub len_bytes: u32,
}

/// The fate of a frame. A frame to one port has exactly one; a broadcast has one for each other port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The caller's name for it.
    pub id: u64,
    /// To whom it was.
    pub to: Port,
    /// When.
    pub at: Time,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It arrived.
    Delivered,
    /// A queue had no room.
    QueueFull,
    /// It was sent too often in vain.
    RetriesExceeded,
    /// The profile loses some: of those that nobody repeats. Or there is no such port.
    Lost,
}

/// Counts since the start; they never decrease. On lines, a frame counts as sent once it is on its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accesses to the medium by one station or several at once; beacons not counted.
    pub transmissions: u64,
    /// Frames in them, relayed ones twice, repeated ones each time.
    pub frames: u64,
    /// Their bytes with MAC headers.
    pub frame_bytes: u64,
    /// Times that several sent at once.
    pub collisions: u64,
    /// Frames sent again.
    pub retries: u64,
    /// Frames that arrived.
    pub delivered: u64,
    /// Frames that did not.
    pub dropped: u64,
    /// How long the medium was busy, in nanoseconds: preambles, frames, acknowledgements and the gaps between them.
    pub busy_ns: u64,
}

/// The latest time that the model knows, 292 years: so late that no sum of times overflows.
const LAST_NS: u64 = u64::MAX / 2;

#[derive(Clone, Debug)]
enum Means {
    /// Frames that arrive after the same delay, and so in their order.
    Ideal {
        delay_ns: u64,
        due: VecDeque<(u64, u64, Port)>,
    },
    Lines(Lines),
    Cell(Box<Cell>),
}

/// The air of one cell.
#[derive(Clone, Debug)]
pub struct Air {
    ports: u32,
    now_ns: u64,
    means: Means,
    outcomes: Outcomes,
}

impl Air {
    /// An air with these ports, over which nothing was sent yet. Random numbers are drawn from `seed`.
    #[must_use]
    pub fn new(profile: &Profile, ports: &[Attachment], seed: u64) -> Air {
        let means = match &profile.medium {
            Medium::Ideal { delay_ns } => Means::Ideal { delay_ns: *delay_ns, due: VecDeque::new() },
            Medium::Lines(line) => Means::Lines(Lines::new(line, ports, seed)),
            Medium::Cell(dcf) => Means::Cell(Box::new(Cell::new(dcf, ports, seed))),
        };
        let count = u32::try_from(ports.len()).unwrap_or(u32::MAX);
        Air { ports: count, now_ns: 0, means, outcomes: Outcomes::new(count) }
    }

    /// `frame.from` wants to send `frame` at `now`. Time never runs backwards: a `now` before the latest that the model has
    /// seen counts as that one. Everything due until then is done first. A frame from or to a port that does not exist, or
    /// from a port to itself, is lost at once.
    pub fn submit(&mut self, now: Time, frame: Frame) {
        self.run_until(now);
        let (now_ns, out) = (self.now_ns, &mut self.outcomes);
        let is_port = |port: Port| port.0 < self.ports;
        if !is_port(frame.from) || frame.to.is_some_and(|to| !is_port(to) || to == frame.from) {
            return out.fail(now_ns, &frame, Fate::Lost);
        }
        match &mut self.means {
            Means::Ideal { delay_ns, due } => {
                let others =
                    (0..self.ports).map(Port).filter(|&p| p != frame.from && frame.to.is_none_or(|to| to == p));
                due.extend(others.map(|to| (now_ns + *delay_ns, frame.id, to)));
            }
            Means::Lines(lines) => lines.submit(now_ns, frame, out),
            Means::Cell(cell) => cell.submit(now_ns, frame, out),
        }
    }

    /// When something will happen next; none if nothing will until something is submitted.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        if let Some(outcome) = self.outcomes.waiting.front() {
            return Some(outcome.at);
        }
        let next = match &self.means {
            Means::Ideal { due, .. } => due.front().map(|&(at, ..)| at),
            Means::Lines(lines) => lines.next_event(),
            Means::Cell(cell) => cell.next_event(),
        };
        next.map(Time)
    }

    /// Does everything up to and including `now`, and appends what became of frames, in the order of time.
    pub fn advance(&mut self, now: Time, outcomes: &mut Vec<Outcome>) {
        self.run_until(now);
        outcomes.extend(self.outcomes.waiting.drain(..));
    }

    fn run_until(&mut self, now: Time) {
        self.now_ns = self.now_ns.max(now.as_nanos().min(LAST_NS));
        let (now_ns, out) = (self.now_ns, &mut self.outcomes);
        match &mut self.means {
            Means::Ideal { due, .. } => {
                while let Some((at, id, to)) = due.pop_front_if(|&mut (at, ..)| at <= now_ns) {
                    out.push(at, id, to, Fate::Delivered);
                }
            }
            Means::Lines(lines) => lines.run_until(now_ns, out),
            Means::Cell(cell) => cell.run_until(now_ns, out),
        }
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.outcomes.counters
    }
}

#[cfg(test)]
mod tests;
