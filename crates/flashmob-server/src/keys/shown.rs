//! What a gateway shows of its grants: the first bytes of each link, after the proof of keys.
//!
//! That is one [grant](super::grant). While a cluster gets another key it is `FMGRANTS`, the grant of the new cluster key, and that of the one before:
//! a node takes the one of its own cluster, so the gateway needs not know which nodes were given to the new cluster already.

use super::grant::{BadGrant, GRANT_BYTES, Grant};
use super::key::PublicKey;

const MAGIC: &[u8; 8] = b"FMGRANTS";
/// Bytes with two grants.
const BOTH_BYTES: usize = MAGIC.len() + 2 * GRANT_BYTES;
/// Where a grant names its cluster.
const CLUSTER: std::ops::Range<usize> = 8..40;

/// The bytes that show a grant, and one of the cluster key before.
#[must_use]
pub fn show(grant: &[u8], previous: Option<&[u8]>) -> Vec<u8> {
    match previous {
        None => grant.to_vec(),
        Some(previous) => [&MAGIC[..], grant, previous].concat(),
    }
}

/// The grant of `cluster` in the first of these bytes, or the first one if none is of it, and how many bytes show it; `None` if more have to come.
#[must_use]
pub fn read(bytes: &[u8], cluster: PublicKey) -> Option<(Result<Grant, BadGrant>, usize)> {
    if bytes.len() < GRANT_BYTES {
        return None;
    }
    if !bytes.starts_with(MAGIC) {
        return Some((Grant::parse(&bytes[..GRANT_BYTES]), GRANT_BYTES));
    }
    let (first, second) = bytes.get(MAGIC.len()..BOTH_BYTES)?.split_at(GRANT_BYTES);
    // Only one signature is verified for a stranger.
    let own = if first[CLUSTER] != *cluster.bytes() && second[CLUSTER] == *cluster.bytes() { second } else { first };
    Some((Grant::parse(own), BOTH_BYTES))
}

#[cfg(test)]
mod tests {
    use super::super::key::SecretKey;
    use super::*;

    #[test]
    fn a_node_takes_the_grant_of_its_own_cluster() {
        let [new, old, other, gateway] = std::array::from_fn(|_| SecretKey::draw().unwrap());
        let [grant, previous] = [(&new, 8), (&old, 7)].map(|(by, number)| Grant::sign(by, gateway.public(), number));
        let both = show(&grant, Some(&previous));
        let generation = |bytes: &[u8], cluster: &SecretKey| {
            let (read, len) = read(bytes, cluster.public())?;
            Some((read.map(|grant| grant.generation), len))
        };
        assert_eq!(generation(&show(&grant, None), &old), Some((Ok(8), GRANT_BYTES)), "to be refused");
        for (cluster, expected) in [(&new, 8), (&old, 7), (&other, 8)] {
            assert_eq!(generation(&both, cluster), Some((Ok(expected), BOTH_BYTES)));
            for len in [0, 1, 8, GRANT_BYTES - 1, GRANT_BYTES, GRANT_BYTES + 8, BOTH_BYTES - 1] {
                assert_eq!(generation(&both[..len], cluster), None, "{len}");
            }
            assert_eq!(generation(&[&both[..], b"frames"].concat(), cluster), Some((Ok(expected), BOTH_BYTES)));
        }
        for (at, cluster) in [(30, &new), (MAGIC.len() + GRANT_BYTES + 100, &old)] {
            let mut changed = both.clone();
            changed[at] ^= 1;
            assert!(read(&changed, cluster.public()).unwrap().0.is_err_and(|why| why == BadGrant::Signature), "{at}");
        }
        let unknown = [b"FMGRANT2", &both[8..]].concat();
        assert_eq!(generation(&unknown, &new), Some((Err(BadGrant::Form), GRANT_BYTES)));
    }
}
