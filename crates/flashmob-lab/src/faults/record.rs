//! The records of a node cannot be written for a while, as its disk fails or is full: its identity with the charge of a gateway, and its mirror
//! of the map.
//!
//! A gateway that is refused for that is refused for good: the node goes on with the charge that it had. What could not be written may be found by the
//! next process all the same.

use std::time::Duration;

use flashmob_core::units::Time;
use flashmob_core::wire::hello::Charge;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::World;
use super::fault::Fault;
use super::scenario::{Scenario, pick};

/// The identity of an extent, but for its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The volume that it serves, once it was told.
    pub adopted: Option<(String, u32)>,
    /// The gateway that was last in charge, of a volume with copies.
    pub charge: Option<Charge>,
    /// Epochs and versions of the charges that the extent accepted last.
    pub accepted: Vec<(u64, u64)>,
}

/// How writes of the identity end.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Writes fail until then.
    pub fails_until: Time,
    /// The record that the next process finds, if it is not the one that this process has.
    left: Option<Record>,
    rng: SmallRng,
}

impl Recorder {
    pub fn new(seed: u64, node: usize) -> Recorder {
        let rng = SmallRng::seed_from_u64(seed ^ 0x12ec_02d5 ^ (node as u64) << 40);
        Recorder { fails_until: Time::default(), left: None, rng }
    }

    /// Writes an identity in the place of another one. False if that failed.
    pub fn write(&mut self, now: Time, record: &Record) -> bool {
        let fails = now < self.fails_until;
        if !fails {
            self.left = None;
        } else if self.rng.random_bool(0.5) {
            // The file had its name before something failed.
            self.left = Some(record.clone());
        }
        !fails
    }

    /// The record that a process finds at its start, if it is not the one that the last process had.
    pub fn take_left(&mut self) -> Option<Record> {
        self.left.take()
    }
}

/// Draws whether records fail, of one node or of all; more often where a gateway comes that is not to be believed. Not where data is lost: a node that
/// cannot be linked falls behind.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let has = |of: &dyn Fn(&Fault) -> bool| scenario.faults.iter().any(|(_, fault)| of(fault));
    let is_lossy = has(&Fault::loses_data);
    let of_others = |fault: &Fault| fault.is_of_other_maps() || matches!(fault, Fault::Standby(_));
    let others: Vec<Duration> =
        scenario.faults.iter().filter(|(_, fault)| of_others(fault)).map(|(at, _)| *at).collect();
    // A copy of an extent shows the charge that it was made with. Whether a thief was in charge, and the key has to be rotated, is what nodes say at once.
    let is_excluded = has(&|fault| matches!(fault, Fault::Copy(..) | Fault::StolenKey(_)));
    if is_lossy || is_excluded || !rng.random_ratio(if others.is_empty() { 1 } else { 4 }, 6) {
        return;
    }
    let (nodes, span_us) = (scenario.extents_bytes.len(), scenario.span.as_micros() as u64);
    for _ in 0..rng.random_range(1..4) {
        let at = match others.first() {
            Some(at) if rng.random_bool(0.7) => *at,
            _ => Duration::from_micros(rng.random_range(0..span_us)),
        };
        let longest_us = *pick(rng, &[20_000, 300_000, 2_000_000]);
        let lasts = Duration::from_micros(rng.random_range(5_000..longest_us));
        let one = rng.random_range(0..nodes);
        let struck = if rng.random_bool(0.5) { one..one + 1 } else { 0..nodes };
        scenario.faults.extend(struck.clone().map(|node| (at, Fault::RecordsFail(node, lasts))));
        // What was recorded shows when a process starts.
        if rng.random_bool(0.5) {
            let at = at + Duration::from_micros(rng.random_range(0..longest_us));
            let down = Duration::from_micros(rng.random_range(500..20_000));
            scenario.faults.extend(struck.map(|node| (at, Fault::Kill(node, down))));
        }
    }
}

impl World {
    /// Makes a node's records fail for a while.
    pub(super) fn records_fail(&mut self, node: usize, lasts: Duration) {
        let until = self.ctx.now + lasts;
        self.calm_at = self.calm_at.max(until);
        let fails_until = &mut self.nodes[node].recorder.fails_until;
        *fails_until = until.max(*fails_until);
        self.disturb(node, until);
    }

    /// Lets all nodes write their records again.
    pub(super) fn records_recover(&mut self) {
        let now = self.ctx.now;
        self.nodes.iter_mut().for_each(|node| node.recorder.fails_until = node.recorder.fails_until.min(now));
    }

    /// Whether a node cannot write its mirror. Where the map is to be recovered from mirrors, that is left out: without them it stays lost.
    pub(super) fn is_mirror_unwritable(&self, node: usize) -> bool {
        let needs = |fault: &Fault| matches!(fault, Fault::LoseMap(_) | Fault::OldMap(..));
        let needs_mirrors = self.scenario.faults.iter().any(|(_, fault)| needs(fault));
        self.ctx.now < self.nodes[node].recorder.fails_until && !needs_mirrors
    }
}
