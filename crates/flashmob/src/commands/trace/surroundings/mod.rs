//! Surroundings of a traced workload: the disk below a file, its extents there, names of threads.
//!
//! Nothing here fails: unknown facts are left out, and the join reports what it could not find.

mod extents;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flashmob_core::planted::{self, Bug};
use flashmob_host::place::{self, Disk};
use flashmob_results::trace::System;
use flashmob_trace::capture::{Event, Scope};
use flashmob_trace::layers;
use flashmob_trace::surroundings::BlockDevice;

pub use extents::extents;

/// Sysfs counts in these, whatever the disk's own sectors are.
const SECTOR_BYTES: u64 = 512;
/// Event groups of one file system only.
const FILESYSTEMS: [&str; 5] = ["ext4", "jbd2", "xfs", "f2fs", "btrfs"];
/// Event groups of one kind of disk only, with the prefixes of such disks' names.
const DRIVERS: [(&str, &str); 4] = [("mmc", "mmcblk"), ("nvme", "nvme"), ("scsi", "sd"), ("ufs", "sd")];

/// The layers below a file or folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Below {
    /// For results.
    pub system: System,
    /// The block device with the file system; absent in memory or on a network.
    pub device: Option<BlockDevice>,
}

/// The layers below `path`, which must exist, as this thread sees it.
#[must_use]
pub fn below(path: &Path) -> Below {
    let located = place::locate(path);
    let filesystem = located.place.filesystem.clone();
    let mut system = System {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        filesystem: filesystem.clone(),
        filesystem_options: located.place.mount_options.clone(),
        device: located.disk.as_ref().map(|disk| disk.name.clone()),
        driver: located.disk.as_ref().and_then(driver),
        scheduler: located.place.scheduler.clone(),
    };
    let (Some(disk), Ok(metadata)) = (&located.disk, path.metadata()) else { return Below { system, device: None } };
    let number = kernel_number(metadata.dev());
    let own = sysfs_of(metadata.dev());
    let name = own.as_ref().and_then(|sysfs| Some(sysfs.file_name()?.to_str()?.to_string()));
    let name = name.unwrap_or_else(|| disk.name.clone());
    if filesystem.as_deref() == Some("ext4") && is_without_journal(&name) {
        let options = system.filesystem_options.take().unwrap_or_default();
        system.filesystem_options = Some(format!("no journal,{options}").trim_end_matches(',').to_string());
    }
    let begin_sectors = own.and_then(|sysfs| read_number(&sysfs.join("start"))).unwrap_or(0);
    let device = BlockDevice {
        number,
        disk_number: numbered(&disk.sysfs).unwrap_or(number),
        begin_bytes: begin_sectors * SECTOR_BYTES,
        name,
        filesystem: filesystem.unwrap_or_default(),
        block_bytes: metadata.blksize(),
        journal: File::open(path).map(|file| extents::journal(&file)).unwrap_or_default(),
    };
    Below { system, device: Some(device) }
}

/// Events for these layers: those of other file systems and disks would only be reported as missing.
#[must_use]
pub fn events(below: &Below) -> Vec<Event> {
    let filesystem = below.system.filesystem.as_deref().unwrap_or_default();
    let disk = below.system.device.as_deref().unwrap_or_default();
    let has_journal = filesystem == "ext4"
        && !below.system.filesystem_options.as_deref().is_some_and(|options| options.starts_with("no journal"));
    let is_wanted = |event: &Event| {
        let system = event.system.as_str();
        // Without a device, this workload's events cannot be distinguished from others'.
        if below.device.is_none() && event.scope == Scope::Devices {
            return false;
        }
        match DRIVERS.iter().find(|(driver, _)| *driver == system) {
            Some((_, begin)) => disk.starts_with(begin),
            None if system == "jbd2" => has_journal,
            None => !FILESYSTEMS.contains(&system) || system == filesystem,
        }
    };
    let mut events = layers::table().events();
    events.retain(is_wanted);
    events.retain(|event| !planted::is(Bug::RequestsUntraced) || !is_of_requests(event));
    events
}

/// The events that [`Bug::RequestsUntraced`] leaves out.
pub(super) fn is_of_requests(event: &Event) -> bool {
    matches!(event.system.as_str(), "block" | "jbd2")
}

/// Devices whose events count.
#[must_use]
pub fn devices(below: &Below) -> Vec<u32> {
    let Some(device) = &below.device else { return Vec::new() };
    let mut numbers = vec![device.number, device.disk_number];
    numbers.dedup();
    numbers
}

/// Threads of this machine with their names, if they are processes: all of the kernel's own are.
#[must_use]
pub fn thread_names() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = |entry: std::fs::DirEntry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((id, name.trim_end().to_string()))
    };
    entries.filter_map(named).collect()
}

/// A device's number as the kernel's events have it, which differs from `st_dev`.
#[must_use]
pub fn kernel_number(st_dev: u64) -> u32 {
    number(rustix::fs::major(st_dev), rustix::fs::minor(st_dev))
}

fn number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// The number of the device in this directory of sysfs.
fn numbered(sysfs: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(sysfs.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(number(major.parse().ok()?, minor.parse().ok()?))
}

fn sysfs_of(st_dev: u64) -> Option<std::path::PathBuf> {
    let (major, minor) = (rustix::fs::major(st_dev), rustix::fs::minor(st_dev));
    Path::new(&format!("/sys/dev/block/{major}:{minor}")).canonicalize().ok()
}

fn read_number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The kernel lists journals in `/proc/fs/jbd2` and ext4 file systems in `/proc/fs/ext4`; false if it is in neither.
fn is_without_journal(device: &str) -> bool {
    Path::new("/proc/fs/ext4").join(device).is_dir() && !Path::new(&format!("/proc/fs/jbd2/{device}-8")).is_dir()
}

/// The driver of a disk: the one bound to its device in sysfs, else by its name.
fn driver(disk: &Disk) -> Option<String> {
    let bound = disk.sysfs.join("device/driver").canonicalize().ok();
    let bound = bound.and_then(|path| Some(path.file_name()?.to_str()?.to_string()));
    // `nvme0n1` belongs to nvme.
    bound.or_else(|| Some(disk.name.chars().take_while(char::is_ascii_alphabetic).collect()))
}

#[cfg(test)]
mod tests {
    use flashmob_trace::surroundings::Extent;

    use super::*;

    #[test]
    fn events_are_those_of_the_file_system_and_the_disk_at_hand() {
        let on = |filesystem: &str, options: &str, disk: &str| {
            let system = System {
                filesystem: Some(filesystem.into()),
                filesystem_options: Some(options.into()),
                device: Some(disk.into()),
                ..System::default()
            };
            let below = Below { system, device: Some(BlockDevice::default()) };
            let mut systems: Vec<String> = events(&below).into_iter().map(|event| event.system).collect();
            systems.sort();
            systems.dedup();
            systems
        };
        let has = |systems: &[String], name: &str| systems.iter().any(|system| system == name);
        let ext4 = on("ext4", "rw", "loop0");
        assert!(has(&ext4, "ext4") && has(&ext4, "jbd2") && has(&ext4, "block") && has(&ext4, "syscalls"), "{ext4:?}");
        assert!(!has(&ext4, "xfs") && !has(&ext4, "mmc"), "{ext4:?}");
        let card = on("ext4", "no journal,rw", "mmcblk0");
        assert!(has(&card, "mmc") && !has(&card, "jbd2") && !has(&card, "scsi"), "{card:?}");
        assert!(has(&on("xfs", "rw", "sda"), "xfs"));
        let nowhere = events(&Below::default());
        assert!(!nowhere.is_empty() && nowhere.iter().all(|event| event.scope != Scope::Devices));
    }

    #[test]
    fn a_file_of_this_machine_has_a_place_and_extents_as_long_as_itself() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let below = below(&path);
        assert!(below.system.filesystem.is_some() && !below.system.kernel.is_empty());
        let (Some(device), extents) = (below.device, extents(&file)) else { return };
        assert_eq!(device.number, kernel_number(path.metadata().unwrap().dev()));
        // Some file systems do not report extents.
        let all: u64 = extents.iter().map(|extent: &Extent| extent.bytes).sum();
        assert!(extents.is_empty() || all >= 100_000, "{extents:?}");
    }

    #[test]
    fn this_process_has_a_name() {
        assert!(thread_names().iter().any(|(id, name)| *id == std::process::id() && !name.is_empty()));
    }
}
