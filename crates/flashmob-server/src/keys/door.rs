//! A node's door: what a connection has to show before its first frame is decoded.
//!
//! The first byte says whether it is TLS. If it is not, the answer is always the same, whatever came. Then both ends prove their keys, and the gateway sends
//! its grant, which must be signed by the node's cluster, be for the key that was proven, and be of no earlier generation than any the node has seen.

use std::io;
use std::time::{Duration, Instant};

use flashmob_core::buffers::RxBuf;

use super::doorman::{Doorman, thread_time};
use super::folder::LINK_PURPOSE;
use super::grant::{BadGrant, Grant};
use super::key::PublicKey;
use super::node::NodeKeys;
use super::shown;
use crate::net::tls::HANDSHAKE_RECORD;
use crate::net::{Filled, Stream};

/// What every peer without keys is told, and nothing else.
pub const NEEDS_KEYS: &str = "this node needs keys: see `flashmob key` at the gateway";

/// Most reads of what a peer without keys has sent.
const THROWN_AWAY_MAX: usize = 16;

/// A connection that is not admitted yet.
#[derive(Debug, Default)]
pub struct Door {
    /// Decrypted: [what is shown](super::shown), and what follows.
    received: RxBuf,
    is_tls: bool,
    /// Whether a step was made since that was last asked.
    stepped: bool,
}

/// What became of a connection's bytes.
#[derive(Debug)]
pub enum Step {
    /// More have to come. Whether the socket is drained.
    More(Filled),
    /// A valid grant was shown. With the bytes behind that.
    Admitted(Grant, RxBuf, Filled),
    /// No valid grant was shown: tell the peer this, and close.
    Refused(&'static str),
    /// Too many handshakes have begun lately; again after this time.
    Wait(Duration),
}

impl Door {
    /// Whether the peer has begun the handshake, or proven its key, since this was last asked.
    pub fn take_stepped(&mut self) -> bool {
        std::mem::take(&mut self.stepped)
    }

    /// Reads once.
    ///
    /// # Errors
    /// The connection failed, or the handshake.
    pub fn step(
        &mut self,
        stream: &mut Stream,
        keys: &NodeKeys,
        generation: u64,
        doorman: &mut Doorman,
    ) -> io::Result<Step> {
        if !self.is_tls {
            match stream.peek_byte()? {
                None => return Ok(Step::More(Filled::Drained(0))),
                Some(HANDSHAKE_RECORD) => {
                    if let Err(wait) = doorman.admit(Instant::now(), stream.peer_ip()) {
                        return Ok(Step::Wait(wait));
                    }
                    stream.secure(&keys.end)?;
                    (self.is_tls, self.stepped) = (true, true);
                }
                Some(_) => {
                    // What it sent is thrown away: with bytes unread the connection would be reset before the answer is there.
                    for _ in 0..THROWN_AWAY_MAX {
                        if !matches!(stream.fill_little(&mut RxBuf::new())?, Filled::More(_)) {
                            break;
                        }
                    }
                    return Ok(Step::Refused(NEEDS_KEYS));
                }
            }
        }
        let (was_secured, before) = (stream.is_secured(), thread_time());
        let filled = stream.fill_little(&mut self.received);
        if !was_secured {
            doorman.took(stream.peer_ip(), thread_time().saturating_sub(before));
        }
        let filled = filled?;
        if filled == Filled::End || !stream.is_secured() {
            return Ok(Step::More(filled));
        }
        self.stepped |= !was_secured;
        let Some((shown, shown_bytes)) = shown::read(self.received.data(), keys.cluster) else {
            return Ok(Step::More(filled));
        };
        let Some(proven) = stream.peer_spki(LINK_PURPOSE).and_then(PublicKey::from_spki) else {
            return Ok(Step::Refused("the connection is for another purpose than a link"));
        };
        let grant = match shown {
            Ok(grant) => grant,
            Err(BadGrant::Signature) => return Ok(Step::Refused("the signature of the grant is not valid")),
            Err(BadGrant::Form | BadGrant::Field) => {
                return Ok(Step::Refused(
                    "the first bytes of the link are no grant: do gateway and node run the same version?",
                ));
            }
        };
        Ok(match judge(&grant, proven, keys.cluster, generation) {
            Err(why) => Step::Refused(why),
            Ok(()) => {
                self.received.consume(shown_bytes);
                doorman.let_in(stream.peer_ip());
                Step::Admitted(grant, std::mem::take(&mut self.received), filled)
            }
        })
    }
}

/// Whether a grant lets in who has proven this key.
fn judge(grant: &Grant, proven: PublicKey, cluster: PublicKey, generation: u64) -> Result<(), &'static str> {
    if grant.cluster != cluster {
        return Err("this node belongs to another cluster");
    }
    if grant.gateway != proven {
        return Err("the grant is another gateway's");
    }
    if grant.generation < generation {
        return Err(
            "this gateway's key was replaced or revoked: the node has seen a later generation; see `flashmob key rotate`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_of_the_nodes_cluster_for_the_proven_key_and_not_of_the_past() {
        let (cluster, gateway, other) =
            (PublicKey::of([1; 32]).unwrap(), PublicKey::of([2; 32]).unwrap(), PublicKey::of([3; 32]).unwrap());
        let grant = |generation| Grant { cluster, gateway, generation };
        assert!(judge(&grant(5), gateway, cluster, 5).is_ok() && judge(&grant(6), gateway, cluster, 5).is_ok());
        assert!(judge(&grant(4), gateway, cluster, 5).unwrap_err().contains("revoked"));
        assert!(judge(&grant(5), other, cluster, 5).unwrap_err().contains("another gateway's"));
        assert!(judge(&grant(5), gateway, other, 5).unwrap_err().contains("another cluster"));
    }
}
