//! The end of a run, once faults stop: everything completes, everything is given back, and every byte is right.

use std::time::Duration;

use flashmob_core::gateway::{BatchMode, LATENESS_MAX};
use flashmob_core::op::Op;
use rand::Rng;

use super::client::Pending;
use super::fault::Fault;
use super::trace::What;
use super::{Client, ClientPlan, World};

impl World {
    /// Looks for requests that wait too long, and for limits that do not hold.
    pub(super) fn watch(&mut self) {
        let slack = Duration::from_secs(1);
        // A link that breaks, or a node that goes, again and again, and answers in between, makes a request late, not lost.
        let breaks = |fault: &Fault| {
            use Fault::{Blackout, Cut, Damage, GatewayStall, HalfOpen, Kill, MapFull, MapSlow, PowerLoss, StoreStall};
            use Fault::{
                End, FailedSyncs, HotBackup, LastCopy, RecordsFail, Remount, SlowFlush, StoreAway, StuckFlush,
            };
            matches!(
                fault,
                Blackout(..)
                    | FailedSyncs(..)
                    | HotBackup(..)
                    | LastCopy(..)
                    | SlowFlush(..)
                    | StuckFlush(..)
                    | GatewayStall(_)
                    | MapFull(_)
                    | MapSlow(_)
                    | StoreAway(_)
                    | RecordsFail(..)
                    | Cut(..)
                    | HalfOpen(..)
                    | Damage(..)
                    | End(..)
                    | Kill(..)
                    | Remount(..)
                    | PowerLoss(..)
                    | StoreStall(..)
            )
        };
        let is_shaky = self.scenario.node_link.cut_rate > 0.0 || self.scenario.faults.iter().any(|(_, f)| breaks(f));
        // Nor is one lost that waits behind another, while a map whose end was dropped waits for nodes.
        let is_shaky = is_shaky || self.waited_at.is_some();
        let timeouts = if is_shaky { LATENESS_MAX } else { self.silences_max().clamp(1, LATENESS_MAX) };
        // Changes that lack current copies fail one after another, and a read of their bytes waits with each.
        let is_turn_awaited = |p: &Pending| p.op == Op::Read && self.scenario.copies_needed() > 1;
        let timeouts_of = |p: &Pending| if is_turn_awaited(p) { LATENESS_MAX } else { timeouts };
        let patience_of = |p: &Pending| self.scenario.volume.timeout * timeouts_of(p) + slack;
        for (c, client) in self.clients.iter().enumerate() {
            let is_exempt = self.is_crowded() || self.is_client_of_former(c);
            // Where memory is short, a request may wait in its connection until the others want nothing more.
            let late = client.open.iter().find(|(_, p)| !is_exempt && self.ctx.now - p.at > patience_of(p));
            if let Some((cookie, pending)) = late {
                let patience_ms = patience_of(pending).as_millis();
                return self.ctx.fail(format!("client {c} has no answer to #{cookie} after {patience_ms} ms"));
            }
        }
        self.check_limits();
        self.check_open();
        self.check_samples();
    }

    /// The most faults of one node that make it silent. An answer between two of them, late from the first, lets a request wait another
    /// timeout.
    fn silences_max(&self) -> u32 {
        let silenced = |fault: &Fault| match *fault {
            Fault::Stall(node, _) | Fault::Freeze(node, _) | Fault::Doze(node, _) | Fault::LastCopy(node, _) => {
                Some(node)
            }
            Fault::Death(node) => Some(node),
            _ => None,
        };
        let mut counts = vec![0; self.nodes.len()];
        let silenced = self.scenario.faults.iter().filter_map(|(_, fault)| silenced(fault));
        silenced.for_each(|node| counts[node] += 1);
        counts.into_iter().max().unwrap_or(0)
    }

    fn check_limits(&mut self) {
        let Some(core) = &self.gateway.core else { return };
        let status = core.status();
        let (used, peak, limit) = status.memory_bytes;
        let largest = self.scenario.clients.iter().map(|c| c.len_max * 5).max().unwrap_or(0).max(64 * 1024) + 4096;
        if used > peak || peak > limit.max(largest) {
            return self.ctx.fail(format!("the gateway holds {peak} bytes, its limit is {limit}"));
        }
        let queued: usize = status.volumes[0].nodes.iter().map(|n| n.queue_depth).sum();
        if status.in_hand == 0 && queued > 0 {
            return self.ctx.fail(format!("{queued} pieces are queued although no request is in hand"));
        }
        for n in 0..self.nodes.len() {
            let Some(core) = &self.nodes[n].core else { continue };
            let (used, peak, limit) = core.status().memory_bytes;
            if used > peak || peak > limit {
                return self.ctx.fail(format!("node {n} holds {peak} bytes, its limit is {limit}"));
            }
        }
    }

    /// Ends the faults and checks what must hold then.
    pub(super) fn finish(&mut self) {
        if self.ctx.violation.is_some() {
            return;
        }
        self.ctx.trace(What::Phase("faults end"));
        self.heal();
        for client in &mut self.clients {
            client.left = 0;
        }
        // Where memory is short, one request may wait for the timeouts of all others.
        let long = Duration::from_secs(600) + self.scenario.volume.timeout * 64;
        let calm = self.calm_at;
        self.run_until(|w| w.ctx.now > calm, long);
        if !self.run_until(|w| w.clients.iter().all(Client::is_done), long) {
            return self.ctx.fail("requests are left without an answer after faults ended".to_string());
        }
        let dead: Vec<bool> = self.nodes.iter().map(|n| n.is_dead).collect();
        let is_linked = |w: &World| w.gateway.linked().iter().zip(&dead).all(|(up, dead)| *up || *dead);
        let is_linked = |w: &World| w.gateway.core.is_some() && is_linked(w);
        if !self.run_until(is_linked, long) {
            return self.ctx.fail("a node is not linked although faults ended".to_string());
        }
        // Only then are copies compared: until it is over, a current one may lack what another has.
        if !self.run_until(|w| !w.waits_for_nodes(), long) {
            return self.ctx.fail("nodes are waited for although faults ended long ago".to_string());
        }
        if !self.run_until(World::is_loss_accepted, long) {
            return self.ctx.fail("chunks have no current copy although the loss may be accepted".to_string());
        }
        let is_quiet = |w: &World| w.is_quiet(&dead);
        if !self.run_until(is_quiet, long) {
            return self
                .ctx
                .fail(format!("still in hand although every request is answered: {}", self.describe_load()));
        }
        // Nothing was started anew by the last events: what failed has taken effect by now, or never will.
        self.disturbed_until.iter_mut().zip(&dead).filter(|(_, dead)| !**dead).for_each(|(d, _)| *d = None);
        self.oracle.settle();
        self.verify(&dead);
        if self.scenario.copies.is_some() && self.ctx.violation.is_none() {
            if !self.run_until(|w| w.is_at_rest(&dead), long) {
                return self.ctx.fail(format!("copies are not made equal: {:?}", self.copies_state()));
            }
            self.check_copies(&dead);
            self.check_rot_behind();
            self.check_unread();
            self.check_free_slots(&dead);
            self.check_foreign();
            self.check_scrubs(&dead);
            self.check_change();
        } else if self.ctx.violation.is_none() {
            self.check_stores(&dead);
        }
        self.check_samples();
        self.count();
    }

    /// Whether gateway and nodes hold nothing, and no append to the map is out that began while its disk was slow.
    fn is_quiet(&self, dead: &[bool]) -> bool {
        let Some(core) = self.gateway.core.as_ref().filter(|_| self.map.out.is_none()) else { return false };
        let status = core.status();
        let nodes = self.nodes.iter().filter_map(|n| n.core.as_ref());
        let queues = status.volumes[0].nodes.iter().zip(dead).filter(|(_, dead)| !**dead);
        let is_queue_empty = queues.clone().all(|(n, _)| n.queue_depth == 0);
        let is_air_empty = queues.flat_map(|(n, _)| &n.links).all(|l| l.outstanding_batches == 0);
        status.in_hand == 0
            && core.samples_in_flight() == 0
            && status.memory_bytes.0 == 0
            && is_queue_empty
            && is_air_empty
            && nodes.map(|n| n.status()).all(|s| s.memory_bytes.0 == 0 && s.in_store == 0 && s.waiting == 0)
    }

    fn describe_load(&self) -> String {
        let Some(core) = &self.gateway.core else { return "no gateway".to_string() };
        let status = core.status();
        let (in_hand, bytes, samples) = (status.in_hand, status.memory_bytes.0, core.samples_in_flight());
        let is_recording = if self.map.out.is_some() { ", an append to the map" } else { "" };
        let mut text = format!("gateway: {in_hand} requests, {bytes} bytes, {samples} samples{is_recording}");
        for (n, (node, sim)) in status.volumes[0].nodes.iter().zip(&self.nodes).enumerate() {
            let batches: usize = node.links.iter().map(|l| l.outstanding_batches).sum();
            text += &format!("; node {n}: {} pieces queued, {batches} batches out", node.queue_depth);
            if let Some(s) = sim.core.as_ref().map(|core| core.status()) {
                text += &format!(", {} bytes, {} in the store, {} waiting", s.memory_bytes.0, s.in_store, s.waiting);
            }
        }
        text
    }

    /// Reads the whole volume, twice, and flushes it.
    fn verify(&mut self, dead: &[bool]) {
        self.ctx.trace(What::Phase("the whole volume is read"));
        // Where stripes travel one by one, long reads would take too long.
        let longest = if self.scenario.is_one_by_one() { 2048 } else { 64 * 1024 };
        for _ in 0..2 {
            let c = self.ctx.rng.random_range(0..self.clients.len());
            let mut spans = Vec::new();
            // With copies, all of it can be read whichever node is dead.
            let stretches: Vec<(u64, u64)> = match self.scenario.copies {
                Some(_) => vec![(0, self.size_bytes)],
                None => (0..self.nodes.len()).filter(|&n| !dead[n]).flat_map(|n| self.oracle.stretches(n)).collect(),
            };
            for (mut at, end) in stretches {
                while at < end {
                    let len = self.ctx.rng.random_range(1..=longest).min(end - at);
                    spans.push((at, len as u32));
                    at += len;
                }
            }
            self.knows_size(c);
            self.clients[c].to_verify = spans;
            self.wake_client(c);
            let is_read = |w: &World| w.clients[c].is_done();
            if !self.run_until(is_read, Duration::from_secs(600)) {
                return self.ctx.fail("the volume cannot be read although faults ended".to_string());
            }
        }
    }

    /// Cuts the power everywhere and looks at what is left on the flash, by the simulator's own arithmetic.
    fn check_stores(&mut self, dead: &[bool]) {
        self.ctx.trace(What::Phase("the flash is looked at"));
        for node in (0..self.nodes.len()).filter(|&n| !dead[n]) {
            let changed = self.nodes[node].store.lose_power(&mut self.ctx.rng);
            let changed: Vec<_> = changed.into_iter().flat_map(|run| self.to_volume(node, run)).collect();
            self.oracle.power_lost(node, &changed);
            for (at, extent_at, len) in self.runs_of(node) {
                let bytes = &self.nodes[node].store.live()[extent_at as usize..(extent_at + len) as usize];
                let asked = self.oracle.asked();
                if let Err(text) = self.oracle.read_ended(asked, at, bytes) {
                    return self.ctx.fail(format!("after a loss of power on node {node}: {text}"));
                }
            }
        }
    }

    /// Adds up what the gateway and nodes counted, and checks the errors of protocol among it.
    fn count(&mut self) {
        let Some(core) = &self.gateway.core else { return };
        let status = core.status();
        for link in status.volumes[0].nodes.iter().flat_map(|n| &n.links) {
            self.ctx.totals.batches += link.counters.batches;
            self.ctx.totals.together += link.counters.batches_together;
            let by_choice = self.scenario.volume.batch == BatchMode::Auto;
            self.ctx.totals.together_by_choice += if by_choice { link.counters.batches_together } else { 0 };
            self.ctx.totals.pieces += link.counters.pieces;
            self.ctx.totals.resent += link.counters.resent;
        }
        let mut evictions = 0;
        if let Some(copies) = core.copies_status(self.ctx.now, 0).map(|status| status.counters) {
            self.ctx.totals.evicted_copies += copies.evicted_copies;
            self.ctx.totals.resynced += copies.resynced;
            self.ctx.totals.moved += copies.moved;
            self.ctx.totals.grown += self.scenario.grown_chunks(self.size_bytes);
            self.ctx.totals.freed += copies.freed;
            self.ctx.totals.orphans += copies.orphans;
            self.ctx.totals.compared += copies.compared;
            self.ctx.totals.held_answers += copies.held_answers;
            self.ctx.totals.mended += copies.mended;
            self.ctx.totals.marked += self.nodes.iter().map(|node| node.store.marked).sum::<u64>();
            self.ctx.totals.scrubs += copies.scrubs;
            self.ctx.totals.scrub_corrupt += copies.scrub_corrupt;
            self.ctx.totals.scrub_differing += copies.scrub_differing;
            self.ctx.totals.rewritten += self.nodes.iter().map(|node| node.store.rewritten).sum::<u64>();
            self.ctx.totals.hedged += copies.hedged_reads;
            self.ctx.totals.hedges_first += copies.hedges_first;
            evictions = copies.evictions;
        }
        let counters = core.sample_counters();
        self.ctx.totals.samples_dropped += counters.abandoned + counters.untold;
        let protocol_errors: u64 =
            self.nodes.iter().filter_map(|n| n.core.as_ref()).map(|n| n.status().counters.protocol_errors).sum();
        if self.ctx.totals.corruptions == 0 && (status.counters.link_errors > 0 || protocol_errors > 0) {
            self.ctx.fail("gateway and node did not understand each other, though no byte was damaged".to_string());
        }
        self.check_stalls(evictions);
    }
}

impl ClientPlan {
    /// A client that reads one byte at random places, as fast as it is answered.
    #[must_use]
    pub fn reader(requests: u32, depth: usize) -> ClientPlan {
        let mut mix = [0; 5];
        mix[Op::Read as usize - 1] = 1;
        ClientPlan {
            native: false,
            structured: true,
            requests,
            depth,
            think_ns: 0,
            mix,
            fua_rate: 0.0,
            len_max: 1,
            busy_rate: 0.0,
            busy: Vec::new(),
            leave_rate: 0.0,
            map_rate: 0.0,
        }
    }
}
