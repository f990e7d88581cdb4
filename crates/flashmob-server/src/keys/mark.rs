//! What a node of a cluster with keys announces in the place of its extent's identity: whoever knows both cluster and extent recognizes it, and nobody else
//! learns anything.
//!
//! The key of the HMAC is the cluster's public key, which a node has as soon as it belongs to the cluster. It is no secret of the cluster's members alone,
//! and need not be: an identity has 128 random bits, which nobody finds by trying, and who repeats a mark makes a gateway try an address, where the node's
//! key is asked for.

use std::fmt;
use std::str::FromStr;

use ring::hmac;

use super::key::PublicKey;
use crate::store::ExtentId;

const LABEL: &[u8] = b"flashmob announcement 1\0";

/// The first half of HMAC-SHA256(cluster's key; label, identity), in the form of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark(ExtentId);

impl Mark {
    /// That of this extent in this cluster.
    #[must_use]
    pub fn of(cluster: PublicKey, extent: ExtentId) -> Mark {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, cluster.bytes()));
        context.update(LABEL);
        context.update(&extent.0);
        let tag = context.sign();
        let mut half = [0; 16];
        half.copy_from_slice(&tag.as_ref()[..16]);
        Mark(ExtentId(half))
    }

    /// Its first 8 digits, for people.
    #[must_use]
    pub fn short(self) -> String {
        self.0.short()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Not 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a mark has 32 hexadecimal digits")]
pub struct BadMark;

impl FromStr for Mark {
    type Err = BadMark;

    fn from_str(text: &str) -> Result<Mark, BadMark> {
        text.parse().map(Mark).map_err(|_| BadMark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_extent_in_one_cluster() {
        let (cluster, extent) = (PublicKey::of([1; 32]).unwrap(), ExtentId([2; 16]));
        let mark = Mark::of(cluster, extent);
        // openssl dgst -sha256 -mac HMAC -macopt hexkey:0101...
        assert_eq!(mark.to_string(), "4d4fa5823a932e311a3e0747b7f57e39");
        assert_eq!(mark.to_string().parse(), Ok(mark));
        assert_ne!(mark, Mark::of(PublicKey::of([3; 32]).unwrap(), extent));
        assert_ne!(mark, Mark::of(cluster, ExtentId([3; 16])));
        for bad in ["", "0", "g", &"0".repeat(31), &"0".repeat(33), &"é".repeat(16)] {
            assert_eq!(bad.parse::<Mark>(), Err(BadMark), "{bad}");
        }
    }
}
