//! All copies of chunks lose power at about the same time, and what the oracle may conclude from it.
//!
//! A copy whose chunk is open has *lost power* from then on until it is known to have everything again: until its mark `behind` is cleared, which needs proof
//! that it equals a current copy, or until its chunk settles. What was acknowledged and not flushed may be lost where all copies of a chunk
//! that the map's file does not call behind have lost power, and nowhere else. So a run has to know what the map says; but only
//! what the file says that a later gateway would read, never what a node was sent.

use std::time::Duration;

use flashmob_core::copies::{MapImage, Marks, replay};
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// What is known of the copies that have lost power. Only in runs in which all copies of a chunk may.
#[derive(Debug)]
pub(super) struct Dark {
    /// By chunk: the copies that have lost power.
    lost: Vec<u8>,
    /// By chunk: the marks as the gateway decided last.
    decided: Vec<Marks>,
    /// By chunk: the marks in the map's file.
    durable: Vec<Marks>,
}

fn all_marks(image: &MapImage) -> Vec<Marks> {
    (0..image.chunks()).map(|chunk| image.marks(chunk)).collect()
}

impl Dark {
    pub fn new(scenario: &Scenario) -> Option<Dark> {
        let has_blackout = scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::Blackout(..)));
        let image = scenario.new_map().filter(|_| has_blackout)?;
        let marks = all_marks(&image);
        Some(Dark { lost: vec![0; marks.len()], decided: marks.clone(), durable: marks })
    }
}

/// Draws whether all copies of a chunk, or all nodes, lose power. Not where data is lost otherwise: one copy would be left of what the
/// others lost.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let loses_data = |fault: &Fault| {
        use Fault::{Death, FailedSyncs, Lie, Replace, Restore, Rot, Swap};
        matches!(fault, Death(_) | FailedSyncs(..) | Lie(..) | Replace(..) | Restore(..) | Rot(..) | Swap(..))
    };
    let is_drawn = rng.random_ratio(1, 5);
    let Some(image) = scenario.new_map().filter(|_| is_drawn) else { return };
    if scenario.faults.iter().any(|(_, fault)| loses_data(fault)) {
        return;
    }
    let nodes = scenario.extents_bytes.len();
    let span_us = scenario.span.as_micros() as u64;
    let micros = |rng: &mut SmallRng, longest: u64| Duration::from_micros(rng.random_range(0..longest));
    for _ in 0..rng.random_range(1..3) {
        let chunk = rng.random_range(0..image.chunks());
        let places = image.places(chunk).iter();
        let of_chunk = places.fold(0, |mask, place| mask | 1u64 << place.member);
        let struck = if rng.random() { (1u64 << nodes) - 1 } else { of_chunk };
        let at = Duration::from_micros(rng.random_range(span_us / 8..span_us));
        let longest_us = *pick(rng, &[5_000, 100_000, 1_000_000]);
        let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
        let apart = Duration::from_micros(*pick(rng, &[0, 0, 3_000, 50_000]));
        scenario.faults.push((at, Fault::Blackout(struck, lasts, apart)));
        if rng.random_ratio(1, 3) {
            let longest_us = *pick(rng, &[1_000, 30_000, 600_000]);
            let soon = micros(rng, longest_us);
            let down = micros(rng, 100_000);
            scenario.faults.push((at + soon, Fault::GatewayRestart(down)));
        }
        if rng.random_ratio(1, 3) {
            // What a flush that failed left out is lost then.
            let ill = micros(rng, 300_000);
            let node = rng.random_range(0..nodes);
            scenario.faults.push((at.saturating_sub(ill), Fault::StoreErrors(node, ill)));
        }
    }
    if rng.random() {
        scenario.clients.iter_mut().for_each(|client| client.mix = [6, 12, 4, 1, 1]);
    }
}

impl World {
    /// Nodes lose power, one soon after the other.
    pub(super) fn black_out(&mut self, struck: u64, lasts: Duration, apart: Duration) {
        self.calm_at = self.calm_at.max(self.ctx.now + lasts + apart);
        for node in (0..self.scenario.extents_bytes.len()).filter(|node| struck & (1 << node) != 0) {
            let late = apart.mul_f64(self.ctx.rng.random());
            let down = lasts.mul_f64(self.ctx.rng.random_range(0.1..1.0));
            self.disturb(node, self.ctx.now + late + down);
            self.ctx.at(self.ctx.now + late, Event::PowerOut { node, down });
        }
    }

    /// A node has lost power, and with it what was not flushed.
    pub(super) fn copies_lost_power(&mut self, node: usize) {
        let Some(dark) = &mut self.dark else { return };
        let Some(image) = self.scenario.new_map() else { return };
        for (chunk, copy) in image.chunks_of(node as u16) {
            let at = chunk as usize;
            if dark.durable[at].is_open || dark.decided[at].is_open {
                dark.lost[at] |= 1 << copy;
            }
        }
        self.tell_dark();
    }

    /// The gateway may have decided something.
    pub(super) fn note_decisions(&mut self) {
        self.note_behind();
        let Some(dark) = &mut self.dark else { return };
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return };
        for (chunk, marks) in all_marks(image).into_iter().enumerate() {
            let before = std::mem::replace(&mut dark.decided[chunk], marks);
            // A restart that the gateway has not seen yet counts for what it does until then.
            let places = image.places(chunk as u32).iter().map(|place| usize::from(place.member));
            let is_unseen = |&node: &usize| self.nodes[node].is_start_unseen(image.members()[node].boot_id);
            let unseen =
                places.enumerate().filter(|(_, node)| is_unseen(node)).fold(0, |mask, (copy, _)| mask | 1 << copy);
            dark.lost[chunk] &= !(before.behind & !marks.behind) | unseen;
            if before.is_open && !marks.is_open {
                dark.lost[chunk] = 0;
            }
            if !before.is_open && marks.is_open {
                dark.lost[chunk] |= unseen;
            }
        }
        self.tell_dark();
    }

    /// The map's file has changed, or a gateway has read it.
    pub(super) fn note_map_file(&mut self, is_start: bool) {
        self.note_accepted();
        let Some(dark) = &mut self.dark else { return };
        let Ok(replayed) = replay(self.map.bytes()) else { return };
        dark.durable = all_marks(&replayed.image);
        if is_start {
            dark.decided.clone_from(&dark.durable);
        }
        self.tell_dark();
    }

    /// Tells the oracle of chunks all of whose copies have lost power.
    fn tell_dark(&mut self) {
        let status = self.gateway.core.as_ref().and_then(|core| core.copies_status(self.ctx.now, 0));
        // What was read for a copy that is being made equal may still be written there.
        let is_copying = status.is_some_and(|status| status.jobs > 0);
        let (Some(dark), Some(image)) = (&mut self.dark, self.scenario.new_map()) else { return };
        let chunk_bytes = image.chunk_bytes() as usize;
        for chunk in 0..image.chunks() {
            let (lost, marks) = (&mut dark.lost[chunk as usize], dark.durable[chunk as usize]);
            let mut holders = (0..image.copies()).filter(|copy| marks.behind & (1 << copy) == 0);
            if holders.any(|copy| *lost & (1 << copy) == 0) {
                continue;
            }
            *lost = 0;
            // One that is behind may have been proven equal, though the map does not say so yet.
            let places = image.places(chunk).iter();
            let bytes: Vec<&[u8]> = places
                .filter(|_| !is_copying)
                .map(|place| {
                    let at = place.slot as usize * chunk_bytes;
                    &self.nodes[usize::from(place.member)].store.live()[at..at + chunk_bytes]
                })
                .collect();
            self.oracle.all_copies_lost_power(chunk as usize, &bytes);
        }
    }
}
