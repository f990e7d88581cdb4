//! The bytes of an extent, and the system calls that reach them.
//!
//! A [`Store`] is one file or block device with the bare bytes of an extent; everything else about it is beside it, in an
//! [`identity::Identity`]. The caller is an event loop that owns the store: it first tries the page cache
//! ([`Store::try_read`], [`Store::try_writes`]), submits the rest, and is woken when some of it is done. Only [`Store::open`] may block,
//! and [`Store::try_writes`] now and then.
//!
//! The parts: `open` opens, checks and locks; `medium` defines each operation and the effects of its errors; `threads` and
//! `uring` are the two engines that carry operations out; `direct` widens to whole blocks for O_DIRECT; `mapped` answers
//! small reads from a memory mapping; `at_once` says which writes the loop carries out itself; `completions` returns results; `modelled` delays answers as a modelled flash would; `sums` keeps
//! checksums of an extent of a volume with copies; `writeback` has slow flushes make progress; `sync_record` remembers syncs that failed.
//!
//! The store does not order operations: overlapping ones in progress may happen in either order. The caller has to keep them
//! apart, in units of [`Store::alignment_bytes`]. A flush covers operations that were completed before it was submitted.

use std::cell::LazyCell;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use flashmob_core::device_model::DeviceModel;
use flashmob_core::op::Op;
use flashmob_core::units::Time;
use flashmob_core::wire::digest::put_digest_of_zeros;
use flashmob_core::wire::map::put_all_data;

mod at_once;
mod charge;
mod completions;
mod direct;
mod error;
pub mod extent_id;
mod holes;
pub mod identity;
mod mapped;
mod medium;
mod mirror;
mod modelled;
mod open;
mod ownership;
mod permanent;
mod private;
mod process_end;
mod public_key;
mod sealed;
mod spare;
mod stamp;
pub mod sums;
pub mod sync_record;
mod sys;
#[cfg(test)]
pub(crate) mod tests;
mod threads;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod uring;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "uring_absent.rs"]
mod uring;
mod writeback;

use completions::Completions;
pub use error::StoreError;
pub(crate) use error::failure_of;
pub use extent_id::{ExtentId, PlaceInVolume};
pub use flashmob_core::node::{StoreDone, StoreOp, TryRead};
pub use mapped::MappedStatus;
use medium::Medium;
pub(crate) use mirror::forget_mirror;
pub use mirror::{Mirror, MirrorAnswer, read_mirror};
use modelled::Modelled;
pub use modelled::{LATE_NS, ModelStatus};
pub(crate) use open::{sync_parent, take_lock};
pub(crate) use ownership::{Kind, Unusable, keeps_secrets, open_owned, open_owned_folder, overflow_user, read_owned};
pub use ownership::{Unsafe, trouble_of_secret};
pub(crate) use permanent::Permanent;
pub(crate) use private::{create_anew, create_private};
pub use process_end::ProcessEnd;
pub(crate) use process_end::read_process_end;
#[cfg(test)]
pub use public_key::small_order_keys;
pub use public_key::{BadPublicKey, PublicKey, is_of_small_order};
pub(crate) use sealed::{put_file, read_bounded, replace_private, seal, unseal};
pub(crate) use spare::{emptied, is_spare, reserve, spare_path};
pub use stamp::SumsStamp;
use sums::{Sums, SumsError, SumsStatus};
use sync_record::SyncRecord;
use threads::Pool;
use uring::Ring;
use writeback::Writeback;

/// Default number of threads of a store.
pub const THREADS_DEFAULT: usize = 4;

/// How operations that the page cache cannot answer are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// A pool of threads with blocking system calls. Works everywhere.
    #[default]
    Threads,
    /// io_uring: more operations in flight with fewer threads. Only at the user's choice, never probed: Android kills a
    /// process that calls it.
    IoUring,
}

/// Whether small reads that the page cache has may be answered from a memory mapping, without a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Where it is safe and pays, and gives up no check: not of an extent with checksums.
    #[default]
    Auto,
    /// Also of an extent with checksums, though a page that is evicted and comes back between two looks at it is not verified.
    On,
    /// Never.
    Off,
}

/// The file or device to open, and how.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// A file, made if missing, or a block device.
    pub path: PathBuf,
    /// Size of the extent in bytes. Needed to make a file; an existing file must have this size, a device at least this.
    pub size_bytes: Option<u64>,
    /// The file, or device, has a larger size than before, or gets it: see [`Identity::load_or_create`](identity::Identity::load_or_create).
    pub grow: bool,
    /// The data that the identity beside it had is given up, and may be missing.
    pub gives_up: bool,
    /// How many threads carry operations out, 1 to 64.
    pub threads: usize,
    /// How they are carried out.
    pub engine: Engine,
    /// Bypass the page cache (O_DIRECT).
    pub direct: bool,
    /// Whether small reads may be answered from a memory mapping. Never with `direct` or `no_io`.
    pub mapped: Mapping,
    /// Answer everything at once without touching the file: reads give zeros, writes are dropped.
    pub no_io: bool,
    /// Answer with the timing of this flash, never at once. Not with `no_io`.
    pub model: Option<Arc<dyn DeviceModel>>,
}

impl StoreConfig {
    /// Threads, page cache, the size that the file has.
    pub fn new(path: impl Into<PathBuf>) -> StoreConfig {
        StoreConfig {
            path: path.into(),
            size_bytes: None,
            grow: false,
            gives_up: false,
            threads: THREADS_DEFAULT,
            engine: Engine::Threads,
            direct: false,
            mapped: Mapping::Auto,
            no_io: false,
            model: None,
        }
    }
}

/// An open extent. Dropping it carries out submitted operations except those that return data, and waits for
/// them.
#[derive(Debug)]
pub struct Store {
    engine: Running,
    completions: Arc<Completions>,
    medium: Arc<Medium>,
    mapping: Mapping,
}

#[derive(Debug)]
enum Running {
    OnFile(FileEngine),
    NoIo,
    Modelled(Box<Modelled>),
}

/// The engine that carries operations out on the file.
#[derive(Debug)]
enum FileEngine {
    Threads(Pool, usize),
    IoUring(Ring),
}

impl FileEngine {
    fn start(
        config: &StoreConfig,
        medium: &Arc<Medium>,
        completions: &Arc<Completions>,
    ) -> Result<FileEngine, StoreError> {
        Ok(match config.engine {
            Engine::Threads => {
                let pool = Pool::start(Arc::clone(medium), Arc::clone(completions), config.threads)?;
                FileEngine::Threads(pool, config.threads)
            }
            Engine::IoUring if crate::android::is_android() => return Err(StoreError::IoUringOnAndroid),
            Engine::IoUring => FileEngine::IoUring(Ring::start(medium, completions, config.threads)?),
        })
    }

    fn submit(&self, ops: &mut Vec<StoreOp>) {
        match self {
            FileEngine::Threads(pool, _) => pool.submit(ops),
            FileEngine::IoUring(ring) => ring.submit(ops),
        }
    }
}

impl Store {
    /// Opens the extent that `config` describes: makes the file if needed, checks its size, locks it against a
    /// second node, and starts the threads. This may block. [`Store::begin`] comes next.
    ///
    /// Times are counted from `start`. `wake` is called, from any thread, for the first completion after [`Store::take_done`]
    /// had taken all; several completions may share a call.
    pub fn open(
        config: StoreConfig,
        start: Instant,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Store, StoreError> {
        let path: &Path = &config.path;
        let opened = open::open(&config)?;
        let is_plain = !config.direct && !config.no_io && config.model.is_none();
        let mapping = if is_plain { config.mapped } else { Mapping::Off };
        let mut medium = Medium::new(path, opened);
        let completions = Arc::new(Completions::new(start, wake));
        if is_plain {
            let size_bytes = medium.size_bytes();
            medium.write_back_with(Writeback::new(size_bytes, writeback::ahead_bytes(), Arc::clone(&completions)));
        }
        let medium = Arc::new(medium);
        let start_engine = |completions: &Arc<Completions>| FileEngine::start(&config, &medium, completions);
        let engine = match &config.model {
            _ if config.no_io => {
                log::warn!(
                    "{}: --no-io: nothing is read or written; reads return zeros, writes are DROPPED",
                    path.display()
                );
                Running::NoIo
            }
            Some(model) => {
                let engine = Modelled::start(Arc::clone(model), &medium, &completions, start_engine)?;
                let (name, description, seed) = (model.name(), model.description(), model.seed());
                log::warn!("{}: modelled: timing of '{name}' ({description}); random seed {seed}", path.display());
                Running::Modelled(Box::new(engine))
            }
            None => Running::OnFile(start_engine(&completions)?),
        };
        Ok(Store { engine, completions, medium, mapping })
    }

    /// Begins to serve: failed syncs go into `record` from now on. If it has one, what the flash may lack is dropped from memory first, here and
    /// from the file of checksums at `sums_path`, if there is one. To be called before anything else is done with the store. May block.
    pub fn begin(&self, record: SyncRecord, sums_path: Option<&Path>) -> Result<(), StoreError> {
        if record.known().must_drop() && !matches!(self.engine, Running::NoIo) {
            self.medium.drop_cached(&record, sums_path)?;
        }
        self.medium.record_with(record);
        match (self.mapping, sums_path) {
            (Mapping::Off, _) => {}
            (Mapping::Auto, Some(_)) => self.medium.tell_not_mapped(),
            (Mapping::Auto, None) | (Mapping::On, _) => self.medium.map(),
        }
        Ok(())
    }

    /// What is wrong with flushes, with the remedy; `None` if none has failed.
    #[must_use]
    pub fn sync_trouble(&self) -> Option<String> {
        self.medium.sync_trouble()
    }

    /// The boot id that gateways are shown, by a process that began with this start of the device.
    #[must_use]
    pub fn shown_boot_id(&self, start: [u8; 16]) -> [u8; 16] {
        self.medium.record().map_or(start, |record| record.known().shown_boot_id(start))
    }

    /// Flushes everything that is complete. May block. Returns whether all of it is on the flash.
    pub fn sync(&self) -> bool {
        matches!(self.engine, Running::NoIo) || self.medium.sync().is_ok()
    }

    /// Whether a flush that takes long has made progress since the last call.
    #[must_use]
    pub fn take_progress(&self) -> bool {
        self.completions.take_progress()
    }

    /// Bytes of the extent.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.medium.size_bytes()
    }

    /// The unit in which operations conflict, in bytes: 1, or the block size with O_DIRECT.
    ///
    /// Widen the ranges of operations to multiples of it before comparing them. A write that ends within a block reads the
    /// block, changes it and writes it back, which would undo a concurrent write to the same block.
    #[must_use]
    pub fn alignment_bytes(&self) -> u64 {
        self.medium.align_bytes()
    }

    /// Recommended maximum of operations in the store: enough to keep it busy, few enough that the caller can still sort.
    #[must_use]
    pub fn depth(&self) -> usize {
        match &self.engine {
            Running::OnFile(FileEngine::Threads(_, threads)) => 2 * threads,
            Running::OnFile(FileEngine::IoUring(_)) | Running::NoIo => uring::DEPTH,
            Running::Modelled(modelled) => modelled.depth(),
        }
    }

    /// Makes checksums for the extent, in a new file at `path` with this nonce, and keeps them from now on. What the extent holds already
    /// gets them as it is used, 4 MiB at a time. May block.
    pub fn make_sums(&self, path: &Path, extent_id: ExtentId, nonce: ExtentId) -> Result<(), SumsError> {
        let units = LazyCell::new(|| self.medium.units_with_data(sums::format::UNIT_BYTES));
        let has_data = |unit: u64| units.get(unit as usize).copied().unwrap_or(true);
        let sums = Sums::create(path, extent_id, self.size_bytes(), nonce, has_data)?;
        self.keep_sums(sums)
    }

    /// Gives the checksums that were made their name, once the identity has their nonce. May block.
    pub fn place_sums(&self) -> Result<(), SumsError> {
        self.medium.sums().map_or(Ok(()), Sums::put_in_place)
    }

    /// The nonce of the checksums that are kept.
    #[must_use]
    pub fn sums_nonce(&self) -> Option<ExtentId> {
        self.medium.sums().map(Sums::nonce)
    }

    /// Whether there may be room for [`Store::make_sums`].
    pub fn check_room_for_sums(&self, path: &Path) -> Result<(), SumsError> {
        sums::check_room(path, self.size_bytes())
    }

    /// Keeps the checksums of an open file from now on: reads are answered with bytes that match, or with
    /// [`Failure::Corrupt`](flashmob_core::op::Failure::Corrupt). To be called before the first operation. May block.
    pub fn keep_sums(&self, sums: Sums) -> Result<(), SumsError> {
        self.medium.keep_sums(sums, self.mapping == Mapping::On)
    }

    /// Gives the checksums another nonce, on the flash: see [`Sums::renew`]. May block.
    pub fn renew_sums(&self, known: ExtentId, nonce: ExtentId) -> Result<(), SumsError> {
        self.medium.sums().map_or(Ok(()), |sums| sums.renew(known, nonce))
    }

    /// The age of the extent: see [`Sums::age`].
    #[must_use]
    pub fn age(&self) -> Option<(u64, u64)> {
        self.medium.sums().and_then(Sums::age)
    }

    /// Gives the extent another age, on the flash, if it has checksums. May block; for another thread.
    pub fn age_keeper(&self) -> impl Fn((u64, u64)) -> Result<(), SumsError> + Clone + Send + use<> {
        let medium = Arc::clone(&self.medium);
        move |age| medium.sums().map_or(Ok(()), |sums| sums.keep_age(age))
    }

    /// The state of the checksums; `None` without any.
    #[must_use]
    pub fn sums_status(&self) -> Option<SumsStatus> {
        self.medium.sums_status()
    }

    /// Whether the file was found truncated: then everything fails until the store is opened again.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.medium.is_damaged()
    }

    /// Why a power cut may lose what was flushed, if the file system is mounted so.
    #[must_use]
    pub fn flush_warning(&self) -> Option<String> {
        self.medium.flush_warning()
    }

    /// Tells the time, counted from the start that [`Store::open`] was given: at least once per turn of the loop that calls
    /// [`Store::try_read`]. It ages the knowledge about the page cache; without it every read is a system call.
    pub fn tick(&self, now: Time) {
        if let Some(mapped) = self.medium.mapped() {
            mapped.tick(now);
        }
    }

    /// Statistics of the memory mapping; `None` without one.
    #[must_use]
    pub fn mapped_status(&self) -> Option<MappedStatus> {
        self.medium.mapped().map(mapped::Mapped::status)
    }

    /// Whether everything takes as long as a modelled flash says.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        matches!(self.engine, Running::Modelled(_))
    }

    /// Statistics of the modelled flash; `None` without one.
    #[must_use]
    pub fn model_status(&self) -> Option<ModelStatus> {
        match &self.engine {
            Running::Modelled(modelled) => Some(modelled.status()),
            _ => None,
        }
    }

    /// A hint that [`Store::try_read`] will soon be asked for `offset_bytes`: if it is mapped, the processor fetches its first
    /// bytes meanwhile. For a batch, hint a few reads ahead.
    #[inline]
    pub fn prefetch(&self, offset_bytes: u64) {
        if let Some(mapped) = self.medium.mapped() {
            mapped.prefetch(offset_bytes);
        }
    }

    /// Reads `buf.len()` bytes at `offset_bytes` if the page cache has all of them: from memory if they are known to be there,
    /// else by a system call that does not wait. Never waits for the device.
    #[inline]
    pub fn try_read(&self, offset_bytes: u64, buf: &mut [u8]) -> TryRead {
        if self.medium.read_mapped(offset_bytes, buf) {
            return TryRead::Hit;
        }
        let result = self.try_read_vectored(offset_bytes, &mut [IoSliceMut::new(buf)]);
        if let Some(mapped) = self.medium.mapped() {
            match result {
                TryRead::Hit => mapped.note(offset_bytes, buf.len(), true),
                // Without RWF_NOWAIT (old kernels and file systems, Android) the mapping is the only way to find out.
                TryRead::Miss if self.medium.lacks_nowait() => mapped.note(offset_bytes, buf.len(), false),
                TryRead::Miss | TryRead::Failed(_) => {}
            }
        }
        result
    }

    /// Like [`Store::try_read`], for neighbours that lie one after the other; at most 1,024 of them can be a hit.
    pub fn try_read_vectored(&self, offset_bytes: u64, bufs: &mut [IoSliceMut<'_>]) -> TryRead {
        match self.engine {
            Running::NoIo => {
                bufs.iter_mut().for_each(|buf| buf.fill(0));
                TryRead::Hit
            }
            Running::Modelled(_) => TryRead::Miss,
            Running::OnFile(_) => self.medium.read_cached(offset_bytes, bufs),
        }
    }

    /// A turn of the loop has ended: in the next one [`Store::try_writes`] has its full time again.
    pub fn end_turn(&mut self) {
        if let Running::OnFile(FileEngine::Threads(pool, _)) = &mut self.engine {
            pool.end_turn();
        }
    }

    /// Writes into the page cache in the calling thread, while that is not likely to block. Each item is an offset and its bytes. Returns how
    /// many are written, from the first on. See `at_once`.
    pub fn try_writes<'a>(&mut self, writes: impl Iterator<Item = (u64, &'a [u8])>) -> usize {
        match &mut self.engine {
            Running::OnFile(FileEngine::Threads(pool, _)) => pool.write_at_once(writes),
            _ => 0,
        }
    }

    /// Submits all of `ops` in their order, and leaves it empty. Never waits for the device.
    pub fn submit(&mut self, ops: &mut Vec<StoreOp>) {
        match &mut self.engine {
            Running::Modelled(modelled) => modelled.submit(ops),
            Running::NoIo => {
                for mut op in ops.drain(..) {
                    match op.op {
                        Op::Read => op.data.fill(0),
                        Op::Map => put_all_data(&mut op.data, op.len_bytes),
                        Op::Digest => put_digest_of_zeros(&mut op.data),
                        Op::Write | Op::Flush | Op::Trim | Op::WriteZeroes => {}
                    }
                    self.completions.push(op, Ok(()), self.completions.now_nanos());
                }
            }
            Running::OnFile(engine) => engine.submit(ops),
        }
    }

    /// Moves all completions so far to the end of `done`.
    pub fn take_done(&mut self, done: &mut Vec<StoreDone>) {
        self.completions.take(done);
    }
}
