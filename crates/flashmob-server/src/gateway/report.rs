//! A gateway's report: the state machine's status, joined with what the kernel knows of each connection.

use std::time::Duration;

use flashmob_core::gateway::{
    CopiesStatus, GatewayStatus, KEPT, LinkPhase, LinkStatus, LiveSlots, NodeStatus, ScrubStatus, VolumeStatus,
};

use super::server::GatewayServer;
use crate::keys::GatewayKeys;
use crate::net::ListenAddr;
use crate::status::failures::FailuresReport;
use crate::status::finding::{self, Finding, Insecure, insecure};
use crate::status::live::{self, LiveCopies, LiveNode, LiveReport, LiveVolume, WARNINGS_MAX};
use crate::status::report::{
    ConditionReport, CopiesReport, GatewayReport, KeysReport, LinkReport, NodeOfVolume, REMOVED, Rebuild, Report,
    ScrubReport, TraceCounters, VolumeReport, stage_reports,
};
use crate::status::trace::TraceReport;

impl GatewayServer {
    pub(super) fn report(&mut self) -> Report {
        let status = self.gateway.status();
        let volumes = self.volume_reports(&status);
        let findings = self.findings(&volumes);
        Report {
            warnings: findings.iter().map(|finding| finding.sentence(&volumes)).collect(),
            gateway: Some(GatewayReport {
                clients: status.clients,
                in_hand: status.in_hand,
                requests: status.requests.iter().map(|(op, count)| (op.name().to_string(), *count)).collect(),
                counters: status.counters,
                trace: TraceCounters::of(&self.gateway),
                keys: self.links.keys().map(|keys| KeysReport {
                    cluster: keys.granted.cluster.to_string(),
                    generation: keys.granted.generation,
                }),
                findings,
                volumes,
            }),
            ..Report::new(self.clock.uptime(), status.memory_bytes, stage_reports(self.gateway.stages()))
        }
    }

    fn volume_reports(&mut self, status: &GatewayStatus) -> Vec<VolumeReport> {
        self.links.look(&self.gateway);
        let now = self.clock.now();
        let report = |(number, v): (usize, &VolumeStatus)| VolumeReport {
            name: v.name.clone(),
            size_bytes: v.size_bytes,
            copies: self.gateway.copies_status(now, number).map(|status| {
                let scrub = self.gateway.scrub_status(now, number).unwrap_or_default();
                copies_report(status, scrub_report(&scrub), self.maps.trouble(number))
            }),
            nodes: v.nodes.iter().map(|n| self.node_report(n)).collect(),
        };
        status.volumes.iter().enumerate().map(report).collect()
    }

    /// What is wrong, worst first.
    fn findings(&mut self, volumes: &[VolumeReport]) -> Vec<Finding> {
        let generation = self.links.keys().map_or(0, GatewayKeys::generation);
        let mut findings = self.open_at();
        findings.extend(self.open_etcd.as_deref().map(finding::open_etcd));
        findings.extend(finding::of_volumes(volumes, generation));
        findings.extend(self.diagnose(volumes));
        findings.extend(self.offers());
        finding::sort(&mut findings);
        findings
    }

    /// What the cluster does, and its slots, which whoever asks puts into it: that may take long. `None` if nothing is recorded.
    pub(super) fn live_report(&mut self, since: u64) -> Option<(LiveReport, LiveSlots)> {
        let now = self.clock.now();
        let slots = self.gateway.live_since(now, since)?;
        let status = self.gateway.status();
        let volumes = self.volume_reports(&status);
        let mut findings = self.findings(&volumes);
        let more_warnings = findings.len().saturating_sub(WARNINGS_MAX);
        findings.truncate(WARNINGS_MAX);
        let (memory_used_bytes, _, memory_limit_bytes) = status.memory_bytes;
        let nodes = volumes.iter().enumerate().flat_map(|(number, v)| v.nodes.iter().map(move |n| (number, n)));
        let report = LiveReport {
            schema: live::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            start: format!("{:016x}", self.start),
            uptime_seconds: self.clock.uptime().as_secs_f64(),
            slot_seconds: slots.length_s,
            next_second: slots.next_second(),
            kept_seconds: KEPT.as_secs(),
            bounds_us: live::bounds_us(),
            warnings: findings.iter().map(|finding| finding.sentence(&volumes)).collect(),
            more_warnings,
            more_findings: more_warnings,
            findings,
            may_change: false,
            clients: status.clients,
            in_hand: status.in_hand,
            memory_used_bytes,
            memory_limit_bytes,
            nodes: nodes.map(|(number, node)| LiveNode::of(number, node)).collect(),
            volumes: volumes
                .iter()
                .map(|v| LiveVolume {
                    name: v.name.clone(),
                    size_bytes: v.size_bytes,
                    copies: v.copies.as_ref().map(LiveCopies::of),
                })
                .collect(),
            measurement: self.measurement(now),
            slots: Vec::new(),
        };
        Some((report, slots))
    }

    /// Where anyone is let in, if the cluster has no keys.
    fn open_at(&self) -> Vec<Finding> {
        let addrs = self.local_addrs().unwrap_or_default();
        let is_open = |addr: &ListenAddr| self.links.keys().is_none() && addr.is_for_others();
        addrs.iter().filter(|addr| is_open(addr)).map(|addr| insecure(&addr.to_string(), Insecure::Volumes)).collect()
    }

    pub(super) fn trace_report(&self) -> TraceReport {
        TraceReport::of(&self.gateway, self.clock.now())
    }

    fn node_report(&self, node: &NodeStatus) -> NodeOfVolume {
        let links: Vec<LinkReport> =
            node.links.iter().enumerate().map(|(number, link)| self.link_report(number, link)).collect();
        let clock = self.gateway.clock_of(node.number, self.clock.now());
        let is = |state: &str| links.iter().any(|l| l.state == state);
        let state = match (is("ready"), &node.refusal) {
            _ if node.is_gone => REMOVED,
            (true, _) => "ready",
            (false, _) if self.gateway.is_drained(node.number) => "drained",
            (false, Some(_)) => "refused",
            (false, None) if is("connecting") || is("greeting") => "connecting",
            (false, None) => "waiting",
        };
        NodeOfVolume {
            name: node.name.clone(),
            state: state.to_string(),
            is_paused: self.gateway.is_paused(node.number),
            is_leaving: self.gateway.is_leaving(node.number),
            is_drained: self.gateway.is_drained(node.number),
            size_bytes: node.size_bytes,
            queue_depth: node.queue_depth,
            no_io: node.no_io,
            modelled: node.modelled,
            failures: FailuresReport::of(&node.failures, self.clock.now()),
            refusal: node.refusal.clone(),
            clock_offset_seconds: clock.map(|clock| clock.offset_ns as f64 / 1e9),
            clock_error_seconds: clock.map(|clock| clock.error_ns as f64 / 1e9),
            condition: node.condition.as_ref().map(|(condition, at)| {
                let age = self.clock.now() - *at;
                ConditionReport::of(condition, node.size_bytes, Some(age))
            }),
            seen_at: self.links.seen_at(node.number).map(str::to_string),
            key_generation: self.key_generations.get(&node.name).copied(),
            links,
        }
    }

    fn link_report(&self, number: usize, link: &LinkStatus) -> LinkReport {
        let state = match link.phase {
            LinkPhase::Waiting => "waiting",
            LinkPhase::Connecting => "connecting",
            LinkPhase::Greeting => "greeting",
            LinkPhase::Ready => "ready",
        };
        let counters = link.counters;
        LinkReport {
            number,
            state: state.to_string(),
            outstanding_batches: link.outstanding_batches,
            counters,
            pieces_per_batch: if counters.batches == 0 {
                0.0
            } else {
                counters.pieces as f64 / counters.batches as f64
            },
            node_seconds: counters.node_nanos as f64 / 1e9,
            tcp: self.links.tcp_info(link.link),
            path: self.links.path_report(link.link),
        }
    }
}

fn scrub_report(status: &ScrubStatus) -> ScrubReport {
    let seconds = |time: Duration| time.as_secs_f64();
    let verified: Option<Vec<Duration>> = status.verify.iter().map(|pass| pass.done_ago).collect();
    let mut passes = std::iter::once(&status.compare).chain(&status.verify);
    ScrubReport {
        is_comparing: status.compare.is_running,
        verifying_nodes: status.verify.iter().filter(|pass| pass.is_running).count(),
        compared_bytes: status.compare.is_running.then_some(status.compare.done_bytes),
        waits: passes.find_map(|pass| pass.waits.clone()),
        compared_seconds_ago: status.compare.done_ago.map(seconds),
        verified_seconds_ago: verified.and_then(|ago| ago.into_iter().max()).map(seconds),
        bad_blocks: status.bad_blocks as u64 + status.unlisted_blocks,
        mending_chunks: status.mending,
    }
}

fn copies_report(status: CopiesStatus, scrub: ScrubReport, trouble: Option<String>) -> CopiesReport {
    CopiesReport {
        scrub,
        copies: status.copies,
        fewest_current: status.fewest_current,
        chunk_bytes: status.chunk_bytes,
        chunks: status.chunks,
        open_chunks: status.open,
        behind_chunks: status.behind,
        doubtful_chunks: status.doubtful,
        uncompared_chunks: status.in_doubt,
        busy_chunks: status.jobs,
        rebuild: Rebuild::of(status.behind_copies, status.chunk_bytes, status.rebuilt_bytes_per_s),
        epoch: status.epoch,
        mirrors: status.mirrors,
        map_trouble: trouble.or(status.map_trouble),
        lease_seconds: status.lease.map(|lease| lease.left.as_secs_f64()),
        waiting_for_lease: status.lease.map_or(0, |lease| lease.waiting),
        waits_for: status.waits_for.map(waits_for),
        deposed: status.deposed,
        counters: status.counters,
    }
}

/// Why nothing is served for so long.
pub(super) fn waits_for(left: Duration) -> String {
    let seconds = left.as_secs().max(1);
    format!("its map may lack decisions, so it waits for the nodes that may know them, for {seconds} s at most")
}
