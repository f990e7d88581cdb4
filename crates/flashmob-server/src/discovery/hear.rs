//! Receiving announcements over HTTP, with a limited rate.
//!
//! Anyone who reaches the port can announce anything. So the cost is bounded: bodies are short, their rate is limited, and an
//! announcement only provides an address to try, never data.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::{Announcement, BadAnnouncement, JoinAnswer};

/// Announcements read in a second: a thousand nodes send a hundred.
const RATE_PER_S: f64 = 200.0;
/// Maximum burst after a pause: a room that is switched on.
const BURST: f64 = 400.0;

/// Takes an announcement that is within the limits; says whether the extent is known here.
pub type Take = dyn Fn(Announcement, SocketAddr) -> bool + Send + Sync;

/// Takes announcements.
pub struct Ear {
    take: Box<Take>,
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
        Ear { take: Box::new(take), tokens: Mutex::new((BURST, Instant::now())) }
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

    /// Takes an announcement of `peer`.
    ///
    /// # Errors
    /// If it is not within the limits.
    pub fn hear(&self, body: &[u8], peer: IpAddr) -> Result<JoinAnswer, Unheard> {
        let (announcement, addr) = Announcement::parse(body, peer)?;
        Ok(JoinAnswer { known: (self.take)(announcement, addr) })
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
        assert_eq!(ear.hear(body.as_bytes(), peer), Ok(JoinAnswer { known: true }));
        assert!(matches!(ear.hear(b"{}", peer), Err(Unheard::Bad(_))));
    }
}
