//! An adversary at the store of the map: who can write to etcd. In every other run, a cluster with keys, the map lies there as a signed chain.
//!
//! Each start of a gateway reads the map from the chain. Before that the adversary puts there what he can make: parts of his own, changed, left out, or of
//! other maps that he has seen. All of it is to be refused: the service stops, its owner puts right what is there, and the gateway starts. To show a
//! whole state that the map had earlier is left to the fault `old map`.
//!
//! A map that a replaced key has signed is shown to either of two gateways: one that knows no earlier key, one that knows that key as the last, and one that
//! has left the map with it. The last one takes what it has left, and nothing else.

use flashmob_core::copies::{
    ChainEnd, ChainKey, ChainMemory, ChainReader, ChainTrust, MapImage, Marks, Record, begin_chain, continue_chain,
    encode_batch, encode_snapshot,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::World;
use super::scenario::pick;
use super::signed::SigningKey;

/// The volume's id.
const VOLUME: &str = "pool";
/// The id of another volume of the cluster.
const OTHER_VOLUME: &str = "spare";

/// The map, as it lies in the store.
#[derive(Debug)]
pub(super) struct SignedMap {
    /// Draws what the adversary does, and nothing else.
    rng: SmallRng,
    /// Draws which of two gateways reads what the adversary has made.
    gateway_rng: SmallRng,
    parts: Vec<Vec<u8>>,
    end: Option<ChainEnd>,
    /// The last part that was replaced, of another chain of the same map.
    former: Option<Vec<u8>>,
}

/// A change that the adversary makes to the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// A part is changed in one bit.
    Flip,
    /// A part is missing before the last one.
    LeaveOut,
    /// A part is there twice.
    Repeat,
    /// Two parts change places.
    Swap,
    /// The other copy becomes the current one, by a batch that nobody has signed.
    Plain,
    /// Such a batch, signed by another cluster.
    AnotherCluster,
    /// Such a batch, signed with the present key's name by somebody who does not have the key.
    Imitated,
    /// All of the map, signed with a key that was replaced.
    ReplacedKey,
    /// A batch that a gateway of the cluster has signed behind another state of the map.
    Branch,
    /// The map of another volume of the cluster.
    AnotherVolume,
}

impl Attack {
    const ALL: [Attack; 10] = [
        Attack::Flip,
        Attack::LeaveOut,
        Attack::Repeat,
        Attack::Swap,
        Attack::Plain,
        Attack::AnotherCluster,
        Attack::Imitated,
        Attack::ReplacedKey,
        Attack::Branch,
        Attack::AnotherVolume,
    ];
}

impl SignedMap {
    pub fn new(seed: u64) -> SignedMap {
        let rng = SmallRng::seed_from_u64(seed ^ 0x0e7c_df06);
        let gateway_rng = SmallRng::seed_from_u64(seed ^ 0x2_6a7e_3a75);
        SignedMap { rng, gateway_rng, parts: Vec::new(), end: None, former: None }
    }
}

/// The part of a chain that a key signs: a snapshot without `after`, else a batch.
fn signed(
    key: &SigningKey,
    volume: &str,
    after: Option<&ChainEnd>,
    version: u64,
    bytes: &[u8],
) -> Option<(Vec<u8>, ChainEnd)> {
    let key = ChainKey { sign: key, generation: key.of_generation(), volume };
    match after {
        Some(end) => Some(continue_chain(&key, end, version, bytes)),
        None => begin_chain(&key, bytes),
    }
}

/// Makes the copy that is current the one that lacks something, in one chunk.
fn exchanged(image: &MapImage, chunk: u32) -> (Vec<u8>, u64) {
    let marks = image.marks(chunk);
    let all = (1_u8 << image.copies()) - 1;
    let behind = if marks.behind == 0 { 1 } else { all & !marks.behind };
    let marks = Marks { is_open: false, is_torn: false, behind, doubtful: 0 };
    let (mut batch, number) = (Vec::new(), image.version() + 1);
    // One record fits.
    let _ = encode_batch(&mut batch, number, &[Record::Marks { first_chunk: chunk, count: 1, marks }]);
    (batch, number)
}

/// The map, if a gateway with that key believes it. `memory`: what it remembers of the map.
fn read(parts: &[Vec<u8>], key: &SigningKey, memory: Option<ChainMemory>) -> Result<MapImage, String> {
    let mut reader = ChainReader::new(Some(key), VOLUME);
    for (at, part) in parts.iter().enumerate() {
        reader.take(part).map_err(|error| format!("part {at}: {error}"))?;
    }
    let signed_by = reader.signed_by().to_vec();
    let (image, end) = reader.finish().map_err(|error| error.to_string())?;
    let trust = ChainTrust { keys: key, generation: key.of_generation(), memory };
    trust.judge(&signed_by, &end).map_err(|error| error.to_string())?;
    Ok(image)
}

impl World {
    /// The map's bytes are in the store: a snapshot, or the batch whose last record has this number.
    pub(super) fn sign_map(&mut self, number: Option<u64>, bytes: &[u8]) {
        let Some(key) = self.signing_key() else { return };
        let map = &mut self.signed_map;
        let after = number.and(map.end);
        let Some((part, end)) = signed(&key, VOLUME, after.as_ref(), number.unwrap_or(0), bytes) else {
            return self.ctx.fail("the map cannot be signed".to_string());
        };
        if after.is_none() {
            map.former = map.parts.pop().or(map.former.take());
            map.parts.clear();
        }
        map.parts.push(part);
        map.end = Some(end);
    }

    /// The end of the map was damaged, and it is signed anew without it. What was dropped then continues what is left, and is no forgery.
    pub(super) fn sign_damaged_map(&mut self, bytes: &[u8]) {
        self.sign_map(None, bytes);
        self.signed_map.former = None;
    }

    /// A gateway reads the map from the store, which should have this one. The adversary was there before.
    pub(super) fn read_signed_map(&mut self, image: MapImage) -> MapImage {
        let Some(key) = self.signing_key() else { return image };
        if self.signed_map.rng.random_ratio(1, 2) {
            self.attack_map(&key, &image);
        }
        let memory = ChainMemory::of_writer(key.of_generation());
        match read(&self.signed_map.parts, &key, Some(memory)) {
            Ok(read) if read == image => read,
            Ok(_) => {
                self.ctx.fail("the map in the store is not the one that was written".to_string());
                image
            }
            Err(error) => {
                self.ctx.fail(format!("the map in the store is refused: {error}"));
                image
            }
        }
    }

    fn attack_map(&mut self, key: &SigningKey, image: &MapImage) {
        let SignedMap { rng, gateway_rng, parts: known, end, former } = &mut self.signed_map;
        let Some(end) = end else { return };
        let mut memory = None;
        let (attack, chunk) = (*pick(rng, &Attack::ALL), rng.random_range(0..image.chunks()));
        let (batch, number) = exchanged(image, chunk);
        let mut parts = known.clone();
        let (count, at) = (parts.len(), rng.random_range(0..parts.len()));
        let added = |key: &SigningKey, volume, end: &ChainEnd| signed(key, volume, Some(end), number, &batch);
        match attack {
            Attack::Flip => {
                let byte = rng.random_range(0..parts[at].len());
                parts[at][byte] ^= 1 << rng.random_range(0..8);
            }
            // To leave out the last one is to show an earlier state.
            Attack::LeaveOut if count > 1 => drop(parts.remove(at.min(count - 2))),
            Attack::Swap if count > 1 => parts.swap(at.min(count - 2), at.min(count - 2) + 1),
            Attack::Repeat | Attack::LeaveOut | Attack::Swap => parts.push(parts[at].clone()),
            Attack::Plain => parts.push(batch),
            Attack::AnotherCluster => {
                let other = SigningKey::new(2, key.of_generation());
                parts.extend(added(&other, VOLUME, end).map(|(part, _)| part));
            }
            Attack::Imitated => {
                let Some((mut part, _)) = added(key, VOLUME, end) else { return };
                let last = part.len() - 1;
                part[last] ^= rng.random_range(1..=255_u8);
                parts.push(part);
            }
            Attack::ReplacedKey => {
                let before = SigningKey::new(1, key.of_generation() - 1);
                let Some((first, end)) = signed(&before, VOLUME, None, 0, &encode_snapshot(image)) else { return };
                parts = vec![first];
                let left = ChainMemory::of_end(&end);
                memory = *pick(gateway_rng, &[None, Some(ChainMemory::of_writer(end.generation)), Some(left)]);
                if read(&parts, key, Some(left)).as_ref() != Ok(image) {
                    self.ctx.fail("a gateway refuses the map that it has left, as its key was replaced".to_string());
                }
                parts.extend(added(&before, VOLUME, &end).map(|(part, _)| part));
            }
            Attack::Branch => {
                let of_former = former.clone().filter(|_| rng.random_bool(0.2));
                let (_, mut other) = continue_chain(
                    &ChainKey { sign: key, generation: key.of_generation(), volume: VOLUME },
                    end,
                    image.version(),
                    b"what was decided elsewhere",
                );
                other.number = end.number;
                let branch = added(key, VOLUME, &other).map(|(part, _)| part);
                parts.extend(of_former.or(branch));
            }
            Attack::AnotherVolume => {
                let Some((first, end)) = signed(key, OTHER_VOLUME, None, 0, &encode_snapshot(image)) else { return };
                parts = vec![first];
                parts.extend(added(key, OTHER_VOLUME, &end).map(|(part, _)| part));
            }
        }
        self.ctx.totals.forged_maps += 1;
        if let Ok(believed) = read(&parts, key, memory) {
            let what = if believed == *image { "as it is" } else { "with other marks" };
            self.ctx.fail(format!("a map in the store is believed, {what}, though it was forged: {attack:?}"));
        }
    }
}
