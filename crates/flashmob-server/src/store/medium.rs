//! One open file or block device, and the semantics of operations on it.
//!
//! Both engines share this: which operations are admitted, the effects of errors, and when the store is no longer
//! trusted. A read never returns bytes that were not written, and no flush succeeds after one has failed.
//!
//! **After a failed fdatasync** the kernel has dropped the bytes that it could not write, and the next fdatasync succeeds.
//! So the first failure is permanent: every later flush and durable (FUA) write fails with [`Failure::Io`] until the store
//! is opened again, and it is recorded for the process that does so ([`super::sync_record`]). Plain reads and writes continue; they do not
//! promise anything about the flash. Syncs come one after the other: of two at once, the kernel would tell one of the error.
//!
//! **Durable writes have an open file of their own.** A writeback error is reported once to each open file. A `pwritev2`
//! with RWF_DSYNC that fails for lack of space may consume such a report, but only that of its own file, so the next
//! fdatasync still receives it.
//!
//! **A file that was truncated by others** would grow again with the next write behind its end, and the hole would read as
//! zeros. So every operation except reads checks the size first, a read that meets the end of the file detects it too, and
//! from then on everything fails with [`Failure::Io`]. Only the instant between the check and the write remains. Bytes before
//! the new end are still valid, so reads of them may be answered until then.
//!
//! **An extent with checksums** has operations of its own, in [`summed`]. One look at the state of the medium, which every
//! operation takes, leads to them.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Bytes;
use flashmob_core::wire::digest::{self, DIGEST_BLOCK_BYTES, DIGEST_BYTES, put_digest};
use flashmob_core::wire::map::MAP_BYTES;
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::{Errno, retry_on_intr};

use super::completions::lock;
use super::direct::{self, Bounce, Transfer, Window, counted};
use super::error::{failure_of, unsupported};
use super::holes;
use super::mapped::Mapped;
use super::open::Opened;
use super::sums::Sums;
use super::sync_record::SyncRecord;
use super::sys;
use super::writeback::Writeback;
use super::{StoreOp, TryRead};
use flash::Flash;

mod dropped;
mod flash;
mod summed;

/// Bits of a medium's state: truncated by others, so that all operations fail; with checksums.
const DAMAGED: u8 = 1;
const SUMMED: u8 = 2;
/// Zeros to write, in chunks of this size, if the file system cannot zero a range itself.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
/// Maximum bytes of one write into the page cache. The kernel makes large folios of large writes, and ext4 checks every block
/// of a folio for a later small write: 4 KiB into pages written 256 KiB at a time cost 1.7 times as much as into pages
/// written 64 KiB at a time (512 MiB of them), while 64 KiB are enough to hide the system call.
pub(super) const CACHED_WRITE_BYTES_MAX: usize = 64 * 1024;
/// The most slices that one `preadv2` takes (UIO_MAXIOV of the kernel).
const SLICES_MAX: usize = 1024;

/// An open file or block device with what is known about its state.
#[derive(Debug)]
pub(super) struct Medium {
    path: PathBuf,
    opened: Opened,
    /// [`DAMAGED`], [`SUMMED`]: 0 for most.
    state: AtomicU8,
    sums: OnceLock<Sums>,
    /// The way to the flash past the page cache, once it was asked for.
    flash: OnceLock<Flash>,
    /// An fdatasync has failed: see the module's documentation.
    sync_failed: AtomicBool,
    syncing: Mutex<()>,
    /// Where that is recorded.
    record: OnceLock<SyncRecord>,
    /// What is dirty in the page cache, if flushes are to make progress.
    writeback: Option<Writeback>,
    /// `preadv2` with RWF_NOWAIT is not supported.
    nowait_missing: AtomicBool,
    /// `pwritev2` with RWF_DSYNC is not supported.
    durable_missing: AtomicBool,
    /// Counts of each failure, to limit the log.
    failures: [AtomicU64; Failure::ALL.len() + 1],
    /// The extent in memory, for small reads.
    mapped: OnceLock<Mapped>,
    /// The loss of the mapping was logged.
    mapping_lost: AtomicBool,
    /// Operations of this length panic.
    #[cfg(test)]
    pub panics_at_len_bytes: Option<u32>,
}

impl Medium {
    /// The medium for what was opened at `path`.
    pub fn new(path: &Path, opened: Opened) -> Medium {
        // A durable write is an fdatasync of its range, with what that lacks.
        let durable_missing = opened.permanent.needs_syncfs();
        Medium {
            path: path.to_path_buf(),
            opened,
            state: AtomicU8::new(0),
            sums: OnceLock::new(),
            flash: OnceLock::new(),
            sync_failed: AtomicBool::new(false),
            syncing: Mutex::new(()),
            record: OnceLock::new(),
            writeback: None,
            nowait_missing: AtomicBool::new(false),
            durable_missing: AtomicBool::new(durable_missing),
            failures: Default::default(),
            mapped: OnceLock::new(),
            mapping_lost: AtomicBool::new(false),
            #[cfg(test)]
            panics_at_len_bytes: None,
        }
    }

    /// Has flushes make progress that can be seen.
    pub fn write_back_with(&mut self, writeback: Writeback) {
        self.writeback = Some(writeback);
    }

    /// Records failed syncs there from now on. To be called once, before the first operation.
    pub fn record_with(&self, record: SyncRecord) {
        let _ = self.record.set(record);
    }

    /// The record of failed syncs.
    pub fn record(&self) -> Option<&SyncRecord> {
        self.record.get()
    }

    /// Whether a sync has failed, so that none succeeds any more.
    pub fn has_failed_sync(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }

    /// Whether writeback ahead of flushes is to begin: see [`Writeback::take_due`].
    #[inline]
    pub fn is_writeback_due(&self) -> bool {
        self.writeback.as_ref().is_some_and(Writeback::take_due)
    }

    /// Begins to write the next dirty region back; false if all are begun. It waits for nothing but a place in the device's queue.
    pub fn start_writeback(&self) -> bool {
        let started = self.writeback.as_ref().map_or(Ok(false), |writeback| writeback.start_next(&self.opened.file));
        started.unwrap_or_else(|e| {
            // What the kernel could not write may be lost, and a sync need not tell it again.
            let _syncing = lock(&self.syncing);
            self.sync_broke(e);
            false
        })
    }

    /// How many dirty regions are not being written back yet.
    #[cfg(test)]
    pub fn regions_to_begin(&self) -> usize {
        self.writeback.as_ref().map_or(0, Writeback::regions_to_begin)
    }

    /// Notes bytes that were written into the page cache.
    #[inline]
    pub fn note_written(&self, offset_bytes: u64, len_bytes: u64) {
        if let Some(writeback) = &self.writeback {
            writeback.note(offset_bytes, len_bytes);
        }
    }

    /// Maps the extent into memory if it is suitable, and logs the result. May block.
    pub fn map(&self) {
        let Opened { file, size_bytes, is_device, .. } = &self.opened;
        match Mapped::open(file, *size_bytes, *is_device) {
            Ok(mapped) => {
                log::info!("{}: mapped: small reads of cached data need no system call", self.path.display());
                let _ = self.mapped.set(mapped);
            }
            Err(why) => log::info!("{}: not mapped: {why}", self.path.display()),
        }
    }

    /// Logs that an extent with checksums is not mapped.
    pub fn tell_not_mapped(&self) {
        log::info!(
            "{}: not mapped: it has checksums, and each read is verified (`--mapped on` does without that for cached data)",
            self.path.display()
        );
    }

    /// The extent in memory, if it was mapped.
    #[inline]
    pub fn mapped(&self) -> Option<&Mapped> {
        self.mapped.get()
    }

    /// Reads from the mapping, if the bytes are known to be in memory.
    #[inline]
    pub fn read_mapped(&self, offset_bytes: u64, buf: &mut [u8]) -> bool {
        let Some(mapped) = self.mapped.get() else { return false };
        if self.is_damaged() {
            return false;
        }
        mapped.read(offset_bytes, buf) || self.mapping_failed(mapped)
    }

    /// Always false. If the mapping has just been lost, checks for truncation, which must be detected at once.
    fn mapping_failed(&self, mapped: &Mapped) -> bool {
        if mapped.is_struck() && !self.mapping_lost.swap(true, Ordering::Relaxed) {
            log::warn!(
                "{}: a mapped page is not readable: the file was truncated, or its device fails. Reading by system calls from now on",
                self.path.display()
            );
            // The result is stored in `damaged`; this read finds the error by its system call.
            let _ = self.check_size();
        }
        false
    }

    /// Bytes of the extent.
    pub fn size_bytes(&self) -> u64 {
        self.opened.size_bytes
    }

    /// The alignment that direct transfers have, in bytes; 1 without O_DIRECT.
    pub fn align_bytes(&self) -> u64 {
        self.opened.align_bytes
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.opened.align_bytes > 1
    }

    /// Whether it is a block device.
    pub fn is_device(&self) -> bool {
        self.opened.is_device
    }

    /// Whether it was found truncated.
    pub fn is_damaged(&self) -> bool {
        self.state.load(Ordering::Acquire) & DAMAGED != 0
    }

    /// The open file for a transfer.
    pub fn file(&self, durable: bool) -> &File {
        if durable { &self.opened.durable } else { &self.opened.file }
    }

    /// Whether durable writes take one system call, as far as known.
    pub fn writes_durably(&self) -> bool {
        !self.durable_missing.load(Ordering::Relaxed)
    }

    /// Whether there is no system call that reads without waiting.
    pub fn lacks_nowait(&self) -> bool {
        self.nowait_missing.load(Ordering::Relaxed)
    }

    /// As on a kernel that has none.
    #[cfg(test)]
    pub fn lose_nowait(&self) {
        self.nowait_missing.store(true, Ordering::Relaxed);
    }

    /// Reads from the page cache without waiting.
    pub fn read_cached(&self, offset_bytes: u64, bufs: &mut [IoSliceMut<'_>]) -> TryRead {
        let wanted: usize = bufs.iter().map(|buf| buf.len()).sum();
        let state = self.state.load(Ordering::Acquire);
        if state != 0 {
            return self.read_cached_specially(state, offset_bytes, bufs);
        }
        if !self.contains(offset_bytes, wanted as u64) {
            return TryRead::Failed(Failure::Invalid);
        }
        if self.is_direct() || bufs.len() > SLICES_MAX || self.nowait_missing.load(Ordering::Relaxed) {
            return TryRead::Miss;
        }
        match sys::read_cached(&self.opened.file, bufs, offset_bytes) {
            Ok(n) if n == wanted => TryRead::Hit,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => TryRead::Miss,
            Err(e) if unsupported(e) => {
                self.nowait_missing.store(true, Ordering::Relaxed);
                TryRead::Miss
            }
            Err(e) => TryRead::Failed(self.failed("read", e)),
        }
    }

    /// Whether an operation may be carried out at all. Both engines ask before the first system call.
    pub fn admit(&self, op: &StoreOp) -> Result<(), Failure> {
        if self.is_damaged() {
            return Err(Failure::Io);
        }
        self.check(op)
    }

    /// Whether an operation makes sense, on a medium that is not damaged.
    fn check(&self, op: &StoreOp) -> Result<(), Failure> {
        if op.op != Op::Flush && !self.contains(op.offset_bytes, u64::from(op.len_bytes)) {
            return Err(Failure::Invalid);
        }
        if matches!(op.op, Op::Read | Op::Write) && op.data.len() != op.len_bytes as usize {
            return Err(Failure::Invalid);
        }
        if op.op == Op::Map && op.data.len() != MAP_BYTES {
            return Err(Failure::Invalid);
        }
        if op.flags.marks_unreadable(op.op) {
            // Only a checksum can tell that bytes are none.
            if !self.is_summed() {
                return Err(Failure::NotSupported);
            }
            if !digest::is_whole_blocks(op.offset_bytes, op.len_bytes) {
                return Err(Failure::Invalid);
            }
        }
        if op.op == Op::Digest {
            let is_whole = digest::is_whole_blocks(op.offset_bytes, op.len_bytes);
            if !is_whole || op.data.len() != digest::answer_bytes(op.len_bytes) as usize {
                return Err(Failure::Invalid);
            }
        }
        if (op.op == Op::Flush || is_durable(op)) && self.has_failed_sync() {
            return Err(Failure::Io);
        }
        if op.op == Op::Read { Ok(()) } else { self.check_size() }
    }

    fn contains(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.opened.size_bytes)
    }

    /// Carries an operation out, waiting for the device. `bounce` is used with O_DIRECT, and by digests.
    pub fn execute(&self, op: &mut StoreOp, bounce: &mut Bounce) -> Result<(), Failure> {
        #[cfg(test)]
        assert_ne!(Some(op.len_bytes), self.panics_at_len_bytes, "as the test wants it");
        let state = self.state.load(Ordering::Acquire);
        if state != 0 {
            return self.execute_specially(state, op, bounce);
        }
        self.check(op)?;
        let (offset, len) = (op.offset_bytes, u64::from(op.len_bytes));
        let durable = is_durable(op);
        match op.op {
            Op::Read => self.read(offset, &mut op.data, bounce),
            Op::Write => self.write(offset, &op.data, durable, bounce),
            Op::Flush => self.sync(),
            Op::Map => {
                let mapped = holes::map(&self.opened, offset, op.len_bytes, &mut op.data);
                mapped.map_err(|e| self.failed("seek", e))
            }
            Op::Digest => self.digest(op, bounce),
            Op::Trim => {
                let trimmed = self.trim(offset, len);
                self.forget_mapped(offset, len);
                trimmed.and_then(|()| self.sync_if(durable))
            }
            Op::WriteZeroes => {
                let keep_space = op.flags.has(OpFlags::NO_HOLE);
                let zeroed = self.write_zeroes(offset, len, keep_space, bounce);
                self.forget_mapped(offset, len);
                zeroed.and_then(|()| self.sync_if(durable))
            }
        }
    }

    /// A hole removes pages from the page cache, and the next access to one needs the file system.
    fn forget_mapped(&self, offset_bytes: u64, len_bytes: u64) {
        if let Some(mapped) = self.mapped.get() {
            mapped.forget(offset_bytes, len_bytes);
        }
    }

    /// Writes `len_bytes` into the page cache of an extent without checksums. To be repeated by operations if it fails.
    pub fn write_cached(&self, offset_bytes: u64, len_bytes: u64, slices: &[IoSlice<'_>]) -> Result<(), Failure> {
        if self.state.load(Ordering::Acquire) != 0 || !self.contains(offset_bytes, len_bytes) {
            return Err(Failure::Io);
        }
        self.check_size()?;
        let written = retry_on_intr(|| sys::write_joined(&self.opened.file, slices, offset_bytes)).unwrap_or(0) as u64;
        self.note_written(offset_bytes, written);
        if written == len_bytes { Ok(()) } else { Err(Failure::Io) }
    }

    fn read(&self, offset_bytes: u64, buf: &mut [u8], bounce: &mut Bounce) -> Result<(), Failure> {
        if self.is_direct() {
            direct::read(offset_bytes, buf, self.align_bytes(), bounce, |at, blocks| self.read_exact(at, blocks))
        } else {
            self.read_exact(offset_bytes, buf)
        }
    }

    /// Hashes blocks of the medium, in parts that fit `bounce`: they need no buffer of the node's.
    fn digest(&self, op: &mut StoreOp, bounce: &mut Bounce) -> Result<(), Failure> {
        let (offset_bytes, len_bytes) = (op.offset_bytes, op.len_bytes as usize);
        let is_from_flash = op.flags.has(OpFlags::FROM_FLASH) && !self.is_direct();
        // Aligned for O_DIRECT, which the other may not be.
        let mut aligned = Bounce::new(u64::from(DIGEST_BLOCK_BYTES));
        let mut done = 0;
        while done < len_bytes {
            // Begins and ends at blocks of the digest: the alignment of the medium divides them, or they divide it.
            let window = Window::first(offset_bytes + done as u64, len_bytes - done, self.align_bytes());
            let blocks = if is_from_flash { &mut aligned } else { &mut *bounce };
            let blocks = blocks.slice(window.len_bytes);
            if is_from_flash {
                self.read_flash(window.start_bytes, blocks)?;
            } else {
                self.read_exact(window.start_bytes, blocks)?;
            }
            let part = &blocks[window.skip_bytes..window.skip_bytes + window.take_bytes];
            put_digest(part, &mut op.data[done / DIGEST_BLOCK_BYTES as usize * DIGEST_BYTES..]);
            done += part.len();
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, data: &[u8], durable: bool, bounce: &mut Bounce) -> Result<(), Failure> {
        if self.is_direct() {
            direct::write(offset_bytes, data, self.align_bytes(), bounce, |transfer| match transfer {
                Transfer::Read(at, blocks) => self.read_exact(at, blocks),
                Transfer::Write(at, blocks) => self.write_exact(at, blocks, durable),
            })
        } else {
            self.write_exact(offset_bytes, data, durable)
        }
    }

    fn read_exact(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), Failure> {
        self.read_exact_by(&self.opened.file, self.align_bytes(), offset_bytes, buf)
    }

    /// The same by an open file of the medium that has this alignment.
    fn read_exact_by(&self, file: &File, align_bytes: u64, offset_bytes: u64, buf: &mut [u8]) -> Result<(), Failure> {
        let mut done = 0;
        while done < buf.len() {
            let wanted = buf.len() - done;
            match rustix::io::pread(file, &mut buf[done..], offset_bytes + done as u64) {
                Ok(n) => match counted(n, wanted, align_bytes) {
                    0 => return Err(self.ended_early()),
                    n => done += n,
                },
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.failed("read", e)),
            }
        }
        Ok(())
    }

    fn write_exact(&self, offset_bytes: u64, data: &[u8], durable: bool) -> Result<(), Failure> {
        let mut at_once = durable && self.writes_durably();
        let mut done = 0;
        while done < data.len() {
            let (rest, at) = (&data[done..], offset_bytes + done as u64);
            let file = self.file(at_once);
            let plain = if self.is_direct() { rest } else { &rest[..rest.len().min(CACHED_WRITE_BYTES_MAX)] };
            let written =
                if at_once { sys::write_durable(file, rest, at) } else { rustix::io::pwrite(file, plain, at) };
            match written {
                Ok(n) => match counted(n, rest.len(), self.align_bytes()) {
                    0 => return Err(self.failed("write", Errno::IO)),
                    n => {
                        done += n;
                        if !at_once {
                            self.note_written(at, n as u64);
                        }
                    }
                },
                Err(Errno::INTR) => {}
                Err(e) if at_once => match self.durable_failed(e) {
                    Some(failure) => return Err(failure),
                    None => at_once = false,
                },
                Err(e) => return Err(self.failed("write", e)),
            }
        }
        self.sync_if(durable && !at_once)
    }

    fn sync_if(&self, durable: bool) -> Result<(), Failure> {
        if durable { self.sync() } else { Ok(()) }
    }

    /// Makes all that was written permanent.
    pub fn sync(&self) -> Result<(), Failure> {
        let _syncing = lock(&self.syncing);
        if self.has_failed_sync() {
            return Err(Failure::Io);
        }
        let begun = self.writeback.as_ref().map_or(Ok(false), |writeback| writeback.write_all(&self.opened.file));
        // Whatever happened so far, what can be written is.
        let synced = retry_on_intr(|| rustix::fs::fdatasync(&self.opened.file));
        let in_parts = begun.and_then(|in_parts| synced.map(|()| in_parts)).map_err(|e| self.sync_broke(e))?;
        if let Some(sums) = self.sums.get() {
            let mut begun = Ok(());
            if let Some(writeback) = self.writeback.as_ref().filter(|_| in_parts) {
                writeback.progressed();
                begun = sums.write_back(writeback);
            }
            let synced = sums.sync();
            begun.and(synced).map_err(|e| self.sync_broke(e))?;
        }
        self.finish_sync()
    }

    /// What the file system wants besides to flush the disk's cache.
    fn finish_sync(&self) -> Result<(), Failure> {
        self.opened.permanent.finish(&self.opened.file).map_err(|e| self.sync_broke(e))
    }

    /// Why a power cut may lose what was flushed.
    pub fn flush_warning(&self) -> Option<String> {
        self.opened.permanent.warning()
    }

    /// Trims the whole blocks in the range. Trimming is advice, so it also succeeds where it is not supported.
    fn trim(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), Failure> {
        let (start, end) = self.hole_within(offset_bytes, len_bytes);
        match self.fallocate(FallocateFlags::PUNCH_HOLE, start, end) {
            Err(e) if !unsupported(e) => Err(self.failed("trim", e)),
            _ => Ok(()),
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, keep_space: bool, bounce: &mut Bounce) -> Result<(), Failure> {
        const HOLE_FIRST: [FallocateFlags; 2] = [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE];
        let modes = if keep_space { &HOLE_FIRST[1..] } else { &HOLE_FIRST[..] };
        let (start, end) = self.hole_within(offset, len);
        let mut written_until = start;
        for &mode in modes {
            match self.fallocate(mode, start, end) {
                Ok(()) => {
                    written_until = end;
                    break;
                }
                Err(e) if unsupported(e) => {}
                Err(e) => return Err(self.failed("write zeros", e)),
            }
        }
        self.fill_with_zeros(offset, start, bounce)?;
        self.fill_with_zeros(written_until, offset + len, bounce)
    }

    /// Writes zeros from `start` to `end`, looking at the size of the file before each chunk: 4 GiB of them take a while.
    fn fill_with_zeros(&self, start: u64, end: u64, bounce: &mut Bounce) -> Result<(), Failure> {
        let mut at = start;
        while at < end {
            self.check_size()?;
            let chunk = &ZEROS[..ZEROS.len().min(usize::try_from(end - at).unwrap_or(usize::MAX))];
            self.write(at, chunk, false, bounce)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// The whole blocks within a range, as (start, end); start equals end if there are none.
    fn hole_within(&self, offset_bytes: u64, len_bytes: u64) -> (u64, u64) {
        let (align, end) = (self.opened.hole_align_bytes, offset_bytes + len_bytes);
        match offset_bytes.checked_next_multiple_of(align) {
            Some(start) if start <= end - end % align => (start, end - end % align),
            _ => (end, end),
        }
    }

    fn fallocate(&self, mode: FallocateFlags, start: u64, end: u64) -> Result<(), Errno> {
        if start == end {
            return Ok(());
        }
        loop {
            match rustix::fs::fallocate(&self.opened.file, mode | FallocateFlags::KEEP_SIZE, start, end - start) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// Notices that a file was truncated. A block device has no size that could change unseen: its end is met by I/O.
    fn check_size(&self) -> Result<(), Failure> {
        if self.opened.is_device {
            return Ok(());
        }
        // Not by fstat: whoever has seen the times of a file makes the next write change them again, and its inode (ext4, since Linux 6.13).
        // The position of this open file is not used: all transfers have their own, and holes are looked for by the other.
        let end = retry_on_intr(|| rustix::fs::seek(&self.opened.durable, rustix::fs::SeekFrom::End(0)));
        let seen_bytes = end.map_err(|e| self.failed("examine", e))?;
        if seen_bytes < self.opened.size_bytes {
            self.damage(seen_bytes);
            return Err(Failure::Io);
        }
        Ok(())
    }

    /// To be called when a transfer inside the extent met the end of the file.
    pub fn ended_early(&self) -> Failure {
        let seen_bytes = (&self.opened.durable).seek(SeekFrom::End(0)).unwrap_or(0);
        self.damage(seen_bytes);
        Failure::Io
    }

    fn damage(&self, seen_bytes: u64) {
        if let Some(mapped) = self.mapped.get() {
            mapped.give_up();
        }
        if self.state.fetch_or(DAMAGED, Ordering::AcqRel) & DAMAGED == 0 {
            log::error!(
                "{}: truncated while being served: it has {} bytes ({}), {} ({}) were expected. \
                 All requests fail from now on, because the missing part would read as zeros. \
                 Restore the file, then restart the node",
                self.path.display(),
                seen_bytes,
                Bytes(seen_bytes),
                self.opened.size_bytes,
                Bytes(self.opened.size_bytes),
            );
        }
    }

    /// The answer to a failed fdatasync; the failure is permanent.
    pub fn sync_broke(&self, errno: Errno) -> Failure {
        if !self.sync_failed.swap(true, Ordering::AcqRel) {
            if let Some(record) = self.record.get() {
                record.note_failure();
            }
            log::error!("{} ({})", self.sync_trouble().unwrap_or_default(), io::Error::from(errno));
        }
        Failure::Io
    }

    /// The answer to a durable write that failed with `errno`. `None`: repeat it as a plain write followed by fdatasync.
    ///
    /// Lack of space can come from the write itself, which is harmless, or from writeback, which fdatasync then reports. Any
    /// other error may have come from the device.
    pub fn durable_failed(&self, errno: Errno) -> Option<Failure> {
        match errno {
            Errno::NOSPC | Errno::DQUOT => None,
            Errno::FBIG | Errno::PERM | Errno::ACCESS | Errno::ROFS => Some(self.failed("write", errno)),
            _ if unsupported(errno) => {
                self.durable_missing.store(true, Ordering::Relaxed);
                None
            }
            _ => Some(self.sync_broke(errno)),
        }
    }

    /// The answer to an operation that failed with `errno`. Logged the 1st, 2nd, 4th, 8th ... time.
    pub fn failed(&self, action: &str, errno: Errno) -> Failure {
        let failure = failure_of(errno);
        let times = self.failures[failure as usize].fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if times.is_power_of_two() {
            let error = io::Error::from(errno);
            log::warn!("{}: cannot {action}: {error} ({times} such failures so far)", self.path.display());
        }
        failure
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        // Closing is not enough while a process that is being forked has a copy of the descriptor.
        let _ = rustix::fs::flock(&self.opened.file, FlockOperation::Unlock);
    }
}

/// Whether an operation must be on the flash before it is answered.
pub(super) fn is_durable(op: &StoreOp) -> bool {
    op.op.mutates() && op.flags.has(OpFlags::FUA)
}

#[cfg(test)]
#[path = "tests/medium.rs"]
mod tests;
