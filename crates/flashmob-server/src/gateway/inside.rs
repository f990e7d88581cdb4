//! A load inside the gateway's own loop, as P1's master issues its requests itself: no socket, channel or other thread is
//! between it and the state machine.
//!
//! It shares the loop's one thread, so it must never wait.

use std::time::Duration;

use flashmob_core::gateway::{Gateway, LinkId, LocalExtents};
use flashmob_core::units::Time;

use super::links::Links;
use crate::net::report::TcpReport;

/// A load inside the loop. While it runs, [`Gateway::completions`] are its own: native calls get none.
pub trait Resident {
    /// Called once in each turn, after replies of nodes were read and before new batches are made.
    fn turn(&mut self, now: Time, inside: &mut Inside<'_>);

    /// How soon it needs a turn without any event.
    fn wakes_in(&self) -> Duration;

    /// Whether it has finished, so that the loop may end.
    fn is_over(&self) -> bool;
}

/// A resident's view of the gateway.
#[derive(Debug)]
pub struct Inside<'a> {
    pub(super) gateway: &'a mut Gateway,
    pub(super) links: &'a mut Links,
}

impl Inside<'_> {
    /// The state machine, and the extents in this process that it may ask at once.
    pub fn parts(&mut self) -> (&mut Gateway, &mut impl LocalExtents) {
        (self.gateway, self.links)
    }

    /// The kernel's counters of a link's connection.
    #[must_use]
    pub fn tcp_info(&self, link: LinkId) -> Option<TcpReport> {
        self.links.tcp_info(link)
    }
}
