//! Expected contents of an export, to compare every byte with.

use std::fs::File;
use std::path::Path;

use memmap2::{Advice, Mmap};

use super::random::{GOLDEN, mix64};
use crate::error::Error;

/// Expected contents of an export.
pub trait Reference: std::fmt::Debug + Send + Sync {
    /// Whether the export should hold `bytes` at `offset_bytes`.
    fn matches(&self, offset_bytes: u64, bytes: &[u8]) -> bool;

    /// Fills `bytes` with what the export should hold at `offset_bytes`.
    fn fill(&self, offset_bytes: u64, bytes: &mut [u8]);

    /// Bytes of the export that it covers; `None` for any number.
    fn len_bytes(&self) -> Option<u64>;
}

/// An image file: the export should hold the same bytes.
///
/// The file is mapped, so it may be larger than memory. It must not become shorter while it is in use:
/// the system then ends the program with SIGBUS.
#[derive(Debug)]
pub struct ImageReference {
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Mmap>,
}

impl ImageReference {
    /// Maps the file at `path`.
    pub fn open(path: &Path) -> Result<ImageReference, Error> {
        let failed = |doing| move |source| Error::File { path: path.to_path_buf(), doing, source };
        let file = File::open(path).map_err(failed("open"))?;
        let len = file.metadata().map_err(failed("examine"))?.len();
        if len == 0 {
            return Ok(ImageReference { map: None });
        }
        // SAFETY: the mapping is private to this value, read-only, and only ever looked at as bytes, for
        // which every value is valid. That nobody shortens or changes the file meanwhile is asked of
        // the caller in the type's documentation; a change would be seen as a mismatch.
        let map = unsafe { Mmap::map(&file) }.map_err(failed("map"))?;
        // Only advice: comparing works without it.
        let _ = map.advise(Advice::Random);
        Ok(ImageReference { map: Some(map) })
    }

    fn slice(&self, offset_bytes: u64, len: usize) -> Option<&[u8]> {
        let begin = usize::try_from(offset_bytes).ok()?;
        self.map.as_deref().unwrap_or(&[]).get(begin..begin.checked_add(len)?)
    }
}

impl Reference for ImageReference {
    fn matches(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
        self.slice(offset_bytes, bytes.len()) == Some(bytes)
    }

    fn fill(&self, offset_bytes: u64, bytes: &mut [u8]) {
        match self.slice(offset_bytes, bytes.len()) {
            Some(held) => bytes.copy_from_slice(held),
            // A load checks that it stays within the image.
            None => bytes.fill(0),
        }
    }

    fn len_bytes(&self) -> Option<u64> {
        Some(self.map.as_ref().map_or(0, |map| map.len() as u64))
    }
}

/// A function of the offset: the 8-byte little-endian word at offset 8 i is a hash of i and the seed. So a volume of any size can be filled
/// and verified without a file.
#[derive(Clone, Copy, Debug)]
pub struct PatternReference {
    /// Different seeds give different contents.
    pub seed: u64,
}

impl PatternReference {
    /// The word with index `index`, for a seed with this key.
    #[inline]
    fn word(key: u64, index: u64) -> [u8; 8] {
        mix64(index.wrapping_mul(GOLDEN) ^ key).to_le_bytes()
    }

    #[inline]
    fn key(self) -> u64 {
        mix64(self.seed.wrapping_add(GOLDEN))
    }
}

/// Bytes of the `len` bytes at `offset_bytes` before the first whole word.
fn before_words(offset_bytes: u64, len: usize) -> usize {
    ((8 - offset_bytes % 8) % 8).min(len as u64) as usize
}

impl Reference for PatternReference {
    fn matches(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
        let key = self.key();
        let (head, rest) = bytes.split_at(before_words(offset_bytes, bytes.len()));
        let (words, tail) = rest.as_chunks::<8>();
        let phase = (offset_bytes % 8) as usize;
        let first = (offset_bytes + head.len() as u64) / 8;
        // Differences are accumulated, so that the loop has no branch.
        let mut difference = 0;
        for (word, index) in words.iter().zip(first..) {
            difference |= u64::from_le_bytes(*word) ^ u64::from_le_bytes(Self::word(key, index));
        }
        difference == 0
            && *head == Self::word(key, offset_bytes / 8)[phase..][..head.len().min(8 - phase)]
            && *tail == Self::word(key, first + words.len() as u64)[..tail.len()]
    }

    fn fill(&self, offset_bytes: u64, bytes: &mut [u8]) {
        let key = self.key();
        let (head, rest) = bytes.split_at_mut(before_words(offset_bytes, bytes.len()));
        let (words, tail) = rest.as_chunks_mut::<8>();
        let phase = (offset_bytes % 8) as usize;
        let first = (offset_bytes + head.len() as u64) / 8;
        head.copy_from_slice(&Self::word(key, offset_bytes / 8)[phase..phase + head.len()]);
        let after = first + words.len() as u64;
        for (word, index) in words.iter_mut().zip(first..) {
            *word = Self::word(key, index);
        }
        tail.copy_from_slice(&Self::word(key, after)[..tail.len()]);
    }

    fn len_bytes(&self) -> Option<u64> {
        None
    }
}

/// Offset of the first wrong byte of `bytes` (at `offset_bytes`), and the number of wrong bytes; for the rare case that
/// [`Reference::matches`] is false.
pub fn wrong_bytes(reference: &dyn Reference, offset_bytes: u64, bytes: &[u8]) -> Option<(u64, u64)> {
    let mut wrong =
        (0u64..).zip(bytes).filter(|(i, byte)| !reference.matches(offset_bytes + i, std::slice::from_ref(byte)));
    let first = wrong.next()?.0;
    Some((offset_bytes + first, 1 + wrong.count() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn the_pattern_looks_the_same_from_every_offset() {
        let pattern = PatternReference { seed: 9 };
        let mut whole = [0; 64];
        pattern.fill(0, &mut whole);
        for begin in 0..64 {
            for end in begin..=64 {
                let mut part = vec![0; end - begin];
                pattern.fill(begin as u64, &mut part);
                assert_eq!(part, whole[begin..end], "{begin}..{end}");
                assert!(pattern.matches(begin as u64, &part), "{begin}..{end}");
            }
        }
    }

    #[test]
    fn seeds_and_words_differ() {
        let mut contents = std::collections::BTreeSet::new();
        for seed in 0..4 {
            for word in 0..64 {
                let mut bytes = [0; 8];
                PatternReference { seed }.fill(8 * word, &mut bytes);
                assert!(contents.insert(bytes));
            }
        }
    }

    proptest! {
        #[test]
        fn one_wrong_byte_is_noticed_and_found(offset in 0u64..1 << 50, len in 1usize..100, at in 0usize..100, flip in 1u8..) {
            let pattern = PatternReference { seed: 1 };
            let mut bytes = vec![0; len];
            pattern.fill(offset, &mut bytes);
            prop_assert_eq!(wrong_bytes(&pattern, offset, &bytes), None);
            let at = at % len;
            bytes[at] ^= flip;
            prop_assert!(!pattern.matches(offset, &bytes));
            prop_assert_eq!(wrong_bytes(&pattern, offset, &bytes), Some((offset + at as u64, 1)));
        }
    }

    #[test]
    fn an_image_is_compared_up_to_its_end_and_not_beyond() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        let image = ImageReference::open(file.path()).unwrap();
        assert_eq!(image.len_bytes(), Some(10));
        assert!(image.matches(0, b"0123456789") && image.matches(9, b"9") && image.matches(10, b""));
        assert!(!image.matches(0, b"1") && !image.matches(9, b"90") && !image.matches(u64::MAX, b"0"));
        let mut bytes = [0; 3];
        image.fill(4, &mut bytes);
        assert_eq!(&bytes, b"456");
    }

    #[test]
    fn an_empty_or_missing_image_is_no_panic() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let image = ImageReference::open(file.path()).unwrap();
        assert!(image.len_bytes() == Some(0) && image.matches(0, b"") && !image.matches(0, b"x"));
        let error = ImageReference::open(Path::new("/nonexistent/image")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/image"), "{error}");
    }
}
