//! Letting gateways in, at a node that has keys.

use std::time::Instant;

use flashmob_core::units::Time;
use flashmob_core::wire::hello::RefuseReason;

use super::server::{Conn, NodeServer};
use crate::keys::door::Step;
use crate::keys::{Grant, Grants};
use crate::net::Filled;

impl NodeServer {
    /// Reads from a connection that has not shown its keys yet.
    pub(super) fn step_door(&mut self, now: Time, key: usize) {
        let (Some(keys), Some(conn)) = (self.extent.keys(), self.conns.get_mut(key)) else { return };
        let Some(door) = &mut conn.door else { return };
        let has_waited = conn.waits_until.take().is_some();
        let step = door.step(&mut conn.stream, keys, self.extent.generation(), &mut self.doorman);
        if door.take_stepped() || (matches!(step, Ok(Step::Wait(_))) && !has_waited) {
            conn.stepped = Instant::now();
        }
        let link = conn.link;
        match step {
            Ok(Step::More(Filled::End)) => self.turn_away(key, "it left before it was let in"),
            Ok(Step::More(filled)) => conn.note(filled),
            Ok(Step::Wait(time)) => conn.waits_until = Some(Instant::now() + time),
            Ok(Step::Refused(why)) => {
                conn.door = None;
                self.extent.node.refuse_link(link, RefuseReason::NeedsKeys, why);
            }
            Ok(Step::Admitted(grant, rest, filled)) => {
                conn.door = None;
                conn.note(filled);
                if let (Some(known), Some(address)) = (&self.known, conn.stream.peer_ip()) {
                    known.note(address);
                }
                if let Err(error) = self.take_generation(Some(key), grant) {
                    log::error!("{error}");
                    let text = "the node cannot record the generation of the gateway's key; see its log";
                    return self.extent.node.refuse_link(link, RefuseReason::Store, text);
                }
                if let Some(conn) = self.conns.get_mut(key) {
                    conn.generation = grant.generation;
                }
                self.extent.node.link_admitted(link, grant.generation);
                if let Some(rx) = self.extent.node.rx(link) {
                    rx.extend(rest.data());
                }
                self.extent.process(now, link);
            }
            Err(error) => self.turn_away(key, &error.to_string()),
        }
    }

    fn turn_away(&mut self, key: usize, why: &str) {
        if let Some(conn) = self.conns.get(key) {
            self.turned_away.note(&conn.stream.peer(), &format!("not let in: {why}"));
        }
        self.remove(key, why);
    }

    /// Takes a grant that was heard of beside the links.
    pub(super) fn take_grants(&mut self) {
        let Some(grant) = self.grants.as_ref().and_then(Grants::take) else { return };
        if let Err(error) = self.take_generation(None, grant) {
            log::error!("the generation of the gateway's key cannot be recorded: {error}");
        }
    }

    /// A later generation ends the links of earlier ones: their keys were replaced, or revoked.
    fn take_generation(&mut self, newcomer: Option<usize>, grant: Grant) -> anyhow::Result<()> {
        if grant.generation <= self.extent.generation() {
            return Ok(());
        }
        self.extent.raise_generation(grant.generation)?;
        log::info!("gateways of cluster {} have keys of generation {} now", grant.cluster.short(), grant.generation);
        // Also those that have sent no hello yet.
        let is_earlier = |(key, conn): &(usize, &Conn)| {
            Some(*key) != newcomer && conn.door.is_none() && conn.generation < grant.generation
        };
        let earlier: Vec<usize> = self.conns.iter().filter(is_earlier).map(|(key, _)| key).collect();
        for key in earlier {
            self.lose(key, "its key was replaced or revoked: the node has seen a later generation", true);
        }
        Ok(())
    }
}
