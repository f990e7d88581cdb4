//! Which nodes hold the cluster back: what is recorded of each second, joined with what the kernel knows of each connection.

use std::time::Duration;

use flashmob_core::diagnosis::{Facts, Kind, SLOTS_OF_PAUSES, Trouble, troubles};
use flashmob_core::units::Time;

use super::server::GatewayServer;
use crate::status::finding::{self, Finding};
use crate::status::report::{NodeOfVolume, VolumeReport};

/// How long a pause that a node reported is told.
const PAUSE_TOLD_FOR: Duration = Duration::from_secs(30);
/// How long a diagnosis is good: many may ask, and requests wait meanwhile.
const GOOD_FOR: Duration = Duration::from_millis(200);

/// The last diagnosis.
#[derive(Debug, Default)]
pub(super) struct Diagnosed {
    troubles: Vec<Trouble>,
    at: Option<Time>,
}

impl GatewayServer {
    /// Nothing where no seconds are recorded.
    pub(super) fn diagnose(&mut self, volumes: &[VolumeReport]) -> Vec<Finding> {
        let now = self.clock.now();
        let nodes: Vec<(usize, &NodeOfVolume)> =
            volumes.iter().enumerate().flat_map(|(number, v)| v.nodes.iter().map(move |n| (number, n))).collect();
        if self.diagnosed.at.is_none_or(|at| now - at >= GOOD_FOR) {
            self.diagnosed = Diagnosed { troubles: self.troubles(now, &nodes), at: Some(now) };
        }
        let (_, client) = self.gateway.demands(now);
        let client = client.and_then(|id| self.clients.iter().find(|(_, conn)| conn.id == id));
        let client = client.map(|(_, conn)| conn.stream.peer().to_string());
        let finding = |trouble: &Trouble| {
            let (volume, _) = nodes.get(trouble.node)?;
            let order = self.gateway.nodes_in_order();
            let number = order.get(trouble.node).copied();
            let pause = number.filter(|&node| self.has_paused(node, now));
            let pause = pause.and_then(|node| self.gateway.last_pause(node));
            Some(finding::of_trouble(trouble, pause, client.as_deref()).of_node(*volume, trouble.node))
        };
        self.diagnosed.troubles.iter().filter_map(finding).collect()
    }

    fn troubles(&mut self, now: Time, nodes: &[(usize, &NodeOfVolume)]) -> Vec<Trouble> {
        let Some(recorded) = self.gateway.live_since(now, u64::MAX) else { return Vec::new() };
        let (next_second, slot_seconds) = (recorded.next_second(), recorded.length_s);
        let since = next_second.saturating_sub(SLOTS_OF_PAUSES * slot_seconds);
        let slots = self.gateway.live_since(now, since).map_or(Vec::new(), |slots| slots.slots(usize::MAX));
        let mut facts = self.gateway.facts(now);
        for (facts, (_, node)) in facts.iter_mut().zip(nodes) {
            add_losses(facts, node);
        }
        let (demands, _) = self.gateway.demands(now);
        let mut troubles = troubles(&slots, next_second, slot_seconds, &facts, demands);
        // A node that reports a pause itself has paused, however little was asked of it.
        let order = self.gateway.nodes_in_order();
        let paused = order.iter().enumerate().filter(|&(_, &number)| self.has_paused(number, now));
        for (node, _) in paused {
            if troubles.iter().all(|trouble| trouble.node != node) {
                troubles.push(Trouble { node, kind: Kind::Pauses, value: 0.0, others: 0.0, share: None });
            }
        }
        troubles
    }

    fn has_paused(&self, node: usize, now: Time) -> bool {
        self.gateway.paused_ago(node, now).is_some_and(|ago| ago < PAUSE_TOLD_FOR)
    }
}

fn add_losses(facts: &mut Facts, node: &NodeOfVolume) {
    for path in node.links.iter().filter_map(|link| link.path.as_ref()) {
        facts.lost_segments += path.lost_segments;
        facts.segments += path.carried_segments;
        facts.lossy_seconds = facts.lossy_seconds.max(path.lossy_looks);
    }
}
