//! Free space and free inodes for the data.

use super::{Finding, without_data};
use crate::bytes;
use crate::view::{Data, Space, View};

/// A node needs a little besides its data: the identity, and the file system's own writes.
const SEVERE_BYTES: u64 = 16 << 20;
/// Flash and file systems both get slow when little is free; of a large one this is enough.
const LOW_BYTES: u64 = 1 << 30;
const LOW_PART: u64 = 20;
const SEVERE_PART: u64 = 100;
/// A node makes a few files: data, identity, lock, and temporary files beside them.
const SEVERE_INODES: u64 = 8;
const LOW_INODES: u64 = 1000;
const LOW_INODES_PART: u64 = 100;
/// File systems where a hole needs space later. In others it may be compressed, or shared with another file.
const PLAIN: [&str; 5] = ["ext2", "ext3", "ext4", "vfat", "tmpfs"];

/// A check of the data and its file system, if they are known. A copied tree does not contain `what`.
fn check(view: &View, what: &str, check: impl Fn(&Data, Space) -> Finding) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    match data.space {
        Some(space) => check(data, space),
        None if view.is_live() => Finding::not_applicable("the data is a disk or partition of its own"),
        None => Finding::unknown(format!("a copied tree does not say {what}")),
    }
}

/// Free space.
pub(super) fn bytes_free(view: &View) -> Finding {
    check(view, "how much space is free", judge_bytes)
}

/// Free inodes: they may run out while there is free space.
pub(super) fn inodes_free(view: &View) -> Finding {
    check(view, "how many files can be made", judge_inodes)
}

fn judge_bytes(data: &Data, space: Space) -> Finding {
    if space.size_bytes == 0 {
        return Finding::unknown("the file system does not report its size");
    }
    let free = space.free_bytes;
    let found = format!("{} of {} are free where {} lies", bytes(free), bytes(space.size_bytes), data.path.display());
    let advice = "remove what is not needed there, or put the data elsewhere";
    let has_plain_holes = data.located.place.filesystem.as_deref().is_some_and(|name| PLAIN.contains(&name));
    if has_plain_holes && data.hole_bytes > free {
        let cost = format!(
            "writes fail with 'no space left' before the file is full: {} of it are holes for which there is no room",
            bytes(data.hole_bytes)
        );
        return Finding::severe(found, cost).with_advice("make room, or make the node's --size smaller");
    }
    if free < SEVERE_BYTES.min(space.size_bytes / SEVERE_PART) || free == 0 {
        return Finding::severe(found, "writes fail with 'no space left'").with_advice(advice);
    }
    if free < LOW_BYTES.min(space.size_bytes / LOW_PART) {
        let cost = "file system and flash have few free blocks: writes get slow, and the next large file will not fit";
        return Finding::wrong(found, cost).with_advice(advice);
    }
    Finding::well(found)
}

fn judge_inodes(data: &Data, space: Space) -> Finding {
    if space.inodes == 0 {
        return Finding::not_applicable("the file system has no fixed number of files");
    }
    let free = space.free_inodes;
    let found = format!("{free} of {} files can still be made where {} lies", space.inodes, data.path.display());
    let advice = "remove small files there; df -i shows it";
    if free < SEVERE_INODES {
        let cost = "no file can be made though there is room: a node that starts, or writes its identity, fails with 'no space left'";
        return Finding::severe(found, cost).with_advice(advice);
    }
    if free < LOW_INODES.min(space.inodes / LOW_INODES_PART) {
        return Finding::wrong(found, "soon no file can be made, though there is room").with_advice(advice);
    }
    Finding::well(found)
}
