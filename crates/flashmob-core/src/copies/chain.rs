//! Signed chains: a map in a store that others may write to, such as etcd, of a cluster with keys.
//!
//! A chain consists of *parts*: the first holds a snapshot, each other one a batch of changes. Each part is signed by the gateway that writes it, and
//! names the volume, its place in the chain, and the signature of the part before it. So whoever can write to the store can cut parts off the end, or show a
//! whole chain that was there earlier, but can change, insert, leave out, repeat or exchange none. What an earlier state is worth is for the nodes to say, which
//! know what was decided ([`History`](super::History)).
//!
//! One key signs all parts of a chain: with another one it is begun anew, with a snapshot.
//! docs/map-format.md has the byte table.

use super::signed::{SIGNATURE_BYTES, SIGNER_BYTES_MAX, Sign, Signer, Verify};
use super::{MapImage, ReplayError, identity_of, replay};
use crate::planted::{self, Bug};
use crate::wire::frame::Fields;
use crate::wire::generation::generation_of;

/// First four bytes of every part: "FMch".
const MAGIC: [u8; 4] = *b"FMch";
const VERSION: u8 = 1;
/// Bytes of a part's header.
const HEADER_BYTES: usize = 120;
/// Most bytes of a volume's id in a part.
pub const CHAIN_VOLUME_BYTES_MAX: usize = 1024;

/// The key of a gateway that writes a chain.
#[derive(Debug, Clone, Copy)]
pub struct ChainKey<'a> {
    /// Signs the parts.
    pub sign: &'a dyn Sign,
    /// The generation of that key.
    pub generation: u64,
    /// The id of the volume, at most [`CHAIN_VOLUME_BYTES_MAX`].
    pub volume: &'a str,
}

/// Where a chain ends: what the next part has to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainEnd {
    /// The map's identity.
    pub map_id: [u8; 16],
    /// Parts before the last one.
    pub number: u64,
    /// The version of the map.
    pub version: u64,
    /// The generation of the key that has signed it.
    pub generation: u64,
    pub(super) signature: [u8; SIGNATURE_BYTES],
}

/// The first part of a chain. `None` if that is no snapshot.
#[must_use]
pub fn begin_chain(key: &ChainKey<'_>, snapshot: &[u8]) -> Option<(Vec<u8>, ChainEnd)> {
    let (map_id, version) = identity_of(snapshot)?;
    let header = Header { map_id, number: 0, after: 0, version, previous: [0; SIGNATURE_BYTES] };
    Some(header.sign(key, snapshot))
}

/// The next part of a chain: a batch that leads to `version`.
#[must_use]
pub fn continue_chain(key: &ChainKey<'_>, end: &ChainEnd, version: u64, batch: &[u8]) -> (Vec<u8>, ChainEnd) {
    let ChainEnd { map_id, number, version: after, signature: previous, .. } = *end;
    Header { map_id, number: number + 1, after, version, previous }.sign(key, batch)
}

/// Whether bytes begin like a part of a chain.
#[must_use]
pub fn is_chain(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

#[derive(Debug, Clone, Copy)]
struct Header {
    map_id: [u8; 16],
    number: u64,
    after: u64,
    version: u64,
    previous: [u8; SIGNATURE_BYTES],
}

impl Header {
    /// The header, and how many bytes signer, volume and content have.
    fn parse(header: &[u8]) -> Option<(Header, [usize; 3])> {
        let mut fields = Fields::new(header, "part");
        let is_ours = fields.array().ok()? == MAGIC && fields.array().ok()? == [VERSION, 0];
        let signer_bytes = usize::from(fields.u16().ok()?);
        let map_id = fields.array().ok()?;
        let (number, after, version) = (fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?);
        let content_bytes = fields.u32().ok()? as usize;
        let (volume_bytes, zero) = (usize::from(fields.u16().ok()?), fields.u16().ok()?);
        let previous = fields.array().ok()?;
        let are_short = signer_bytes <= SIGNER_BYTES_MAX && volume_bytes <= CHAIN_VOLUME_BYTES_MAX;
        let is_first = number == 0;
        if !is_ours || zero != 0 || !are_short || is_first != (signer_bytes > 0) || content_bytes == 0 {
            return None;
        }
        Some((Header { map_id, number, after, version, previous }, [signer_bytes, volume_bytes, content_bytes]))
    }

    fn sign(self, key: &ChainKey<'_>, content: &[u8]) -> (Vec<u8>, ChainEnd) {
        let Header { map_id, number, after, version, previous } = self;
        let volume = key.volume.as_bytes();
        let signer = if number == 0 { key.sign.signer() } else { &[] };
        let mut bytes =
            Vec::with_capacity(HEADER_BYTES + volume.len() + signer.len() + content.len() + SIGNATURE_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, 0]);
        bytes.extend_from_slice(&(signer.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&map_id);
        for number in [number, after, version] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        // A snapshot of the largest map has less than 1 GiB.
        bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(volume.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&previous);
        bytes.extend_from_slice(volume);
        bytes.extend_from_slice(signer);
        let signature = key.sign.sign(&bytes, content);
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(&signature);
        (bytes, ChainEnd { map_id, number, version, generation: key.generation, signature })
    }
}

/// A part, as it lies in the store.
struct ChainPart<'a> {
    header: Header,
    volume: &'a [u8],
    signer: &'a [u8],
    /// The header with the volume and the signer.
    head: &'a [u8],
    content: &'a [u8],
    signature: &'a [u8; SIGNATURE_BYTES],
}

/// The first bytes of a part.
struct Beginning<'a> {
    header: Header,
    volume: &'a [u8],
    signer: &'a [u8],
    /// The header with the volume and the signer.
    head: &'a [u8],
    content_bytes: usize,
}

impl<'a> Beginning<'a> {
    /// The beginning of a part, if all of it is there. `is_whole`: no more bytes follow.
    fn parse(bytes: &'a [u8], is_whole: bool) -> Result<Option<Beginning<'a>>, ChainError> {
        if bytes.len() < MAGIC.len() && !is_whole {
            return Ok(None);
        }
        if !is_chain(bytes) {
            return Err(ChainError::Unsigned);
        }
        let missing = || if is_whole { Err(ChainError::Damaged) } else { Ok(None) };
        let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else { return missing() };
        let (header, [signer_bytes, volume_bytes, content_bytes]) = Header::parse(header).ok_or(ChainError::Damaged)?;
        let Some((volume, rest)) = rest.split_at_checked(volume_bytes) else { return missing() };
        let Some((signer, _)) = rest.split_at_checked(signer_bytes) else { return missing() };
        let head = bytes.get(..HEADER_BYTES + volume_bytes + signer_bytes).unwrap_or_default();
        Ok(Some(Beginning { header, volume, signer, head, content_bytes }))
    }
}

impl<'a> ChainPart<'a> {
    /// The part that `bytes` are, from the first to the last.
    fn parse(bytes: &'a [u8]) -> Result<ChainPart<'a>, ChainError> {
        let beginning = Beginning::parse(bytes, true)?.ok_or(ChainError::Damaged)?;
        let Beginning { header, volume, signer, head, content_bytes } = beginning;
        let behind = bytes.get(head.len()..).unwrap_or_default();
        let (content, signature) = behind.split_last_chunk().ok_or(ChainError::Damaged)?;
        if content.len() != content_bytes {
            return Err(ChainError::Damaged);
        }
        Ok(ChainPart { header, volume, signer, head, content, signature })
    }
}

/// Why a part, or a chain, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Bytes that are no part of a chain.
    #[error("it is not signed")]
    Unsigned,
    /// A part whose lengths are wrong.
    #[error("it is damaged")]
    Damaged,
    /// Somebody else has signed it, or it was changed.
    #[error("it is not what a gateway of this cluster has signed")]
    Forged,
    /// A part of the map of another volume.
    #[error("it is of another volume's map")]
    OtherVolume,
    /// A part with another place in its chain.
    #[error("it is part {found} of its chain, and part {expected} is missing")]
    Order {
        /// The part that is missing.
        expected: u64,
        /// The part that is there.
        found: u64,
    },
    /// A part that follows another one than the part before it.
    #[error("it does not follow the part before it, but one of another chain")]
    Branch,
    /// The key was replaced.
    #[error(
        "it is signed with a key of generation {found}, which was replaced: generation {least} is the earliest that counts here"
    )]
    Replaced {
        /// The generation of that key.
        found: u64,
        /// The earliest that counts.
        least: u64,
    },
    /// The key is a later one than that of the gateway that reads.
    #[error(
        "it is signed with a key of generation {found}, and this gateway's is of generation {own}: copy the folder of keys from the machine where the key \
         was replaced"
    )]
    Later {
        /// The generation of that key.
        found: u64,
        /// The generation of the gateway's key.
        own: u64,
    },
    /// The numbers of the map are later than the key that has signed it.
    #[error("the map has numbers of generation {needed} of the keys, and is signed with a key of generation {found}")]
    Numbers {
        /// The generation of the numbers.
        needed: u64,
        /// The generation of the key.
        found: u64,
    },
    /// There is no part.
    #[error("there is no snapshot")]
    Empty,
    /// There is more than there was when it was verified.
    #[error("it was changed while it was read")]
    Changed,
    /// The signed bytes are no map.
    #[error("what is signed is no map: {0}")]
    Map(#[from] ReplayError),
    /// The signed bytes are another map than the parts say.
    #[error("what is signed is another map than it says")]
    OtherMap,
}

/// Reads a chain, one part after another.
pub struct ChainReader<'a> {
    keys: Option<&'a dyn Verify>,
    volume: &'a str,
    signer: Option<Box<dyn Signer>>,
    signed_by: Vec<u8>,
    end: Option<ChainEnd>,
    /// The bytes of the map in the parts.
    map: Vec<u8>,
    /// The number of these bytes, whether they are kept or not.
    len_bytes: u64,
    /// Most bytes that are kept; `None`: nothing is kept.
    kept_bytes_max: Option<u64>,
}

impl<'a> ChainReader<'a> {
    /// A reader of the map of the volume with this id. Whether the key that has signed it still counts is for [`ChainTrust`](super::ChainTrust) to say.
    /// Without `keys` it believes whatever signature there is.
    #[must_use]
    pub fn new(keys: Option<&'a dyn Verify>, volume: &'a str) -> ChainReader<'a> {
        ChainReader::with_limit(keys, volume, u64::MAX)
    }

    /// A reader of a map that has at most so many bytes.
    #[must_use]
    pub fn with_limit(keys: Option<&'a dyn Verify>, volume: &'a str, len_bytes_max: u64) -> ChainReader<'a> {
        let kept_bytes_max = Some(len_bytes_max);
        ChainReader { kept_bytes_max, ..ChainReader::scan(keys, volume) }
    }

    /// A reader that verifies and keeps nothing: who can write to the store may have put there more than there is memory for.
    #[must_use]
    pub fn scan(keys: Option<&'a dyn Verify>, volume: &'a str) -> ChainReader<'a> {
        let (signed_by, map) = (Vec::new(), Vec::new());
        ChainReader { keys, volume, signer: None, signed_by, end: None, map, len_bytes: 0, kept_bytes_max: None }
    }

    /// Takes the next part. After an error the chain is none that can be used.
    ///
    /// # Errors
    /// The bytes are not the next part; see [`ChainError`].
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), ChainError> {
        let part = ChainPart::parse(bytes)?;
        self.check_order(&part.header)?;
        let generation = match self.keys {
            Some(keys) => self.check_signature(keys, &part)?,
            None => 0,
        };
        self.check_volume(part.volume)?;
        self.signed_by.extend_from_slice(part.signer);
        self.keep(part.content)?;
        self.go_on(&part.header, generation, *part.signature);
        Ok(())
    }

    /// Takes the first part in pieces, as the store has it. `next` gives one after another, and at last none. Of each no more is kept than of a part.
    ///
    /// # Errors
    /// The bytes are not the first part, or those of `next`.
    pub fn take_pieces<E: From<ChainError>>(
        &mut self,
        mut next: impl FnMut() -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        let mut bytes = Vec::new();
        while Beginning::parse(&bytes, false)?.is_none() {
            match next()? {
                Some(piece) => bytes.extend_from_slice(&piece),
                None => return self.take(&bytes).map_err(E::from),
            }
        }
        let Some(Beginning { header, volume, signer: signed_by, head, content_bytes }) =
            Beginning::parse(&bytes, false)?
        else {
            return Err(ChainError::Damaged.into());
        };
        self.check_order(&header)?;
        let signer = match self.keys {
            Some(keys) => Some(keys.signer(signed_by).ok_or(ChainError::Forged)?),
            None => None,
        };
        let mut listens = signer.as_ref().map(|signer| signer.listen(head));
        let (mut content_left, mut signature) = (content_bytes, Vec::new());
        let mut piece = Some(bytes.get(head.len()..).unwrap_or_default().to_vec());
        while let Some(bytes) = piece {
            let (content, behind) = bytes.split_at(content_left.min(bytes.len()));
            content_left -= content.len();
            if let Some(listen) = &mut listens {
                listen.content(content);
            }
            self.keep(content)?;
            signature.extend_from_slice(behind);
            if signature.len() > SIGNATURE_BYTES {
                return Err(ChainError::Damaged.into());
            }
            piece = next()?;
        }
        let Ok(signature) = <[u8; SIGNATURE_BYTES]>::try_from(signature) else {
            return Err(ChainError::Damaged.into());
        };
        if listens.is_some_and(|listen| !listen.is_signed(&signature)) && !planted::is(Bug::ForgedPartBelieved) {
            return Err(ChainError::Forged.into());
        }
        self.check_volume(volume)?;
        self.signed_by.extend_from_slice(signed_by);
        let generation = signer.as_ref().map_or(0, |signer| signer.generation());
        self.signer = signer;
        self.go_on(&header, generation, signature);
        Ok(())
    }

    fn check_volume(&self, volume: &[u8]) -> Result<(), ChainError> {
        let is_it = volume == self.volume.as_bytes() || planted::is(Bug::OtherVolumeBelieved);
        if is_it { Ok(()) } else { Err(ChainError::OtherVolume) }
    }

    fn keep(&mut self, content: &[u8]) -> Result<(), ChainError> {
        self.len_bytes += content.len() as u64;
        if let Some(most) = self.kept_bytes_max {
            if self.len_bytes > most {
                return Err(ChainError::Changed);
            }
            self.map.extend_from_slice(content);
        }
        Ok(())
    }

    fn go_on(&mut self, header: &Header, generation: u64, signature: [u8; SIGNATURE_BYTES]) {
        let Header { map_id, number, version, .. } = *header;
        self.end = Some(ChainEnd { map_id, number, version, generation, signature });
    }

    fn check_order(&self, header: &Header) -> Result<(), ChainError> {
        let expected = self.end.map_or(0, |end| end.number.saturating_add(1));
        if planted::is(Bug::ChainUnchecked) && self.end.is_some() {
            return Ok(());
        }
        if header.number != expected {
            return Err(ChainError::Order { expected, found: header.number });
        }
        let follows =
            |end: &ChainEnd| (header.previous, header.map_id, header.after) == (end.signature, end.map_id, end.version);
        if self.end.as_ref().is_none_or(follows) { Ok(()) } else { Err(ChainError::Branch) }
    }

    /// The generation of the key that has signed the part.
    fn check_signature(&mut self, keys: &dyn Verify, part: &ChainPart<'_>) -> Result<u64, ChainError> {
        if part.header.number == 0 {
            self.signer = keys.signer(part.signer);
        }
        let signer = self.signer.as_deref().ok_or(ChainError::Forged)?;
        if !signer.has_signed(part.head, part.content, part.signature) && !planted::is(Bug::ForgedPartBelieved) {
            return Err(ChainError::Forged);
        }
        Ok(signer.generation())
    }

    /// The signer that the first part names.
    #[must_use]
    pub fn signed_by(&self) -> &[u8] {
        &self.signed_by
    }

    /// Bytes of the map in the parts that were taken, without what the chain adds.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Where the chain ends, as far as it was taken.
    #[must_use]
    pub fn end(&self) -> Option<ChainEnd> {
        self.end
    }

    /// The map that the parts make, and where the chain ends.
    ///
    /// # Errors
    /// The parts make no map; see [`ChainError`].
    pub fn finish(self) -> Result<(MapImage, ChainEnd), ChainError> {
        let end = self.end.ok_or(ChainError::Empty)?;
        let replayed = replay(&self.map)?;
        let image = replayed.image;
        if (image.map_id(), image.version()) != (end.map_id, end.version) || replayed.torn_bytes > 0 {
            return Err(ChainError::OtherMap);
        }
        let needed = generation_of(image.epoch(), image.version());
        if needed > end.generation && self.keys.is_some() {
            return Err(ChainError::Numbers { needed, found: end.generation });
        }
        Ok((image, end))
    }
}

#[cfg(test)]
#[path = "tests/chain.rs"]
mod tests;
