//! The id of an extent: 16 bytes drawn at random by its node, written as 32 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An extent's identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExtentId(pub [u8; 16]);

/// Not 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an extent's identity is 32 hexadecimal digits; its node logs it at startup and stores it in its .flashmob file"
)]
pub struct BadExtentId;

/// An extent's place in its volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceInVolume {
    /// Number of the extent, from 0.
    pub index: u32,
    /// Number of extents; where there are copies, the most that there may be: what nodes there are is in the gateway's map.
    pub count: u32,
    /// The volume's layout, as its gateway describes it.
    pub layout: String,
}

impl PlaceInVolume {
    /// Whether the volume has copies: the extents alone do not make it up.
    #[must_use]
    pub fn has_copies(&self) -> bool {
        self.layout.starts_with("mapped:")
    }
}

impl ExtentId {
    /// The first eight digits: enough to distinguish a few dozen.
    #[must_use]
    pub fn short(self) -> String {
        self.to_string()[..8].to_string()
    }
}

impl FromStr for ExtentId {
    type Err = BadExtentId;

    fn from_str(text: &str) -> Result<ExtentId, BadExtentId> {
        // `from_str_radix` alone would take a sign.
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadExtentId);
        }
        u128::from_str_radix(text, 16).map(|id| ExtentId(id.to_be_bytes())).map_err(|_| BadExtentId)
    }
}

impl TryFrom<String> for ExtentId {
    type Error = BadExtentId;

    fn try_from(text: String) -> Result<ExtentId, BadExtentId> {
        text.parse()
    }
}

impl From<ExtentId> for String {
    fn from(id: ExtentId) -> String {
        id.to_string()
    }
}

impl fmt::Display for ExtentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ExtentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A random identity, for a gateway or a boot. Not made of the time alone: on a device whose clock starts in 1970 at every
/// boot, that would repeat.
#[must_use]
pub fn unique_id() -> [u8; 16] {
    let mut id = [0; 16];
    match rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(16) => id,
        // Before the kernel's random generator is ready, or without the call: the uptime differs too.
        _ => {
            let up = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let (up, now) = ((up.tv_sec as u64) << 30 ^ up.tv_nsec as u64, now.as_nanos() as u64);
            (u128::from(up) << 64 | u128::from(now)).to_le_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_32_digits_and_nothing_else() {
        let text = "0011223344556677889900aabbccddee";
        let id: ExtentId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(id.short(), "00112233");
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        for bad in ["", "00", &text[1..], &format!("+{}", &text[1..]), &format!("{text}0"), &text.replace('a', "g")] {
            assert_eq!(bad.parse::<ExtentId>(), Err(BadExtentId), "{bad}");
        }
    }
}
