//! The records of hooks and shim.
//!
//! Both are called during the measurement: there is no lock, no panic and, as long as the reserved memory suffices, no allocation.

use std::cell::RefCell;
use std::ffi::{CStr, CString};

use crate::report::{Call, CallKind, FileKind, OpenFile};

/// Calls per INSERT, with a margin: DELETE with FULL has about 40.
const CALLS_EACH: u64 = 64;
/// Most calls that memory is reserved for; beyond that it is allocated on demand.
const CALLS_MAX: u64 = 2_000_000;
/// Files that are open at once, besides one journal for each INSERT.
const FILES_BESIDES: usize = 16;
/// An index that stands for no file.
const NO_FILE: u32 = u32::MAX;

pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the result. This clock always exists, so the call does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A recorded call: smaller than [`Call`].
#[derive(Clone, Copy)]
struct Note {
    begin_ns: u64,
    end_ns: u64,
    /// -1: none.
    offset: i64,
    bytes: u32,
    file: u32,
    kind: CallKind,
}

struct File {
    /// Index of `paths`: journals share one path.
    path: usize,
    kind: FileKind,
    device: u64,
    inode: u64,
    opened_ns: u64,
    closed_ns: Option<u64>,
}

#[derive(Default)]
struct Inner {
    calls: Vec<Note>,
    files: Vec<File>,
    paths: Vec<CString>,
    missed: u64,
    statement_begin_ns: u64,
    commit_begin_ns: Option<u64>,
}

/// The records of one thread: SQLite calls back on the thread that calls it.
pub(crate) struct Notes(RefCell<Inner>);

impl Notes {
    /// Reserves memory for this many INSERTs.
    pub fn new(inserts: u64) -> Notes {
        let mut inner = Inner::default();
        let calls = inserts.saturating_mul(CALLS_EACH).min(CALLS_MAX) as usize;
        let files = inserts.min(CALLS_MAX) as usize + FILES_BESIDES;
        let nothing = Note { begin_ns: 0, end_ns: 0, offset: -1, bytes: 0, file: NO_FILE, kind: CallKind::Statement };
        // Filled and emptied, because the kernel allocates pages on their first write, which must not be during an INSERT.
        if inner.calls.try_reserve(calls).is_ok() {
            inner.calls.resize(calls, nothing);
            inner.calls.clear();
        }
        // If this fails, memory may be available later; calls that cannot be recorded are counted.
        let _ = inner.files.try_reserve(files);
        Notes(RefCell::new(inner))
    }

    pub fn call(&self, kind: CallKind, file: Option<u32>, offset: Option<i64>, bytes: i64, begin_ns: u64) {
        let note = Note {
            begin_ns,
            end_ns: now_ns(),
            offset: offset.unwrap_or(-1),
            bytes: u32::try_from(bytes).unwrap_or(0),
            file: file.unwrap_or(NO_FILE),
            kind,
        };
        self.with(|inner| inner.note(note));
    }

    /// Records that a file was opened between these times; returns its index.
    pub fn opened(&self, path: &CStr, kind: FileKind, begin_ns: u64, end_ns: u64) -> Option<u32> {
        let (device, inode) = identity(path);
        self.with(|inner| {
            let path = inner.path(path)?;
            let index = u32::try_from(inner.files.len()).ok().filter(|index| *index != NO_FILE)?;
            inner.files.try_reserve(1).ok()?;
            inner.files.push(File { path, kind, device, inode, opened_ns: begin_ns, closed_ns: None });
            if kind != FileKind::SharedMemory {
                inner.note(Note { begin_ns, end_ns, offset: -1, bytes: 0, file: index, kind: CallKind::Open });
            }
            Some(index)
        })
        .flatten()
    }

    pub fn closed(&self, file: Option<u32>, begin_ns: u64) {
        self.call(CallKind::Close, file, None, 0, begin_ns);
        let Some(file) = file else { return };
        self.with(|inner| {
            if let Some(file) = inner.files.get_mut(file as usize) {
                file.closed_ns = Some(begin_ns);
            }
        });
    }

    /// The last file that was opened with this path.
    pub fn file_of(&self, path: &CStr) -> Option<u32> {
        self.with(|inner| {
            let path = inner.paths.iter().position(|known| known.as_c_str() == path)?;
            inner.files.iter().rposition(|file| file.path == path).map(|index| index as u32)
        })
        .flatten()
    }

    pub fn statement_begins(&self) {
        self.with(|inner| {
            inner.statement_begin_ns = now_ns();
            inner.commit_begin_ns = None;
        });
    }

    /// Records the begin of a commit.
    pub fn commit_begins(&self) {
        self.with(|inner| inner.commit_begin_ns = Some(now_ns()));
    }

    /// Records the end of a statement, and of the commit within it.
    pub fn statement_ends(&self) {
        self.with(|inner| {
            let end_ns = now_ns();
            let note = |kind, begin_ns| Note { begin_ns, end_ns, offset: -1, bytes: 0, file: NO_FILE, kind };
            if let Some(begin_ns) = inner.commit_begin_ns.take() {
                inner.note(note(CallKind::Commit, begin_ns));
            }
            inner.note(note(CallKind::Statement, inner.statement_begin_ns));
        });
    }

    /// Discards the calls so far, which were preparation. Files are kept.
    pub fn forget_calls(&self) {
        self.with(|inner| inner.calls.clear());
    }

    /// All records: calls in the order of their begins, files, and the number of missing calls.
    pub fn told(&self) -> (Vec<Call>, Vec<OpenFile>, u64) {
        self.with(|inner| {
            let mut calls: Vec<Call> = inner.calls.iter().map(Note::call).collect();
            // An outer call comes before those within it.
            calls.sort_by_key(|call| (call.begin_ns, std::cmp::Reverse(call.end_ns)));
            let path = |index: usize| inner.paths.get(index).map_or(String::new(), |p| p.to_string_lossy().into());
            let file = |file: &File| OpenFile {
                path: path(file.path),
                kind: file.kind,
                device: file.device,
                inode: file.inode,
                opened_ns: file.opened_ns,
                closed_ns: file.closed_ns,
            };
            (calls, inner.files.iter().map(file).collect(), inner.missed)
        })
        .unwrap_or_default()
    }

    /// It is never borrowed twice; if it were, nothing would be recorded, in place of a panic.
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> Option<T> {
        self.0.try_borrow_mut().ok().map(|mut inner| work(&mut inner))
    }
}

impl Inner {
    fn note(&mut self, note: Note) {
        if self.calls.len() == self.calls.capacity() && self.calls.try_reserve(self.calls.len().max(1)).is_err() {
            self.missed += 1;
            return;
        }
        self.calls.push(note);
    }

    fn path(&mut self, path: &CStr) -> Option<usize> {
        if let Some(known) = self.paths.iter().position(|known| known.as_c_str() == path) {
            return Some(known);
        }
        self.paths.try_reserve(1).ok()?;
        self.paths.push(path.into());
        Some(self.paths.len() - 1)
    }
}

impl Note {
    fn call(&self) -> Call {
        Call {
            kind: self.kind,
            file: (self.file != NO_FILE).then_some(self.file),
            offset: u64::try_from(self.offset).ok(),
            bytes: self.bytes.into(),
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
        }
    }
}

/// Device and inode of this path now; zeros if not known.
fn identity(path: &CStr) -> (u64, u64) {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `path` ends with a NUL, and `status` is large enough for the result.
    if unsafe { libc::stat(path.as_ptr(), status.as_mut_ptr()) } != 0 {
        return (0, 0);
    }
    // SAFETY: the call succeeded, so it wrote all of it.
    let status = unsafe { status.assume_init() };
    // Field widths differ between systems.
    #[allow(clippy::unnecessary_cast)]
    (status.st_dev as u64, status.st_ino as u64)
}
