//! Proofs that an end knows the secret, in this session and in no other.

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

use super::secret::Secret;
use crate::keys::PublicKey;

/// Bytes of a proof: HMAC-SHA256.
pub const PROOF_BYTES: usize = 32;
/// What TLS derives from a session for proofs (RFC 8446, 7.5).
pub const PROOF_EXPORT: &[u8] = b"EXPORTER-flashmob-enroll-proof";
/// The same for the digits that both ends show.
pub const DIGITS_EXPORT: &[u8] = b"EXPORTER-flashmob-enroll-digits";
const LABEL: &[u8] = b"flashmob-enroll/1";
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 16;
/// Bytes of what commits to a nonce: its SHA-256.
pub const COMMITMENT_BYTES: usize = 32;

/// What each end contributes to the digits.
///
/// The gateway commits to its own before it sees the device's. So who is in between, and knows the code, cannot choose what makes the digits of two
/// sessions equal: a guess in a million, for each of the few times that a device may come with a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonces {
    /// The device's.
    pub device: [u8; NONCE_BYTES],
    /// The gateway's.
    pub gateway: [u8; NONCE_BYTES],
}

/// A nonce, drawn at random.
///
/// # Errors
/// The system has no random numbers.
pub fn draw_nonce() -> std::io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    let drawn = SystemRandom::new().fill(&mut nonce);
    drawn.map(|()| nonce).map_err(|_| std::io::Error::other("the system has no random numbers"))
}

/// What commits to a nonce.
#[must_use]
pub fn commit(nonce: &[u8; NONCE_BYTES]) -> [u8; COMMITMENT_BYTES] {
    Sha256::digest(nonce).into()
}

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
        let keys = [&self.exported, self.device.bytes(), self.gateway.bytes(), self.cluster.bytes()]
            .map(|part| &part[..])
            .concat();
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

    /// Six digits that both ends show: equal on both if they have the same session and the same nonces.
    #[must_use]
    pub fn shown_digits(&self, nonces: &Nonces) -> String {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(self.digits)
            .chain_update(nonces.device)
            .chain_update(nonces.gateway)
            .finalize()
            .into();
        let (first, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
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
        let key = |byte| PublicKey::of([byte; 32]).unwrap();
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
        let key = PublicKey::of([1; 32]).unwrap();
        let of = |digits: u8, device: u8, gateway: u8| {
            let session = Session { exported: [0; 32], digits: [digits; 32], device: key, gateway: key, cluster: key };
            session.shown_digits(&Nonces { device: [device; NONCE_BYTES], gateway: [gateway; NONCE_BYTES] })
        };
        let shown = of(0, 0, 0);
        assert!(shown.len() == 7 && shown.replace(' ', "").bytes().all(|b| b.is_ascii_digit()), "{shown}");
        assert!(shown != of(1, 0, 0) && shown != of(0, 1, 0) && shown != of(0, 0, 1) && shown == of(0, 0, 0));
        assert_ne!(commit(&[0; NONCE_BYTES]), commit(&[1; NONCE_BYTES]));
    }
}
