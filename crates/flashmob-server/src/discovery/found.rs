//! The nodes found so far, without I/O; the time is an argument.
//!
//! There are at most [`FOUND_MAX`] nodes. A node that announced over HTTP is removed when three announcements are missing, one
//! that was found by multicast DNS at its goodbye, and both when their port no longer answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use flashmob_core::units::Time;

use super::announcement::rank;
use super::{Announcement, ExtentId, JOIN_EVERY};

/// Maximum number of nodes: a quarter of what a configuration may name.
pub const FOUND_MAX: usize = 1024;
/// Validity of an announcement.
pub const JOIN_LIFE: Duration = JOIN_EVERY.saturating_mul(3);
/// Failed attempts in a row after which a node counts as gone; one may be a lost packet.
const MISSES_MAX: u32 = 2;

/// How a node was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// By multicast DNS.
    Mdns,
    /// It announced itself over HTTP.
    Join,
}

/// One node.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its last announcement.
    pub about: Announcement,
    /// Its addresses, best first.
    pub addrs: Vec<SocketAddr>,
    /// Its name in multicast DNS.
    mdns_name: Option<String>,
    /// When its last announcement over HTTP expires.
    joined_until: Option<Time>,
    misses: u32,
    reached: bool,
    /// Its port no longer answers, but multicast DNS still has it and will not report its return, so its port is still tried.
    hidden: bool,
}

impl Found {
    /// Whether its port answered when it was last tried.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.reached
    }

    /// Whether its port was tried at all.
    #[must_use]
    pub fn is_tried(&self) -> bool {
        self.reached || self.misses > 0
    }

    /// How it is known.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        let mdns = self.mdns_name.as_ref().map(|_| Way::Mdns);
        mdns.into_iter().chain(self.joined_until.map(|_| Way::Join)).collect()
    }

    /// The address to use.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addrs.first().copied()
    }
}

/// A change of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// It appeared, for the first time or again.
    New(ExtentId),
    /// Its announcement changed.
    Changed(ExtentId),
    /// It disappeared, with the reason.
    Gone(Box<Announcement>, Gone),
}

/// Why a node disappeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It said goodbye, or its records expired.
    Goodbye,
    /// Its port does not answer.
    Silent,
    /// It stopped announcing itself.
    Missing,
}

/// All nodes found.
#[derive(Debug, Default)]
pub struct FoundNodes {
    nodes: BTreeMap<ExtentId, Found>,
    turned_away: u64,
}

impl FoundNodes {
    /// A node was found by multicast DNS under `name`.
    pub fn heard(&mut self, name: String, about: Announcement, addrs: Vec<SocketAddr>) -> Option<News> {
        self.note(about, addrs, |node| node.mdns_name = Some(name))
    }

    /// A node announced itself over HTTP.
    pub fn joined(&mut self, now: Time, about: Announcement, addr: SocketAddr) -> Option<News> {
        self.note(about, vec![addr], |node| node.joined_until = Some(now + JOIN_LIFE))
    }

    fn note(&mut self, about: Announcement, addrs: Vec<SocketAddr>, how: impl FnOnce(&mut Found)) -> Option<News> {
        let extent = about.extent;
        let is_new = !self.nodes.contains_key(&extent);
        if is_new && self.nodes.len() >= FOUND_MAX {
            self.turned_away += 1;
            return None;
        }
        let (mdns_name, joined_until) = (None, None);
        let node = self.nodes.entry(extent).or_insert_with(|| Found {
            about: about.clone(),
            addrs: addrs.clone(),
            mdns_name,
            joined_until,
            misses: 0,
            reached: false,
            hidden: false,
        });
        let is_new = is_new || std::mem::take(&mut node.hidden);
        how(node);
        // The two ways may list a node's addresses in different orders: no change as long as the one in use is among them and
        // none is better.
        let in_use = node.addrs.first().copied().filter(|_| node.misses == 0);
        let is_kept = |addr: &SocketAddr| addrs.contains(addr) && addrs.first().is_none_or(|a| rank(addr) <= rank(a));
        let kept = in_use.filter(is_kept);
        let address = kept.map_or(about.address.clone(), |addr| addr.to_string());
        let about = Announcement { address, ..about };
        let changed = node.about != about;
        node.addrs = addrs;
        if let Some(at) = kept.and_then(|addr| node.addrs.iter().position(|a| *a == addr)) {
            node.addrs[..=at].rotate_right(1);
        } else {
            node.reached = false;
        }
        (node.about, node.misses) = (about, 0);
        match (is_new, changed) {
            (true, _) => Some(News::New(extent)),
            (false, true) => Some(News::Changed(extent)),
            (false, false) => None,
        }
    }

    /// A name disappeared from multicast DNS.
    pub fn goodbye(&mut self, name: &str) -> Option<News> {
        let (&extent, node) = self.nodes.iter_mut().find(|(_, node)| node.mdns_name.as_deref() == Some(name))?;
        node.mdns_name = None;
        let was_hidden = node.hidden;
        // Also for a node that announces itself over HTTP: a node that stops ends both.
        self.remove(extent, Gone::Goodbye).filter(|_| !was_hidden)
    }

    /// A node's port was tried; `answered`: the address that answered, if any.
    pub fn tried(&mut self, extent: ExtentId, answered: Option<SocketAddr>) -> Option<News> {
        let node = self.nodes.get_mut(&extent)?;
        if let Some(addr) = answered {
            node.misses = 0;
            node.reached = true;
            // The address that answers is used.
            if let Some(at) = node.addrs.iter().position(|a| *a == addr) {
                node.addrs[..=at].rotate_right(1);
                node.about.address = addr.to_string();
            }
            return std::mem::take(&mut node.hidden).then_some(News::New(extent));
        }
        node.misses += 1;
        // A node that never answered stays listed as such.
        if !node.reached || node.misses < MISSES_MAX || node.hidden {
            return None;
        }
        if node.mdns_name.is_none() {
            return self.remove(extent, Gone::Silent);
        }
        node.hidden = true;
        Some(News::Gone(Box::new(node.about.clone()), Gone::Silent))
    }

    /// Removes nodes whose announcements are missing.
    pub fn expire(&mut self, now: Time) -> Vec<News> {
        let mut late = Vec::new();
        for (extent, node) in &mut self.nodes {
            if node.joined_until.is_some_and(|until| now >= until) {
                node.joined_until = None;
                if node.mdns_name.is_none() {
                    late.push(*extent);
                }
            }
        }
        late.into_iter().filter_map(|extent| self.remove(extent, Gone::Missing)).collect()
    }

    fn remove(&mut self, extent: ExtentId, why: Gone) -> Option<News> {
        self.nodes.remove(&extent).map(|node| News::Gone(Box::new(node.about), why))
    }

    /// One node.
    #[must_use]
    pub fn get(&self, extent: ExtentId) -> Option<&Found> {
        self.nodes.get(&extent)
    }

    /// All of them, by name and then by identity.
    #[must_use]
    pub fn listed(&self) -> Vec<&Found> {
        let mut nodes: Vec<&Found> = self.nodes.values().filter(|node| !node.hidden).collect();
        nodes.sort_by_key(|node| (node.about.shown_name(), node.about.extent));
        nodes
    }

    /// The nodes to try, with their addresses; includes silent ones.
    #[must_use]
    pub fn to_try(&self) -> Vec<(ExtentId, Vec<SocketAddr>)> {
        self.nodes.iter().map(|(extent, node)| (*extent, node.addrs.clone())).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.values().filter(|node| !node.hidden).count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often a node was not noted because there are too many.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }
}

#[cfg(test)]
mod tests {
    use super::super::announcement::tests::sample;
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    fn node(id: u16, port: u16) -> (Announcement, SocketAddr) {
        let addr = SocketAddr::from(([192, 168, 1, 11], port));
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&id.to_be_bytes());
        let extent = ExtentId(bytes);
        (Announcement { extent, address: addr.to_string(), name: format!("n{id}"), ..sample() }, addr)
    }

    #[test]
    fn who_is_heard_in_both_ways_is_one_node() {
        let mut found = FoundNodes::default();
        let (about, addr) = node(1, 7411);
        assert_eq!(found.heard("a".into(), about.clone(), vec![addr]), Some(News::New(about.extent)));
        assert_eq!(found.joined(at(0), about.clone(), addr), None);
        assert_eq!(found.listed()[0].ways(), [Way::Mdns, Way::Join]);
        assert!(found.expire(at(30)).is_empty(), "multicast DNS still knows it");
        assert_eq!(found.listed()[0].ways(), [Way::Mdns]);
        assert_eq!(found.goodbye("a"), Some(News::Gone(Box::new(about), Gone::Goodbye)));
        assert!(found.is_empty() && found.goodbye("a").is_none());
    }

    #[test]
    fn three_missing_announcements_are_the_end() {
        let mut found = FoundNodes::default();
        let (about, addr) = node(1, 7411);
        found.joined(at(0), about.clone(), addr);
        found.joined(at(10), about.clone(), addr);
        assert!(found.expire(at(39)).is_empty());
        assert_eq!(found.expire(at(40)), [News::Gone(Box::new(about), Gone::Missing)]);
    }

    #[test]
    fn a_node_that_answered_is_gone_after_two_silences_and_one_that_never_did_is_shown() {
        let mut found = FoundNodes::default();
        let (about, addr) = node(1, 7411);
        found.heard("a".into(), about.clone(), vec![addr]);
        for _ in 0..5 {
            assert_eq!(found.tried(about.extent, None), None);
        }
        assert!(!found.listed()[0].is_reached());
        found.tried(about.extent, Some(addr));
        assert_eq!(found.tried(about.extent, None), None, "a lost packet is no end");
        assert_eq!(found.tried(about.extent, None), Some(News::Gone(Box::new(about.clone()), Gone::Silent)));
        assert!(found.is_empty() && found.listed().is_empty());
        assert_eq!(found.tried(about.extent, None), None, "told once");
        assert_eq!(found.tried(about.extent, Some(addr)), Some(News::New(about.extent)), "back again, without a word");
        found.tried(about.extent, None);
        found.tried(about.extent, None);
        assert_eq!(
            found.heard("a".into(), about.clone(), vec![addr]),
            Some(News::New(about.extent)),
            "back, and says so"
        );
        found.tried(about.extent, Some(addr));
        found.tried(about.extent, None);
        found.tried(about.extent, None);
        assert_eq!(found.goodbye("a"), None, "gone already");
        assert!(found.to_try().is_empty());
    }

    #[test]
    fn the_address_that_answers_is_used_and_a_new_one_is_news() {
        let mut found = FoundNodes::default();
        let (about, first) = node(1, 7411);
        let second = SocketAddr::from(([10, 0, 0, 1], 7411));
        found.heard("a".into(), about.clone(), vec![first, second]);
        found.tried(about.extent, Some(second));
        assert_eq!(found.listed()[0].addr(), Some(second));
        assert_eq!(found.heard("a".into(), about.clone(), vec![first, second]), None, "it still answers there");
        assert_eq!(found.listed()[0].addr(), Some(second));
        let (moved, third) = node(1, 7500);
        assert_eq!(found.joined(at(0), moved, third), Some(News::Changed(about.extent)));
        assert_eq!(found.listed()[0].addr(), Some(third));
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let mut found = FoundNodes::default();
        for id in 0..2000 {
            let (about, addr) = node(id, 7411);
            found.joined(at(0), about, addr);
        }
        assert_eq!((found.len(), found.turned_away()), (FOUND_MAX, 2000 - FOUND_MAX as u64));
        let names: Vec<String> = found.listed().iter().map(|node| node.about.name.clone()).collect();
        assert!(names.is_sorted());
        assert_eq!(found.expire(at(30)).len(), FOUND_MAX);
    }
}
