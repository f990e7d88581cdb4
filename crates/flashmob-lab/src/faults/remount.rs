//! A file system is shut down below a node and mounted again: its page cache is lost, and the kernel runs on.
//!
//! The node's process ends, with or without such a loss, and the next one has to tell them apart. Where the system names no instance of a
//! page cache, only an end in order is followed by the same start.

use std::time::Duration;

use flashmob_core::node::{CacheLife, Start};
use flashmob_core::planted::{self, Bug};
use rand::Rng;
use rand::rngs::SmallRng;

use super::World;
use super::fault::Fault;
use super::scenario::{Scenario, pick};

/// How a node's process stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The process is killed; the page cache stays.
    Killed,
    /// The process flushes, and records that.
    InOrder,
    /// The process is killed, and its file system is mounted anew.
    Remounted,
    /// The device loses power.
    PowerLost,
}

impl Stop {
    pub fn loses_cache(self) -> bool {
        matches!(self, Stop::Remounted | Stop::PowerLost)
    }
}

/// The page cache below a node, as the system tells of it, and the node's record of its last end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CacheState {
    /// The system names no instance.
    is_unknown: bool,
    /// How often the file system was mounted anew.
    mounts: u64,
    /// How many processes there were.
    processes: u64,
    /// The start of the last process, if it ended in order; on the flash.
    last_end: Option<[u8; 16]>,
    /// A token that was in the page cache is still there, or was written back.
    has_token: bool,
    /// The cache was lost, and no process has started since.
    pub is_loss_unseen: bool,
}

impl CacheState {
    pub fn new(is_unknown: bool) -> CacheState {
        CacheState { is_unknown, ..CacheState::default() }
    }

    /// A process starts.
    pub fn begin(&mut self, boot_id: [u8; 16], last: [u8; 16]) -> [u8; 16] {
        self.processes += 1;
        self.is_loss_unseen = false;
        let mut fresh = [0xff; 16];
        fresh[..8].copy_from_slice(&self.processes.to_le_bytes());
        let cache = if self.is_unknown { CacheLife::Unknown } else { CacheLife::Instance(self.mounts) };
        let kept = if planted::is(Bug::EndCountsTwice) { self.last_end } else { None };
        let last_end = std::mem::replace(&mut self.last_end, kept);
        let by_token = (planted::is(Bug::TokenForProof) && self.has_token && self.processes > 1).then_some(last);
        Start::of_process(Some(boot_id), &[cache], last_end.or(by_token), fresh).id
    }

    /// A process has stopped. `start` is the one it began with. `is_flushed`: all that it wrote is on the flash.
    pub fn stopped(&mut self, stop: Stop, start: [u8; 16], is_flushed: bool, rng: &mut SmallRng) {
        self.mounts += u64::from(stop == Stop::Remounted);
        self.is_loss_unseen |= stop.loses_cache();
        if stop == Stop::InOrder && is_flushed && self.is_unknown {
            self.last_end = Some(start);
        }
        if planted::is(Bug::TokenForProof) {
            // The kernel writes pages back in any order.
            self.has_token = !stop.loses_cache() || rng.random_bool(0.5);
        }
    }
}

/// Draws whether the file system of one of these nodes is mounted anew, and whether its system tells. Not where a loss of power is not
/// drawn either, nor where the flash lies: an end in order trusts its flushes.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario, nodes: std::ops::Range<usize>) {
    let is_in_the_way = |fault: &Fault| {
        use Fault::{
            Blackout, Copy, Lie, MapFull, MapSlow, OldMap, Replace, Restore, SecondGateway, SlowFlush, Standby,
            StoreAway, StuckFlush, Swap,
        };
        let is_of_extents = matches!(fault, Blackout(..) | Copy(..) | Replace(..) | Restore(..) | Swap(..));
        let is_of_flushes = matches!(fault, Lie(..) | SlowFlush(..) | StuckFlush(..));
        let is_of_map = matches!(fault, MapFull(_) | MapSlow(_) | OldMap(..));
        is_of_extents || is_of_flushes || is_of_map || matches!(fault, SecondGateway(_) | Standby(_) | StoreAway(_))
    };
    // Fewer clusters with copies may lose data that way at all.
    let odds = if scenario.copies.is_some() { 3 } else { 1 };
    if !rng.random_ratio(odds, 4) || scenario.faults.iter().any(|(_, fault)| is_in_the_way(fault)) {
        return;
    }
    let node = rng.random_range(nodes);
    if rng.random() {
        scenario.unknown_caches |= 1 << node;
    }
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..5) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let longest_us = *pick(rng, &[3_000, 30_000, 300_000]);
        let down = Duration::from_micros(rng.random_range(500..longest_us));
        let stop = if rng.random_ratio(2, 3) { Fault::Remount(node, down) } else { Fault::End(node, down) };
        scenario.faults.push((at, stop));
    }
}

impl World {
    /// Flushes the writes of a node's process that ends in order. Returns whether all are on the flash.
    pub(super) fn flush_at_end(&mut self, node: usize) -> bool {
        let store = &mut self.nodes[node].store;
        if store.syncs_fail || store.is_sync_broken {
            return false;
        }
        store.write_back();
        true
    }
}
