//! What the data's file system is good for.

use super::{Finding, without_data};
use crate::view::View;

/// Where a file lies in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// Where it lies on another device.
const REMOTE: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs"];
/// Where no file is 4 GiB or larger, and none has holes.
const FAT: [&str; 2] = ["vfat", "msdos"];

pub(super) fn look(view: &View) -> Finding {
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
    if REMOTE.contains(&filesystem) {
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
