//! A gateway's memory of a chain, out of reach of who writes to the store.
//!
//! A gateway takes no map that an earlier key than its own has signed: whoever has stolen that key may have written it. If the key is replaced while no
//! gateway runs, the map has the signature of the key before. The gateway that has ended last, in order, remembers the signature of the last part.
//! One state of the map has that signature: a signature is valid for one key and one message, and each part has that of the part before. So this state is
//! believed, and whatever else the former key has signed is not, before and after.

use super::chain::{ChainEnd, ChainError};
use super::signed::{SIGNATURE_BYTES, Verify};
use crate::planted::{self, Bug};

/// Most bytes of an encoded [`ChainMemory`].
pub const CHAIN_MEMORY_BYTES_MAX: usize = 20 + 1 + 2 * SIGNATURE_BYTES + 1;

/// The last chain that a gateway has signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainMemory {
    generation: u64,
    /// The signature of the last part; `None` while parts may follow.
    last: Option<[u8; SIGNATURE_BYTES]>,
}

impl ChainMemory {
    /// A chain that a gateway with a key of this generation goes on with.
    #[must_use]
    pub fn of_writer(generation: u64) -> ChainMemory {
        ChainMemory { generation, last: None }
    }

    /// A chain that a gateway has left as it is.
    #[must_use]
    pub fn of_end(end: &ChainEnd) -> ChainMemory {
        ChainMemory { generation: end.generation, last: Some(end.signature) }
    }

    /// Whether the gateway has left the chain that ends there.
    #[must_use]
    pub fn has_left(&self, end: &ChainEnd) -> bool {
        let is_last = |last: [u8; SIGNATURE_BYTES]| {
            (self.generation, last) == (end.generation, end.signature) || planted::is(Bug::LeftStateUnchecked)
        };
        self.last.is_some_and(is_last)
    }

    /// A line: the generation, and the signature in hexadecimal digits if there is one.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = self.generation.to_string();
        if let Some(last) = self.last {
            text.push(' ');
            text.extend(last.iter().map(|byte| format!("{byte:02x}")));
        }
        text.push('\n');
        text
    }

    /// Reads such a line, and no other spelling of it.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<ChainMemory> {
        let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (generation, last) =
            line.split_once(' ').map_or((line, None), |(generation, last)| (generation, Some(last)));
        let last = match last {
            Some(digits) => {
                let mut signature = [0; SIGNATURE_BYTES];
                let pairs = digits.as_bytes().chunks(2);
                for (byte, pair) in signature.iter_mut().zip(pairs) {
                    *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
                }
                Some(signature)
            }
            None => None,
        };
        let memory = ChainMemory { generation: generation.parse().ok()?, last };
        (memory.encode().as_bytes() == bytes).then_some(memory)
    }
}

/// The gateways whose chains a gateway believes.
#[derive(Clone, Copy)]
pub struct ChainTrust<'a> {
    /// Knows the gateways of the cluster.
    pub keys: &'a dyn Verify,
    /// The generation of the gateway's key.
    pub generation: u64,
    /// The gateway's memory of the volume's chain.
    pub memory: Option<ChainMemory>,
}

impl ChainTrust<'_> {
    /// Judges a chain whose signatures are those of the gateway that it names.
    ///
    /// # Errors
    /// [`ChainError::Forged`], [`ChainError::Replaced`] or [`ChainError::Later`]: the gateway that has signed it is not one that is believed.
    pub fn judge(&self, signed_by: &[u8], end: &ChainEnd) -> Result<(), ChainError> {
        let least = self.generation_least();
        let is_left = || self.memory.is_some_and(|memory| memory.has_left(end));
        let refused = match self.keys.signer(signed_by).map(|signer| signer.generation()) {
            None => Some(ChainError::Forged),
            Some(found) if found < least && !planted::is(Bug::ReplacedKeyBelieved) => {
                Some(ChainError::Replaced { found, least })
            }
            Some(_) => None,
        };
        // Nobody who has this cluster's keys has later ones of another cluster.
        let is_of_later_cluster = matches!(refused, Some(ChainError::Forged)) && end.generation > self.generation;
        match refused {
            Some(error) if is_of_later_cluster || !is_left() => Err(error),
            _ if end.generation > self.generation => {
                Err(ChainError::Later { found: end.generation, own: self.generation })
            }
            _ => Ok(()),
        }
    }

    /// The earliest generation of keys that count: that of the gateway's key, or of a later one that it had before a folder of keys was restored.
    fn generation_least(&self) -> u64 {
        let kept = self.memory.map(|memory| memory.generation);
        if planted::is(Bug::KeptGenerationBelieved) {
            return kept.unwrap_or(self.generation);
        }
        kept.map_or(self.generation, |kept| kept.max(self.generation))
    }
}
