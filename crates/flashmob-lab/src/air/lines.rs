//! No shared medium: one line each way for each wireless port. A frame from one wireless port to
//! another takes the uplink of the first and the downlink of the second; wired ports are at the central point.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::outcomes::Outcomes;
use super::profile::Line;
use super::{Attachment, Fate, Frame, Port};
use crate::random::Random;

/// One line in one direction.
#[derive(Clone, Debug, Default)]
struct Pipe {
    /// Completion times of the frames in the queue.
    leaving: VecDeque<u64>,
    /// The latest arrival: frames are not reordered.
    last_arrival_ns: u64,
}

/// A frame that has crossed a line, or needed none, and its time of arrival. Ordered by time, then by `order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at_ns: u64,
    order: u64,
    id: u64,
    len_bytes: u32,
    to: Port,
    /// A downlink is still ahead.
    is_halfway: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Lines {
    line: Line,
    ports: Vec<Attachment>,
    up: Vec<Pipe>,
    down: Vec<Pipe>,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    order: u64,
    random: Random,
    /// Loss on the line of each port, in parts per million.
    losses_ppm: Vec<u32>,
    /// What a frame takes longer each way on the line of each port.
    delays_ns: Vec<u64>,
}

impl Lines {
    pub(super) fn new(line: &Line, ports: &[Attachment], seed: u64) -> Lines {
        Lines {
            line: *line,
            ports: ports.to_vec(),
            up: vec![Pipe::default(); ports.len()],
            down: vec![Pipe::default(); ports.len()],
            arrivals: BinaryHeap::new(),
            order: 0,
            random: Random::new(seed),
            losses_ppm: vec![line.loss_ppm; ports.len()],
            delays_ns: vec![0; ports.len()],
        }
    }

    pub(super) fn set_loss(&mut self, port: Port, loss_ppm: u32) {
        if let Some(loss) = self.losses_ppm.get_mut(port.0 as usize) {
            *loss = loss_ppm;
        }
    }

    pub(super) fn set_delay(&mut self, port: Port, delay_ns: u64) {
        if let Some(delay) = self.delays_ns.get_mut(port.0 as usize) {
            *delay = delay_ns;
        }
    }

    /// A broadcast is sent to each receiver separately: lines do not broadcast.
    pub(super) fn submit(&mut self, now_ns: u64, frame: Frame, out: &mut Outcomes) {
        let targets = (0..self.ports.len() as u32).map(Port);
        for to in targets.filter(|&to| to != frame.from && frame.to.is_none_or(|only| only == to)) {
            self.order += 1;
            let sent = Arrival {
                at_ns: now_ns + 1,
                order: self.order,
                id: frame.id,
                len_bytes: frame.len_bytes,
                to,
                is_halfway: self.ports[to.0 as usize] == Attachment::Wireless,
            };
            match self.ports[frame.from.0 as usize] {
                // Events must not be due at the time of the submission itself.
                Attachment::Wired => self.arrivals.push(Reverse(sent)),
                Attachment::Wireless => self.send(now_ns, frame.from, true, sent, out),
            }
        }
    }

    /// Sends a frame on the line of `port`.
    fn send(&mut self, now_ns: u64, port: Port, is_up: bool, frame: Arrival, out: &mut Outcomes) {
        let line = &self.line;
        let loss_ppm = self.losses_ppm.get(port.0 as usize).copied().unwrap_or_default();
        if loss_ppm > 0 && self.random.next() % 1_000_000 < u64::from(loss_ppm) {
            return out.push(now_ns, frame.id, frame.to, Fate::Lost);
        }
        let pipes = if is_up { &mut self.up } else { &mut self.down };
        let pipe = &mut pipes[port.0 as usize];
        while pipe.leaving.front().is_some_and(|&at| at <= now_ns) {
            pipe.leaving.pop_front();
        }
        if pipe.leaving.len() >= line.queue_frames as usize {
            return out.push(now_ns, frame.id, frame.to, Fate::QueueFull);
        }
        let begins = pipe.leaving.back().copied().unwrap_or(now_ns);
        let leaves = begins.saturating_add(line.send_ns(u64::from(frame.len_bytes)).max(1));
        pipe.leaving.push_back(leaves);
        let jitter_ns = if line.jitter_ns == 0 { 0 } else { self.random.next() % (line.jitter_ns + 1) };
        let delay_ns = line.delay_ns + self.delays_ns.get(port.0 as usize).copied().unwrap_or_default();
        let at_ns = leaves.saturating_add(delay_ns + jitter_ns).max(pipe.last_arrival_ns);
        pipe.last_arrival_ns = at_ns;
        out.counters.transmissions += 1;
        out.counters.frames += 1;
        out.counters.frame_bytes += u64::from(frame.len_bytes);
        self.arrivals.push(Reverse(Arrival { at_ns, ..frame }));
    }

    pub(super) fn next_event(&self) -> Option<u64> {
        self.arrivals.peek().map(|next| next.0.at_ns)
    }

    /// Processes all events up to and including `now_ns`.
    pub(super) fn run_until(&mut self, now_ns: u64, out: &mut Outcomes) {
        while self.next_event().is_some_and(|at| at <= now_ns) {
            let Some(Reverse(frame)) = self.arrivals.pop() else { return };
            if frame.is_halfway {
                let down = Arrival { is_halfway: false, ..frame };
                self.send(frame.at_ns, frame.to, false, down, out);
            } else {
                out.push(frame.at_ns, frame.id, frame.to, Fate::Delivered);
            }
        }
    }
}
