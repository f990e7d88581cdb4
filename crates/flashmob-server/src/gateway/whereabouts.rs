//! Current addresses of nodes: any thread can report one to the running gateway, which tries it at once.
//!
//! An extent is identified by its id, never by its address, so an announcement can only lead the gateway to another place of the
//! same extent: the welcome there must show that id, or the link is refused.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::net::Wake;
use crate::status::ask;

/// Maximum number of announcements that wait for the loop; further ones are answered as unknown and come again.
const WAITING_MAX: usize = 64;
/// An extent was seen at an address.
#[derive(Debug)]
pub(super) struct Sighting {
    pub extent_id: [u8; 16],
    /// Each `host:port`, likeliest first.
    pub addresses: Vec<String>,
    pub answer: SyncSender<bool>,
}

/// Reports places of extents to the running loop, from any thread.
#[derive(Debug, Clone)]
pub struct Whereabouts {
    sightings: SyncSender<Sighting>,
    wake: Wake,
}

/// The handle, and the end at which the loop receives sightings.
pub(super) fn whereabouts(wake: Wake) -> (Whereabouts, Receiver<Sighting>) {
    let (sightings, seen) = sync_channel(WAITING_MAX);
    (Whereabouts { sightings, wake }, seen)
}

impl Whereabouts {
    /// This extent is served at any of `addresses` (`host:port`, likeliest first). True if a volume of this gateway knows the extent; unless
    /// its links lead to one of them already, they try the first at once. False if it does not, or if the loop does not answer in time.
    #[must_use]
    pub fn seen(&self, extent_id: [u8; 16], addresses: Vec<String>) -> bool {
        ask(&self.sightings, &self.wake, |answer| Sighting { extent_id, addresses, answer }).unwrap_or(false)
    }
}
