//! Room for the data.

use super::{Finding, without_data};
use crate::bytes;
use crate::view::View;

/// A node needs a little besides its data: the identity, and what the file system itself writes.
const SEVERE_BYTES: u64 = 16 << 20;
/// Flash and file systems both get slow when they have little to choose from; of a large one this is enough.
const LOW_BYTES: u64 = 1 << 30;
const LOW_PART: u64 = 20;
const SEVERE_PART: u64 = 100;

/// Where a block that a file does not have is one that it will need.
const PLAIN: [&str; 5] = ["ext2", "ext3", "ext4", "vfat", "tmpfs"];

pub(super) fn look(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let Some(space) = data.space else {
        return if view.is_live() {
            Finding::not_applicable("the data is a disk or partition of its own")
        } else {
            Finding::unknown("a copied tree does not say how much room there is")
        };
    };
    if space.size_bytes == 0 {
        return Finding::unknown("the file system does not say how large it is");
    }
    let free = space.free_bytes;
    let path = data.path.display();
    let found = format!("{} of {} are free where {path} lies", bytes(free), bytes(space.size_bytes));
    let advice = "remove what is not needed there, or put the data elsewhere";
    // Elsewhere what is not there may be compressed, or shared with another file.
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
        let cost =
            "file system and flash have little to choose from: writes get slow, and the next large file will not fit";
        return Finding::wrong(found, cost).with_advice(advice);
    }
    Finding::well(found)
}
