//! A node's report: the state machine's status, joined with what the kernel knows of each connection.

use super::server::{Conn, NodeServer};
use crate::status::report::{
    ConditionReport, KeysReport, ModelReport, NodeLinkReport, NodeReport, PauseReport, Report, SumsReport,
    stage_reports,
};
use crate::store::PlaceInVolume;

impl NodeServer {
    pub(super) fn report(&mut self) -> Report {
        self.look();
        let paths: Vec<NodeLinkReport> = self.conns.iter().filter_map(|(_, conn)| link_report(conn)).collect();
        let status = self.extent.node.status();
        let stages = stage_reports(self.extent.node.stages());
        let mapped = self.extent.mapped_status();
        let identity = self.extent.identity();
        let store = &self.options.extent.store;
        let mut warnings = Vec::new();
        let open_at = self.local_addr().ok().filter(|addr| self.extent.keys().is_none() && addr.is_for_others());
        warnings.extend(open_at.map(|addr| {
            format!("insecure: anyone who can reach {addr} can read and write the whole extent; `flashmob key init` gives the cluster keys")
        }));
        if store.no_io {
            warnings.push("no-I/O mode: nothing is read or written; reads do not return real data".to_string());
        }
        let model = self.extent.model_status().map(|status| ModelReport::new(&status, self.clock.uptime()));
        if let Some(model) = &model {
            warnings.push(format!("modelled: timing of '{}', not of this device", model.profile));
        }
        if self.extent.is_damaged() {
            warnings.push(format!(
                "{} is damaged: every request fails until it is restored and the node restarted",
                store.path.display()
            ));
        }
        warnings.extend(self.extent.flush_warning().map(|warning| format!("{}: {warning}", store.path.display())));
        warnings.extend(self.extent.sync_trouble());
        let sums = self.extent.sums_status();
        warnings.extend(self.extent.sums_trouble().map(str::to_string));
        if let Some(sums) = sums.filter(|sums| sums.bad_blocks > 0) {
            warnings.push(format!(
                "{}: {} blocks do not match their checksums: the flash returned other bytes than were written; \
                 they are written again from other copies. If there are more and more, replace the device",
                store.path.display(),
                sums.bad_blocks
            ));
        }
        let condition = self.condition_report();
        warnings.extend(condition.warnings.iter().map(|warning| format!("this device: {warning}")));
        for link in &paths {
            warnings.extend(link.path.limits.iter().map(|limit| format!("{}: {}", link.peer, limit.sentence())));
        }
        Report {
            warnings,
            node: Some(NodeReport {
                extent_id: identity.extent_id().to_string(),
                path: store.path.display().to_string(),
                size_bytes: identity.size_bytes(),
                keys: self
                    .extent
                    .keys()
                    .map(|keys| KeysReport { cluster: keys.cluster.to_string(), generation: self.extent.generation() }),
                no_io: store.no_io,
                model,
                condition,
                volume: identity.place().map(|place| place.volume_id.clone()),
                place: identity.place().map(|place| PlaceInVolume {
                    index: place.extent_index,
                    count: place.extent_count,
                    layout: place.layout.clone(),
                }),
                links: status.links,
                paths,
                counters: status.counters,
                mapped: mapped.is_some_and(|m| !m.is_given_up),
                mapped_reads: mapped.map_or(0, |m| m.reads),
                mapped_major_faults: mapped.map_or(0, |m| m.major_faults),
                sums: sums.map(|sums| SumsReport {
                    bad_blocks: sums.bad_blocks,
                    mismatches: sums.mismatches,
                    adopted_blocks: sums.adopted_blocks,
                    settled_blocks: sums.settled_blocks,
                    rewritten_blocks: sums.rewritten_blocks,
                    units_without: sums.units_without,
                }),
                waiting: status.waiting,
                in_store: status.in_store,
            }),
            ..Report::new(self.clock.uptime(), status.memory_bytes, stages)
        }
    }

    fn condition_report(&self) -> ConditionReport {
        let condition = self.device.condition();
        let mut report = ConditionReport::of(&condition, Some(self.extent.identity().size_bytes()), None);
        report.pauses = self.device.with_pauses(|pauses| pauses.iter().map(PauseReport::of).collect());
        report
    }
}

fn link_report(conn: &Conn) -> Option<NodeLinkReport> {
    Some(NodeLinkReport { peer: conn.stream.peer(), tcp: conn.stream.tcp_info()?, path: conn.path.report().clone() })
}
