//! Announcements in a gateway: it follows the extents of its volumes to their current addresses.
//!
//! An announced address costs an attempt to connect and nothing else: the welcome there must show the extent's identity
//! before any data is used, and a link that answers is kept. Unknown extents are logged, and never connected to.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::announcement::fitting;
use super::found::{FOUND_MAX, FoundNodes, News};
use super::hear::Ear;
use super::here::multicast;
use super::mdns::{Heard, Listener};
use super::{Announcement, Notice};
use crate::gateway::{Seen, Whereabouts};
use crate::keys::GrantInUse;
use crate::net::Clock;

/// Interval at which the listener checks whether to stop, which wakes the processor.
const LISTEN_FOR: Duration = Duration::from_secs(5);

/// Unknown extents, each logged once.
struct Strangers {
    clock: Clock,
    found: Mutex<FoundNodes>,
}

impl Strangers {
    fn note(&self, about: Announcement, addr: SocketAddr) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        found.expire(now);
        let (name, address) = (about.shown_name(), about.address.clone());
        let extent = about.extent;
        if let Some(News::New(_)) = found.joined(now, about, addr) {
            log::info!(
                "node '{name}' at {address} announces extent {extent}, which is not in any volume here; `flashmob volume add` makes it a node of one with copies, and `flashmob discover --write FILE` a new configuration"
            );
        }
    }
}

/// Receives announcements over HTTP: of anybody, or in a cluster with keys of its nodes.
#[must_use]
pub fn ear(whereabouts: Whereabouts, keys: Option<GrantInUse>) -> Ear {
    if let Some(grant) = keys {
        let take = move |extent, addr: SocketAddr| whereabouts.joined(extent, addr.to_string());
        return Ear::of_nodes(take, move || grant.get());
    }
    let strangers = Strangers { clock: Clock::start(), found: Mutex::default() };
    Ear::new(move |about, addr| {
        let is_known = match about.volume {
            // It belongs to another gateway, or did.
            Some(_) => whereabouts.seen(Seen::Extent(about.extent), vec![addr.to_string()]),
            None => whereabouts.joined(about.extent, addr.to_string()),
        };
        if !is_known {
            strangers.note(about, addr);
        }
        is_known
    })
}

/// Listens by multicast DNS for nodes with new addresses, until dropped.
#[derive(Debug)]
pub struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts to listen, in a cluster with keys for nodes with keys alone. If multicast does not work, logs that and returns `None`.
    #[must_use]
    pub fn start(whereabouts: Whereabouts, has_keys: bool) -> Option<Follower> {
        let remedy = "to follow nodes whose address changes, start them with --join ADDR:PORT, the address of 'admin'";
        if let Err(why) = multicast() {
            log::info!("multicast DNS is not available: {why}; {remedy}");
            return None;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::Builder::new().name("follow".to_string()).stack_size(256 * 1024);
        let thread = thread.spawn(move || match Listener::new() {
            Ok(mut listener) => follow(&mut listener, &whereabouts, has_keys, &asked),
            Err(error) => log::info!("multicast DNS is not available: {error}; {remedy}"),
        });
        thread.ok().map(|thread| Follower { stop, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // It ends at its next check. There is no need to wait: it holds nothing.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished)
            && thread.join().is_err()
        {
            log::error!("the thread that follows nodes panicked");
        }
    }
}

fn follow(listener: &mut Listener, whereabouts: &Whereabouts, has_keys: bool, stop: &AtomicBool) {
    let (mut heard, mut far) = (Addresses::default(), HashSet::new());
    while !stop.load(Ordering::SeqCst) {
        let (notice, addrs) = match listener.next(LISTEN_FOR) {
            Some(Heard::Node(_, notice, addrs)) => (notice, addrs),
            Some(Heard::Far(name, addrs)) => {
                if far.len() < FOUND_MAX && far.insert(name.clone()) {
                    log::info!(
                        "multicast DNS: {} announces {}, which is in no network of this machine, and is not followed",
                        fitting(&name, 100),
                        addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                    );
                }
                continue;
            }
            _ => continue,
        };
        let who = match *notice {
            Notice::Open(about) if !has_keys => Seen::Extent(about.extent),
            Notice::Marked(mark) if has_keys => Seen::Marked(mark),
            _ => continue,
        };
        let addrs = heard.newest(who, &addrs).iter().map(ToString::to_string).collect();
        // Unknown extents are ignored here.
        let _ = whereabouts.seen(who, addrs);
    }
}

/// The last announced addresses of each extent.
#[derive(Debug, Default)]
struct Addresses(HashMap<Seen, Vec<SocketAddr>>);

impl Addresses {
    /// The new ones of several addresses, because records of old ones live on for a while. All of them if none is new, or for a
    /// new extent: a device may have several addresses, any of which may be in use.
    fn newest(&mut self, who: Seen, addrs: &[SocketAddr]) -> Vec<SocketAddr> {
        if self.0.len() >= FOUND_MAX && !self.0.contains_key(&who) {
            self.0.clear();
        }
        let before = self.0.insert(who, addrs.to_vec()).unwrap_or_default();
        let new: Vec<SocketAddr> = addrs.iter().filter(|addr| !before.contains(addr)).copied().collect();
        if new.is_empty() { addrs.to_vec() } else { new }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExtentId;
    use super::*;

    #[test]
    fn of_several_addresses_the_new_one_is_tried() {
        let [old, new, other] = [1, 2, 3].map(|host| SocketAddr::from(([10, 0, 0, host], 7411)));
        let mut heard = Addresses::default();
        let extent = Seen::Extent(ExtentId([1; 16]));
        assert_eq!(heard.newest(extent, &[old, other]), [old, other], "the gateway may use either");
        assert_eq!(heard.newest(extent, &[old]), [old]);
        assert_eq!(heard.newest(extent, &[old, new]), [new]);
        assert_eq!(heard.newest(extent, &[new]), [new], "the old one is gone");
        assert_eq!(heard.newest(extent, &[other, new]), [other]);
        assert_eq!(heard.newest(extent, &[]), []);
        for id in 0..2 * FOUND_MAX {
            heard.newest(Seen::Extent(ExtentId((id as u128).to_be_bytes())), &[old]);
        }
        assert!(heard.0.len() <= FOUND_MAX);
    }
}
