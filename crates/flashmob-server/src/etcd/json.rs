//! Values as proto3 writes them in JSON: 64-bit numbers are strings, bytes are base64, and what is zero may be absent
//! or null.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Most elements of any list in an answer. Each takes more memory than its text.
pub const LIST_MAX: usize = 1 << 20;

/// Bytes as a text.
pub(super) fn text_of(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A number of 64 bits: a string or a number.
pub(super) fn integer<'de, D: Deserializer<'de>, N: TryFrom<i128> + Default>(from: D) -> Result<N, D::Error> {
    from.deserialize_any(Integer(PhantomData))
}

struct Integer<N>(PhantomData<N>);

impl<N: TryFrom<i128> + Default> Integer<N> {
    fn of<E: Error>(value: i128) -> Result<N, E> {
        N::try_from(value).map_err(|_| E::custom(format_args!("{value} is out of range")))
    }
}

impl<N: TryFrom<i128> + Default> Visitor<'_> for Integer<N> {
    type Value = N;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of 64 bits")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<N, E> {
        Integer::of(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<N, E> {
        Integer::of(value.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<N, E> {
        Integer::of(text.parse().map_err(|_| E::custom("no whole number"))?)
    }

    fn visit_unit<E: Error>(self) -> Result<N, E> {
        Ok(N::default())
    }
}

/// Bytes in base64.
pub(super) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    from.deserialize_any(Bytes)
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        STANDARD.decode(text).map_err(|e| E::custom(format_args!("no base64: {e}")))
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<u8>, E> {
        Ok(Vec::new())
    }
}

/// A list of at most [`LIST_MAX`] elements.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_any(List(PhantomData))
}

struct List<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            if all.len() == LIST_MAX {
                return Err(A::Error::custom("a list is too long"));
            }
            all.push(element);
        }
        Ok(all)
    }
}
