//! Signed mirrors: every other run is of a cluster with keys, whose maps are recovered from what its gateways have signed alone.
//!
//! The signatures here are ones in name: nobody in a run tries to make those of somebody else.

use flashmob_core::checksum::checksum_of;
use flashmob_core::copies::{
    Found, Record, SIGNATURE_BYTES, Sign, Terms, Verify, Writer, encode_snapshot, recover, replay, sign_part,
};
use rand::Rng;

use super::World;

/// The key of a gateway of this cluster, or of somebody else.
#[derive(Debug, Clone, Copy)]
pub(super) struct SigningKey([u8; 9]);

impl SigningKey {
    fn new(cluster: u8, generation: u64) -> SigningKey {
        let mut signer = [cluster; 9];
        signer[1..].copy_from_slice(&generation.to_le_bytes());
        SigningKey(signer)
    }
}

fn signature(signer: &[u8], header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let sum = checksum_of([signer, header, content]).to_le_bytes();
    std::array::from_fn(|at| sum[at % 4])
}

impl Sign for SigningKey {
    fn signer(&self) -> &[u8] {
        &self.0
    }

    fn sign(&self, header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
        signature(&self.0, header, content)
    }
}

impl Verify for SigningKey {
    fn verify(&self, signer: &[u8], header: &[u8], content: &[u8], signed: &[u8; SIGNATURE_BYTES]) -> Option<u64> {
        let (cluster, generation) = signer.split_first()?;
        let is_good = *cluster == self.0[0] && signature(signer, header, content) == *signed;
        is_good.then(|| generation.try_into().ok().map(u64::from_le_bytes)).flatten()
    }
}

impl World {
    /// The key of the run's gateway, if its cluster has keys.
    pub(super) fn signing_key(&self) -> Option<SigningKey> {
        let has_keys = self.scenario.seed % 2 == 1;
        has_keys.then(|| SigningKey::new(1, self.stolen_key.generation))
    }

    /// The gateway has started.
    pub(super) fn sign_mirrors(&mut self) {
        let (Some(key), Some(core)) = (self.signing_key(), &mut self.gateway.core) else { return };
        core.sign_mirrors(self.ctx.now, || Some(Box::new(key)));
    }

    /// A node may tell what it likes: a mirror that no gateway has signed is not believed.
    pub(super) fn check_forged(&mut self, found: &[Found<'_>], terms: &Terms<'_>) {
        if terms.keys.is_none() || found.is_empty() {
            return;
        }
        let (liar, is_signed) = (self.ctx.rng.random_range(0..found.len()), self.ctx.rng.random_bool(0.5));
        let Ok(mut image) = replay(self.map.bytes()).map(|replayed| replayed.image) else { return };
        let (epoch, nonce) = (image.epoch() + 1, self.ctx.rng.random());
        if image.apply(&Record::Epoch { epoch, nonce }).is_err() {
            return;
        }
        let mut forged = encode_snapshot(&image);
        if is_signed {
            let writer = Writer { map_id: image.map_id(), epoch, nonce };
            forged = sign_part(&SigningKey::new(2, terms.generation), &writer, None, image.version(), &forged);
        }
        let mut told = found.to_vec();
        (told[liar].mirror, told[liar].charge) = (&forged, None);
        if recover(&told, terms).is_ok_and(|recovered| recovered.mirrors[liar].is_ok()) {
            let by = if is_signed { "another cluster" } else { "nobody" };
            self.ctx.fail(format!("node {liar} has a mirror that {by} has signed, and is believed"));
        }
    }
}
