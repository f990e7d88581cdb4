//! Signed mirrors: every other run is of a cluster with keys, whose maps are recovered from what its gateways have signed alone.
//!
//! The signatures here are ones in name: nobody in a run tries to make those of somebody else.

use flashmob_core::checksum::checksum_of;
use flashmob_core::copies::{
    Found, Record, SIGNATURE_BYTES, Sign, Signer, Terms, Verify, Writer, encode_snapshot, recover, replay, sign_part,
    verified,
};
use flashmob_core::gateway::Proof;
use rand::Rng;

use super::scenario::pick;
use super::{Event, World};

/// Until a node has shown its mirror.
const PROOF_NS_MAX: u64 = 20_000_000;

/// The key of a gateway of this cluster, or of somebody else.
#[derive(Debug, Clone, Copy)]
pub(super) struct SigningKey([u8; 9]);

impl SigningKey {
    pub fn new(cluster: u8, generation: u64) -> SigningKey {
        let mut signer = [cluster; 9];
        signer[1..].copy_from_slice(&generation.to_le_bytes());
        SigningKey(signer)
    }

    /// The generation of the key.
    pub fn of_generation(&self) -> u64 {
        Signer::generation(self)
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
    fn signer(&self, signer: &[u8]) -> Option<Box<dyn Signer>> {
        let key = SigningKey(signer.try_into().ok()?);
        (key.0[0] == self.0[0]).then(|| Box::new(key) as Box<dyn Signer>)
    }
}

impl Signer for SigningKey {
    fn generation(&self) -> u64 {
        let [_, generation @ ..] = self.0;
        u64::from_le_bytes(generation)
    }

    fn has_signed(&self, header: &[u8], content: &[u8], signed: &[u8; SIGNATURE_BYTES]) -> bool {
        signature(&self.0, header, content) == *signed
    }
}

impl World {
    /// The key of the run's gateway, if its cluster has keys.
    pub(super) fn signing_key(&self) -> Option<SigningKey> {
        let has_keys = self.scenario.seed % 2 == 1;
        // The first generation of keys is the second of numbers: there is always an earlier one.
        has_keys.then(|| SigningKey::new(1, self.stolen_key.generation + 1))
    }

    /// The gateway has started.
    pub(super) fn sign_mirrors(&mut self) {
        let (Some(key), Some(core)) = (self.signing_key(), &mut self.gateway.core) else { return };
        core.sign_mirrors(self.ctx.now, || Some(Box::new(key)));
        core.verify_claims(key.of_generation());
    }

    /// A gateway wants to see in a node's mirror whether another one is in charge.
    pub(super) fn verify_claim(&mut self, node: usize) {
        let takes_ns = self.ctx.rng.random_range(0..PROOF_NS_MAX);
        self.ctx.after(takes_ns, Event::ClaimShown { session: self.gateway.session, node });
    }

    /// The node shows it, if it is there.
    pub(super) fn claim_shown(&mut self, session: u64, node: usize) {
        let Some(key) = self.signing_key().filter(|_| self.gateway.session == session) else { return };
        let from = &self.nodes[node];
        let terms = Terms { generation: key.of_generation(), keys: Some(&key as &dyn Verify), ..Terms::default() };
        let found = Found { extent_id: from.extent_id(), charge: from.charge(), mirror: from.mirror.bytes() };
        let is_there = from.core.is_some() && !self.is_cut_off(node);
        let shown = is_there.then(|| verified(&found, &terms)).flatten();
        let proof = shown.map_or(Proof::Nothing, |(map_id, state)| Proof::Shown(map_id, state));
        let now = self.ctx.now;
        if let Some(core) = &mut self.gateway.core {
            core.claim_answered(now, node, proof);
            self.wake_gateway();
        }
    }

    /// The key is read again now and then, wherever the mirrors are.
    pub(super) fn sign_again(&mut self) {
        if self.signing_key().is_some() && self.ctx.rng.random_ratio(1, 3000) {
            self.sign_mirrors();
        }
    }

    /// A node may tell what it likes: a mirror that no gateway has signed is not believed, and one that was signed with an earlier key is not preferred.
    pub(super) fn check_forged(&mut self, found: &[Found<'_>], terms: &Terms<'_>) {
        if terms.keys.is_none() || found.is_empty() {
            return;
        }
        let (liar, by) = (self.ctx.rng.random_range(0..found.len()), *pick(&mut self.ctx.rng, &By::ALL));
        let Ok(mut image) = replay(self.map.bytes()).map(|replayed| replayed.image) else { return };
        // It claims more decisions than there are.
        let (epoch, nonce) = (image.epoch() + 1, self.ctx.rng.random());
        let losses = (0..50).map(|more| Record::Loss { count: image.losses() + more });
        let records: Vec<Record> = std::iter::once(Record::Epoch { epoch, nonce }).chain(losses).collect();
        if records.iter().any(|record| image.apply(record).is_err()) {
            return;
        }
        let writer = Writer { map_id: image.map_id(), epoch, nonce };
        let signed = |key: SigningKey, map: &[u8]| sign_part(&key, &writer, None, image.version(), map);
        let forged = match by {
            By::Nobody => encode_snapshot(&image),
            By::AnotherCluster => signed(SigningKey::new(2, 9), &encode_snapshot(&image)),
            By::AnEarlierKey => signed(SigningKey::new(1, 0), &encode_snapshot(&image)),
        };
        let mut told = found.to_vec();
        (told[liar].mirror, told[liar].charge) = (&forged, None);
        let Ok(recovered) = recover(&told, terms) else { return };
        let is_believed = match by {
            By::Nobody | By::AnotherCluster => recovered.mirrors[liar].is_ok(),
            By::AnEarlierKey => {
                let is_other = (0..).zip(&recovered.mirrors).any(|(n, mirror)| n != liar && mirror.is_ok());
                recovered.from == Some(liar) && is_other
            }
        };
        if is_believed {
            self.ctx.fail(format!("node {liar} has a mirror that is signed by {by:?}, and is believed"));
        }
    }
}

/// Who has signed a forged mirror.
#[derive(Debug, Clone, Copy)]
enum By {
    Nobody,
    AnotherCluster,
    AnEarlierKey,
}

impl By {
    const ALL: [By; 3] = [By::Nobody, By::AnotherCluster, By::AnEarlierKey];
}
