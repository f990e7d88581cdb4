//! Current addresses of nodes: any thread can report one to the running gateway, which tries it at once.
//!
//! An extent is identified by its id, never by its address, so an announcement can only lead the gateway to another place of the
//! same extent: the welcome there must show that id, or the link is refused.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::keys::{Mark, PublicKey};
use crate::net::Wake;
use crate::status::ask;
use crate::store::ExtentId;

/// Maximum number of announcements that wait for the loop; further ones are answered as unknown and come again.
const WAITING_MAX: usize = 64;

/// Whom somebody has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// An extent by its identity. In a cluster with keys: its node has said so, and proven its key.
    Extent(ExtentId),
    /// An extent of a cluster with keys, by its mark, which anybody may repeat.
    Marked(Mark),
}

/// An extent was seen at an address.
#[derive(Debug)]
pub(super) struct Sighting {
    pub who: Seen,
    /// Each `host:port`, likeliest first.
    pub addresses: Vec<String>,
    /// Its node has joined this gateway, and is in no volume that it knows of.
    pub is_joining: bool,
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
    /// Somebody is at any of `addresses` (`host:port`, likeliest first). True if a volume of this gateway knows the extent; unless
    /// its links lead to one of them already, they try the first at once. False if it does not, or if the loop does not answer in time.
    #[must_use]
    pub fn seen(&self, who: Seen, addresses: Vec<String>) -> bool {
        let sighting = |answer| Sighting { who, addresses, is_joining: false, answer };
        ask(&self.sightings, &self.wake, sighting).unwrap_or(false)
    }

    /// The same of a node that announces itself to this gateway. If it is in no volume, it is offered to whoever asks for the gateway's state.
    #[must_use]
    pub fn joined(&self, extent: ExtentId, address: String) -> bool {
        let (who, addresses) = (Seen::Extent(extent), vec![address]);
        let sighting = |answer| Sighting { who, addresses, is_joining: true, answer };
        ask(&self.sightings, &self.wake, sighting).unwrap_or(false)
    }
}

/// The marks of extents that were asked for.
#[derive(Debug, Default)]
pub(super) struct Marks(HashMap<(PublicKey, [u8; 16]), Mark>);

impl Marks {
    /// Whether an extent of this gateway is the one that was seen.
    pub fn is_seen(&mut self, clusters: &[PublicKey], extent_id: [u8; 16], who: Seen) -> bool {
        match who {
            Seen::Extent(seen) => seen.0 == extent_id,
            Seen::Marked(mark) => clusters.iter().any(|&cluster| {
                let known = self.0.entry((cluster, extent_id));
                *known.or_insert_with(|| Mark::of(cluster, ExtentId(extent_id))) == mark
            }),
        }
    }
}
