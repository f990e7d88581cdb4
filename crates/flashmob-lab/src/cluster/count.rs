//! Differences of counters between two moments.

use std::time::Duration;

use super::Measured;
use super::world::World;
use crate::air::{Air, Counters};

/// The counters at one moment, subtracted from later ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    air: Vec<Counters>,
    flash_busy_ns: Vec<u64>,
    batches: u64,
    pieces: u64,
    replies: u64,
    hedged_reads: u64,
    hedges_first: u64,
    scrubbed_bytes: u64,
}

impl World {
    pub(super) fn snapshot(&self) -> Snapshot {
        let status = self.gateway.status();
        let links = || status.volumes.iter().flat_map(|v| &v.nodes).flat_map(|n| &n.links);
        let copies = self.gateway.core.copies_status(self.now(), 0).map(|status| status.counters).unwrap_or_default();
        let asked = self.nodes.iter().take(self.loaded_nodes);
        Snapshot {
            air: self.airs.iter().map(Air::counters).collect(),
            flash_busy_ns: asked.filter_map(|node| Some(node.flash.as_ref()?.counters().busy_ns)).collect(),
            batches: links().map(|l| l.counters.batches).sum(),
            pieces: links().map(|l| l.counters.pieces).sum(),
            replies: links().map(|l| l.counters.reply_frames).sum(),
            hedged_reads: copies.hedged_reads,
            hedges_first: copies.hedges_first,
            scrubbed_bytes: copies.scrubbed_bytes,
        }
    }

    pub(super) fn measured(&self, before: &Snapshot, after: &Snapshot, time: Duration) -> Measured {
        let time_ns = (time.as_nanos() as f64).max(1.0);
        let mut air = Counters::default();
        for (b, a) in before.air.iter().zip(&after.air) {
            air.transmissions += a.transmissions - b.transmissions;
            air.frames += a.frames - b.frames;
            air.frame_bytes += a.frame_bytes - b.frame_bytes;
            air.collisions += a.collisions - b.collisions;
            air.retries += a.retries - b.retries;
            air.delivered += a.delivered - b.delivered;
            air.dropped += a.dropped - b.dropped;
            air.busy_ns += a.busy_ns - b.busy_ns;
        }
        let flash_busy: Vec<f64> =
            before.flash_busy_ns.iter().zip(&after.flash_busy_ns).map(|(b, a)| (a - b) as f64 / time_ns).collect();
        let tally = self.gateway.load.tally().clone();
        Measured {
            elapsed: time,
            requests: tally.requests,
            errors: tally.errors,
            latency_ns: tally.latency_ns,
            batches: after.batches - before.batches,
            pieces: after.pieces - before.pieces,
            replies: after.replies - before.replies,
            packets: self.packets,
            air,
            air_busy_fraction: air.busy_ns as f64 / time_ns / self.airs.len() as f64,
            flash_busy_fraction: (!flash_busy.is_empty())
                .then(|| flash_busy.iter().sum::<f64>() / flash_busy.len() as f64),
            gateway_busy: Duration::from_nanos(self.gateway.busy_ns),
            events: self.events,
            hedged_reads: after.hedged_reads - before.hedged_reads,
            hedges_first: after.hedges_first - before.hedges_first,
            scrubbed_bytes: after.scrubbed_bytes - before.scrubbed_bytes,
        }
    }
}
