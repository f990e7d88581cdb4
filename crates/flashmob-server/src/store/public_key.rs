//! The public key of a device or a cluster, as text: 64 hexadecimal digits. What it is for is in [`crate::keys`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An Ed25519 key: 32 bytes, written as 64 hexadecimal digits. None is of small order: with such a key anybody can sign anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

/// Why a text is no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicKey {
    /// Not 64 hexadecimal digits.
    #[error("a public key is 64 hexadecimal digits")]
    Digits,
    /// The point has a small order.
    #[error(
        "this is no device's public key: with it anybody can sign anything; copy the key again from the device itself"
    )]
    SmallOrder,
}

/// The eight points whose order divides the cofactor (RFC 8032, 5.1), by y without the sign of x: 0, 1, -1, two others, and 0 and 1 with the prime added.
const SMALL_ORDER: [[u8; 32]; 7] = [
    small(0x00, 0x00, 0x00),
    small(0x01, 0x00, 0x00),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    small(0xec, 0xff, 0x7f),
    small(0xed, 0xff, 0x7f),
    small(0xee, 0xff, 0x7f),
];

const fn small(first: u8, between: u8, last: u8) -> [u8; 32] {
    let mut bytes = [between; 32];
    (bytes[0], bytes[31]) = (first, last);
    bytes
}

/// Whether a point, as it is encoded, is one of these.
pub fn is_of_small_order(key: &[u8; 32]) -> bool {
    let mut without_sign = *key;
    without_sign[31] &= 0x7f;
    SMALL_ORDER.contains(&without_sign)
}

/// All of them, with either sign.
#[cfg(test)]
pub fn small_order_keys() -> impl Iterator<Item = [u8; 32]> {
    SMALL_ORDER.into_iter().flat_map(|key| {
        [0, 0x80].map(|sign| {
            let mut key = key;
            key[31] |= sign;
            key
        })
    })
}

impl PublicKey {
    /// A key, for what has the length of one.
    pub(super) const ANY: PublicKey = PublicKey([0xff; 32]);

    /// From its bytes; none if it is of small order.
    #[must_use]
    pub fn of(bytes: [u8; 32]) -> Option<PublicKey> {
        (!is_of_small_order(&bytes)).then_some(PublicKey(bytes))
    }

    /// The bytes of the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<PublicKey, BadPublicKey> {
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(BadPublicKey::Digits) };
        let bytes = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?));
        let bytes = bytes.collect::<Option<Vec<u8>>>().ok_or(BadPublicKey::Digits)?;
        PublicKey::of(bytes.try_into().map_err(|_| BadPublicKey::Digits)?).ok_or(BadPublicKey::SmallOrder)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = BadPublicKey;

    fn try_from(text: String) -> Result<PublicKey, BadPublicKey> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> String {
        key.to_string()
    }
}
