//! Signatures of the mirrors of maps that nodes keep: by the gateway's key, with the grant that proves whose that is.
//!
//! Who recovers a map needs the cluster's public key alone, so nothing is lost with a gateway that could not be verified with what the cluster's
//! backup has.

use std::sync::Arc;

use flashmob_core::copies::{Listen, SIGNATURE_BYTES, Sign, Signer, Verify};
use sha2::{Digest, Sha256};

use super::grant::Grant;
use super::key::{PublicKey, SecretKey};

/// What the gateway's key signs besides is TLS's handshake, which begins with 64 spaces (RFC 8446, 4.4.3).
const LABEL: &[u8] = b"flashmob-mirror/1";

/// Of a gateway.
#[derive(Debug)]
pub(super) struct MirrorSigner {
    pub key: Arc<SecretKey>,
    pub grant: Vec<u8>,
}

/// Knows the clusters whose gateways are believed, each up to a generation.
#[derive(Debug)]
pub struct MirrorVerifier(pub(super) Vec<(PublicKey, u64)>);

/// Knows each gateway that has a grant, whichever cluster has signed that: whether it counts is for others to say.
#[derive(Debug)]
pub struct AnyGateway;

/// What is signed. The hash has a fixed length, so it is clear where the header ends.
fn message(header: &[u8], content: &[u8]) -> Vec<u8> {
    message_of(header, Sha256::new_with_prefix(content))
}

fn message_of(header: &[u8], content: Sha256) -> Vec<u8> {
    [LABEL, header, &content.finalize()[..]].concat()
}

impl Sign for MirrorSigner {
    fn signer(&self) -> &[u8] {
        &self.grant
    }

    fn sign(&self, header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let signature = self.key.sign(&message(header, content));
        // Of Ed25519 they have this length; another would verify nowhere.
        std::array::from_fn(|at| signature.get(at).copied().unwrap_or(0))
    }
}

impl Verify for MirrorVerifier {
    fn signer(&self, signer: &[u8]) -> Option<Box<dyn Signer>> {
        let grant = Grant::parse(signer).ok()?;
        let is_of = |(cluster, most): &(PublicKey, u64)| grant.cluster == *cluster && grant.generation <= *most;
        self.0.iter().any(is_of).then(|| Box::new(grant) as Box<dyn Signer>)
    }
}

impl Signer for Grant {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn has_signed(&self, header: &[u8], content: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.gateway.verifies(&message(header, content), signature)
    }

    fn listen(&self, header: &[u8]) -> Box<dyn Listen + '_> {
        Box::new(Hashed { gateway: self.gateway, header: header.to_vec(), content: Sha256::new() })
    }
}

/// A content of which the hash is kept.
struct Hashed {
    gateway: PublicKey,
    header: Vec<u8>,
    content: Sha256,
}

impl Listen for Hashed {
    fn content(&mut self, piece: &[u8]) {
        self.content.update(piece);
    }

    fn is_signed(self: Box<Self>, signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.gateway.verifies(&message_of(&self.header, self.content), signature)
    }
}

impl Verify for AnyGateway {
    fn signer(&self, signer: &[u8]) -> Option<Box<dyn Signer>> {
        Grant::parse(signer).ok().map(|grant| Box::new(grant) as Box<dyn Signer>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gateway_of_the_cluster_has_signed_is_verified_and_nothing_else() {
        let [cluster, other, gateway, second] = std::array::from_fn(|_| SecretKey::draw().unwrap());
        let (clusters, seconds) = (cluster.public(), second.public());
        let grant = Grant::sign(&cluster, gateway.public(), 7).to_vec();
        let signer = MirrorSigner { key: Arc::new(gateway), grant: grant.clone() };
        let verifier = MirrorVerifier(vec![(other.public(), 9), (clusters, 7)]);
        let verify = |signer: &[u8], header: &[u8], content: &[u8], signature: &[u8; SIGNATURE_BYTES]| {
            let signer = verifier.signer(signer)?;
            signer.has_signed(header, content, signature).then(|| signer.generation())
        };
        let signature = signer.sign(b"header", b"content");
        assert_eq!(verify(signer.signer(), b"header", b"content", &signature), Some(7));
        for (header, content) in [("head", "ercontent"), ("headerc", "ontent"), ("header", "Content"), ("", "")] {
            assert_eq!(verify(&grant, header.as_bytes(), content.as_bytes(), &signature), None);
        }
        for bit in 0..8 * SIGNATURE_BYTES {
            let mut bad = signature;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verify(&grant, b"header", b"content", &bad), None, "bit {bit}");
        }
        // The grant of another gateway, by another cluster, none.
        let seconds = Grant::sign(&cluster, seconds, 7);
        let by_other = Grant::sign(&SecretKey::draw().unwrap(), signer.key.public(), 7);
        for bad in [&seconds[..], &by_other, &[], &grant[1..], &[&grant[..], &[0]].concat()] {
            assert_eq!(verify(bad, b"header", b"content", &signature), None);
        }
        // In pieces it is the same.
        let granted = Grant::parse(&grant).unwrap();
        for (content, is_signed) in [(["con", "tent"], true), (["", "content"], true), (["content", " "], false)] {
            let mut listens = granted.listen(b"header");
            content.iter().for_each(|piece| listens.content(piece.as_bytes()));
            assert_eq!(listens.is_signed(&signature), is_signed, "{content:?}");
        }
        assert!(AnyGateway.signer(&by_other).is_some() && AnyGateway.signer(&grant[1..]).is_none());
        // While the cluster's key is replaced, its thief may sign any generation.
        let [later, same] = [8, 7].map(|generation| Grant::sign(&cluster, signer.key.public(), generation));
        assert!(verifier.signer(&later).is_none() && verifier.signer(&same).is_some());
        assert!(MirrorVerifier(vec![(other.public(), 9)]).signer(&grant).is_none());
    }
}
