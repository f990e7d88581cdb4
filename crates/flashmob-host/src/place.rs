//! The place of a file: its mount, its file system, and the disk below.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use flashmob_results::device::Place;

use super::flushes::Flushes;
use super::mounts::{self, Dev, Mount};
use super::{number, text};

/// Most steps from a volume to its disk: a volume on a partition of a mapped device on a RAID has four.
const STEPS_MAX: usize = 16;
/// Sysfs counts in these, whatever the disk's own sectors are.
pub(super) const SECTOR_BYTES: u64 = 512;

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its name in the kernel, such as `mmcblk0`.
    pub name: String,
    /// Its directory in sysfs.
    pub sysfs: PathBuf,
}

impl Disk {
    /// The disk of this name, such as `loop0`, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Disk> {
        let sysfs = Path::new("/sys/block").join(name.replace('/', "!")).canonicalize().ok()?;
        Some(Disk { name: name.to_string(), sysfs })
    }

    /// The file with the current scheduler and those available.
    #[must_use]
    pub fn scheduler_path(&self) -> PathBuf {
        self.sysfs.join("queue/scheduler")
    }

    /// The current scheduler and those available; `None` and empty if the kernel does not report them.
    #[must_use]
    pub fn schedulers(&self) -> (Option<String>, Vec<String>) {
        text(self.scheduler_path()).map_or((None, Vec::new()), |text| parse_schedulers(&text))
    }

    /// Tells this disk from all others of all devices, until its system restarts: a hash of the boot's number and of the disk's; never 0. `None`
    /// if the kernel does not tell them. A loop device is a disk of its own: it has limits of its own.
    #[must_use]
    pub fn id(&self, root: &Path) -> Option<u64> {
        let boot = text(root.join("proc/sys/kernel/random/boot_id"))?;
        let number = text(self.sysfs.join("dev"))?;
        // FNV-1a: equal in every build and on every processor.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let bytes = boot.bytes().chain([0]).chain(number.bytes());
        Some(bytes.fold(0xcbf2_9ce4_8422_2325, hash).max(1))
    }

    fn model(&self) -> Option<String> {
        // `name` is what an MMC card or eMMC calls itself, and the name of a device-mapper volume.
        let name = text(self.sysfs.join("device/model"))
            .or_else(|| text(self.sysfs.join("device/name")))
            .or_else(|| text(self.sysfs.join("dm/name")))?;
        // SATA disks have the vendor "ATA", PCI devices a number.
        let vendor =
            text(self.sysfs.join("device/vendor")).filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"));
        Some(vendor.map_or(name.clone(), |vendor| format!("{vendor} {name}")))
    }
}

/// `none [mq-deadline] kyber`: the one in brackets is current. So is a single word without brackets, for devices without a queue of their
/// own.
pub(super) fn parse_schedulers(text: &str) -> (Option<String>, Vec<String>) {
    let bare = |word: &str| word.trim_matches(['[', ']']).to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    let bracketed = words.iter().find(|word| word.starts_with('[') && word.ends_with(']'));
    let current = bracketed.or(if words.len() == 1 { words.first() } else { None });
    let current = current.map(|word| bare(word)).filter(|name| !name.is_empty());
    (current, words.into_iter().map(bare).filter(|name| !name.is_empty()).collect())
}

/// A disk's id as results have it.
#[must_use]
pub fn id_text(id: u64) -> String {
    format!("{id:016x}")
}

/// False for file systems whose disk is read by other processes or threads than the caller: the kernel attributes that I/O to others.
#[must_use]
pub fn is_accounted(filesystem: Option<&str>) -> bool {
    filesystem.is_none_or(|name| !(name.starts_with("fuse") || name == "zfs" || name.starts_with("nfs")))
}

/// The place of a file, and its disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Located {
    /// For the results.
    pub place: Place,
    /// Absent for files in memory, on the network, or on several independent disks.
    pub disk: Option<Disk>,
    /// Where its file system is mounted.
    pub mount_point: Option<PathBuf>,
    /// Whether fdatasync reaches the flash.
    pub flushes: Flushes,
}

/// The place of the file or block device `path`; if it does not exist yet, of its nearest existing folder.
#[must_use]
pub fn locate(path: &Path) -> Located {
    locate_below(Path::new("/"), path)
}

/// The same by the `/proc`, `/sys` and `/dev` below `root`.
#[must_use]
pub fn locate_below(root: &Path, path: &Path) -> Located {
    let mut path = path;
    loop {
        if let (Ok(real), Ok(metadata)) = (path.canonicalize(), path.metadata()) {
            let is_device = metadata.file_type().is_block_device();
            let dev = if is_device { metadata.rdev() } else { metadata.dev() };
            return locate_at(root, &real, (rustix::fs::major(dev), rustix::fs::minor(dev)), is_device);
        }
        path = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => return Located::default(),
        };
    }
}

/// The place of `path`, whose device has the number `dev` (for a block device its own number), by the `/proc`, `/sys` and `/dev` below `root`.
#[must_use]
pub fn locate_at(root: &Path, path: &Path, dev: (u32, u32), is_device: bool) -> Located {
    let mounts = mounted(root);
    let mount = if is_device { None } else { mounts::of_file(&mounts, path, dev) };
    let device = by_number(root, dev).or_else(|| mount.and_then(|mount| by_source(root, &mounts, mount)));
    let disk = device.as_deref().and_then(whole_disk);
    let device = device.as_ref().and_then(|device| device.file_name()?.to_str());
    let mut place = Place {
        filesystem: mount.map(|mount| mount.filesystem.clone()),
        mount_options: mount.map(|mount| mount.options.clone()),
        ..Place::default()
    };
    if let Some(disk) = &disk {
        let queue = disk.sysfs.join("queue");
        place.disk = Some(disk.name.clone());
        place.disk_model = disk.model();
        place.disk_bytes = number::<u64>(disk.sysfs.join("size")).and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
        place.rotational = disk.turns();
        (place.scheduler, place.schedulers) = disk.schedulers();
        place.disk_id = disk.id(root).map(id_text);
        place.readahead_bytes = number::<u64>(queue.join("read_ahead_kb")).and_then(|kib| kib.checked_mul(1024));
    }
    let flushes = mount.map_or(Flushes::Reach, |mount| Flushes::of(root, mount, device));
    Located { place, disk, mount_point: mount.map(|mount| mount.point.clone()), flushes }
}

impl Disk {
    /// Whether it rotates. "Yes" is also the kernel's default for disks that do not report it: virtual disks, USB sticks, loop devices. So it
    /// is accepted only of ATA disks that are not emulated; "no" is accepted of all.
    fn turns(&self) -> Option<bool> {
        let says_so = number::<u8>(self.sysfs.join("queue/rotational"))? != 0;
        let part = |name| text(self.sysfs.join("device").join(name)).unwrap_or_default();
        let emulated = ["QEMU", "VBOX", "VMware", "Virtual"].iter().any(|word| part("model").contains(word));
        match says_so {
            false => Some(false),
            true => (part("vendor").trim() == "ATA" && !emulated).then_some(true),
        }
    }
}

/// The number that the medium below a file or block device got when it was put in, and that it gets anew each time (`diskseq`, since Linux
/// 5.15). `None` if the system does not tell it, or the file system has no device of its own.
#[must_use]
pub fn medium_seq(path: &Path) -> Option<u64> {
    let metadata = path.metadata().ok()?;
    let dev = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    medium_seq_at(Path::new("/"), (rustix::fs::major(dev), rustix::fs::minor(dev)))
}

/// The same of the device with this number, by the `/sys` below `root`.
pub(super) fn medium_seq_at(root: &Path, dev: Dev) -> Option<u64> {
    number(whole_disk(&by_number(root, dev)?)?.sysfs.join("diskseq"))
}

/// The mounts of this thread, which may have a namespace of its own.
pub(super) fn mounted(root: &Path) -> Vec<Mount> {
    let text = text(root.join("proc/thread-self/mountinfo")).or_else(|| text(root.join("proc/self/mountinfo")));
    text.map(|text| mounts::parse(&text)).unwrap_or_default()
}

/// The directory in sysfs of the device with this number. Major 0 is for file systems without a device.
pub(super) fn by_number(root: &Path, (major, minor): Dev) -> Option<PathBuf> {
    (major != 0).then(|| root.join(format!("sys/dev/block/{major}:{minor}")).canonicalize().ok()).flatten()
}

/// The same by the mount's source: btrfs numbers its subvolumes itself, Android's shared storage is a layer above `/data`.
pub(super) fn by_source(root: &Path, mounts: &[Mount], mount: &Mount) -> Option<PathBuf> {
    let layered = matches!(mount.filesystem.as_str(), "sdcardfs" | "esdfs" | "fuse")
        && mount.point.components().any(|part| part == Component::Normal("emulated".as_ref()));
    if layered {
        let data = mounts.iter().rfind(|mount| mount.point == Path::new("/data"))?;
        return by_number(root, data.dev).or_else(|| by_device_file(root, &data.source));
    }
    by_device_file(root, &mount.source)
}

fn by_device_file(root: &Path, source: &Path) -> Option<PathBuf> {
    let inside = source.strip_prefix("/dev").ok()?;
    let file = root.join("dev").join(inside);
    // `/dev/mapper/name` and Android's `/dev/block/platform/…/by-name/userdata` are links.
    let file = file.canonicalize().unwrap_or(file);
    let name = file.file_name()?;
    let name = std::ffi::OsStr::from_bytes(name.as_bytes());
    ["sys/class/block", "sys/block"].iter().find_map(|dir| root.join(dir).join(name).canonicalize().ok())
}

/// From a partition to its disk, from a volume to the one device below it.
pub(super) fn whole_disk(device: &Path) -> Option<Disk> {
    let mut device = device.to_path_buf();
    for _ in 0..STEPS_MAX {
        if device.join("partition").exists() {
            device = device.parent()?.to_path_buf();
            continue;
        }
        let mut below = std::fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
        match (below.next(), below.next()) {
            (Some(only), None) => match only.path().canonicalize() {
                Ok(path) => device = path,
                Err(_) => break,
            },
            _ => break,
        }
    }
    Some(Disk { name: device.file_name()?.to_str()?.replace('!', "/"), sysfs: device })
}
