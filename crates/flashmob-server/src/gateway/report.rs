//! A gateway's report: the state machine's status, joined with what the kernel knows of each connection.

use flashmob_core::gateway::{LinkPhase, LinkStatus, NodeStatus};

use super::server::GatewayServer;
use crate::status::report::{
    ConditionReport, GatewayReport, LinkReport, MemoryReport, NodeOfVolume, Report, SCHEMA, TraceCounters,
    VolumeReport, stage_reports,
};
use crate::status::trace::TraceReport;

impl GatewayServer {
    pub(super) fn report(&mut self) -> Report {
        self.links.look(&self.gateway);
        let status = self.gateway.status();
        let (used_bytes, peak_bytes, limit_bytes) = status.memory_bytes;
        let volumes: Vec<VolumeReport> = status
            .volumes
            .iter()
            .map(|v| VolumeReport {
                name: v.name.clone(),
                size_bytes: v.size_bytes,
                nodes: v.nodes.iter().map(|n| self.node_report(n)).collect(),
            })
            .collect();
        Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            uptime_seconds: self.clock.uptime().as_secs_f64(),
            warnings: volumes.iter().flat_map(warnings).collect(),
            forbidden_calls: crate::android::forbidden_calls(),
            memory: MemoryReport { used_bytes, peak_bytes, limit_bytes },
            stages: stage_reports(self.gateway.stages()),
            gateway: Some(GatewayReport {
                clients: status.clients,
                in_hand: status.in_hand,
                requests: status.requests.iter().map(|(op, count)| (op.name().to_string(), *count)).collect(),
                failures: status.failures,
                timeouts: status.timeouts,
                client_errors: status.client_errors,
                link_errors: status.link_errors,
                losses: status.losses,
                read_at_once: status.read_at_once,
                trace: TraceCounters::of(&self.gateway),
                volumes,
            }),
            node: None,
        }
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
            (true, _) => "ready",
            (false, Some(_)) => "refused",
            (false, None) if is("connecting") || is("greeting") => "connecting",
            (false, None) => "waiting",
        };
        NodeOfVolume {
            name: node.name.clone(),
            state: state.to_string(),
            size_bytes: node.size_bytes,
            queue_depth: node.queue_depth,
            no_io: node.no_io,
            modelled: node.modelled,
            refusal: node.refusal.clone(),
            clock_offset_seconds: clock.map(|clock| clock.offset_ns as f64 / 1e9),
            clock_error_seconds: clock.map(|clock| clock.error_ns as f64 / 1e9),
            condition: node.condition.as_ref().map(|(condition, at)| {
                let age = self.clock.now() - *at;
                ConditionReport::of(condition, node.size_bytes, Some(age))
            }),
            seen_at: self.links.seen_at(node.number).map(str::to_string),
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
        LinkReport {
            number,
            state: state.to_string(),
            outstanding_batches: link.outstanding_batches,
            batches: link.batches,
            pieces: link.pieces,
            pieces_per_batch: if link.batches == 0 { 0.0 } else { link.pieces as f64 / link.batches as f64 },
            reply_frames: link.reply_frames,
            bytes_out: link.bytes_out,
            bytes_in: link.bytes_in,
            node_seconds: link.node_nanos as f64 / 1e9,
            resent: link.resent,
            breaks: link.breaks,
            failures: link.failures,
            alive_frames: link.alive_frames,
            tcp: self.links.tcp_info(link.link),
            path: self.links.path_report(link.link),
        }
    }
}

fn warnings(volume: &VolumeReport) -> Vec<String> {
    let mut warnings = Vec::new();
    for node in &volume.nodes {
        let place = format!("volume {}, node {}", volume.name, node.name);
        if node.no_io {
            warnings.push(format!("{place}: no-I/O mode: reads do not return real data"));
        }
        if node.modelled {
            warnings.push(format!("{place}: its flash is modelled: its timing is not that of the device"));
        }
        match &node.refusal {
            Some(refusal) => warnings.push(format!("{place}: refused: {refusal}")),
            None if node.state != "ready" => warnings.push(format!("{place}: not linked, requests are queued")),
            None => {}
        }
        let ails = node.condition.iter().flat_map(|condition| &condition.warnings);
        warnings.extend(ails.map(|warning| format!("{place}: {warning}")));
        for link in &node.links {
            let limits = link.path.iter().flat_map(|path| &path.limits);
            warnings.extend(limits.map(|limit| format!("{place}, link {}: {}", link.number, limit.sentence())));
        }
    }
    warnings
}
