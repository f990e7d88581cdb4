//! All copies of chunks lose power at about the same time, and what the oracle may conclude from it.
//!
//! A copy whose chunk is open has *lost power* from then on until it is known to have everything again: until its mark `behind` is cleared, which needs proof
//! that it equals a current copy, or until its chunk settles. What was acknowledged and not flushed may be lost where all copies of a chunk
//! that the map's file does not call behind have lost power, and nowhere else. So a run has to know what the map says; but only
//! what the file says that a later gateway would read, never what a node was sent.

use std::time::Duration;

use flashmob_core::copies::{MapImage, Marks, Place, replay};
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// What is known of the copies that have lost power. Only in runs in which all copies of a chunk may.
#[derive(Debug)]
pub(super) struct Dark {
    /// By chunk: the members, one bit each, whose copies have lost power.
    lost: Vec<u64>,
    /// By chunk: its copies as the gateway decided last.
    decided: Vec<Copies>,
    /// By chunk: its copies in the map's file.
    durable: Vec<Copies>,
}

/// The copies of a chunk: where they are, and their marks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copies {
    places: Vec<Place>,
    marks: Marks,
}

/// The copies of a chunk that the volume does not have.
const NONE: Copies =
    Copies { places: Vec::new(), marks: Marks { is_open: false, is_torn: false, behind: 0, doubtful: 0 } };

impl Copies {
    /// The members with a copy that is not behind.
    fn holders(&self) -> u64 {
        let copies = self.places.iter().enumerate().filter(|(copy, _)| self.marks.behind & (1 << copy) == 0);
        copies.fold(0, |mask, (_, place)| mask | 1 << place.member)
    }

    fn members(&self) -> u64 {
        self.places.iter().fold(0, |mask, place| mask | 1 << place.member)
    }
}

/// The copies of so many chunks, whether the volume has them or not.
fn all_copies(image: &MapImage, chunks: usize) -> Vec<Copies> {
    let copies = |chunk| Copies { places: image.places(chunk).to_vec(), marks: image.marks(chunk) };
    let mut all: Vec<Copies> = (0..image.chunks()).map(copies).collect();
    all.resize(chunks, NONE);
    all
}

impl Dark {
    pub fn new(scenario: &Scenario) -> Option<Dark> {
        let has_blackout = scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::Blackout(..)));
        let image = scenario.new_map().filter(|_| has_blackout)?;
        let copies = all_copies(&image, (image.chunks() + scenario.growth()) as usize);
        Some(Dark { lost: vec![0; copies.len()], decided: copies.clone(), durable: copies })
    }
}

/// Draws whether all copies lose power while copies move, or nodes are added and removed. Few runs have neither other losses of data nor other maps, so
/// these lose such faults, unless one is as rare as this. Where the volume grows, [`draw_beside_growth`] draws.
pub(super) fn draw_beside_moves(rng: &mut SmallRng, scenario: &mut Scenario) {
    let moves = |fault: &Fault| matches!(fault, Fault::Drain(..) | Fault::Balance | Fault::Join(_));
    if rng.random_ratio(1, 3) && scenario.growth() == 0 {
        draw_beside(rng, scenario, moves);
    }
}

/// The same while the volume grows or shrinks: a slot that was cleared for a new chunk has its old bytes again, if the flash had not written the zeros.
pub(super) fn draw_beside_growth(rng: &mut SmallRng, scenario: &mut Scenario) {
    let grows = |fault: &Fault| matches!(fault, Fault::Grow(_) | Fault::Shrink(..));
    if !rng.random_ratio(1, 2) || scenario.growth() == 0 || !draw_beside(rng, scenario, grows) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    let all = (1u64 << scenario.extents_bytes.len()) - 1;
    for _ in 0..rng.random_range(1..6) {
        // What was cut off is there again, in slots that held something.
        let mut at = Duration::from_micros(rng.random_range(0..span_us));
        let chunks = *pick(rng, &[1, 1, 2]);
        let longest_us = *pick(rng, &[10_000, 100_000]);
        let down = Duration::from_micros(rng.random_range(1_000..50_000));
        for fault in [Fault::Shrink(chunks, true), Fault::Grow(chunks), Fault::Blackout(all, down, Duration::ZERO)] {
            scenario.faults.push((at, fault));
            at += Duration::from_micros(rng.random_range(1_000..longest_us));
        }
    }
}

/// Draws it beside some faults, if there are any. Data that is lost otherwise would leave one copy of what the others lost, and another gateway or map has
/// what this one does not know of.
fn draw_beside(rng: &mut SmallRng, scenario: &mut Scenario, beside: impl Fn(&Fault) -> bool) -> bool {
    let is_rare = |fault: &Fault| {
        use Fault::{Blackout, HotBackup, LastCopy, MapRot, RotBehind, StolenKey};
        matches!(fault, Blackout(..) | HotBackup(..) | LastCopy(..) | MapRot(..) | RotBehind(_) | StolenKey(_))
    };
    let is_in_the_way = |fault: &Fault| {
        use Fault::{Copy, GatewayStall, MapFull, MapSlow};
        let is_of_gateway = matches!(fault, GatewayStall(_) | MapFull(_) | MapSlow(_));
        fault.loses_data() || fault.is_of_other_maps() || is_of_gateway || matches!(fault, Copy(..))
    };
    let has = |of: &dyn Fn(&Fault) -> bool| scenario.faults.iter().any(|(_, fault)| of(fault));
    let has_lease = scenario.copies.as_ref().is_some_and(|plan| plan.lease.is_some());
    if !has(&beside) || has(&is_rare) || has_lease {
        return false;
    }
    scenario.faults.retain(|(_, fault)| !is_in_the_way(fault));
    let all = (1u64 << scenario.extents_bytes.len()) - 1;
    let first_us = scenario.faults.iter().filter(|(_, fault)| beside(fault)).map(|(at, _)| at.as_micros() as u64).min();
    for _ in 0..rng.random_range(1..4) {
        let longest_us = *pick(rng, &[20_000, 100_000, 600_000]);
        let at = Duration::from_micros(first_us.unwrap_or(0) + rng.random_range(0..longest_us));
        let longest_us = *pick(rng, &[5_000, 100_000, 600_000]);
        let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
        let apart = Duration::from_micros(*pick(rng, &[0, 0, 3_000, 50_000]));
        scenario.faults.push((at, Fault::Blackout(all, lasts, apart)));
    }
    if rng.random() {
        scenario.clients.iter_mut().for_each(|client| client.mix = [6, 12, 4, 1, 1]);
    }
    true
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
        let of_node = 1u64 << node;
        for ((lost, decided), durable) in dark.lost.iter_mut().zip(&dark.decided).zip(&dark.durable) {
            let is_open = decided.marks.is_open || durable.marks.is_open;
            if is_open && (decided.members() | durable.members()) & of_node != 0 {
                *lost |= of_node;
            }
        }
        self.tell_dark();
    }

    /// The gateway may have decided something.
    pub(super) fn note_decisions(&mut self) {
        self.note_behind();
        self.note_enough(false);
        let Some(dark) = &mut self.dark else { return };
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return };
        let chunks = dark.lost.len();
        for ((lost, decided), now) in dark.lost.iter_mut().zip(&mut dark.decided).zip(all_copies(image, chunks)) {
            let before = std::mem::replace(decided, now);
            // A restart that the gateway has not seen yet counts for what it does until then.
            let is_unseen = |member: usize| self.nodes[member].is_start_unseen(image.members()[member].boot_id);
            let members = decided.places.iter().map(|place| usize::from(place.member));
            let unseen = members.filter(|&member| is_unseen(member)).fold(0, |mask, member| mask | 1u64 << member);
            // Those whose mark was cleared, or to which a copy has moved, were proven equal and flushed.
            *lost &= !(decided.holders() & !before.holders()) | unseen;
            if before.marks.is_open && !decided.marks.is_open {
                *lost = 0;
            }
            if !before.marks.is_open && decided.marks.is_open {
                *lost |= unseen;
            }
        }
        self.tell_dark();
    }

    /// The map's file has changed, or a gateway has read it.
    pub(super) fn note_map_file(&mut self, is_start: bool) {
        self.note_accepted();
        let Some(dark) = &mut self.dark else { return };
        let Ok(replayed) = replay(self.map.bytes()) else { return };
        dark.durable = all_copies(&replayed.image, dark.lost.len());
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
        let chunk_bytes = self.scenario.copies.as_ref().map_or(0, |plan| plan.chunk_bytes as usize);
        let Some(dark) = &mut self.dark else { return };
        for (chunk, lost) in dark.lost.iter_mut().enumerate() {
            let (durable, decided) = (&dark.durable[chunk], &dark.decided[chunk]);
            // Clients may be told of a chunk that is not on record yet.
            let holders = if *durable == NONE { decided.holders() } else { durable.holders() };
            let is_chunk = *durable != NONE || *decided != NONE;
            if !is_chunk || holders & !*lost != 0 {
                continue;
            }
            *lost = 0;
            // One that is behind may have been proven equal, or one may have moved, though the map does not say so yet.
            let places = durable.places.iter().chain(&decided.places);
            let bytes: Vec<&[u8]> = places
                .filter(|_| !is_copying)
                .map(|place| {
                    let at = place.slot as usize * chunk_bytes;
                    &self.nodes[usize::from(place.member)].store.live()[at..at + chunk_bytes]
                })
                .collect();
            self.oracle.all_copies_lost_power(chunk, &bytes);
        }
    }
}
