//! Disturbances of a measurement, and the resources that it used itself.
//!
//! The kernel counts a process's writes when it dirties pages, and the disk's when they reach it. So others' writes are approximate where data
//! is written back later; reads and synchronous writes are exact. The file system's metadata of synchronous writes counts as others' I/O.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashmob_core::units::Bytes;
use flashmob_results::warning::{Code, Warning};

use super::place::{Disk, SECTOR_BYTES};
use super::text;
use super::thermal::Heat;

/// Background I/O of any system: logs, clocks, a journal's superblock.
const FOREIGN_BYTES_MIN: u64 = 1 << 20;
/// Others' share of the measurement's own bytes from which a warning is given, as a divisor: 5 %.
const FOREIGN_SHARE: u64 = 20;

/// Bytes to and from a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Moved {
    fn since(self, earlier: Moved) -> Moved {
        Moved {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }

    fn total(self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }
}

/// A measurement in progress.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    disk: Option<Disk>,
    heat: Heat,
    disk_moved: Option<Moved>,
    own_moved: Option<Moved>,
    cpu: (Duration, Duration),
    slowed: BTreeMap<String, String>,
}

/// Observations between begin and end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Causes of throttling; absent if none are known.
    pub throttled: Option<String>,
    /// Bytes that others read from or wrote to the disk; absent if the kernel does not count them per process.
    pub foreign_bytes: Option<u64>,
    /// The reads of `foreign_bytes`.
    pub foreign_read_bytes: Option<u64>,
    /// Bytes that this process read from disks, without those from memory.
    pub fetched_bytes: Option<u64>,
    /// Bytes that this process wrote to disks.
    pub stored_bytes: Option<u64>,
    /// Processor time of this process, all threads, in user mode.
    pub cpu_user: Duration,
    /// The same in the kernel.
    pub cpu_system: Duration,
    /// The disk's name, for warnings.
    disk: Option<String>,
}

impl Watch {
    /// Begins to observe this device and `disk`.
    #[must_use]
    pub fn begin(disk: &Option<Disk>) -> Watch {
        Watch::begin_at(Path::new("/"), disk)
    }

    /// As [`Watch::begin`], by the `/proc` and `/sys` below `root`.
    #[must_use]
    pub fn begin_at(root: &Path, disk: &Option<Disk>) -> Watch {
        Watch {
            heat: Heat::read(root),
            disk_moved: disk.as_ref().and_then(disk_moved),
            own_moved: own_moved(root),
            cpu: cpu_times(),
            root: root.to_path_buf(),
            disk: disk.clone(),
            slowed: BTreeMap::new(),
        }
    }

    /// Checks for throttling. To be called about once a second: a device that was hot during a measurement may be cool at its end.
    pub fn sample(&mut self) {
        // One entry for each source, with its latest figures.
        self.slowed.extend(self.heat.slowed_until(&Heat::read(&self.root)));
    }

    /// The observations since the beginning.
    #[must_use]
    pub fn end(mut self) -> Observed {
        // The counters first: checking for throttling takes a while.
        let (cpu, own, disk) = (cpu_times(), own_moved(&self.root), self.disk.as_ref().and_then(disk_moved));
        self.sample();
        let both = |later: Option<Moved>, earlier: Option<Moved>| Some(later?.since(earlier?));
        let own = both(own, self.own_moved);
        // Reads and writes apart, so that pending writes do not hide others' reads.
        let foreign = both(disk, self.disk_moved).and_then(|disk| Some(disk.since(own?)));
        Observed {
            throttled: (!self.slowed.is_empty()).then(|| self.slowed.into_values().collect::<Vec<_>>().join("; ")),
            foreign_bytes: foreign.map(Moved::total),
            foreign_read_bytes: foreign.map(|moved| moved.read_bytes),
            fetched_bytes: own.map(|moved| moved.read_bytes),
            stored_bytes: own.map(|moved| moved.written_bytes),
            cpu_user: cpu.0.saturating_sub(self.cpu.0),
            cpu_system: cpu.1.saturating_sub(self.cpu.1),
            disk: self.disk.map(|disk| disk.name),
        }
    }
}

impl Observed {
    /// Reasons to doubt the measurement.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some(what) = &self.throttled {
            let remedy =
                "let the device cool down (in the shade, out of its case, on a strong supply) and measure again";
            warnings.push(Warning::new(Code::Throttled, format!("the device was slowed down: {what}; {remedy}")));
        }
        let own = self.fetched_bytes.unwrap_or(0).saturating_add(self.stored_bytes.unwrap_or(0));
        if let Some(foreign) = self.foreign_bytes
            && foreign > FOREIGN_BYTES_MIN
            && foreign > own / FOREIGN_SHARE
        {
            let read = self.foreign_read_bytes.unwrap_or(0);
            let disk = self.disk.as_deref().unwrap_or("the disk");
            let share =
                if own == 0 { String::new() } else { format!(" ({:.0} %)", 100.0 * foreign as f64 / own as f64) };
            warnings.push(Warning::new(
                Code::OtherIo,
                format!(
                    "others read {} from {disk} and wrote {} to it, beside this measurement's own {}{share}; \
                     end what uses it (downloads, synchronisation, updates; iotop or fatrace names them) and measure again",
                    Bytes(read),
                    Bytes(foreign.saturating_sub(read)),
                    Bytes(own)
                ),
            ));
        }
        warnings
    }
}

fn disk_moved(disk: &Disk) -> Option<Moved> {
    parse_stat(&text(disk.sysfs.join("stat"))?)
}

fn own_moved(root: &Path) -> Option<Moved> {
    parse_io(&text(root.join("proc/self/io"))?)
}

/// `/sys/block/DISK/stat`: the third and the seventh number are sectors read and written. Later kernels append more.
pub(super) fn parse_stat(text: &str) -> Option<Moved> {
    let numbers: Vec<u64> = text.split_whitespace().take(7).map(str::parse).collect::<Result<_, _>>().ok()?;
    let bytes = |index: usize| numbers.get(index)?.checked_mul(SECTOR_BYTES);
    Some(Moved { read_bytes: bytes(2)?, written_bytes: bytes(6)? })
}

/// `/proc/self/io`, without writes that were cancelled before they reached the disk.
pub(super) fn parse_io(text: &str) -> Option<Moved> {
    let value = |key: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
    };
    let written = value("write_bytes")?.saturating_sub(value("cancelled_write_bytes").unwrap_or(0));
    Some(Moved { read_bytes: value("read_bytes")?, written_bytes: written })
}

/// Processor time of this process so far, in user mode and in the kernel.
#[must_use]
pub fn cpu_times() -> (Duration, Duration) {
    // SAFETY: all zeros is a valid `rusage`: it holds numbers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live, writable `rusage`, and the kernel writes nothing beyond it.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return (Duration::ZERO, Duration::ZERO);
    }
    // The fields' widths differ between platforms; neither is ever negative.
    let duration = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    (duration(usage.ru_utime), duration(usage.ru_stime))
}
