//! The data of options: which export, and what a client wants to know of it.

use super::fields::Fields;
use super::protocol::*;

/// Why an option's data is refused: the kind of the reply, and its text.
pub(super) type DataError = (u32, &'static str);

const TOO_SHORT: DataError = (REP_ERR_INVALID, "option's data is shorter than it says");
const TOO_LONG: DataError = (REP_ERR_INVALID, "option's data is longer than it says");

/// The export's name at the front of an option's data, behind its length.
fn leading_name<'a>(fields: &mut Fields<'a>) -> Result<&'a str, DataError> {
    let len = fields.u32().ok_or(TOO_SHORT)? as usize;
    if len > STRING_BYTES_MAX {
        return Err((REP_ERR_TOO_BIG, "export name is longer than 4096 bytes"));
    }
    parse_name(fields.bytes(len).ok_or(TOO_SHORT)?).map_err(|text| (REP_ERR_INVALID, text))
}

/// The data of `OPT_INFO` and `OPT_GO`.
pub(super) struct InfoRequest<'a> {
    pub name: &'a str,
    /// The requested `INFO_` numbers, 16 bits each.
    kinds: &'a [u8],
}

impl InfoRequest<'_> {
    pub fn parse(data: &[u8]) -> Result<InfoRequest<'_>, DataError> {
        let mut fields = Fields(data);
        let name = leading_name(&mut fields)?;
        let count = usize::from(fields.u16().ok_or(TOO_SHORT)?);
        let kinds = fields.bytes(2 * count).ok_or(TOO_SHORT)?;
        if !fields.0.is_empty() {
            return Err(TOO_LONG);
        }
        Ok(InfoRequest { name, kinds })
    }

    pub fn asks_for(&self, kind: u16) -> bool {
        self.kinds.chunks_exact(2).any(|bytes| bytes == kind.to_be_bytes())
    }
}

/// The data of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`.
pub(super) struct ContextRequest<'a> {
    pub name: &'a str,
    queries: Vec<&'a [u8]>,
}

impl ContextRequest<'_> {
    pub fn parse(data: &[u8]) -> Result<ContextRequest<'_>, DataError> {
        let mut fields = Fields(data);
        let name = leading_name(&mut fields)?;
        let count = fields.u32().ok_or(TOO_SHORT)?;
        let mut queries = Vec::new();
        for _ in 0..count {
            let len = fields.u32().ok_or(TOO_SHORT)? as usize;
            if len > STRING_BYTES_MAX {
                return Err((REP_ERR_TOO_BIG, "query is longer than 4096 bytes"));
            }
            queries.push(fields.bytes(len).ok_or(TOO_SHORT)?);
        }
        if !fields.0.is_empty() {
            return Err(TOO_LONG);
        }
        Ok(ContextRequest { name, queries })
    }

    /// Whether the queries select `base:allocation`. Unknown ones select nothing. A list may ask for all contexts, by no query, or for all
    /// of the namespace `base:`.
    pub fn is_for_allocation(&self, is_choice: bool) -> bool {
        let selects = |query: &&[u8]| **query == *CONTEXT_ALLOCATION.as_bytes() || (!is_choice && **query == *b"base:");
        self.queries.iter().any(selects) || (!is_choice && self.queries.is_empty())
    }
}

pub(super) fn parse_name(bytes: &[u8]) -> Result<&str, &'static str> {
    if bytes.contains(&0) {
        return Err("export name contains a NUL");
    }
    std::str::from_utf8(bytes).map_err(|_| "export name is not UTF-8")
}
