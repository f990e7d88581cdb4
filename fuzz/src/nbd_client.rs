//! Bytes that NBD clients send, well-formed ones for the most part, made from choices.

use flashmob_core::nbd::protocol::*;
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::request::REQUEST_BYTES_MAX;

use crate::bytes::{Choices, mutate};

/// An option.
#[must_use]
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// The data of `OPT_GO` or `OPT_INFO`.
#[must_use]
pub fn go_data(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(infos.len() as u16).to_be_bytes());
    infos.iter().for_each(|info| data.extend_from_slice(&info.to_be_bytes()));
    data
}

/// Everything a client says to open an export.
#[must_use]
pub fn opening(name: &str, structured: bool) -> Vec<u8> {
    let mut bytes = (FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES).to_be_bytes().to_vec();
    if structured {
        bytes.extend(option(OPT_STRUCTURED_REPLY, &[]));
    }
    bytes.extend(option(OPT_GO, &go_data(name, &[])));
    bytes
}

/// A request near one of the limits, with its payload, and its header; sometimes damaged, then without the header.
pub fn request(choices: &mut Choices<'_>, cookie: u64, size_bytes: u64) -> (Vec<u8>, Option<RequestHeader>) {
    let command = u16::from(choices.u8() % 10);
    let flags = if choices.u8() < 0xa0 { 0 } else { u16::from(choices.u8() & 0x3f) };
    let nudge = i64::from(choices.u8() as i8);
    let near = |at: u64| at.saturating_add_signed(nudge);
    let len = match choices.u8() % 8 {
        0 => near(u64::from(REQUEST_BYTES_MAX)),
        1 => u64::from(choices.u32()),
        2 => near(size_bytes),
        _ => u64::from(choices.u16()),
    };
    let len_bytes = len.min(u64::from(u32::MAX)) as u32;
    let offset_bytes = match choices.u8() % 8 {
        0 => near(size_bytes),
        1 => near(size_bytes).saturating_sub(len),
        2 => choices.u64(),
        _ => u64::from(choices.u32()) % size_bytes.max(1),
    };
    let header = RequestHeader { flags, command, cookie, offset_bytes, len_bytes };
    let mut bytes = header.encode().to_vec();
    if command == CMD_WRITE {
        // All of a short payload, the beginning of a long one: then later requests are taken for its rest.
        let payload = choices.some();
        bytes.extend(payload.iter().copied().cycle().take(len_bytes.min(70_000) as usize));
    }
    let is_whole = mutate(choices, &mut bytes);
    (bytes, is_whole.then_some(header))
}
