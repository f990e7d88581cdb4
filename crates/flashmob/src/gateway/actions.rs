//! What the state machine asks of the shell, and how events are told to people.

use flashmob_core::gateway::{Action, Event};
use flashmob_core::units::Bytes;

use super::server::GatewayServer;

impl GatewayServer {
    /// Does what the state machine asks for.
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
                            log::warn!("client {}: dropped: {reason}", conn.stream.peer());
                        }
                        conn.closing = Some(std::time::Instant::now() + super::server::CLOSE_TIMEOUT);
                    }
                }
                Action::Remember { node, extent_id } => {
                    if let Some(memory) = &mut self.memory {
                        memory.remember(node, extent_id);
                    }
                }
                Action::Tell(event) => tell(&event),
            }
        }
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
        Event::VolumeLinked(name) => log::info!("volume {name} ready"),
        Event::NodeUp { name, no_io: false, modelled: false } => log::info!("node {name}: linked"),
        Event::NodeUp { name, no_io: false, modelled: true } => {
            log::info!("node {name}: linked; it is modelled (--model): it answers as slowly as another flash would");
        }
        Event::NodeUp { name, no_io: true, .. } => {
            log::warn!("node {name}: linked, but it runs WITHOUT I/O (--no-io): what it returns is not data");
        }
        Event::NodeDown(name, reason) => {
            log::warn!("node {name}: no link: {reason}; its requests wait, and it is tried again")
        }
        Event::NodeRefused(name, text) => log::error!("node {name}: refused: {text}"),
        Event::ChangesLost(name) => log::error!(
            "node {name}: its device restarted with writes that were acknowledged but not flushed; \
             they are lost, and every client's next flush fails to say so"
        ),
        Event::GaveWay(count) => {
            log::warn!(
                "{count} request{} to nodes that do not answer failed early: others needed the memory",
                plural(*count)
            );
        }
        Event::TimedOut(name, count) => {
            log::warn!("volume {name}: {count} request{} failed, their node did not answer in time", plural(*count));
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
