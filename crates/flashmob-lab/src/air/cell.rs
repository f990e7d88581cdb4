//! A cell: stations and their access point on one channel.
//!
//! Time is divided into slots only while the medium is idle: slot 0 begins after the required idle time.
//! Each station in backoff has the slot in which it ends; the station with the lowest slot sends, and several with
//! the same slot collide. Then the others keep their remaining backoff, and slots are counted from 0 again.

mod beacons;
mod relay;
mod station;

use std::collections::VecDeque;

use self::beacons::Beacons;
use self::relay::OnWire;
use self::station::{Settled, Station};
use super::outcomes::Outcomes;
use super::profile::Dcf;
use super::{Attachment, Port};
use crate::random::Random;

#[derive(Clone, Copy, Debug)]
enum Event {
    Wire,
    Beacon,
    /// Backoff ends in this slot.
    Start(u64),
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Cell {
    dcf: Dcf,
    ampdu_bytes_max: u64,
    ports: Vec<Attachment>,
    /// One for each port, then the access point, which has a link for each port and one for broadcasts.
    stations: Vec<Station>,
    /// Stations in backoff.
    backing_off: Vec<usize>,
    /// Sending stations, and the end of the longest transmission.
    sending: Vec<usize>,
    ends: Option<u64>,
    /// The begin of slot 0.
    free_ns: u64,
    beacons: Beacons,
    wire: VecDeque<(u64, OnWire)>,
    random: Random,
    settled: Vec<Settled>,
    /// Loss on the way of each port, in parts per million.
    losses_ppm: Vec<u32>,
}

impl Cell {
    pub(super) fn new(dcf: &Dcf, ports: &[Attachment], seed: u64) -> Cell {
        let mut stations: Vec<Station> = ports.iter().map(|_| Station::new(dcf)).collect();
        stations.push(Station::access_point(dcf, ports.len()));
        Cell {
            dcf: *dcf,
            ampdu_bytes_max: dcf.ampdu_bytes_max(),
            ports: ports.to_vec(),
            stations,
            backing_off: Vec::new(),
            sending: Vec::new(),
            ends: None,
            free_ns: 0,
            beacons: Beacons::new(dcf),
            wire: VecDeque::new(),
            random: Random::new(seed),
            settled: Vec::new(),
            losses_ppm: vec![dcf.loss_ppm; ports.len()],
        }
    }

    pub(super) fn set_loss(&mut self, port: Port, loss_ppm: u32) {
        if let Some(loss) = self.losses_ppm.get_mut(port.0 as usize) {
            *loss = loss_ppm;
        }
    }

    fn access_point(&self) -> usize {
        self.ports.len()
    }

    /// `station` has a frame to send: without a backoff it sends in the next slot if the medium is idle, or else draws
    /// one.
    fn contend(&mut self, now_ns: u64, station: usize, out: &mut Outcomes) {
        if self.ends.is_none() {
            self.beacons_until(now_ns, out);
        }
        if self.stations[station].is_sending {
            return;
        }
        let idle_for = if self.ends.is_some() { None } else { now_ns.checked_sub(self.free_ns) };
        let next_slot = idle_for.map(|ns| ns / self.dcf.slot_ns + 1);
        let is_new = self.stations[station].due.is_none();
        let due = match (self.stations[station].due, next_slot) {
            (Some(due), Some(next)) => due.max(next),
            (Some(due), None) => due,
            (None, Some(next)) => next,
            (None, None) => self.draw(station),
        };
        self.stations[station].due = Some(due);
        if is_new {
            self.backing_off.push(station);
        }
    }

    fn draw(&mut self, station: usize) -> u64 {
        self.random.next() % (u64::from(self.stations[station].cw) + 1)
    }

    fn next(&self) -> Option<(u64, Event)> {
        let wire = self.wire.front().map(|&(at, _)| (at, Event::Wire));
        let medium = match self.ends {
            Some(at) => Some((at, Event::End)),
            None => self.next_start(),
        };
        match (wire, medium) {
            (Some(wire), Some(medium)) => Some(if wire.0 <= medium.0 { wire } else { medium }),
            (wire, medium) => wire.or(medium),
        }
    }

    fn next_start(&self) -> Option<(u64, Event)> {
        let working = self.backing_off.iter().map(|&i| &self.stations[i]).filter(|s| s.has_work());
        let slot = working.filter_map(|s| s.due).min()?;
        let at = self.free_ns + slot * self.dcf.slot_ns;
        let beacon = self.beacons.next_ns.max(self.free_ns);
        Some(if beacon <= at { (beacon, Event::Beacon) } else { (at, Event::Start(slot)) })
    }

    pub(super) fn next_event(&self) -> Option<u64> {
        self.next().map(|(at, _)| at)
    }

    /// Processes all events up to and including `now_ns`.
    pub(super) fn run_until(&mut self, now_ns: u64, out: &mut Outcomes) {
        while let Some((at, event)) = self.next().filter(|&(at, _)| at <= now_ns) {
            match event {
                Event::Wire => self.leave_wire(at, out),
                Event::Beacon => self.beacon(out),
                Event::Start(slot) => self.start(at, slot, out),
                Event::End => self.end(at, out),
            }
        }
        if self.ends.is_none() {
            self.beacons_until(now_ns, out);
        }
    }

    /// All stations whose backoff ends in `slot` send.
    fn start(&mut self, at: u64, slot: u64, out: &mut Outcomes) {
        self.sending.clear();
        let mut longest = 0;
        for i in 0..self.backing_off.len() {
            let index = self.backing_off[i];
            let station = &mut self.stations[index];
            if station.due != Some(slot) || !station.has_work() {
                continue;
            }
            station.due = None;
            station.take_off(&self.dcf, self.ampdu_bytes_max);
            let flight = &station.flight;
            let bytes = flight.load.bytes;
            let ns = if flight.is_broadcast { self.dcf.broadcast_ns(bytes) } else { self.dcf.data_ns(bytes) };
            longest = longest.max(ns);
            out.counters.frames += u64::from(flight.load.frames);
            out.counters.frame_bytes += flight.load.bytes;
            out.counters.retries += u64::from(flight.repeated);
            self.sending.push(index);
        }
        self.freeze(slot);
        out.counters.transmissions += 1;
        out.counters.collisions += u64::from(self.sending.len() > 1);
        out.counters.busy_ns += longest;
        self.ends = Some(at + longest);
    }

    /// The medium is busy from `slot` on: stations keep their remaining backoff.
    fn freeze(&mut self, slot: u64) {
        let stations = &mut self.stations;
        self.backing_off.retain(|&index| {
            let station = &mut stations[index];
            station.due = match station.due {
                Some(due) if due > slot || station.has_work() => Some(due.saturating_sub(slot)),
                _ => None,
            };
            station.due.is_some()
        });
    }

    fn beacon(&mut self, out: &mut Outcomes) {
        let begins = self.beacons.next_ns.max(self.free_ns);
        self.freeze((begins - self.free_ns) / self.dcf.slot_ns);
        self.free_ns = self.beacons.send(begins, &mut out.counters) + self.dcf.aifs_ns();
    }

    /// Beacons of an idle time.
    fn beacons_until(&mut self, now_ns: u64, out: &mut Outcomes) {
        while self.beacons.next_ns.max(self.free_ns) <= now_ns {
            if self.backing_off.is_empty() {
                self.beacons.skip(now_ns, &mut out.counters);
            }
            self.beacon(out);
        }
    }

    /// The longest of the transmissions has ended.
    fn end(&mut self, at: u64, out: &mut Outcomes) {
        self.ends = None;
        let sending = std::mem::take(&mut self.sending);
        let mut settled = std::mem::take(&mut self.settled);
        let is_alone = sending.len() == 1;
        let mut busy_until = at;
        for &index in &sending {
            settled.clear();
            let (dcf, random) = (&self.dcf, &mut self.random);
            let station = &mut self.stations[index];
            if station.flight.is_broadcast {
                // Broadcasts are not acknowledged.
                station.land(dcf, || true, &mut settled);
                self.free_ns = if is_alone { at + self.dcf.aifs_ns() } else { at + self.dcf.after_failure_ns() };
                self.broadcast(at, is_alone, &settled, out);
            } else {
                // The way is that of the station; the access point sends to one at a time.
                let port = if index < self.ports.len() { index } else { station.flight.link };
                let loss_ppm = u64::from(self.losses_ppm.get(port).copied().unwrap_or_default());
                let arrives = || is_alone && (loss_ppm == 0 || random.next() % 1_000_000 >= loss_ppm);
                if station.land(dcf, arrives, &mut settled) {
                    busy_until = at + dcf.sifs_ns + dcf.ack_ns(station.flight.load.frames);
                    self.free_ns = busy_until + dcf.aifs_ns();
                } else {
                    self.free_ns = at + dcf.after_failure_ns();
                }
                self.pass_on(at, index, &settled, out);
            }
        }
        out.counters.busy_ns += busy_until - at;
        for &index in &sending {
            let due = self.draw(index);
            let station = &mut self.stations[index];
            if station.due.replace(due).is_none() {
                self.backing_off.push(index);
            }
        }
        self.sending = sending;
        self.settled = settled;
    }
}
