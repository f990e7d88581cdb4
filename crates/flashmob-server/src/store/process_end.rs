//! The record of a process that ended in order: see [`Start`](flashmob_core::node::Start).

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::extent_id::ExtentId;
use super::sealed::{read_bounded, seal, unseal};

const FORMAT_VERSION: u32 = 1;
/// Maximum size of a record, in bytes: several times what one has.
const RECORD_BYTES_MAX: u64 = 4096;

const HEADING: &str = "# The end of a node, written by flashmob: everything was flushed. It counts for one start.\n";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<ExtentId>,
    start: ExtentId,
}

/// The end of a process that had flushed everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessEnd {
    /// The boot of the kernel, with the medium.
    pub boot_id: Option<[u8; 16]>,
    /// The start that the process began with.
    pub start: [u8; 16],
}

impl ProcessEnd {
    /// The text of its file.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = format!("{HEADING}version = {FORMAT_VERSION}\n");
        if let Some(boot_id) = self.boot_id {
            text.push_str(&format!("boot_id = \"{}\"\n", ExtentId(boot_id)));
        }
        seal(format!("{text}start = \"{}\"\n", ExtentId(self.start)))
    }

    /// The record in the bytes of its file.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<ProcessEnd, String> {
        if bytes.len() as u64 > RECORD_BYTES_MAX {
            return Err(format!("it is larger than {RECORD_BYTES_MAX} bytes"));
        }
        let Written { version, boot_id, start } =
            toml::from_str(unseal(bytes)?).map_err(|e| e.message().to_string())?;
        if version != FORMAT_VERSION {
            return Err(format!("it has format version {version}"));
        }
        Ok(ProcessEnd { boot_id: boot_id.map(|id| id.0), start: start.0 })
    }
}

/// Reads the record at `path`.
///
/// # Errors
/// Says why it cannot be read, or what is wrong with it.
pub(crate) fn read_process_end(path: &Path) -> Result<ProcessEnd, String> {
    ProcessEnd::parse(&read_bounded(path, RECORD_BYTES_MAX).map_err(|e| e.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_is_refused_above_its_size_and_of_another_version() {
        let id = "01".repeat(16);
        for (body, is_good) in [
            (format!("version = 1\nstart = \"{id}\"\n"), true),
            (format!("version = 1\nboot_id = \"{id}\"\nstart = \"{id}\"\n"), true),
            (format!("version = 2\nstart = \"{id}\"\n"), false),
            (format!("version = 1\nboot_id = \"{id}\"\n"), false),
            (format!("version = 1\nstart = \"{id}00\"\n"), false),
            (format!("version = 1\nstart = \"{id}\"\nmore = 1\n"), false),
        ] {
            assert_eq!(ProcessEnd::parse(seal(body.clone()).as_bytes()).is_ok(), is_good, "{body}");
        }
        for (len, is_good) in [(4095, true), (4096, true), (4097, false)] {
            let text = |comment: usize| seal(format!("version = 1\nstart = \"{id}\"\n#{}\n", "x".repeat(comment)));
            let padded = text(len - text(0).len());
            assert_eq!((padded.len(), ProcessEnd::parse(padded.as_bytes()).is_ok()), (len, is_good));
        }
    }

    proptest! {
        #[test]
        fn records_round_trip(boot_id: Option<[u8; 16]>, start: [u8; 16]) {
            let end = ProcessEnd { boot_id, start };
            prop_assert_eq!(ProcessEnd::parse(end.encode().as_bytes()), Ok(end));
        }

        #[test]
        fn garbage_and_damage_are_refused(garbage in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), flip in 1u8..) {
            prop_assert!(ProcessEnd::parse(&garbage).is_err());
            let mut text = ProcessEnd { boot_id: Some([7; 16]), start: [8; 16] }.encode().into_bytes();
            let at = at.index(text.len());
            text[at] ^= flip;
            prop_assert!(ProcessEnd::parse(&text).is_err());
        }
    }
}
