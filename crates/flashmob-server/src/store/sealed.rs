//! Small text files beside an extent, with a checksum as their last line, so that a damaged or shortened one is detected.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use flashmob_core::checksum::checksum;

use super::open::sync_parent;
use super::private::create_anew;
use super::spare::{SMALL_BYTES, spare_path};

const CHECKSUM_PREFIX: &str = "# crc32 ";

/// The text with its checksum.
pub(crate) fn seal(mut text: String) -> String {
    text.push_str(&format!("{CHECKSUM_PREFIX}{:08x}\n", checksum(text.as_bytes())));
    text
}

/// The text with its checksum, filled up to at least `room_bytes` and to a multiple of [`SMALL_BYTES`].
pub(super) fn seal_with_room(mut text: String, room_bytes: usize) -> String {
    const LINE: &str = "# Room for later changes: ";
    let sealed_bytes = LINE.len() + 1 + CHECKSUM_PREFIX.len() + 9;
    let len_bytes = (text.len() + sealed_bytes).max(room_bytes).next_multiple_of(SMALL_BYTES);
    let blanks = " ".repeat(len_bytes - text.len() - sealed_bytes);
    text.push_str(&format!("{LINE}{blanks}\n"));
    seal(text)
}

/// The text without its checksum, which was right; or why it is damaged.
pub(crate) fn unseal(bytes: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let (body, recorded) = text
        .strip_suffix('\n')
        .and_then(|t| t.rsplit_once('\n'))
        .and_then(|(_, last)| last.strip_prefix(CHECKSUM_PREFIX).map(|sum| (&text[..text.len() - last.len() - 1], sum)))
        .ok_or("its last line, the checksum, is missing")?;
    if recorded != format!("{:08x}", checksum(body.as_bytes())) {
        return Err("its checksum does not match");
    }
    Ok(body)
}

/// Reads a file up to one byte more than it may have.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file atomically: after a power cut it is the old or the new one, and the new one once this returns.
pub(crate) fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    put_file(path, text.as_bytes())?;
    sync_parent(path)
}

/// The same, but for some time after it returns a power cut may bring the old file back.
pub(crate) fn put_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new_path = spare_path(path);
    let write = || -> io::Result<()> {
        let mut file = create_anew(&new_path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new_path, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&new_path);
    })
}
