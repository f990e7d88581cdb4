//! The public key of a device or a cluster, as text: 64 hexadecimal digits. What it is for is in [`crate::keys`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A public key: 32 bytes, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey(pub [u8; 32]);

/// Not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a public key is 64 hexadecimal digits")]
pub struct BadPublicKey;

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
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(BadPublicKey) };
        let bytes = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?));
        let bytes = bytes.collect::<Option<Vec<u8>>>().ok_or(BadPublicKey)?;
        bytes.try_into().map(PublicKey).map_err(|_| BadPublicKey)
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
