//! Paths of frames: from the sender to the access point, and from there over the air or a cable.

use super::super::outcomes::Outcomes;
use super::super::{Attachment, Fate, Frame, Port};
use super::Cell;
use super::station::Settled;

/// A frame on a cable.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnWire {
    ToAccessPoint(Frame),
    ToPort(Frame, Port),
}

impl Cell {
    /// Gives `frame` to its sender's queue or cable.
    pub(in super::super) fn submit(&mut self, now_ns: u64, frame: Frame, out: &mut Outcomes) {
        match self.ports[frame.from.0 as usize] {
            Attachment::Wired => self.wire.push_back((now_ns + self.dcf.wire_ns, OnWire::ToAccessPoint(frame))),
            Attachment::Wireless => self.enqueue(now_ns, frame.from.0 as usize, 0, frame, out),
        }
    }

    fn enqueue(&mut self, now_ns: u64, station: usize, link: usize, frame: Frame, out: &mut Outcomes) {
        if self.stations[station].enqueue(link, frame) {
            self.contend(now_ns, station, out);
        } else if station == self.access_point() && frame.to.is_none() {
            // Wired receivers already have it.
            self.to_everybody(now_ns, frame, Fate::QueueFull, out);
        } else {
            out.fail(now_ns, &frame, Fate::QueueFull);
        }
    }

    /// The same fate for all wireless receivers.
    fn to_everybody(&self, now_ns: u64, frame: Frame, fate: Fate, out: &mut Outcomes) {
        for to in self.others(frame.from, Attachment::Wireless) {
            out.push(now_ns, frame.id, to, fate);
        }
    }

    fn others(&self, from: Port, attachment: Attachment) -> impl Iterator<Item = Port> {
        let ports = self.ports.iter().enumerate().filter(move |(_, a)| **a == attachment);
        ports.map(|(i, _)| Port(i as u32)).filter(move |&port| port != from)
    }

    pub(super) fn leave_wire(&mut self, at: u64, out: &mut Outcomes) {
        match self.wire.pop_front() {
            Some((_, OnWire::ToAccessPoint(frame))) => self.route(at, frame, out),
            Some((_, OnWire::ToPort(frame, to))) => out.push(at, frame.id, to, Fate::Delivered),
            None => {}
        }
    }

    /// The access point forwards `frame`.
    fn route(&mut self, at: u64, frame: Frame, out: &mut Outcomes) {
        let ap = self.access_point();
        let arrives = at + self.dcf.wire_ns;
        match frame.to {
            Some(to) if self.ports[to.0 as usize] == Attachment::Wired => {
                self.wire.push_back((arrives, OnWire::ToPort(frame, to)));
            }
            Some(to) => self.enqueue(at, ap, to.0 as usize, frame, out),
            None => {
                let wired: Vec<Port> = self.others(frame.from, Attachment::Wired).collect();
                self.wire.extend(wired.into_iter().map(|to| (arrives, OnWire::ToPort(frame, to))));
                if self.others(frame.from, Attachment::Wireless).next().is_some() {
                    self.enqueue(at, ap, ap, frame, out);
                }
            }
        }
    }

    pub(super) fn pass_on(&mut self, at: u64, from: usize, settled: &[Settled], out: &mut Outcomes) {
        let is_relayed = from != self.access_point();
        for &one in settled {
            match one {
                Settled::Released(frame) if is_relayed => self.route(at, frame, out),
                Settled::Released(frame) => out.deliver(at, &frame),
                Settled::GivenUp(frame) => out.fail(at, &frame, Fate::RetriesExceeded),
            }
        }
    }

    /// Broadcasts are not acknowledged, and so not retransmitted.
    pub(super) fn broadcast(&mut self, at: u64, is_alone: bool, settled: &[Settled], out: &mut Outcomes) {
        for one in settled {
            let (Settled::Released(frame) | Settled::GivenUp(frame)) = one;
            for to in self.others(frame.from, Attachment::Wireless).collect::<Vec<_>>() {
                let is_lost = !is_alone || self.random.next() % 1_000_000 < u64::from(self.dcf.loss_ppm);
                out.push(at, frame.id, to, if is_lost { Fate::Lost } else { Fate::Delivered });
            }
        }
    }
}
