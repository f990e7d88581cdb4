//! Proofs that an end knows the secret, in this session and in no other.

use ring::hmac;

use super::secret::Secret;
use crate::keys::PublicKey;

/// Bytes of a proof: HMAC-SHA256.
pub const PROOF_BYTES: usize = 32;
/// What TLS derives from a session for proofs (RFC 8446, 7.5).
pub const PROOF_EXPORT: &[u8] = b"EXPORTER-flashmob-enroll-proof";
/// The same for the digits that both ends show.
pub const DIGITS_EXPORT: &[u8] = b"EXPORTER-flashmob-enroll-digits";
const LABEL: &[u8] = b"flashmob-enroll/1";

/// Which end proves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The device that is enrolled.
    Device = 1,
    /// The gateway.
    Gateway = 2,
}

/// A connection, as one end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// What TLS exported for proofs.
    pub exported: [u8; 32],
    /// What TLS exported for digits.
    pub digits: [u8; 32],
    /// The key that the device has proven.
    pub device: PublicKey,
    /// The key that the gateway has proven.
    pub gateway: PublicKey,
    /// The cluster, by the gateway's grant.
    pub cluster: PublicKey,
}

impl Session {
    fn message(&self, role: Role, request: &[u8]) -> Vec<u8> {
        // All before the request have a fixed length.
        let keys = [&self.exported, &self.device.0, &self.gateway.0, &self.cluster.0].map(|part| &part[..]).concat();
        [LABEL, &[role as u8], &keys, request].concat()
    }

    /// The proof of `role`, for this request.
    #[must_use]
    pub fn prove(&self, secret: &Secret, role: Role, request: &[u8]) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.bytes()), &self.message(role, request));
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    /// Whether it is that proof; takes the same time for all wrong ones.
    #[must_use]
    pub fn is_proven(&self, secret: &Secret, role: Role, request: &[u8], proof: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.bytes());
        hmac::verify(&key, &self.message(role, request), proof).is_ok()
    }

    /// Six digits that both ends show: equal on both if they have the same session.
    #[must_use]
    pub fn shown_digits(&self) -> String {
        let (first, _) = self.digits.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let number = u64::from_le_bytes(*first) % 1_000_000;
        format!("{:03} {:03}", number / 1000, number % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_secret_one_end_one_session_and_one_request() {
        let (secret, other) = (Secret::draw_code().unwrap(), Secret::draw_code().unwrap());
        let key = |byte| PublicKey([byte; 32]);
        let session = Session { exported: [1; 32], digits: [2; 32], device: key(3), gateway: key(4), cluster: key(5) };
        let proof = session.prove(&secret, Role::Device, b"request");
        assert!(session.is_proven(&secret, Role::Device, b"request", &proof));
        assert!(!session.is_proven(&other, Role::Device, b"request", &proof));
        assert!(!session.is_proven(&secret, Role::Gateway, b"request", &proof));
        assert!(!session.is_proven(&secret, Role::Device, b"request ", &proof));
        assert!(!session.is_proven(&secret, Role::Device, b"request", &proof[..31]));
        for elsewhere in [
            Session { exported: [9; 32], ..session },
            Session { device: key(9), ..session },
            Session { gateway: key(9), ..session },
            Session { cluster: key(9), ..session },
        ] {
            assert!(!elsewhere.is_proven(&secret, Role::Device, b"request", &proof));
        }
        for bit in 0..8 * PROOF_BYTES {
            let mut changed = proof;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!session.is_proven(&secret, Role::Device, b"request", &changed));
        }
    }

    #[test]
    fn the_digits_are_six_and_differ_between_sessions() {
        let key = PublicKey([0; 32]);
        let of = |digits| Session { exported: [0; 32], digits, device: key, gateway: key, cluster: key }.shown_digits();
        assert_eq!(of([0; 32]), "000 000");
        assert_eq!(of([255; 32]), "551 615");
        assert_ne!(of([1; 32]), of([2; 32]));
    }
}
