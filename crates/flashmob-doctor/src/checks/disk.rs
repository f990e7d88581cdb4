//! The data's file system and disk.

use flashmob_host::flushes::Flushes;

use super::{Finding, without_data};
use crate::bytes;
use crate::change::{Change, Place};
use crate::view::View;

/// Memory file systems.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// Network file systems.
const REMOTE_FILESYSTEMS: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs"];
/// File systems without files of 4 GiB or more, and without holes.
const FAT: [&str; 2] = ["vfat", "msdos"];

/// The suitability of the data's file system.
pub(super) fn place(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let place = &data.located.place;
    let Some(filesystem) = place.filesystem.as_deref() else {
        return if data.located.disk.is_some() {
            Finding::well("the data is a disk or partition of its own")
        } else {
            Finding::unknown("the file system of the data is not known")
        };
    };
    let path = data.path.display();
    let options = place.mount_options.as_deref().unwrap_or_default();
    if options.split(',').any(|option| option == "ro") {
        return Finding::severe(format!("{path} lies on a file system that is mounted read-only"), "every write fails")
            .with_advice("if it was not meant, the kernel's log says what was wrong with the disk");
    }
    if IN_MEMORY.contains(&filesystem) {
        let cost = "all of it is lost when the device starts anew, and until then it takes memory";
        return Finding::severe(format!("{path} lies in memory ({filesystem})"), cost).with_advice("put it on a disk");
    }
    if REMOTE_FILESYSTEMS.contains(&filesystem) {
        return Finding::wrong(
            format!("{path} lies on another device ({filesystem})"),
            "every read and write crosses the network twice, and a flush is only as good as that device's",
        )
        .with_advice("run the node on that device");
    }
    if matches!(filesystem, "fuse" | "sdcardfs" | "esdfs") && view.is_android() {
        return Finding::wrong(
            format!("{path} lies on Android's shared storage ({filesystem})"),
            "every read and write passes another process or layer, which costs more than the flash itself",
        )
        .with_advice("put it into the app's own storage or Termux's home folder");
    }
    if FAT.contains(&filesystem) {
        return Finding::wrong(
            format!("{path} lies on {filesystem}"),
            "no file can be 4 GiB or larger, none has holes, and a crash may damage the whole file system",
        )
        .with_advice("format the card with ext4 or f2fs");
    }
    Finding::well(format!("{path} lies on {filesystem}"))
}

/// Whether a flush reaches the flash.
pub(super) fn barriers(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let Some(filesystem) = data.located.place.filesystem.as_deref() else {
        return Finding::not_applicable("the data lies on no file system that is known");
    };
    let point = data.located.mount_point.as_ref().map_or("MOUNT-POINT".into(), |point| point.display().to_string());
    let remount = |option: &str| format!("mount -o remount,{option} {point}");
    match &data.located.flushes {
        Flushes::Reach => Finding::well(format!("on {filesystem} a flush reaches the flash")),
        Flushes::NeedSyncfs(why) if filesystem == "f2fs" => Finding::wrong(
            format!("{why}: fsync sends no flush to the flash"),
            "nodes and gateways flush all of the file system instead, with what other programs have written",
        )
        .with_command(remount("fsync_mode=posix")),
        Flushes::NeedSyncfs(why) => Finding::well(format!("{why}: fsync may send no flush to the flash"))
            .with_advice("nodes and gateways flush all of the file system instead"),
        Flushes::Never(why) => Finding::severe(
            format!("{why}: a flush does not reach the flash"),
            "a power cut loses writes that were confirmed as permanent",
        )
        .with_command(if filesystem == "ext4" { remount("barrier=1") } else { String::new() })
        .with_advice(
            "where it cannot be changed, as on some phones: two copies, on devices that do not lose power together",
        ),
    }
}

/// Schedulers that wait for neighbouring requests, which pays only on rotating disks.
const WAITING: [&str; 2] = ["bfq", "cfq"];
/// Replacements, best first.
const BETTER: [&str; 5] = ["mq-deadline", "deadline", "none", "noop", "kyber"];
/// Virtual disks, whose host has a scheduler of its own; the kernel's value for whether they rotate is meaningless.
const VIRTUAL: [&str; 7] = ["vd", "xvd", "loop", "nbd", "zd", "drbd", "rbd"];
/// Flash disks.
const FLASH: [&str; 3] = ["mmcblk", "nvme", "mtdblock"];

/// The I/O scheduler of the data's disk.
///
/// P3 found DEADLINE ahead of CFQ and NOOP on flash: it sends commands in ascending order and does not wait. BFQ, CFQ's successor, and CFQ
/// itself keep a disk idle for some milliseconds when a process's queue is empty, in the hope of a neighbouring request; on flash and on
/// virtual disks that saves no seek. `none` is fine too: a node sorts its pending operations itself.
pub(super) fn scheduler(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let Some(disk) = &data.located.disk else {
        return Finding::not_applicable("the data lies on no single disk with a scheduler of its own");
    };
    let (current, offered) = disk.schedulers();
    let Some(current) = current else {
        return Finding::not_applicable(format!("{} has no scheduler of its own", disk.name));
    };
    let name = &disk.name;
    let found = format!("{name} has the scheduler {current}");
    if !WAITING.contains(&current.as_str()) {
        return Finding::well(found);
    }
    let begins = |prefixes: &[&str]| {
        prefixes.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
    };
    let turns = if begins(&VIRTUAL) || begins(&FLASH) { Some(false) } else { data.located.place.rotational };
    match turns {
        Some(true) => return Finding::well(format!("{found}, and it rotates")),
        None => {
            return Finding::unknown(format!(
                "{found}, which is wrong on flash and fine on rotating disks; the disk does not say which it is"
            ))
            .with_advice("compare: flashmob bench disk --scheduler all");
        }
        Some(false) => {}
    }
    let Some(better) = BETTER.into_iter().find(|better| offered.iter().any(|has| has == better)) else {
        return Finding::well(format!("{found}, and this kernel offers nothing better"));
    };
    let idle = view.number::<u64>(&format!("sys/block/{}/queue/iosched/slice_idle", name.replace('/', "!")));
    let idle = match idle {
        Some(0) => "it takes more of the processor for each request".to_string(),
        Some(ms) => {
            format!("when one program's requests end it lets the disk stand idle for up to {ms} ms before others'")
        }
        None => {
            "when one program's requests end it lets the disk stand idle, 8 ms as a rule, before others'".to_string()
        }
    };
    let cost = format!("{idle}, and flash has nothing to gain by that (P3: DEADLINE ahead of CFQ and NOOP)");
    Finding::wrong(format!("{found}, though it does not rotate"), cost)
        .with_change(Change { place: Place::Scheduler { disk: name.clone() }, new: better.into() })
        .with_advice("how much it is here: flashmob bench disk --scheduler all")
}

const LARGE_BYTES: u64 = 1 << 20;
/// Network and virtual disks, where large requests cost little: 8 MiB took no longer than 128 KiB where it was measured.
const REMOTE_DISKS: [&str; 5] = ["vd", "xvd", "nbd", "rbd", "drbd"];
/// For a RAID the kernel chooses twice its stripe, so that all of its disks are busy.
const RAID: &str = "md";
const LARGE_REMOTE_BYTES: u64 = 16 << 20;
const SMALL_BYTES: u64 = 64 << 10;
/// The kernel's default.
const USUAL_KIB: u64 = 128;

/// The readahead of the data's disk.
///
/// Single random reads cause no readahead. But after two adjacent reads the kernel assumes a stream, and fetches up to this size: with runs of
/// 64 KiB, 128 KiB of readahead fetched 2.2 times the requested bytes, 2 MiB and more 4.3 times. Below 64 KiB streams are slow, because each
/// request to the disk is small (measured: docs/doctor.md).
pub(super) fn readahead(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let place = &data.located.place;
    let Some(disk) = &data.located.disk else {
        return Finding::not_applicable("the data lies on no single disk");
    };
    // These have a readahead setting of their own, outside the disk's folder.
    if let Some(name @ ("btrfs" | "zfs" | "fuse" | "fuseblk" | "sdcardfs" | "bcachefs" | "erofs")) =
        place.filesystem.as_deref()
    {
        return Finding::not_applicable(format!("{name} reads ahead by a setting of its own"));
    }
    let Some(ahead) = place.readahead_bytes else {
        return Finding::unknown(format!("{} does not say how far it is read ahead", disk.name));
    };
    let found = format!("{} is read {} ahead", disk.name, bytes(ahead));
    let is_many = disk.name.starts_with(RAID) || REMOTE_DISKS.iter().any(|prefix| disk.name.starts_with(prefix));
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
