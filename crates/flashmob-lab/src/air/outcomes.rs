//! Outcomes of frames until they are collected, and their counters.

use std::collections::VecDeque;

use flashmob_core::units::Time;

use super::{Counters, Fate, Frame, Outcome, Port};

#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    ports: u32,
    pub(super) waiting: VecDeque<Outcome>,
    pub(super) counters: Counters,
}

impl Outcomes {
    pub(super) fn new(ports: u32) -> Outcomes {
        Outcomes { ports, waiting: VecDeque::new(), counters: Counters::default() }
    }

    pub(super) fn push(&mut self, at_ns: u64, id: u64, to: Port, fate: Fate) {
        match fate {
            Fate::Delivered => self.counters.delivered += 1,
            Fate::QueueFull | Fate::RetriesExceeded | Fate::Lost => self.counters.dropped += 1,
        }
        self.waiting.push_back(Outcome { id, to, at: Time(at_ns), fate });
    }

    /// Reports the delivery of a unicast frame.
    pub(super) fn deliver(&mut self, at_ns: u64, frame: &Frame) {
        if let Some(to) = frame.to {
            self.push(at_ns, frame.id, to, Fate::Delivered);
        }
    }

    /// Reports the loss of a frame to all its receivers.
    pub(super) fn fail(&mut self, at_ns: u64, frame: &Frame, fate: Fate) {
        match frame.to {
            Some(to) => self.push(at_ns, frame.id, to, fate),
            None => (0..self.ports).map(Port).filter(|&to| to != frame.from).for_each(|to| {
                self.push(at_ns, frame.id, to, fate);
            }),
        }
    }
}
