//! Grants that a node hears of beside its links, as at the gateway's administrative port: one that was away learns there which keys are void, before a
//! stolen one is let in.

use std::sync::{Arc, Mutex};

use super::grant::Grant;
use super::key::PublicKey;
use super::lock;
use crate::net::Wake;

/// The grant that a gateway uses now, for those who tell nodes of it: not one that is on the disk and not used yet, which would void the one in use.
#[derive(Debug, Clone, Default)]
pub struct GrantInUse(Arc<Mutex<Vec<u8>>>);

impl GrantInUse {
    /// It is this one from now on.
    pub fn set(&self, grant: &[u8]) {
        *lock(&self.0) = grant.to_vec();
    }

    /// As bytes; none if there are no keys.
    #[must_use]
    pub fn get(&self) -> Option<Vec<u8>> {
        let grant = lock(&self.0);
        (!grant.is_empty()).then(|| grant.clone())
    }
}

/// Hands the latest one to the node's loop.
#[derive(Debug, Clone)]
pub struct Grants {
    cluster: PublicKey,
    latest: Arc<Mutex<Option<Grant>>>,
    wake: Wake,
}

impl Grants {
    /// Those of this cluster.
    #[must_use]
    pub fn of(cluster: PublicKey, wake: Wake) -> Grants {
        Grants { cluster, latest: Arc::default(), wake }
    }

    /// Takes a grant from anybody. The cluster's signature says that it is one; others are ignored.
    pub fn offer(&self, bytes: &[u8]) {
        let Ok(grant) = Grant::parse(bytes) else { return };
        let mut latest = lock(&self.latest);
        if grant.cluster == self.cluster && latest.is_none_or(|known| known.generation < grant.generation) {
            *latest = Some(grant);
            self.wake.wake();
        }
    }

    /// The latest since the last call.
    #[must_use]
    pub fn take(&self) -> Option<Grant> {
        lock(&self.latest).take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::SecretKey;
    use super::*;

    #[test]
    fn the_latest_of_the_own_cluster_counts_and_nothing_else() {
        let (cluster, other) = (SecretKey::draw().unwrap(), SecretKey::draw().unwrap());
        let grants = Grants::of(cluster.public(), Wake::nobody());
        let signed = |by: &SecretKey, generation| Grant::sign(by, PublicKey::of([7; 32]).unwrap(), generation);
        grants.offer(&signed(&other, 9));
        grants.offer(b"damaged");
        let mut changed = signed(&cluster, 9);
        changed[100] ^= 1;
        grants.offer(&changed);
        assert_eq!(grants.take(), None);
        for generation in [2, 4, 3] {
            grants.offer(&signed(&cluster, generation));
        }
        assert_eq!(grants.take().map(|grant| grant.generation), Some(4));
        assert_eq!(grants.take(), None);
    }
}
