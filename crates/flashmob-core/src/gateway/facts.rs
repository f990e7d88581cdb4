//! What a diagnosis has to know of nodes and clients now, besides what is recorded of each second.

use std::time::Duration;

use super::Gateway;
use super::state::{Client, ClientId, Node, State};
use crate::condition::LastPause;
use crate::diagnosis::{Demands, Facts};
use crate::units::Time;

impl Gateway {
    /// The configuration, as commands that messages advise name it.
    #[must_use]
    pub fn config_name(&self) -> &str {
        &self.config.config_name
    }

    /// Of each node, as [`Gateway::nodes_in_order`] has them. What its links have lost is not known here.
    #[must_use]
    pub fn facts(&self, now: Time) -> Vec<Facts> {
        let facts = |(number, node): (usize, &Node)| {
            let links = || self.links.of(node).iter().filter(|link| link.state == State::Ready);
            let is_asked = links().any(|link| !link.sent.is_empty());
            let silent = links().map(|link| now - link.heard.max(link.progress)).min();
            Facts {
                volume: node.volume,
                is_ready: links().next().is_some(),
                silent: silent.filter(|_| is_asked),
                is_measured: self.is_measured(number, now),
                ..Facts::default()
            }
        };
        self.nodes_in_order().into_iter().map(|number| facts((number, &self.nodes[number]))).collect()
    }

    /// What clients wanted in the last second or two, and which of them wanted most.
    #[must_use]
    pub fn demands(&self, now: Time) -> (Demands, Option<ClientId>) {
        let of = |(id, client): (ClientId, &Client)| (client.peak.get(now), id);
        let (mut demands, mut who) = (Demands::default(), None);
        for (requests, id) in self.clients.iter().map(of).filter(|(requests, _)| *requests > 0) {
            if requests > demands.most {
                (demands.others, demands.most, who) = (demands.others + demands.most, requests, Some(id));
            } else {
                demands.others += requests;
            }
        }
        (demands, who)
    }

    /// How long ago a node (counted over all volumes) reported its last pause, if it has since this start of the gateway.
    #[must_use]
    pub fn paused_ago(&self, node: usize, now: Time) -> Option<Duration> {
        self.nodes.get(node)?.paused.map(|paused| now - paused)
    }

    /// That pause, or an earlier one.
    #[must_use]
    pub fn last_pause(&self, node: usize) -> Option<&LastPause> {
        self.nodes.get(node)?.condition.as_ref()?.0.last_pause.as_ref()
    }
}
