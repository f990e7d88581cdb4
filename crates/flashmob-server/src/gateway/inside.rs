//! A load that lives inside the gateway's own loop, as P1's master issues its requests itself: no socket, channel or other thread
//! lies between it and the state machine.
//!
//! It shares the loop's one thread, so it must never wait.

use std::time::Duration;

use flashmob_core::gateway::{Gateway, LinkId, LocalExtents};
use flashmob_core::units::Time;

use super::links::Links;
use crate::net::report::TcpReport;

/// What lives inside. While it does, [`Gateway::completions`] are its own: native calls get none.
pub trait Resident {
    /// Once in each turn, after what came from nodes was taken and before new batches are made.
    fn turn(&mut self, now: Time, inside: &mut Inside<'_>);

    /// How soon it wants a turn though nothing has happened.
    fn wakes_in(&self) -> Duration;

    /// The loop may end.
    fn is_over(&self) -> bool;
}

/// What a resident sees of the gateway.
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

    /// What the kernel knows of a link's connection.
    #[must_use]
    pub fn tcp_info(&self, link: LinkId) -> Option<TcpReport> {
        self.links.tcp_info(link)
    }
}
