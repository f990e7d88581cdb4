//! How far ahead of a reader the data's disk is read.
//!
//! A single random read is not read ahead of, whatever the setting. But where two neighbours are read one after the other the kernel takes
//! it for a stream, and fetches up to as much as this: runs of 64 KiB made 128 KiB of readahead fetch 2.2 times what was asked for, 2 MiB
//! and more 4.3 times. Below 64 KiB streams pay: each request to the disk is small (measured: docs/doctor.md).

use super::{Finding, without_data};
use crate::bytes;
use crate::change::{Change, Place};
use crate::view::View;

const LARGE_BYTES: u64 = 1 << 20;
/// Behind these is a network or another machine's memory, where much at once costs little: 8 MiB took no longer than 128 KiB where it was
/// measured.
const REMOTE: [&str; 5] = ["vd", "xvd", "nbd", "rbd", "drbd"];
/// And a RAID has twice its stripe by the kernel's own reckoning, so that all of its disks have something to do.
const RAID: &str = "md";
const LARGE_REMOTE_BYTES: u64 = 16 << 20;
const SMALL_BYTES: u64 = 64 << 10;
/// The kernel's own choice.
const USUAL_KIB: u64 = 128;

pub(super) fn look(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let place = &data.located.place;
    let Some(disk) = &data.located.disk else {
        return Finding::not_applicable("the data lies on no single disk");
    };
    // These read ahead by a setting of their own, which lies in no disk's folder.
    if let Some(name @ ("btrfs" | "zfs" | "fuse" | "fuseblk" | "sdcardfs" | "bcachefs" | "erofs")) =
        place.filesystem.as_deref()
    {
        return Finding::not_applicable(format!("{name} reads ahead by a setting of its own"));
    }
    let Some(ahead) = place.readahead_bytes else {
        return Finding::unknown(format!("{} does not say how far it is read ahead", disk.name));
    };
    let found = format!("{} is read {} ahead", disk.name, bytes(ahead));
    let is_many = disk.name.starts_with(RAID) || REMOTE.iter().any(|prefix| disk.name.starts_with(prefix));
    let cost = if ahead > if is_many { LARGE_REMOTE_BYTES } else { LARGE_BYTES } {
        "where neighbours are read one after the other, several times as much is fetched as was asked for: 4.3 times for runs of 64 KiB, 2.2 times with 128 KiB of readahead"
    } else if ahead < SMALL_BYTES {
        "who reads a file from begin to end waits for many small requests: a third of the rate with 16 KiB, a tenth with none"
    } else {
        return Finding::well(found);
    };
    let place = Place::Readahead { disk: disk.name.clone() };
    Finding::wrong(found, cost)
        .with_change(Change { place, new: USUAL_KIB.to_string() })
        .with_advice("files that are open keep what they had: start the node anew afterwards")
}
