//! Locations of files and journals on their device, as reported by the file system.

use std::fs::File;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use flashmob_trace::surroundings::Extent;

// From the kernel's linux/fiemap.h and linux/fs.h.
const FS_IOC_FIEMAP: u64 = 0xC020_660B;
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
/// No location yet, or not in its own blocks: unknown, delayed, inline.
const FIEMAP_EXTENT_NOWHERE: u32 = 2 | 4 | 0x200;
// From linux/fsmap.h.
const FS_IOC_GETFSMAP: u64 = 0xC0C0_583B;
const FMR_OF_LAST: u32 = 0x20;
const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
/// The owner of ext4's and XFS's journal: `FMR_OWNER('X', 2)`.
const FMR_OWN_LOG: u64 = (b'X' as u64) << 32 | 2;

/// Extents per request.
const BATCH: usize = 256;
/// No file of a workload has so many extents; further ones are unknown.
const EXTENTS_MAX: usize = 65_536;
/// To report its journal, a file system scans all of its maps: larger ones are not queried.
const ASKED_BYTES_MAX: u64 = 16 << 30;

#[repr(C)]
#[derive(Clone, Copy)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    bytes: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    begin: u64,
    bytes: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [FiemapExtent; BATCH],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Fsmap {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    bytes: u64,
    reserved: [u64; 3],
}

#[repr(C)]
struct FsmapHead {
    in_flags: u32,
    out_flags: u32,
    room: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Fsmap; 2],
    found: [Fsmap; BATCH],
}

/// The extents of a file or folder; none if its file system does not report them. Dirty data is written first.
#[must_use]
pub fn extents(file: &File) -> Vec<Extent> {
    let mut found = Vec::new();
    let mut begin = 0;
    while found.len() < EXTENTS_MAX {
        // SAFETY: all zeros are a valid value of plain numbers.
        let mut map: Box<Fiemap> = unsafe { Box::new(zeroed()) };
        (map.begin, map.bytes, map.flags, map.room) = (begin, u64::MAX - begin, FIEMAP_FLAG_SYNC, BATCH as u32);
        // SAFETY: the structure outlives the call and has the room that it states.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut *map) } != 0 {
            break;
        }
        let mapped = &map.extents[..(map.mapped as usize).min(BATCH)];
        let known = mapped.iter().filter(|extent| extent.flags & FIEMAP_EXTENT_NOWHERE == 0);
        found.extend(known.map(|extent| Extent {
            logical_bytes: extent.logical,
            physical_bytes: extent.physical,
            bytes: extent.bytes,
        }));
        match mapped.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => begin = last.logical.saturating_add(last.bytes),
            _ => break,
        }
    }
    found
}

/// The extents of the journal of the file system of `file`; none if it has none, does not report it, or is too large to be queried.
#[must_use]
pub(super) fn journal(file: &File) -> Vec<Extent> {
    let size_bytes = rustix::fs::fstatvfs(file).map_or(u64::MAX, |about| about.f_blocks.saturating_mul(about.f_frsize));
    let mut found: Vec<Extent> = Vec::new();
    if size_bytes > ASKED_BYTES_MAX {
        return found;
    }
    // SAFETY: all zeros are a valid value of plain numbers.
    let mut head: Box<FsmapHead> = unsafe { Box::new(zeroed()) };
    head.room = BATCH as u32;
    (head.keys[1].device, head.keys[1].flags) = (u32::MAX, u32::MAX);
    (head.keys[1].physical, head.keys[1].owner, head.keys[1].offset) = (u64::MAX, u64::MAX, u64::MAX);
    for _ in 0..EXTENTS_MAX / BATCH {
        // SAFETY: the structure outlives the call and has the room that it states.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFSMAP as _, &raw mut *head) } != 0 {
            break;
        }
        let pieces = &head.found[..(head.entries as usize).min(BATCH)];
        let is_log = |piece: &&Fsmap| piece.flags & FMR_OF_SPECIAL_OWNER != 0 && piece.owner == FMR_OWN_LOG;
        for piece in pieces.iter().filter(is_log) {
            let logical_bytes = found.last().map_or(0, |last| last.logical_bytes + last.bytes);
            found.push(Extent { logical_bytes, physical_bytes: piece.physical, bytes: piece.bytes });
        }
        match pieces.last() {
            // The next request begins after it.
            Some(last) if last.flags & FMR_OF_LAST == 0 => head.keys[0] = *last,
            _ => break,
        }
    }
    found
}
