//! The checksum of frames and payloads.
//!
//! CRC-32 (IEEE 802.3 polynomial, reflected, as in zlib and Ethernet). TCP's 16-bit sum misses about one damaged segment in 65,536,
//! and boards with bad memory or Wi-Fi drivers do damage some.

use std::sync::LazyLock;

use crc32fast::Hasher;

/// A hasher of no bytes. A clone of it need not ask for the processor's features again, which a short frame would take longer for than
/// for its checksum.
static EMPTY: LazyLock<Hasher> = LazyLock::new(Hasher::new);

/// The checksum of `bytes`.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    checksum_of([bytes])
}

/// The checksum of `first` followed by `second`.
#[must_use]
pub fn checksum_of_two(first: &[u8], second: &[u8]) -> u32 {
    checksum_of([first, second])
}

/// The checksum of parts that follow each other.
#[must_use]
pub fn checksum_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = EMPTY.clone();
    parts.into_iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_check_value() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        assert_eq!(checksum_of_two(b"1234", b"56789"), 0xcbf4_3926);
        assert_eq!(checksum_of([&b"12"[..], b"", b"345", b"6789"]), 0xcbf4_3926);
    }
}
