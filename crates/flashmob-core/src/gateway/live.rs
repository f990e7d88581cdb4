//! What each node did in each second of the last ten minutes, for those who look at the cluster while it works.

use super::Gateway;
use super::state::LinkId;
use super::state::live::{Counts, LiveSlots};
use crate::units::Time;
use crate::wire::frame::WireError;
use crate::wire::service::decode_service;

impl Gateway {
    /// The slots that begin at or after a second since the start; nodes are counted as [`Gateway::nodes_in_order`] has them. `None` unless
    /// [`GatewayConfig::keeps_live`](super::GatewayConfig::keeps_live).
    pub fn live_since(&mut self, now: Time, second: u64) -> Option<LiveSlots> {
        if !self.metrics.live.is_on() {
            return None;
        }
        self.advance_live(now);
        let order = self.nodes_in_order();
        let is_by_number = order.iter().enumerate().all(|(place, &node)| place == node);
        let slots = self.metrics.live.recorded(second);
        Some(if is_by_number { slots } else { slots.in_order(&order) })
    }

    /// The nodes of all volumes, by their numbers: those of the first volume, and so on. A node that was added to a volume has the number behind
    /// all that were there before it.
    #[must_use]
    pub fn nodes_in_order(&self) -> Vec<usize> {
        self.volumes.iter().flat_map(|volume| volume.nodes.iter().copied()).collect()
    }

    /// Begins the slot of `now`, if the current one is over. Called before anything is recorded.
    #[inline]
    pub(super) fn advance_live(&mut self, now: Time) {
        if self.metrics.live.is_due(now) {
            let (nodes, links) = (&self.nodes, &self.links);
            self.metrics.live.advance(now, |node| {
                let node = &nodes[node];
                let mut counts = Counts { read_here: node.read_here, ..Counts::default() };
                for link in links.of(node) {
                    counts.batches += link.counters.batches;
                    counts.pieces += link.counters.pieces;
                    counts.reply_frames += link.counters.reply_frames;
                    counts.bytes_in += link.counters.bytes_in;
                    counts.failures += link.counters.failures;
                }
                counts
            });
        }
    }

    /// A node reports what its store did lately.
    #[cold]
    pub(super) fn handle_service(&mut self, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let service = decode_service(meta)?;
        self.metrics.live.served(self.links[id].node, &service);
        Ok(())
    }
}
