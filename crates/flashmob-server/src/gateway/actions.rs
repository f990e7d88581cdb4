//! The state machine's requests to the shell, and the log of its events.

use flashmob_core::gateway::{Action, Event};
use flashmob_core::units::{Bytes, Time};

use super::secure::Secrecy;
use super::server::GatewayServer;
use super::whereabouts::{Seen, Sighting};
use crate::keys::{GatewayKeys, PublicKey};

impl GatewayServer {
    /// Carries out the actions of the state machine.
    pub(super) fn do_actions(&mut self) {
        while let Some(action) = self.gateway.poll_action() {
            let now = self.clock.now();
            match action {
                Action::Connect { link, node } => {
                    self.links.connect(&mut self.gateway, self.poll.registry(), now, link, node);
                }
                Action::Disconnect(link) => self.links.disconnect(link),
                Action::CloseClient(id, reason) => {
                    if let Some((_, conn)) = self.clients.iter_mut().find(|(_, c)| c.id == id) {
                        if let Some(reason) = reason {
                            let peer = format!("client {}", conn.stream.peer());
                            self.turned_away.note(&peer, &format!("dropped: {reason}"));
                        }
                        conn.closing = Some(std::time::Instant::now() + super::server::CLOSE_TIMEOUT);
                    }
                }
                Action::SecureClient(id) => {
                    if let Some((_, conn)) = self.clients.iter_mut().find(|(_, c)| c.id == id) {
                        conn.secrecy = Secrecy::Starting;
                    }
                }
                Action::Remember { node, extent_id } => {
                    if let Some(memory) = &mut self.memory {
                        memory.remember(node, extent_id);
                    }
                }
                Action::Commit { volume, number, bytes, is_whole } => {
                    self.maps.commit(&self.gateway, volume, number, bytes, is_whole);
                }
                Action::VerifyClaim { node, within } => self.verify_claim(node, within),
                Action::Tell(event) => {
                    if let (Event::NodeUp { name, .. }, Some(keys)) = (&event, self.links.keys()) {
                        self.key_generations.insert(name.clone(), keys.generation());
                    }
                    tell(&event);
                }
            }
        }
    }

    /// Handles the sighting of an extent: the links of the node that serves it try that place.
    pub(super) fn take_sighting(&mut self, now: Time, sighting: Sighting) {
        let Sighting { who, addresses, is_joining, answer } = sighting;
        let clusters: Vec<PublicKey> = self.links.keys().into_iter().flat_map(GatewayKeys::clusters).collect();
        let mut is_seen = |node| self.gateway.extent_id(node).is_some_and(|id| self.marks.is_seen(&clusters, id, who));
        let node = (0..self.links.places.len()).find(|&node| is_seen(node));
        if let Some(node) = node {
            let moved = self.links.move_node(&self.gateway, now, node, &addresses);
            self.gateway.try_node(now, node, moved.is_some());
        } else if let (true, Seen::Extent(extent), Some(address)) = (is_joining, who, addresses.first()) {
            self.newcomers.note(now, extent, address.clone());
        }
        // The receiver may have timed out.
        let _ = answer.try_send(node.is_some());
    }
}

fn tell(event: &Event) {
    match event {
        Event::VolumeReady(name, size_bytes, nodes) => {
            log::info!(
                "volume {name}: {} ({size_bytes} bytes) over {nodes} node{}",
                Bytes(*size_bytes),
                plural(*nodes)
            );
        }
        Event::VolumeResized(name, size_bytes) => {
            log::info!("volume {name}: it has {} ({size_bytes} bytes) now", Bytes(*size_bytes));
        }
        Event::VolumeLinked(name) => log::info!("volume {name} ready"),
        Event::NodeUp { name, no_io: false, modelled: false } => log::info!("node {name}: linked"),
        Event::NodeUp { name, no_io: false, modelled: true } => {
            log::info!("node {name}: linked; its flash is modelled (--model): its timing is not that of its own flash");
        }
        Event::NodeUp { name, no_io: true, .. } => {
            log::warn!("node {name}: linked, but it runs WITHOUT I/O (--no-io): reads do not return real data");
        }
        Event::NodeDown(name, reason) => {
            log::warn!("node {name}: no link: {reason}; requests are queued, retrying")
        }
        Event::VolumeWarning(name, text) => log::error!("volume {name}: {text}"),
        Event::NodeWarning(name, text) => log::warn!("node {name}: {text}"),
        Event::NodeRecovered(name) => log::info!("node {name}: all limits are met again"),
        Event::NodePaused(name, text) => log::warn!("node {name}: it {text}"),
        Event::Deposed(text) => {
            log::error!("this gateway serves a volume with copies no longer: {text}")
        }
        Event::NodeRefused(name, text) => log::error!("node {name}: refused: {text}"),
        Event::ChangesLost(name) => log::error!(
            "node {name}: its device restarted, or its node after a failed flush, with acknowledged writes that were not flushed; \
             they may be lost, and the next flush of every client fails to report it"
        ),
        Event::GaveWay(count) => {
            log::warn!(
                "{count} request{} to unresponsive nodes failed early: other requests needed the memory",
                plural(*count)
            );
        }
        Event::TimedOut(name, count) => {
            log::warn!("volume {name}: {count} request{} failed: the node did not answer in time", plural(*count));
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
