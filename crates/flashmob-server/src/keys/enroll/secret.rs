//! What a device has to know to be enrolled: a code that somebody types, or a link that is scanned or lies in a file.

use std::fmt;
use std::io::{self, BufRead};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

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

    /// As the part of a link: base64url without padding.
    #[must_use]
    pub fn to_link_part(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(&self.0))
    }

    /// Reads the part of a link.
    #[must_use]
    pub fn of_link_part(text: &str) -> Option<Secret> {
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
        (bytes.len() == LINK_BYTES).then_some(Secret(bytes))
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
    fn a_secret_of_a_link_reads_back() {
        let secret = Secret::draw_link().unwrap();
        let text = secret.to_link_part();
        assert_eq!((text.len(), Secret::of_link_part(&text)), (22, Some(secret.clone())));
        for bad in
            ["", &text[1..], &format!("{}A", *text), &text.replacen(&text[..1], "+", 1), "AAAAAAAAAAAAAAAAAAAAA!"]
        {
            assert_eq!(Secret::of_link_part(bad), None, "{bad}");
        }
        assert!(!format!("{secret:?}").contains(&text[..]));
    }

    proptest! {
        #[test]
        fn every_code_reads_back_and_any_text_is_one_or_none(bytes: [u8; CODE_BYTES], text in "\\PC{0,40}") {
            let secret = Secret(Zeroizing::new(bytes.to_vec()));
            prop_assert_eq!(Secret::of_code(&secret.to_code()), Ok(secret));
            if let Ok(secret) = Secret::of_code(&text) {
                prop_assert_eq!(secret.bytes().len(), CODE_BYTES);
            }
            let _ = Secret::of_link_part(&text);
        }
    }
}
