//! Small reads out of the page cache without a system call, through a memory mapping of the extent.
//!
//! Its answers are always those of the system call, to which every doubtful read falls back. The dangers of mapped memory, and
//! where each is handled:
//!
//! | danger | answer |
//! |---|---|
//! | a page is not in memory, and touching it waits for the flash | `residency`: only pages that `mincore` has just seen |
//! | it was evicted since | major faults are counted; while there are any, nothing is read here for a while |
//! | the file is cut short, the device fails: SIGBUS | `sigbus`: the mapping is given up, the old way finds the error |
//! | it is cut in the middle of a page: zeros, and no SIGBUS | `memory`: a watchman on the last page |
//! | the memory counts as the process's own | `idle`: page tables are returned when there are no reads |
//! | an extent with checksums: the bytes came from the flash unverified | `residency`: only pages that were verified since they came, and again once a minute |
//!
//! `memory` is the mapping and the only place that touches it, `residency` what is known about it.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use flashmob_core::units::Time;
use rustix::fs::OFlags;

mod idle;
mod memory;
mod residency;
mod sigbus;
#[cfg(test)]
mod tests;

use idle::Idle;
use memory::{Memory, major_faults};
use residency::{Look, REGION_BYTES, REGION_SHIFT, Residency};

/// Longer reads go by system call: what that costs is little beside the copy.
pub(super) const READ_BYTES_MAX: usize = 64 * 1024;
/// The largest extent that is mapped where addresses have 32 bits, in bytes.
const SIZE_BYTES_MAX_32: u64 = 256 << 20;
/// The fewest pages of 4 KiB: what a region's answer has room for.
const PAGES_PER_REGION_MAX: usize = (REGION_BYTES / 4096) as usize;
/// The first pause after a major fault; each that follows soon is twice as long, up to the last.
const PAUSE_NANOS_MIN: u64 = 2_000_000_000;
/// The longest pause after a major fault.
const PAUSE_NANOS_MAX: u64 = 64_000_000_000;

/// File systems that set a file's new size and unmap what is behind it *before* they zero the rest of the page at the cut,
/// as the watchman needs it: ext4, f2fs, btrfs, tmpfs. XFS zeroes first; network and FUSE file systems are cut by others
/// than this kernel.
const FILE_SYSTEMS: [u64; 4] = [0xEF53, 0xF2F5_2010, 0x9123_683E, 0x0102_1994];

/// Statistics of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MappedStatus {
    /// Reads answered from the mapping.
    pub reads: u64,
    /// Waits of the reading thread for a page that it had assumed to be in memory.
    pub major_faults: u64,
    /// Whether it was given up, because a page could not be had.
    pub is_given_up: bool,
}

/// An extent mapped for reading.
#[derive(Debug)]
pub(super) struct Mapped {
    /// Declared first, so that its thread has ended before the mapping goes.
    idle: Idle,
    memory: Arc<Memory>,
    residency: Arc<Residency>,
    /// Reads must end here: [`Memory::servable_bytes`], or 0 while nothing may be read.
    limit_bytes: AtomicU64,
    reads: Arc<AtomicU64>,
    major_faults: AtomicU64,
    /// Of the reading thread, when last looked at; `u64::MAX` before.
    thread_faults: AtomicU64,
    now_nanos: AtomicU64,
    /// When a pause ends; 0 if there is none.
    paused_until_nanos: AtomicU64,
    /// When the last pause ended or will end.
    last_pause_end_nanos: AtomicU64,
    /// How long it was, as a power of two of the first, and 1 more.
    pause_doublings: AtomicU32,
}

impl Mapped {
    /// Maps the first `size_bytes` of a file or block device that was opened for writing as well. May block. The
    /// error is the reason against mapping, as the end of a sentence.
    pub fn open(file: &File, size_bytes: u64, is_device: bool) -> io::Result<Mapped> {
        check_fitness(file, size_bytes, is_device)?;
        let memory = Arc::new(Memory::map(file, size_bytes)?);
        if memory.page_bytes() > REGION_BYTES as usize || memory.page_bytes() < 4096 {
            return Err(io::Error::other(format!("its pages have {} bytes", memory.page_bytes())));
        }
        let residency = Arc::new(Residency::new(memory.servable_bytes(), memory.page_bytes()));
        let reads = Arc::new(AtomicU64::new(0));
        let (counted, known, mapped) = (Arc::clone(&reads), Arc::clone(&residency), Arc::clone(&memory));
        let idle = Idle::start(
            move || counted.load(Ordering::Relaxed),
            move || {
                known.clear();
                mapped.drop_page_tables();
            },
        )?;
        Ok(Mapped {
            idle,
            residency,
            // Until the first tick the age of an answer is unknown.
            limit_bytes: AtomicU64::new(0),
            memory,
            reads,
            major_faults: AtomicU64::new(0),
            thread_faults: AtomicU64::new(u64::MAX),
            now_nanos: AtomicU64::new(0),
            paused_until_nanos: AtomicU64::new(1),
            last_pause_end_nanos: AtomicU64::new(0),
            pause_doublings: AtomicU32::new(0),
        })
    }

    /// Tells the time: from the reading thread, at least once per turn of its loop. Without it nothing is read here.
    #[inline]
    pub fn tick(&self, now: Time) {
        self.residency.tick(now);
        self.now_nanos.store(now.0, Ordering::Relaxed);
        let until = self.paused_until_nanos.load(Ordering::Relaxed);
        if until != 0 && now.0 >= until && !self.memory.is_struck() {
            self.paused_until_nanos.store(0, Ordering::Relaxed);
            self.limit_bytes.store(self.memory.servable_bytes(), Ordering::Relaxed);
        }
    }

    /// Reads if all pages are known to be in memory. False: they are not, `into` holds nothing, ask the kernel.
    #[inline]
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> bool {
        let len_bytes = into.len() as u64;
        let end = offset_bytes.saturating_add(len_bytes);
        if end > self.limit_bytes.load(Ordering::Relaxed) || into.len() > READ_BYTES_MAX || into.is_empty() {
            return false;
        }
        match self.residency.look(offset_bytes, len_bytes) {
            Look::Resident => {}
            Look::Unknown => return false,
            Look::Ask(region) => {
                self.renew(region);
                if self.limit_bytes.load(Ordering::Relaxed) == 0
                    || self.residency.look(offset_bytes, len_bytes) != Look::Resident
                {
                    return false;
                }
            }
        }
        if !self.memory.copy(offset_bytes, into) {
            self.give_up();
            return false;
        }
        // One thread reads: nothing is lost between the two.
        self.reads.store(self.reads.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        true
    }

    /// Lets the processor fetch what a read at `offset_bytes` will touch first.
    #[inline]
    pub fn prefetch(&self, offset_bytes: u64) {
        self.memory.prefetch(offset_bytes);
    }

    /// Notes a read that was not answered here: one that the page cache answered by a system call (`is_there`), or, if no
    /// system call can tell, any other.
    pub fn note(&self, offset_bytes: u64, len_bytes: usize, is_there: bool) {
        let end = offset_bytes.saturating_add(len_bytes as u64);
        if len_bytes == 0 || len_bytes > READ_BYTES_MAX || end > self.limit_bytes.load(Ordering::Relaxed) {
            return;
        }
        if let Some(region) = self.residency.note(offset_bytes, len_bytes as u64, is_there) {
            self.renew(region);
        }
    }

    /// Answers from now on only what was verified since it came into the page cache: what [`Mapped::note`] is told (its reads have to be
    /// verified), and [`Mapped::note_verified`].
    pub fn verify_from_now_on(&self) {
        self.residency.verify_from_now_on();
    }

    /// Notes that the whole blocks around a range were read from the page cache and verified. From any thread.
    pub fn note_verified(&self, offset_bytes: u64, len_bytes: usize) {
        self.residency.note_verified(offset_bytes, len_bytes as u64);
    }

    /// Notes that pages were removed from the page cache: trimmed, or zeroed by a hole. From any thread.
    pub fn forget(&self, offset_bytes: u64, len_bytes: u64) {
        self.residency.forget(offset_bytes, len_bytes);
        // If the last page was among them it has to be made anew, and better here than in the reading thread.
        self.memory.touch_watchman();
    }

    /// Stops reading here. From any thread.
    pub fn give_up(&self) {
        self.paused_until_nanos.store(u64::MAX, Ordering::Relaxed);
        self.limit_bytes.store(0, Ordering::Relaxed);
    }

    /// Whether a page could not be had: the file was cut short, or its device failed.
    pub fn is_struck(&self) -> bool {
        self.memory.is_struck()
    }

    /// Its statistics.
    pub fn status(&self) -> MappedStatus {
        MappedStatus {
            reads: self.reads.load(Ordering::Relaxed),
            major_faults: self.major_faults.load(Ordering::Relaxed),
            is_given_up: self.memory.is_struck() || self.paused_until_nanos.load(Ordering::Relaxed) == u64::MAX,
        }
    }

    /// Asks which pages of a region are in memory.
    #[cold]
    fn renew(&self, region: u64) {
        self.idle.note_use();
        let start = region << REGION_SHIFT;
        let rest = self.memory.servable_bytes().saturating_sub(start);
        let count = self.residency.pages_per_region().min((rest / self.memory.page_bytes() as u64) as usize);
        let mut pages = [0; PAGES_PER_REGION_MAX];
        self.residency.renew(region, &mut pages[..count], |pages| self.memory.resident(start, pages));
        self.look_at_faults();
    }

    /// A major fault says that a page was read that was not there. Others of this thread count as well (its program
    /// may have been evicted): a pause too many does no harm.
    fn look_at_faults(&self) {
        let faults = major_faults();
        let before = self.thread_faults.swap(faults, Ordering::Relaxed);
        if before == u64::MAX || faults <= before {
            return;
        }
        self.major_faults.fetch_add(faults - before, Ordering::Relaxed);
        let now = self.now_nanos.load(Ordering::Relaxed);
        self.pause(now);
    }

    fn pause(&self, now_nanos: u64) {
        if self.paused_until_nanos.load(Ordering::Relaxed) == u64::MAX {
            return;
        }
        let calm_nanos = now_nanos.saturating_sub(self.last_pause_end_nanos.load(Ordering::Relaxed));
        let doublings = if calm_nanos > PAUSE_NANOS_MAX { 0 } else { self.pause_doublings.load(Ordering::Relaxed) };
        let pause = (PAUSE_NANOS_MIN << doublings).min(PAUSE_NANOS_MAX);
        self.pause_doublings.store((doublings + 1).min(5), Ordering::Relaxed);
        self.limit_bytes.store(0, Ordering::Relaxed);
        let end = now_nanos.saturating_add(pause);
        self.last_pause_end_nanos.store(end, Ordering::Relaxed);
        self.paused_until_nanos.store(end, Ordering::Relaxed);
        self.residency.clear();
        log::debug!("a mapped page had been evicted: reading by system calls for {} s", pause / 1_000_000_000);
    }
}

/// Whether a file should be mapped at all.
fn check_fitness(file: &File, size_bytes: u64, is_device: bool) -> io::Result<()> {
    if cfg!(not(target_pointer_width = "64")) && size_bytes > SIZE_BYTES_MAX_32 {
        return Err(io::Error::other("it is larger than 256 MiB, and addresses have 32 bits"));
    }
    if !tells_residency(file)? {
        return Err(io::Error::other("the kernel shows which pages are in memory only to owners and writers"));
    }
    // The file system of a device's node says nothing about the device.
    if !is_device {
        let kind = rustix::fs::fstatfs(file)?.f_type as u64 & 0xFFFF_FFFF;
        if !FILE_SYSTEMS.contains(&kind) {
            return Err(io::Error::other(format!("its file system (type {kind:#x}) is not known to support it")));
        }
    }
    Ok(())
}

/// Since Linux 5.2 `mincore` says "all of them" to whoever may not write the file and does not own it.
fn tells_residency(file: &File) -> io::Result<bool> {
    let mode = rustix::fs::fcntl_getfl(file)? & OFlags::ACCMODE;
    let owner = rustix::fs::fstat(file)?.st_uid;
    let me = rustix::process::geteuid();
    Ok(mode != OFlags::RDONLY || me.is_root() || me.as_raw() == owner)
}
