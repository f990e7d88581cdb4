//! Gets a mirror from a node that may lie: piece by piece, and no more of it than a gateway of the cluster has signed.
//!
//! With keys each part is verified once it is whole, and nothing is asked for behind one that is not believed. What is held unverified is one part at
//! most. The first part is a snapshot, as large as the map: a large one is heard to its end before any of it is held, and asked for again.

use super::BATCH_BYTES_MAX;
use super::signed::{FirstPart, PART_BYTES_MAX, Signer, Verify, Writer, first_part, is_signed, whole_part};

/// Most bytes of a snapshot that are held before its signature is known.
const HELD_UNVERIFIED_BYTES_MAX: usize = 8 * BATCH_BYTES_MAX;
/// Most bytes of a mirror that no key verifies.
pub const UNVERIFIED_BYTES_MAX: u64 = 1 << 30;

/// The mirror has more bytes than are taken of one that no key verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its mirror of the map has {0} bytes, and at most {UNVERIFIED_BYTES_MAX} are taken without signatures")]
pub struct TooLong(pub u64);

/// Gets a mirror. `ask` gives the size that the node tells, and bytes from an offset on; none where the mirror ends. The first answer fixes the size.
/// Without `keys` nothing is verified. What is returned ends at the latest where nothing that follows is believed, and shows that.
pub fn gather<E: From<TooLong>>(
    keys: Option<&dyn Verify>,
    mut ask: impl FnMut(u64) -> Result<(u64, Vec<u8>), E>,
) -> Result<Vec<u8>, E> {
    let (size_bytes, mut mirror) = ask(0)?;
    if keys.is_none() && size_bytes > UNVERIFIED_BYTES_MAX {
        return Err(TooLong(size_bytes).into());
    }
    let most = usize::try_from(size_bytes).unwrap_or(usize::MAX);
    mirror.truncate(most);
    let mut check =
        keys.map(|keys| Check { keys, signer: None, last: None, good_bytes: 0, heard_bytes: 0, is_bad: false });
    loop {
        if let Some(check) = &mut check {
            check.look(&mirror, &mut ask)?;
            if check.is_bad && mirror.len() - check.good_bytes > PART_BYTES_MAX {
                return Ok(mirror);
            }
        }
        if mirror.len() >= most {
            return Ok(mirror);
        }
        let (_, bytes) = ask(mirror.len() as u64)?;
        if bytes.is_empty() {
            return Ok(mirror);
        }
        mirror.extend_from_slice(&bytes);
        mirror.truncate(most);
    }
}

/// The state of what has come.
struct Check<'a> {
    keys: &'a dyn Verify,
    /// The signer of the first part.
    signer: Option<Box<dyn Signer>>,
    /// The writer and state that the last of the signed parts shows.
    last: Option<(Writer, u64)>,
    /// Bytes of them.
    good_bytes: usize,
    /// Bytes of the first part, if its signature was verified before it was held.
    heard_bytes: usize,
    /// Something behind them is not.
    is_bad: bool,
}

impl Check<'_> {
    /// Looks at all parts that are whole now.
    fn look<E>(&mut self, mirror: &[u8], ask: &mut impl FnMut(u64) -> Result<(u64, Vec<u8>), E>) -> Result<(), E> {
        while !self.is_bad {
            let rest = mirror.get(self.good_bytes..).unwrap_or_default();
            if self.last.is_none() && !self.is_first_believable(rest, ask)? {
                self.is_bad = !is_signed(rest) || first_part(rest).is_some() || rest.len() > PART_BYTES_MAX;
                return Ok(());
            }
            let Some(signer) = self.signer.as_deref() else { return Ok(()) };
            let Some((len_bytes, state)) = whole_part(rest, signer, self.last) else {
                // Behind the first one each is small.
                self.is_bad = self.last.is_some() && rest.len() > PART_BYTES_MAX;
                return Ok(());
            };
            match state {
                Some(_) => (self.last, self.good_bytes) = (state, self.good_bytes + len_bytes),
                None => self.is_bad = true,
            }
        }
        Ok(())
    }

    /// Whether the first part may be held to its end. False if it is not signed by somebody who may, or its header has not come.
    fn is_first_believable<E>(
        &mut self,
        rest: &[u8],
        ask: &mut impl FnMut(u64) -> Result<(u64, Vec<u8>), E>,
    ) -> Result<bool, E> {
        let Some(first) = first_part(rest) else { return Ok(false) };
        if self.signer.is_none() {
            self.signer = self.keys.signer(first.signer);
        }
        let Some(signer) = self.signer.as_deref() else { return Ok(false) };
        if first.len_bytes() > HELD_UNVERIFIED_BYTES_MAX.max(self.heard_bytes) {
            // Heard once, and what comes now is not what was heard.
            if self.heard_bytes > 0 || !is_signed_at_its_end(signer, &first, ask)? {
                return Ok(false);
            }
            self.heard_bytes = first.len_bytes();
        }
        Ok(true)
    }
}

/// Hears the first part to its end, and holds none of it. Whether it is signed.
fn is_signed_at_its_end<E>(
    signer: &dyn Signer,
    first: &FirstPart<'_>,
    ask: &mut impl FnMut(u64) -> Result<(u64, Vec<u8>), E>,
) -> Result<bool, E> {
    let mut listens = signer.listen(&first.signed_header());
    let (mut at, end) = (first.content_at(), first.content_at() + first.content_bytes);
    let mut signature = Vec::new();
    while at < first.len_bytes() {
        let (_, bytes) = ask(at as u64)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let bytes = bytes.get(..bytes.len().min(first.len_bytes() - at)).unwrap_or_default();
        let (content, behind) = bytes.split_at(bytes.len().min(end.saturating_sub(at)));
        listens.content(content);
        signature.extend_from_slice(behind);
        at += bytes.len();
    }
    Ok(<[u8; super::SIGNATURE_BYTES]>::try_from(signature).is_ok_and(|signature| listens.is_signed(&signature)))
}

#[cfg(test)]
#[path = "tests/gather.rs"]
mod tests;
