//! A digest: a hash of each block of a range, by which copies of a volume are compared without sending their bytes.
//!
//! It is the answer to a piece of [`Op::Digest`](crate::op::Op::Digest), whose offset and length are multiples of [`DIGEST_BLOCK_BYTES`]:
//! for each block in order XXH3 of its bytes, 64 bits with seed 0, little-endian. That is 0.2 % of the bytes. The hash finds accidents
//! and differences; it is no protection against somebody who chooses the bytes.
//!
//! A block whose bytes do not match their checksum has [`CORRUPT`] in place of a hash. Where the gateway asks for it
//! ([`OpFlags::EXPECTED`](crate::op::OpFlags::EXPECTED)), it has [`Corrupt`] there, with the checksum that its bytes should have. No block has
//! one of these as its hash.

use twox_hash::XxHash3_64;

use crate::checksum::checksum;

/// Bytes of a block: what one hash is of.
pub const DIGEST_BLOCK_BYTES: u32 = 4096;
/// Bytes of a hash.
pub const DIGEST_BYTES: usize = 8;

/// Whether a range begins and ends at blocks.
#[inline]
#[must_use]
pub fn is_whole_blocks(offset_bytes: u64, len_bytes: u32) -> bool {
    (offset_bytes | u64::from(len_bytes)).is_multiple_of(u64::from(DIGEST_BLOCK_BYTES))
}

/// Bytes of the digest of a range of `len_bytes`, a multiple of [`DIGEST_BLOCK_BYTES`].
#[inline]
#[must_use]
pub fn answer_bytes(len_bytes: u32) -> u32 {
    len_bytes / DIGEST_BLOCK_BYTES * DIGEST_BYTES as u32
}

/// Stands for the hash of a block whose bytes do not match their checksum. It differs from every hash: two such blocks are not equal
/// either.
pub const CORRUPT: u64 = u64::MAX;

/// The smallest number that stands for a corrupt block. Those above it do, too.
const CORRUPT_FIRST: u64 = 0xffff_fffe << 32;
/// The bit that tells a block that is only corrupt from one that is marked.
const UNMARKED: u64 = 1 << 32;

/// A block whose bytes do not match their checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt {
    /// CRC-32 of the bytes that should be there.
    pub expected: u32,
    /// A gateway has marked it as unreadable: no bytes of it were to be had.
    pub is_marked: bool,
}

impl Corrupt {
    /// The number that stands for such a block in a digest.
    #[must_use]
    pub fn code(self) -> u64 {
        CORRUPT_FIRST | if self.is_marked { 0 } else { UNMARKED } | u64::from(self.expected)
    }

    /// The corrupt block that a number of a digest stands for; `None` if it is a hash.
    #[must_use]
    pub fn of(hash: u64) -> Option<Corrupt> {
        is_corrupt(hash).then_some(Corrupt { expected: hash as u32, is_marked: hash & UNMARKED == 0 })
    }
}

/// Whether a number of a digest stands for a corrupt block, and is no hash.
#[inline]
#[must_use]
pub fn is_corrupt(hash: u64) -> bool {
    hash >= CORRUPT_FIRST
}

/// The hash of a block. One whose XXH3 would stand for a corrupt block has the number without its highest bit.
#[must_use]
pub fn digest_of(block: &[u8]) -> u64 {
    no_code(XxHash3_64::oneshot(block))
}

fn no_code(hash: u64) -> u64 {
    if is_corrupt(hash) { hash & !(1 << 63) } else { hash }
}

/// Whether two hashes say that their blocks are equal.
#[inline]
#[must_use]
pub fn are_equal(one: u64, other: u64) -> bool {
    one == other && !is_corrupt(one)
}

/// The payload of a write that marks a block as unreadable ([`OpFlags::UNREADABLE`](crate::op::OpFlags::UNREADABLE)): CRC-32 of the bytes
/// that should be there, little-endian; the rest counts for nothing.
#[must_use]
pub fn unreadable_payload(expected: u32) -> Vec<u8> {
    let mut payload = vec![0; DIGEST_BLOCK_BYTES as usize];
    payload[..4].copy_from_slice(&expected.to_le_bytes());
    payload
}

/// The CRC-32 that such a payload has for each of its blocks.
pub fn expected_of(payload: &[u8]) -> impl Iterator<Item = u32> {
    payload
        .chunks(DIGEST_BLOCK_BYTES as usize)
        .map(|block| block.first_chunk().map_or(0, |sum| u32::from_le_bytes(*sum)))
}

const MARK_MAGIC: [u8; 16] = *b"flashmob: lost\r\n";
const MARK_EXPECTED_AT: usize = MARK_MAGIC.len();
/// Behind it a mark is zeros, but for its last byte.
const MARK_END: usize = MARK_EXPECTED_AT + 4;

/// The bytes that a node puts in the place of a block that is marked as unreadable. They never have the expected checksum, so that reads
/// of them fail.
#[must_use]
pub fn mark_of(expected: u32) -> Vec<u8> {
    let mut mark = vec![0; DIGEST_BLOCK_BYTES as usize];
    mark[..MARK_EXPECTED_AT].copy_from_slice(&MARK_MAGIC);
    mark[MARK_EXPECTED_AT..MARK_END].copy_from_slice(&expected.to_le_bytes());
    if checksum(&mark) == expected
        && let Some(last) = mark.last_mut()
    {
        *last = 1;
    }
    mark
}

/// Whether bytes that have not the expected checksum are such a mark.
#[must_use]
pub fn is_mark(block: &[u8], expected: u32) -> bool {
    block.len() == DIGEST_BLOCK_BYTES as usize && block == mark_of(expected)
}

/// Writes [`CORRUPT`] in place of the hash of block `index` of a digest; nothing if there is no such block.
pub fn put_corrupt(digest: &mut [u8], index: usize) {
    if let Some(place) = digest.chunks_exact_mut(DIGEST_BYTES).nth(index) {
        place.copy_from_slice(&CORRUPT.to_le_bytes());
    }
}

/// Writes what is known of a corrupt block in place of its hash; nothing if there is no such block.
pub fn put_expected(digest: &mut [u8], index: usize, corrupt: Corrupt) {
    if let Some(place) = digest.chunks_exact_mut(DIGEST_BYTES).nth(index) {
        place.copy_from_slice(&corrupt.code().to_le_bytes());
    }
}

/// Writes the digest of whole blocks into `out`, which has [`DIGEST_BYTES`] for each. What either has too much is left alone.
pub fn put_digest(bytes: &[u8], out: &mut [u8]) {
    let blocks = bytes.chunks_exact(DIGEST_BLOCK_BYTES as usize);
    for (block, place) in blocks.zip(out.chunks_exact_mut(DIGEST_BYTES)) {
        place.copy_from_slice(&digest_of(block).to_le_bytes());
    }
}

/// Writes the digest of as many blocks of zeros as `out` has room for: what a store that keeps nothing answers.
pub fn put_digest_of_zeros(out: &mut [u8]) {
    let hash = digest_of(&[0; DIGEST_BLOCK_BYTES as usize]).to_le_bytes();
    out.chunks_exact_mut(DIGEST_BYTES).for_each(|place| place.copy_from_slice(&hash));
}

/// The hashes of a digest, block by block.
pub fn digests(digest: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    digest.chunks_exact(DIGEST_BYTES).map(|hash| hash.try_into().map_or(0, u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: usize = DIGEST_BLOCK_BYTES as usize;

    /// The bytes that the vectors of the reference implementation are of (`XSUM_fillTestBuffer`).
    fn reference_bytes(len_bytes: usize) -> Vec<u8> {
        let mut state = 2_654_435_761u64;
        let next = move || {
            let byte = (state >> 56) as u8;
            state = state.wrapping_mul(11_400_714_785_074_694_797);
            byte
        };
        std::iter::repeat_with(next).take(len_bytes).collect()
    }

    #[test]
    fn hashes_are_those_that_are_published() {
        // Of xxHash's own check (cli/xsum_sanity_check.c), seed 0; those of 4,096 and 4,160 bytes are from OpenSSL's test of XXH3.
        for (len_bytes, expected) in [
            (0, 0x2D06_8005_38D3_94C2u64),
            (1, 0xC44B_DFF4_074E_ECDB),
            (6, 0x27B5_6A84_CD2D_7325),
            (12, 0xA713_DAF0_DFBB_77E7),
            (24, 0xA3FE_70BF_9D35_10EB),
            (48, 0x397D_A259_ECBA_1F11),
            (80, 0xBCDE_FBBB_2C47_C90A),
            (195, 0xCD94_217E_E362_EC3A),
            (403, 0xCDEB_804D_65C6_DEA4),
            (512, 0x617E_4959_9013_CB6B),
            (2048, 0xDD59_E2C3_A5F0_38E0),
            (2240, 0x6E73_A905_39CF_2948),
            (2367, 0xCB37_AEB9_E5D3_61ED),
            (4096, 0xE912_0642_9D1F_48F9),
            (4160, 0x4F32_3B15_321E_94E1),
        ] {
            assert_eq!(digest_of(&reference_bytes(len_bytes)), expected, "{len_bytes} bytes");
        }
        let mut out = [0; DIGEST_BYTES];
        put_digest(&reference_bytes(BLOCK), &mut out);
        assert_eq!(out, [0xf9, 0x48, 0x1f, 0x9d, 0x42, 0x06, 0x12, 0xe9], "little-endian");
    }

    #[test]
    fn a_block_that_does_not_match_its_checksum_equals_nothing() {
        let mut digest = [0; 3 * DIGEST_BYTES];
        put_digest(&[5; 3 * BLOCK], &mut digest);
        put_corrupt(&mut digest, 1);
        put_corrupt(&mut digest, 3);
        let hash = digest_of(&[5; BLOCK]);
        assert_eq!(digests(&digest).collect::<Vec<_>>(), [hash, CORRUPT, hash]);
        assert!(are_equal(hash, hash) && !are_equal(hash, hash ^ 1));
        assert!(!are_equal(hash, CORRUPT) && !are_equal(CORRUPT, CORRUPT));
    }

    #[test]
    fn a_corrupt_block_tells_what_it_should_be_and_no_hash_is_taken_for_one() {
        for (expected, is_marked, code) in [
            (0, false, 0xffff_ffff_0000_0000u64),
            (0xffff_ffff, false, CORRUPT),
            (0, true, 0xffff_fffe_0000_0000),
            (0x1234_5678, true, 0xffff_fffe_1234_5678),
        ] {
            let corrupt = Corrupt { expected, is_marked };
            assert_eq!((corrupt.code(), Corrupt::of(code)), (code, Some(corrupt)));
            assert!(!are_equal(code, code));
            let mut digest = [0; 2 * DIGEST_BYTES];
            put_expected(&mut digest, 1, corrupt);
            put_expected(&mut digest, 2, corrupt);
            assert_eq!(digests(&digest).collect::<Vec<_>>(), [0, code]);
        }
        for (hash, told) in [
            (CORRUPT_FIRST - 1, CORRUPT_FIRST - 1),
            (CORRUPT_FIRST, CORRUPT_FIRST & !(1 << 63)),
            (CORRUPT, CORRUPT & !(1 << 63)),
            (0, 0),
        ] {
            assert_eq!((no_code(hash), Corrupt::of(no_code(hash))), (told, None));
        }
    }

    #[test]
    fn a_mark_has_never_the_checksum_that_is_expected() {
        for expected in [0, 1, 0xdead_beef, u32::MAX, checksum(&[7; BLOCK])] {
            let mark = mark_of(expected);
            assert_eq!(mark.len(), BLOCK);
            assert!(checksum(&mark) != expected && is_mark(&mark, expected) && !is_mark(&mark, expected ^ 1));
            assert!(!is_mark(&mark[1..], expected) && !is_mark(&[0; BLOCK], expected));
            let payload = [unreadable_payload(expected), unreadable_payload(!expected)].concat();
            assert_eq!(expected_of(&payload).collect::<Vec<_>>(), [expected, !expected]);
        }
        // The one value for which the mark would have the expected checksum.
        let by_chance = 0x95a7_58e2;
        let mut mark = mark_of(by_chance);
        assert_eq!(mark.pop(), Some(1));
        mark.push(0);
        assert_eq!(checksum(&mark), by_chance);
    }

    #[test]
    fn a_digest_of_zeros_is_that_of_blocks_of_zeros() {
        let (mut zeros, mut blocks) = ([1; 3 * DIGEST_BYTES], [2; 3 * DIGEST_BYTES]);
        put_digest_of_zeros(&mut zeros);
        put_digest(&[0; 3 * BLOCK], &mut blocks);
        assert_eq!(zeros, blocks);
        assert_eq!(digests(&zeros).collect::<Vec<_>>(), [digest_of(&[0; BLOCK]); 3]);
    }

    #[test]
    fn only_whole_blocks_count() {
        for (offset_bytes, len_bytes, is_whole) in [
            (0, 4096, true),
            (8192, 0, true),
            (1 << 62, 4096, true),
            (1, 4096, false),
            (0, 4095, false),
            (4096, 1, false),
        ] {
            assert_eq!(is_whole_blocks(offset_bytes, len_bytes), is_whole, "{offset_bytes}+{len_bytes}");
        }
        assert_eq!([4096, 8192, 256 * 1024].map(answer_bytes), [8, 16, 512]);
        let mut out = [7; 2 * DIGEST_BYTES + 1];
        put_digest(&[0; 2 * BLOCK - 1], &mut out);
        assert_eq!(out[DIGEST_BYTES..], [7; DIGEST_BYTES + 1], "half a block has no hash");
        put_digest(&[0; 9 * BLOCK], &mut out);
        assert_eq!(out[2 * DIGEST_BYTES], 7);
        assert_eq!(digests(&out).len(), 2);
    }

    proptest! {
        #[test]
        fn digests_round_trip_and_tell_each_block(
            mut bytes in prop::collection::vec(any::<u8>(), 0..4 * BLOCK),
            at: prop::sample::Index,
            change in 1u8..,
        ) {
            bytes.truncate(bytes.len() / BLOCK * BLOCK);
            let mut digest = vec![0; answer_bytes(bytes.len() as u32) as usize];
            put_digest(&bytes, &mut digest);
            let before: Vec<u64> = digests(&digest).collect();
            prop_assert_eq!(&before, &bytes.chunks(BLOCK).map(digest_of).collect::<Vec<_>>());
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
                put_digest(&bytes, &mut digest);
                let pairs = digests(&digest).zip(before).enumerate();
                let differing: Vec<usize> = pairs.filter(|(_, (now, before))| now != before).map(|(i, _)| i).collect();
                prop_assert_eq!(differing, [at / BLOCK]);
            }
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..9000), mut out in prop::collection::vec(any::<u8>(), 0..40)) {
            put_digest(&bytes, &mut out);
            prop_assert!(expected_of(&bytes).count() == bytes.len().div_ceil(BLOCK) && !is_mark(&bytes, 7));
            put_digest_of_zeros(&mut out);
            prop_assert_eq!(digests(&out).count(), out.len() / DIGEST_BYTES);
        }
    }
}
