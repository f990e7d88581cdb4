//! Requests that end early: those that took too long, those that are shed when memory is short, and those whose client is gone.

use std::collections::HashSet;
use std::time::Duration;

use super::state::{ClientId, InHand, Link, Node, RequestKey};
use super::{Action, Event, Gateway};
use crate::op::Failure;
use crate::units::Time;

/// A request fails after this many timeouts even if its node answers others.
pub const LATENESS_MAX: u32 = 20;
/// How many timeouts a flush may take with a node whose store makes progress. Where another copy is there, one less.
pub const FLUSH_TIMEOUTS_MAX: u32 = 10;
/// Minimum silence of a node, and age of a request to it, before that is shed when memory is short.
const SHED_PATIENCE: Duration = Duration::from_secs(1);

impl Gateway {
    /// Fails every request that is older than its volume's timeout, not counting what was before the loop last stood still, and has a piece at
    /// a node, or on a link, that answered nothing for that long. One that only waits for its turn at a slow node goes on, and so does a flush with
    /// which a node's store makes progress. A change that was sent holds back overlapping ones until it is
    /// known to be over.
    pub(super) fn fail_late_requests(&mut self, now: Time) {
        let timeouts: Vec<Duration> = self.volumes.iter().map(|volume| volume.spec.timeout).collect();
        let timeout_of = |r: &InHand| timeouts[r.volume as usize];
        let running_since = self.running_since;
        let age_of = |r: &InHand| now - r.received.max(running_since);
        let late = self.requests.keys_where(|r| r.client != ClientId::GATEWAY && age_of(r) >= timeout_of(r));
        if late.is_empty() {
            return;
        }
        let mut stuck = self.stuck_requests(now);
        self.add_stuck_on_copies(now, &mut stuck);
        // What waits for the gateway's lease alone waits as long as it takes.
        let waiting = self.waiting_for_lease();
        let is_over = |key: &RequestKey| {
            let age = self.requests.get(*key).map(|r| (age_of(r), timeout_of(r)));
            stuck.contains(key) || age.is_some_and(|(age, timeout)| age >= timeout * LATENESS_MAX)
        };
        let late: Vec<RequestKey> = late.into_iter().filter(is_over).filter(|key| !waiting.contains(key)).collect();
        let mut per_volume = vec![0usize; self.volumes.len()];
        for key in late {
            if let Some(request) = self.requests.get(key) {
                per_volume[request.volume as usize] += 1;
            }
            self.fail_request(now, key, Failure::Io);
        }
        if per_volume.iter().any(|&count| count > 0) {
            self.drop_dead_pieces();
        }
        for (volume, count) in per_volume.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            self.metrics.counters.timeouts += count as u64;
            self.actions.push_back(Action::Tell(Event::TimedOut(self.volumes[volume].spec.name.clone(), count)));
        }
    }

    /// The requests with a piece at a node, or on a link, that answered nothing for the volume's timeout.
    fn stuck_requests(&self, now: Time) -> HashSet<RequestKey> {
        let mut stuck = HashSet::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let timeout = self.volumes[node.volume].spec.timeout;
            let links = &self.links.of(node);
            let most = timeout * FLUSH_TIMEOUTS_MAX;
            let silent = |link: &&Link| link.is_stuck(now, timeout, most);
            for link in links.iter().filter(silent) {
                stuck.extend(link.stuck_requests(now, timeout, most).chain(link.unresolved_requests()));
            }
            let are_all_silent = links.iter().all(|link| silent(&link));
            if are_all_silent || links.iter().filter(silent).any(Link::may_hold) {
                stuck.extend(self.queues[number].held_requests());
            }
            if are_all_silent {
                stuck.extend(self.queues[number].waiting_requests());
            }
        }
        stuck
    }

    /// When clients wait for memory, fails requests to silent nodes, oldest first, until half of the memory is free.
    pub(super) fn shed_unanswered(&mut self, now: Time) {
        let limit_bytes = self.memory.budget.limit_bytes();
        if self.memory.budget.used_bytes() < limit_bytes - limit_bytes / 4 {
            return;
        }
        // Not if all nodes are silent, and not for a short pause of a connected node.
        let is_silent = |node: &Node| {
            let patience = self.volumes[node.volume].spec.timeout / 2;
            self.links.of(node).iter().all(|link| link.is_silent(now, SHED_PATIENCE, patience))
        };
        if self.nodes.iter().all(is_silent) {
            return;
        }
        let mut keys: Vec<(Time, RequestKey)> = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            if is_silent(node) {
                let links = &self.links.of(node);
                let sent = links.iter().flat_map(Link::sent_requests);
                let waiting = self.queues[number].waiting_requests().chain(sent);
                let of_clients = |key| self.requests.get(key).filter(|r| r.client != ClientId::GATEWAY);
                let waited = waiting.filter_map(|key| of_clients(key).map(|r| (r.received, key)));
                keys.extend(waited.filter(|&(received, _)| now - received >= SHED_PATIENCE));
            }
        }
        keys.sort_unstable_by_key(|&(received, key)| (received, key.serial));
        let mut freed_bytes = 0;
        let mut count = 0;
        for (_, key) in keys {
            if freed_bytes >= limit_bytes / 2 {
                break;
            }
            if let Some(request) = self.requests.get(key) {
                freed_bytes += request.reserved_bytes;
                count += 1;
                self.fail_request(now, key, Failure::Io);
            }
        }
        if count > 0 {
            self.metrics.counters.timeouts += count as u64;
            self.actions.push_back(Action::Tell(Event::GaveWay(count)));
            self.drop_dead_pieces();
        }
    }

    /// Drops the requests of a client that is gone.
    pub(super) fn drop_requests_of(&mut self, client: ClientId) {
        let keys = self.requests.keys_where(|r| r.client == client);
        for &key in &keys {
            self.abandon(key);
            if let Some(request) = self.requests.remove(key) {
                self.memory.budget.release(request.reserved_bytes);
                if request.sample != 0 {
                    self.metrics.samples.forgotten(key);
                }
            }
        }
        if !keys.is_empty() {
            self.drop_dead_pieces();
        }
    }
}
