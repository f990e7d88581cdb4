//! A model of a wireless cell. Input: frames with the times of their submission. Output: their fates with
//! times.
//!
//! It does no I/O, reads no clock and moves no bytes: time is an argument, a frame is a length with an id, and the same
//! profile, seed and frames give the same fates on every machine, regardless of how often it is polled.
//!
//! ```text
//!  submit ─▶ station: queue ─▶ backoff ─▶ air ─▶ access point ─▶ queue for each receiver ─▶ backoff ─▶ air ─▶ outcome
//!  submit ─▶ cable ───────────────────────────▶      │
//!                                                    └─▶ cable ─▶ outcome
//! ```
//!
//! - [`Profile`]: the parameters of a medium, and the built-in profiles
//! - [`Air`]: one cell of stations and their access point; or separate lines; or no medium at all
//! - [`bianchi`]: the throughput of a saturated cell, in closed form
//! - [`streamed`]: the same by the model, with whichever gateway
//!
//! Its purpose is the shared medium: all frames contend with all others, small ones cost nearly as much as large
//! ones, aggregated ones little more than one, and traffic between stations crosses it twice. **It is no forecast for
//! a particular room**: `docs/models.md` lists what it omits, and which numbers were published and which chosen.

pub mod bianchi;
mod cell;
mod exchange;
mod lines;
mod outcomes;
pub mod profile;
mod stream;

use std::collections::VecDeque;
use std::time::Duration;

use flashmob_core::units::Time;

use self::cell::Cell;
use self::lines::Lines;
use self::outcomes::Outcomes;
pub use self::profile::{Dcf, Line, Medium, Profile, ProfileError};
pub use self::stream::{Direction, Streams, streamed};

/// A sender and receiver: the gateway or a node. Numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u32);

/// A port's attachment to the access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attachment {
    /// A station: traffic between two stations crosses the air twice.
    Wireless,
    /// By a cable.
    Wired,
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The caller's id of the frame.
    pub id: u64,
    /// The sender.
    pub from: Port,
    /// The receiver; `None` for a broadcast.
    pub to: Option<Port>,
    /// Size of the Ethernet frame, including its header of 14 bytes, without checksum.
    pub len_bytes: u32,
}

/// The fate of a frame at one receiver. A unicast has exactly one; a broadcast has one for each other port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The caller's id of the frame.
    pub id: u64,
    /// The receiver.
    pub to: Port,
    /// The time.
    pub at: Time,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Delivered to the receiver.
    Delivered,
    /// Dropped because a queue was full.
    QueueFull,
    /// Dropped after the maximum number of retransmissions.
    RetriesExceeded,
    /// Lost without retransmission, on a line or as a broadcast; or a port is invalid.
    Lost,
}

/// Counters since the start; they never decrease. On lines, a frame counts as sent once it is on its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accesses to the medium by one station or several at once, without beacons.
    pub transmissions: u64,
    /// Frames in them; relayed ones count twice, retransmissions each time.
    pub frames: u64,
    /// Bytes of these frames, with MAC headers.
    pub frame_bytes: u64,
    /// Collisions: accesses by several stations at once.
    pub collisions: u64,
    /// Retransmitted frames.
    pub retries: u64,
    /// Delivered frames.
    pub delivered: u64,
    /// Frames that were not delivered.
    pub dropped: u64,
    /// Busy time of the medium, in nanoseconds: preambles, frames, acknowledgements and the gaps between them.
    pub busy_ns: u64,
}

/// The latest time of the model, 292 years: no sum of times overflows.
const LAST_NS: u64 = u64::MAX / 2;

#[derive(Clone, Debug)]
enum Means {
    /// Frames in the order of their arrivals: all have the same delay.
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
    /// A medium with these ports, without frames. Random numbers are drawn from `seed`.
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

    /// Sets the loss on the way between a port and the access point, in parts per million of the frames sent; before that it is that of the
    /// profile. An ideal medium has none.
    pub fn set_loss(&mut self, port: Port, loss_ppm: u32) {
        match &mut self.means {
            Means::Ideal { .. } => {}
            Means::Lines(lines) => lines.set_loss(port, loss_ppm),
            Means::Cell(cell) => cell.set_loss(port, loss_ppm),
        }
    }

    /// Lets frames on the line of a port take longer, each way. Other media than lines have none.
    pub fn set_delay(&mut self, port: Port, delay: Duration) {
        if let Means::Lines(lines) = &mut self.means {
            lines.set_delay(port, u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Submits `frame` from `frame.from` at `now`. Time never runs backwards: a `now` before the latest that the model has
    /// seen counts as that one. Events due until then are processed first. A frame is lost at once if a port does not
    /// exist or if it is sent from a port to itself.
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

    /// The time of the next event; `None` if there is none until the next submission.
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

    /// Processes all events up to and including `now`, and appends the outcomes of frames, in the order of time.
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

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.outcomes.counters
    }
}

#[cfg(test)]
mod tests;
