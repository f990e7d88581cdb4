//! Reads field values from records of any content.

use std::borrow::Cow;

use super::{Field, Shape};

impl Field {
    /// The field's number, sign-extended to 64 bits if signed. `None` if it is not a number or the record is too short.
    #[must_use]
    pub fn number(&self, data: &[u8]) -> Option<u64> {
        if self.shape != Shape::Number {
            return None;
        }
        let bytes = self.in_place(data)?;
        // Widening casts extend the sign.
        Some(match (bytes.len(), self.is_signed) {
            (1, false) => u64::from(bytes[0]),
            (1, true) => bytes[0] as i8 as u64,
            (2, false) => u64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
            (2, true) => i16::from_le_bytes(bytes.try_into().ok()?) as u64,
            (4, false) => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
            (4, true) => i32::from_le_bytes(bytes.try_into().ok()?) as u64,
            (8, _) => narrowed(&self.c_type, u64::from_le_bytes(bytes.try_into().ok()?)),
            _ => return None,
        })
    }

    /// The field's text, up to the first NUL. `None` if it is not text or lies outside the record.
    #[must_use]
    pub fn text<'a>(&self, data: &'a [u8]) -> Option<Cow<'a, str>> {
        let is_text = self.shape != Shape::Number && element(&self.c_type) == "char";
        let bytes = if is_text { self.bytes(data)? } else { return None };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]))
    }

    /// The field's bytes, wherever in the record they are; also a number's. `None` if they lie outside the record.
    #[must_use]
    pub fn bytes<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        let base = match self.shape {
            Shape::Array if self.size == 0 => return data.get(self.offset..),
            Shape::Number | Shape::Array => return self.in_place(data),
            Shape::Located => 0,
            Shape::RelativelyLocated => self.offset.checked_add(self.size)?,
        };
        let place = u32::from_le_bytes(self.in_place(data)?.try_into().ok()?);
        let begin = base.checked_add((place & 0xffff) as usize)?;
        data.get(begin..begin.checked_add((place >> 16) as usize)?)
    }

    fn in_place<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        data.get(self.offset..self.offset.checked_add(self.size)?)
    }
}

/// System call arguments are recorded as whole registers; narrower types occupy the lower half.
fn narrowed(c_type: &str, register: u64) -> u64 {
    match c_type {
        "int" => register as i32 as u64,
        "unsigned int" | "umode_t" => u64::from(register as u32),
        _ => register,
    }
}

/// The type of an array's elements: `char` of `const char[16]`.
fn element(c_type: &str) -> &str {
    let element = c_type.split('[').next().unwrap_or("").trim();
    let element = element.strip_prefix("const ").unwrap_or(element);
    element.strip_prefix("unsigned ").or_else(|| element.strip_prefix("signed ")).unwrap_or(element)
}
