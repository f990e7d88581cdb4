//! A second device that shows the extent of a node: a backup that was restored to another tablet, say, and got the first one's address.
//!
//! Its bytes differ as soon as something is written: reads from it return stale bytes.

use std::time::Duration;

use flashmob_core::units::Time;
use rand::Rng;

use super::remount::Stop;
use super::{Event, World, net};

impl World {
    /// Lets a copy of the node appear at its address, and breaks one of at least two links to the node.
    pub(super) fn copy_appears(&mut self, node: usize, lasts: Duration) {
        if self.gateway.links_ready(node) < 2 {
            return;
        }
        let until = self.ctx.now + lasts;
        self.disturb(node, until);
        let place = self.nodes.len();
        self.nodes.push(self.nodes[node].copied(node, &self.scenario));
        self.net.damage.push(net::Damage::default());
        self.net.traps.push(None);
        self.net.late.push(Time::default());
        self.disturbed_until.push(None);
        self.start_node(place, 0);
        self.ctx.at(until, Event::CopiesDisappear);
        if let Some(conn) = self.random_link(node) {
            self.net.cut(&mut self.ctx, conn);
        }
    }

    /// Switches all copies off. Nobody looks at their bytes again.
    pub(super) fn copies_disappear(&mut self) {
        for place in 0..self.nodes.len() {
            if self.nodes[place].copy_of.is_some() && !self.nodes[place].is_dead {
                self.stop_node(place, Duration::from_secs(1_000_000), Stop::Killed);
                self.nodes[place].is_dead = true;
                self.disturbed_until[place] = None;
            }
        }
    }

    /// Which device an attempt at a node reaches.
    pub(super) fn who_answers(&mut self, node: usize) -> usize {
        let copy = self.nodes.iter().position(|other| other.copy_of == Some(node) && !other.is_dead);
        copy.filter(|_| self.ctx.rng.random_bool(0.5)).unwrap_or(node)
    }
}
