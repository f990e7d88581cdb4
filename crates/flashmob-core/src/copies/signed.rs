//! Signed mirrors: those of a cluster with keys. Only who has the gateway's key can make one.
//!
//! A signed mirror consists of *parts*: the first holds a snapshot and who signs, each other one a batch of changes. A part's header tells how much of
//! the map the mirror has with it, so a node, which has no key to verify it with, need not replay it. Header and content are signed together, and each
//! part names the state that it follows: parts of several mirrors cannot be combined into a map that there never was. docs/map-format.md has the
//! byte table.
//!
//! They are not encrypted: a map that only a lost key opens would be lost with it, and the volume with the map.
//!
//! The signatures are the caller's: [`Sign`], [`Verify`].

use std::fmt;

use super::BATCH_BYTES_MAX;
use super::log::is_torn;
use crate::checksum::checksum_of_two;
use crate::planted::{self, Bug};
use crate::wire::frame::Fields;
use crate::wire::mirror::MirrorState;

/// First four bytes of every part: "FMsg".
const MAGIC: [u8; 4] = *b"FMsg";
const VERSION: u8 = 1;
/// Bytes of a part's header.
const HEADER_BYTES: usize = 64;
/// Where the checksum lies in the header. It covers the header before it, and all that follows it.
const CHECKSUM_AT: usize = 60;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;
/// Most bytes that tell who signs.
pub const SIGNER_BYTES_MAX: usize = 1024;
/// What the first part follows.
const NOTHING: u64 = u64::MAX;

/// Signs parts.
pub trait Sign: fmt::Debug + Send {
    /// Who signs, and what proves that it may: 1 to [`SIGNER_BYTES_MAX`] bytes.
    fn signer(&self) -> &[u8];

    /// The signature of these bytes, one behind the other.
    fn sign(&self, header: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES];
}

/// Knows who may sign.
pub trait Verify {
    /// Who it is that signs, if it may.
    fn signer(&self, signer: &[u8]) -> Option<Box<dyn Signer>>;
}

/// Somebody who may sign.
pub trait Signer {
    /// The generation of its key. Numbers in what it signs are of no later one.
    fn generation(&self) -> u64;

    /// Whether that is its signature of these bytes.
    fn has_signed(&self, header: &[u8], content: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool;

    /// Verifies a signature of content that comes in pieces. Unless a signer does it another way, all of the content is kept until then.
    fn listen(&self, header: &[u8]) -> Box<dyn Listen + '_> {
        Box::new(Whole { signer: self, header: header.to_vec(), content: Vec::new() })
    }
}

/// A signature that is verified piece by piece.
pub trait Listen {
    /// The next piece of the content.
    fn content(&mut self, piece: &[u8]);

    /// Whether that is the signature of the pieces that came.
    fn is_signed(self: Box<Self>, signature: &[u8; SIGNATURE_BYTES]) -> bool;
}

/// All pieces.
struct Whole<'a, S: Signer + ?Sized> {
    signer: &'a S,
    header: Vec<u8>,
    content: Vec<u8>,
}

impl<S: Signer + ?Sized> Listen for Whole<'_, S> {
    fn content(&mut self, piece: &[u8]) {
        self.content.extend_from_slice(piece);
    }

    fn is_signed(self: Box<Self>, signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.signer.has_signed(&self.header, &self.content, signature)
    }
}

/// The start of the gateway that writes a mirror, and its map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    /// The map's identity.
    pub map_id: [u8; 16],
    /// The start's number.
    pub epoch: u64,
    /// The start's random number.
    pub nonce: u64,
}

/// One part: a snapshot, or a batch behind the version `after`. `version` is what the map has with it.
pub fn sign_part(sign: &dyn Sign, writer: &Writer, after: Option<u64>, version: u64, content: &[u8]) -> Vec<u8> {
    let signer = if after.is_none() { sign.signer() } else { &[] };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + signer.len() + content.len() + SIGNATURE_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[VERSION, 0]);
    bytes.extend_from_slice(&(signer.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&writer.map_id);
    for number in [writer.epoch, writer.nonce, after.unwrap_or(NOTHING), version] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    // A snapshot of the largest map has less than 1 GiB.
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    let header = bytes.clone();
    bytes.extend_from_slice(&[0; HEADER_BYTES - CHECKSUM_AT]);
    bytes.extend_from_slice(signer);
    bytes.extend_from_slice(content);
    let signature = sign.sign(&[&header[..], signer].concat(), content);
    bytes.extend_from_slice(&signature);
    let sum = checksum_of_two(&header, bytes.get(HEADER_BYTES..).unwrap_or_default());
    if let Some(place) = bytes.get_mut(CHECKSUM_AT..HEADER_BYTES) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// A part, as it lies in a mirror.
#[derive(Debug, Clone, Copy)]
struct SignedPart<'a> {
    writer: Writer,
    after: u64,
    version: u64,
    /// The header up to its checksum.
    header: &'a [u8],
    /// All behind the header.
    body: &'a [u8],
    signer: &'a [u8],
    content: &'a [u8],
    signature: &'a [u8; SIGNATURE_BYTES],
    sum: u32,
}

impl<'a> SignedPart<'a> {
    /// The part that `bytes` begins with, if it is there whole. It may be damaged.
    fn parse(bytes: &'a [u8]) -> Option<SignedPart<'a>> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let mut fields = Fields::new(header, "part");
        let is_ours = fields.array().ok()? == MAGIC && fields.array().ok()? == [VERSION, 0];
        let signer_bytes = usize::from(fields.u16().ok()?);
        let map_id = fields.array().ok()?;
        let (epoch, nonce) = (fields.u64().ok()?, fields.u64().ok()?);
        let (after, version) = (fields.u64().ok()?, fields.u64().ok()?);
        let (content_bytes, sum) = (fields.u32().ok()? as usize, fields.u32().ok()?);
        let is_first = after == NOTHING;
        if !is_ours || content_bytes == 0 || signer_bytes > SIGNER_BYTES_MAX || is_first != (signer_bytes > 0) {
            return None;
        }
        let body = rest.get(..content_bytes.checked_add(signer_bytes + SIGNATURE_BYTES)?)?;
        let (signer, rest) = body.split_at_checked(signer_bytes)?;
        let (content, signature) = rest.split_last_chunk()?;
        let writer = Writer { map_id, epoch, nonce };
        Some(SignedPart {
            writer,
            after,
            version,
            header: &header[..CHECKSUM_AT],
            body,
            signer,
            content,
            signature,
            sum,
        })
    }

    fn is_undamaged(&self) -> bool {
        checksum_of_two(self.header, self.body) == self.sum
    }

    fn len_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// Most bytes of a part that is no snapshot.
pub(super) const PART_BYTES_MAX: usize = HEADER_BYTES + BATCH_BYTES_MAX + SIGNATURE_BYTES;

/// The first part of a mirror, whose content need not be there.
pub(super) struct FirstPart<'a> {
    header: &'a [u8],
    pub signer: &'a [u8],
    pub content_bytes: usize,
}

impl FirstPart<'_> {
    pub fn content_at(&self) -> usize {
        HEADER_BYTES + self.signer.len()
    }

    pub fn len_bytes(&self) -> usize {
        self.content_at().saturating_add(self.content_bytes).saturating_add(SIGNATURE_BYTES)
    }

    /// The bytes that are signed with the content.
    pub fn signed_header(&self) -> Vec<u8> {
        [self.header, self.signer].concat()
    }
}

/// The first part that these bytes begin with, if its header is there, and who signs.
pub(super) fn first_part(bytes: &[u8]) -> Option<FirstPart<'_>> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let mut fields = Fields::new(header, "part");
    let is_ours = fields.array().ok()? == MAGIC && fields.array().ok()? == [VERSION, 0];
    let signer_bytes = usize::from(fields.u16().ok()?);
    let _map_id: [u8; 16] = fields.array().ok()?;
    let (_epoch, _nonce, after, _version) =
        (fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?, fields.u64().ok()?);
    let content_bytes = fields.u32().ok()? as usize;
    let is_first = is_ours && after == NOTHING && (1..=SIGNER_BYTES_MAX).contains(&signer_bytes) && content_bytes > 0;
    let signer = rest.get(..signer_bytes)?;
    is_first.then_some(FirstPart { header: header.get(..CHECKSUM_AT)?, signer, content_bytes })
}

/// The length of the part that these bytes begin with, and its state if `signer` has signed it and it follows `last`; `None` if it is not there whole.
pub(super) fn whole_part(
    bytes: &[u8],
    signer: &dyn Signer,
    last: Option<(Writer, u64)>,
) -> Option<(usize, Option<(Writer, u64)>)> {
    let part = SignedPart::parse(bytes)?;
    let header = [part.header, part.signer].concat();
    let follows = last.map_or(part.after == NOTHING, |last| last == (part.writer, part.after));
    let is_good = follows && part.is_undamaged() && signer.has_signed(&header, part.content, part.signature);
    Some((part.len_bytes(), is_good.then_some((part.writer, part.version))))
}

/// Why a mirror shows no map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// There is none.
    #[error("none")]
    Absent,
    /// Something is missing in it, or was changed by accident.
    #[error("damaged")]
    Damaged,
    /// The cluster has keys, and it was not written with them.
    #[error("not signed by a gateway of this cluster")]
    Unsigned,
    /// It claims more than the gateway that the node obeyed last may have decided, or is of another map.
    #[error("not of the gateway that was last in charge there")]
    Beyond,
}

/// Whether a mirror is signed, by whomever.
pub(super) fn is_signed(mirror: &[u8]) -> bool {
    mirror.starts_with(&MAGIC)
}

/// Looks at the parts of a signed mirror, one after another, as far as they are whole.
fn each<'a>(
    mirror: &'a [u8],
    mut take: impl FnMut(&SignedPart<'a>) -> Result<(), Unreadable>,
) -> Result<([u8; 16], MirrorState), Unreadable> {
    let (mut last, mut offset_bytes) = (None::<SignedPart<'a>>, 0);
    loop {
        let rest = mirror.get(offset_bytes..).unwrap_or_default();
        let Some(part) = SignedPart::parse(rest).filter(SignedPart::is_undamaged) else {
            // As in the map's file: what was not written whole is no more than a batch, and nothing whole follows.
            let whole = |bytes: &[u8]| SignedPart::parse(bytes).map(|part| (part.len_bytes(), part.is_undamaged()));
            let Some(last) = last.filter(|_| is_torn(rest, &MAGIC, PART_BYTES_MAX, whole)) else {
                return Err(Unreadable::Damaged);
            };
            let Writer { map_id, epoch, nonce } = last.writer;
            return Ok((map_id, MirrorState { epoch, nonce, version: last.version, len_bytes: offset_bytes as u64 }));
        };
        let follows =
            last.map_or(part.after == NOTHING, |last| part.writer == last.writer && part.after == last.version);
        if !follows {
            return Err(Unreadable::Damaged);
        }
        take(&part)?;
        offset_bytes += part.len_bytes();
        last = Some(part);
    }
}

/// What a signed mirror says that it has.
pub(super) fn signed_state(mirror: &[u8]) -> Option<([u8; 16], MirrorState)> {
    each(mirror, |_| Ok(())).ok()
}

/// What a signed mirror was found to have.
#[derive(Debug)]
pub(super) struct Signed {
    /// Bytes of a map's file.
    pub map: Vec<u8>,
    /// The identity of the map, as the headers say.
    pub map_id: [u8; 16],
    /// What the headers say.
    pub state: MirrorState,
    /// The generation of the key that has signed it; `None` if that is not somebody who may.
    pub generation: Option<u64>,
}

/// Reads a signed mirror. One that `keys` does not verify is refused, unless `accepts_unsigned`.
pub(super) fn read_signed(
    mirror: &[u8],
    keys: Option<&dyn Verify>,
    accepts_unsigned: bool,
) -> Result<Signed, Unreadable> {
    let (mut map, mut signer) = (Vec::new(), None);
    let (map_id, state) = each(mirror, |part| {
        if part.after == NOTHING {
            signer = keys.and_then(|keys| keys.signer(part.signer));
        }
        let header = [part.header, part.signer].concat();
        signer = signer.take().filter(|signer| signer.has_signed(&header, part.content, part.signature));
        map.extend_from_slice(part.content);
        if signer.is_none() && !accepts_unsigned { Err(Unreadable::Unsigned) } else { Ok(()) }
    })?;
    Ok(Signed { map, map_id, state, generation: signer.map(|signer| signer.generation()) })
}

/// Whether mirrors that are not signed are believed although the cluster has keys: never.
pub(super) fn are_unsigned_believed() -> bool {
    planted::is(Bug::UnsignedMirrorBelieved)
}

#[cfg(test)]
#[path = "tests/signed.rs"]
mod tests;
