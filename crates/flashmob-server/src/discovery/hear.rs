//! Receiving announcements over HTTP, with a limited rate.
//!
//! Anyone who reaches the port can announce anything. So the cost is bounded: bodies are short, their rate is limited, and an
//! announcement only provides an address to try, never data. In a cluster with keys nodes alone can announce, each its own extent: its key says which.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::announcement::OwnAddress;
use super::here::Networks;
use super::{Announcement, BadAnnouncement, ExtentId, JoinAnswer};

/// Announcements read in a second: a thousand nodes send a hundred.
const RATE_PER_S: f64 = 200.0;
/// Maximum burst after a pause: a room that is switched on.
const BURST: f64 = 400.0;

/// Takes an announcement that is within the limits; says whether the extent is known here.
pub type Take = dyn Fn(Announcement, SocketAddr) -> bool + Send + Sync;
/// The same from a node that has proven which extent is its own.
pub type TakeOwn = dyn Fn(ExtentId, SocketAddr) -> bool + Send + Sync;

/// The gateway's grant as it is now, if it can be read.
pub type GrantNow = dyn Fn() -> Option<Vec<u8>> + Send + Sync;

enum From {
    Anybody(Box<Take>),
    Nodes(Box<TakeOwn>, Box<GrantNow>),
}

/// Takes announcements.
pub struct Ear {
    from: From,
    tokens: Mutex<(f64, Instant)>,
}

/// Why an announcement was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unheard {
    /// Too many.
    #[error("more than {RATE_PER_S} announcements a second; try again")]
    TooMany,
    /// Not within the limits.
    #[error(transparent)]
    Bad(#[from] BadAnnouncement),
    /// Of a node with keys where there are none, or the other way round.
    #[error("this cluster has keys, and the node has none, or the other way round")]
    OtherKind,
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ear")
    }
}

impl Ear {
    /// Passes announcements to `take`.
    #[must_use]
    pub fn new(take: impl Fn(Announcement, SocketAddr) -> bool + Send + Sync + 'static) -> Ear {
        Ear::taking(From::Anybody(Box::new(take)))
    }

    /// The same from nodes with keys alone, which are told the gateway's grant.
    #[must_use]
    pub fn of_nodes(
        take: impl Fn(ExtentId, SocketAddr) -> bool + Send + Sync + 'static,
        grant: impl Fn() -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Ear {
        Ear::taking(From::Nodes(Box::new(take), Box::new(grant)))
    }

    fn taking(from: From) -> Ear {
        Ear { from, tokens: Mutex::new((BURST, Instant::now())) }
    }

    /// Whether the rate allows one more now.
    pub fn has_time(&self) -> bool {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = *tokens;
        let left = (left + since.elapsed().as_secs_f64() * RATE_PER_S).min(BURST);
        let has = left >= 1.0;
        *tokens = (if has { left - 1.0 } else { left }, Instant::now());
        has
    }

    /// Takes an announcement of `peer`, which has proven to be the node with extent `own`, if any.
    ///
    /// # Errors
    /// If it is not within the limits.
    pub fn hear(&self, body: &[u8], peer: IpAddr, own: Option<ExtentId>) -> Result<JoinAnswer, Unheard> {
        let mut grant = None;
        let known = match (&self.from, own) {
            (From::Anybody(take), None) => {
                let (announcement, addr) = Announcement::parse(body, peer)?;
                take(announcement, within_reach(addr, peer)?)
            }
            (From::Nodes(take, grant_now), Some(extent)) => {
                grant = grant_now().map(|grant| STANDARD.encode(grant));
                take(extent, within_reach(OwnAddress::parse(body, peer)?, peer)?)
            }
            _ => return Err(Unheard::OtherKind),
        };
        Ok(JoinAnswer { known, grant })
    }
}

/// The address, if it is that of `peer` or in a network of this device: nobody can have this process try others.
fn within_reach(addr: SocketAddr, peer: IpAddr) -> Result<SocketAddr, BadAnnouncement> {
    match addr.ip() == peer.to_canonical() || Networks::now().have(addr.ip()) {
        true => Ok(addr),
        false => Err(BadAnnouncement::Elsewhere),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_taken_at_once_and_no_more() {
        let ear = Ear::new(|_, _| true);
        // It refills meanwhile, by one in 5 ms.
        let taken = (0..10_000).filter(|_| ear.has_time()).count();
        assert!((BURST as usize..5_000).contains(&taken), "{taken}");
    }

    #[test]
    fn what_is_taken_is_handed_over_with_its_address() {
        let ear = Ear::new(|about, addr| about.address == addr.to_string() && about.size_bytes == 5);
        let body = format!(r#"{{"extent":"{}","address":":7411","size_bytes":5}}"#, "0f".repeat(16));
        let peer = IpAddr::from([192, 168, 1, 11]);
        assert_eq!(ear.hear(body.as_bytes(), peer, None), Ok(JoinAnswer { known: true, grant: None }));
        assert!(matches!(ear.hear(b"{}", peer, None), Err(Unheard::Bad(_))));
        for elsewhere in ["127.0.0.1:7411", "[::1]:7411"] {
            let body = body.replace(":7411", elsewhere);
            let refused = ear.hear(body.as_bytes(), peer, None);
            assert_eq!(refused, Err(Unheard::Bad(BadAnnouncement::Elsewhere)), "it would try whatever it is told");
        }
        assert_eq!(ear.hear(body.as_bytes(), peer, Some(ExtentId([1; 16]))), Err(Unheard::OtherKind));
    }

    #[test]
    fn a_node_with_keys_announces_its_own_extent_whatever_it_says() {
        let (own, peer) = (ExtentId([1; 16]), IpAddr::from([192, 168, 1, 11]));
        let is_own = move |extent, addr| extent == own && addr == SocketAddr::new(peer, 7411);
        let ear = Ear::of_nodes(is_own, || Some(b"grant".to_vec()));
        let told = Ok(JoinAnswer { known: true, grant: Some("Z3JhbnQ=".to_string()) });
        let body = format!(r#"{{"extent":"{}","address":":7411","size_bytes":5}}"#, "0f".repeat(16));
        for body in [&body[..], r#"{"address":":7411"}"#] {
            assert_eq!(ear.hear(body.as_bytes(), peer, Some(own)), told);
            assert_eq!(ear.hear(body.as_bytes(), peer, None), Err(Unheard::OtherKind));
        }
        assert!(matches!(ear.hear(br#"{"address":":0"}"#, peer, Some(own)), Err(Unheard::Bad(_))));
        let elsewhere = ear.hear(br#"{"address":"127.0.0.1:22"}"#, peer, Some(own));
        assert_eq!(elsewhere, Err(Unheard::Bad(BadAnnouncement::Elsewhere)));
    }
}
