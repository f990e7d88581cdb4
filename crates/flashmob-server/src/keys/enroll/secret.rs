//! What a device has to know to be enrolled: a code that somebody types, or a link that is scanned or lies in a file.

use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::discovery::join::{Target, URL_PREFIX};
use crate::keys::PublicKey;

/// Bytes of a code that is typed. Guessing it after an attack in the middle, within its ten minutes, takes 2^79 tries on average.
pub const CODE_BYTES: usize = 10;
/// Bytes of the secret in a link.
pub const LINK_BYTES: usize = 16;
/// The digits of codes (Crockford's base 32): none looks like another.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Digits of a code.
const CODE_DIGITS: usize = CODE_BYTES * 8 / 5;
/// Most bytes of a text that may be a code or a link.
pub const TEXT_BYTES_MAX: usize = 512;

/// A secret. It is shown on purpose alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Not a code. What it was is not said: it may be one with a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "that is no code: a code has {CODE_DIGITS} letters and digits, as `flashmob join` shows it; '-' and blanks do not count"
)]
pub struct BadCode;

/// Not a link with a secret. What it was is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("that is no link of `flashmob join`: one begins with {URL_PREFIX} and has a key and a secret behind '#'")]
pub struct BadInvitation;

impl Secret {
    /// One for a code.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn draw_code() -> io::Result<Secret> {
        Secret::draw(CODE_BYTES)
    }

    /// One for a link.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn draw_link() -> io::Result<Secret> {
        Secret::draw(LINK_BYTES)
    }

    fn draw(len: usize) -> io::Result<Secret> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        let drawn = SystemRandom::new().fill(&mut bytes);
        drawn.map(|()| Secret(bytes)).map_err(|_| io::Error::other("the system has no random numbers"))
    }

    /// The bytes, as a key of an HMAC.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a code: groups of four digits.
    #[must_use]
    pub fn to_code(&self) -> Zeroizing<String> {
        let mut code = Zeroizing::new(String::with_capacity(2 * self.0.len()));
        let (mut bits, mut count) = (0u32, 0);
        for &byte in self.0.iter() {
            (bits, count) = (bits << 8 | u32::from(byte), count + 8);
            while count >= 5 {
                count -= 5;
                if code.len() % 5 == 4 {
                    code.push('-');
                }
                code.push(char::from(DIGITS[(bits >> count) as usize & 31]));
            }
        }
        code
    }

    /// Reads a code as people type it.
    ///
    /// # Errors
    /// [`BadCode`].
    pub fn of_code(text: &str) -> Result<Secret, BadCode> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(CODE_BYTES));
        let (mut bits, mut count, mut digits) = (0u32, 0, 0);
        for c in text.chars().filter(|c| !c.is_ascii_whitespace() && *c != '-') {
            let digit = match c.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                other => other,
            };
            let value = DIGITS.iter().position(|&known| char::from(known) == digit).ok_or(BadCode)?;
            (bits, count, digits) = (bits << 5 | value as u32, count + 5, digits + 1);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
            if digits > CODE_DIGITS {
                return Err(BadCode);
            }
        }
        if digits == CODE_DIGITS { Ok(Secret(bytes)) } else { Err(BadCode) }
    }
}

/// Reads the first line of a text with a secret; no more of it than a secret may have.
///
/// # Errors
/// It cannot be read, or is no text.
pub fn read_line(from: impl BufRead) -> io::Result<Zeroizing<String>> {
    let mut line = Zeroizing::new(String::with_capacity(TEXT_BYTES_MAX + 1));
    from.take(TEXT_BYTES_MAX as u64 + 1).read_line(&mut line)?;
    Ok(line)
}

/// Where to enrol, and with which secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// `HOST:PORT` of `flashmob join`.
    pub address: String,
    /// The cluster, if it is known beforehand.
    pub cluster: Option<PublicKey>,
    /// The secret.
    pub secret: Secret,
}

impl Invitation {
    /// As a link, with its secret. The cluster must be known.
    #[must_use]
    pub fn to_link(&self) -> Option<Zeroizing<String>> {
        let key = URL_SAFE_NO_PAD.encode(self.cluster?.0);
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(self.secret.bytes()));
        Some(Zeroizing::new(format!("{URL_PREFIX}{}#{key}.{}", self.address, *secret)))
    }
}

impl FromStr for Invitation {
    type Err = BadInvitation;

    /// Reads a link with a secret.
    fn from_str(text: &str) -> Result<Invitation, BadInvitation> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(BadInvitation);
        }
        let rest = text.trim().strip_prefix(URL_PREFIX).ok_or(BadInvitation)?;
        let (place, fragment) = rest.split_once('#').ok_or(BadInvitation)?;
        let (key, secret) = fragment.split_once('.').ok_or(BadInvitation)?;
        let target: Target = place.parse().map_err(|_| BadInvitation)?;
        let key: [u8; 32] = decode(key).and_then(|key| key.as_slice().try_into().ok()).ok_or(BadInvitation)?;
        let secret = decode(secret).filter(|secret| secret.len() == LINK_BYTES).ok_or(BadInvitation)?;
        Ok(Invitation { address: target.to_string(), cluster: Some(PublicKey(key)), secret: Secret(secret) })
    }
}

fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    URL_SAFE_NO_PAD.decode(text).ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_code_is_read_as_people_type_it() {
        let secret = Secret(Zeroizing::new(vec![0, 0x11, 0xff, 0x80, 0x7f, 1, 2, 3, 4, 5]));
        let code = secret.to_code();
        assert_eq!(code.len(), CODE_DIGITS + 3);
        let typed = code.replace('-', " ").to_lowercase().replace('0', "o").replace('1', "l");
        for text in [&code[..], &typed, &code.replace('-', ""), &format!("  {}\n", *code), &code.replace('1', "I")] {
            assert_eq!(Secret::of_code(text), Ok(secret.clone()), "{text}");
        }
        for bad in ["", "0", &code[1..], &format!("{}0", *code), &code.replacen('0', "U", 1), &"0".repeat(4000), "ÄÖ"]
        {
            assert_eq!(Secret::of_code(bad), Err(BadCode), "{bad}");
        }
    }

    #[test]
    fn a_link_says_where_to_whom_and_with_what() {
        let secret = Secret::draw_link().unwrap();
        let cluster = Some(PublicKey([7; 32]));
        for address in ["192.168.1.10:7413", "[fd00::1]:7413", "gateway.local:1"] {
            let invitation = Invitation { address: address.to_string(), cluster, secret: secret.clone() };
            let link = invitation.to_link().unwrap();
            assert_eq!(link.parse(), Ok(invitation), "{}", *link);
            for bad in [
                &link[1..],
                &link[..link.len() - 1],
                &format!("{}A", *link),
                &link.replace('#', "?"),
                &link.replace(address, "a b:1"),
                &link.replace('#', "#A"),
            ] {
                assert_eq!(bad.parse::<Invitation>(), Err(BadInvitation), "{bad}");
            }
        }
        let nowhere = Invitation { address: "a:1".into(), cluster: None, secret };
        assert!(nowhere.to_link().is_none());
        assert!(!format!("{nowhere:?}").contains(&URL_SAFE_NO_PAD.encode(nowhere.secret.bytes())));
    }

    proptest! {
        #[test]
        fn every_code_reads_back_and_any_text_is_one_or_none(bytes: [u8; CODE_BYTES], text in "\\PC{0,40}") {
            let secret = Secret(Zeroizing::new(bytes.to_vec()));
            prop_assert_eq!(Secret::of_code(&secret.to_code()), Ok(secret));
            if let Ok(secret) = Secret::of_code(&text) {
                prop_assert_eq!(secret.bytes().len(), CODE_BYTES);
            }
            let _ = text.parse::<Invitation>();
            let _ = format!("{URL_PREFIX}a:1#{text}").parse::<Invitation>();
        }
    }
}
