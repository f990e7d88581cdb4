//! Values of fields out of records, whatever those hold.

use std::borrow::Cow;

use super::{Field, Shape};

pub fn number(field: &Field, data: &[u8]) -> Option<u64> {
    if field.shape != Shape::Number {
        return None;
    }
    let bytes = in_place(field, data)?;
    // The sign is carried on by casts that widen.
    Some(match (bytes.len(), field.is_signed) {
        (1, false) => u64::from(bytes[0]),
        (1, true) => bytes[0] as i8 as u64,
        (2, false) => u64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
        (2, true) => i16::from_le_bytes(bytes.try_into().ok()?) as u64,
        (4, false) => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
        (4, true) => i32::from_le_bytes(bytes.try_into().ok()?) as u64,
        (8, _) => narrowed(&field.c_type, u64::from_le_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}

/// Arguments of system calls are written as whole registers, of which narrower types fill the lower half.
fn narrowed(c_type: &str, register: u64) -> u64 {
    match c_type {
        "int" => register as i32 as u64,
        "unsigned int" | "umode_t" => u64::from(register as u32),
        _ => register,
    }
}

pub fn text<'a>(field: &Field, data: &'a [u8]) -> Option<Cow<'a, str>> {
    let is_text = field.shape != Shape::Number && element(&field.c_type) == "char";
    let bytes = if is_text { bytes(field, data)? } else { return None };
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]))
}

pub fn bytes<'a>(field: &Field, data: &'a [u8]) -> Option<&'a [u8]> {
    let base = match field.shape {
        Shape::Array if field.size == 0 => return data.get(field.offset..),
        Shape::Number | Shape::Array => return in_place(field, data),
        Shape::Located => 0,
        Shape::RelativelyLocated => field.offset.checked_add(field.size)?,
    };
    let place = u32::from_le_bytes(in_place(field, data)?.try_into().ok()?);
    let begin = base.checked_add((place & 0xffff) as usize)?;
    data.get(begin..begin.checked_add((place >> 16) as usize)?)
}

fn in_place<'a>(field: &Field, data: &'a [u8]) -> Option<&'a [u8]> {
    data.get(field.offset..field.offset.checked_add(field.size)?)
}

/// What an array is made of: `char` of `const char[16]`.
fn element(c_type: &str) -> &str {
    let element = c_type.split('[').next().unwrap_or("").trim();
    let element = element.strip_prefix("const ").unwrap_or(element);
    element.strip_prefix("unsigned ").or_else(|| element.strip_prefix("signed ")).unwrap_or(element)
}
