//! What a gateway may do: signed by the cluster key for the gateway's key, and sent as the first bytes of each link.
//!
//! | bytes | field |
//! |---:|---|
//! | 8 | `FMGRANT1` |
//! | 32 | the cluster's public key |
//! | 32 | the gateway's public key |
//! | 8 | generation, little-endian |
//! | 1 | rights: 1 = own |
//! | 64 | Ed25519 signature of all before it |

use super::key::{PublicKey, SecretKey};

const MAGIC: &[u8; 8] = b"FMGRANT1";
/// The right to everything: to adopt extents, to take charge, to read and to change.
const RIGHTS_OWN: u8 = 1;
const SIGNED_BYTES: usize = 8 + 32 + 32 + 8 + 1;
/// Bytes of a grant.
pub const GRANT_BYTES: usize = SIGNED_BYTES + 64;
pub use flashmob_core::wire::generation::GENERATION_MAX;

/// A grant whose signature is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Who signed it.
    pub cluster: PublicKey,
    /// Whose it is.
    pub gateway: PublicKey,
    /// Grants of earlier generations are no longer valid at a node that has seen a later one.
    pub generation: u64,
}

/// Why bytes are no grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadGrant {
    /// Another length, or another first field.
    #[error("it is no grant of this version")]
    Form,
    /// A number that is too large, or rights of a later version.
    #[error("it has a field of a later version")]
    Field,
    /// The signature is of another key, or of other bytes.
    #[error("its signature is not valid")]
    Signature,
}

impl Grant {
    /// Signs it.
    #[must_use]
    pub fn sign(cluster: &SecretKey, gateway: PublicKey, generation: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GRANT_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(cluster.public().bytes());
        bytes.extend_from_slice(gateway.bytes());
        bytes.extend_from_slice(&generation.to_le_bytes());
        bytes.push(RIGHTS_OWN);
        let signature = cluster.sign(&bytes);
        bytes.extend_from_slice(&signature);
        bytes
    }

    /// Reads it, and checks the signature by the key that it names.
    ///
    /// # Errors
    /// See [`BadGrant`].
    pub fn parse(bytes: &[u8]) -> Result<Grant, BadGrant> {
        if bytes.len() != GRANT_BYTES || !bytes.starts_with(MAGIC) {
            return Err(BadGrant::Form);
        }
        let (signed, signature) = bytes.split_at(SIGNED_BYTES);
        let key = |at: usize| {
            let mut key = [0; 32];
            key.copy_from_slice(&signed[at..at + 32]);
            PublicKey::of(key).ok_or(BadGrant::Field)
        };
        let mut number = [0; 8];
        number.copy_from_slice(&signed[72..80]);
        let grant = Grant { cluster: key(8)?, gateway: key(40)?, generation: u64::from_le_bytes(number) };
        if grant.generation > GENERATION_MAX || signed[80] != RIGHTS_OWN {
            return Err(BadGrant::Field);
        }
        if !grant.cluster.verifies(signed, signature) {
            return Err(BadGrant::Signature);
        }
        Ok(grant)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_grant_reads_back_and_no_bit_of_it_can_be_changed() {
        let (cluster, gateway) = (SecretKey::draw().unwrap(), SecretKey::draw().unwrap());
        let bytes = Grant::sign(&cluster, gateway.public(), 7);
        let grant = Grant { cluster: cluster.public(), gateway: gateway.public(), generation: 7 };
        assert_eq!((bytes.len(), Grant::parse(&bytes)), (GRANT_BYTES, Ok(grant)));
        for bit in 0..8 * GRANT_BYTES {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Grant::parse(&changed).is_err(), "bit {bit}");
        }
        assert_eq!(Grant::parse(&bytes[..GRANT_BYTES - 1]), Err(BadGrant::Form));
        assert_eq!(Grant::parse(&[&bytes[..], &[0]].concat()), Err(BadGrant::Form));
    }

    #[test]
    fn no_grant_and_no_list_has_a_key_of_small_order() {
        use crate::keys::pins::Pins;
        use crate::store::small_order_keys;
        let (cluster, path) = (SecretKey::draw().unwrap(), std::path::Path::new("nodes"));
        let good = Grant::sign(&cluster, cluster.public(), 7);
        let entry =
            |key: &str| format!("# Keys of nodes\n[[node]]\nextent = \"{}\"\nkey = \"{key}\"\n", "0a".repeat(16));
        assert!(Pins::parse(path, entry(&cluster.public().to_string()).as_bytes()).is_ok());
        for key in small_order_keys() {
            // The cluster: the identity as R, and S = 0, would be its signature of anything.
            let mut forged = good.clone();
            forged[8..40].copy_from_slice(&key);
            forged[SIGNED_BYTES..].fill(0);
            forged[SIGNED_BYTES] = 1;
            assert_eq!(Grant::parse(&forged), Err(BadGrant::Field), "{key:02x?}");
            // The gateway, though the cluster has signed for it.
            let mut signed = good[..SIGNED_BYTES].to_vec();
            signed[40..72].copy_from_slice(&key);
            let signature = cluster.sign(&signed);
            assert_eq!(Grant::parse(&[signed, signature].concat()), Err(BadGrant::Field));
            let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(Pins::parse(path, entry(&digits).as_bytes()).is_err());
        }
    }

    #[test]
    fn a_generation_has_a_limit() {
        let cluster = SecretKey::draw().unwrap();
        for (generation, is_valid) in
            [(0, true), (GENERATION_MAX - 1, true), (GENERATION_MAX, true), (GENERATION_MAX + 1, false)]
        {
            assert_eq!(
                Grant::parse(&Grant::sign(&cluster, cluster.public(), generation)).is_ok(),
                is_valid,
                "{generation}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_grant_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..200), is_of_form: bool) {
            if is_of_form {
                bytes.resize(GRANT_BYTES, 1);
                bytes[..8].copy_from_slice(MAGIC);
            }
            prop_assert!(Grant::parse(&bytes).is_err());
        }
    }
}
