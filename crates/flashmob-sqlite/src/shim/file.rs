//! The calls of one open file.

use std::ffi::{CStr, c_char, c_int, c_void};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods};

use crate::notes::{Notes, now_ns};
use crate::report::{CallKind, FileKind};

/// Highest version of the methods that is supported.
const VERSION: c_int = 3;
/// SQLite's suffix for shared memory, which its VFS opens without a call to the shim.
const SHARED_MEMORY: &[u8] = b"-shm";

/// SQLite's file object. That of the underlying VFS follows directly.
// SQLite aligns files to 8 bytes and no further, on all machines.
#[repr(C, align(8))]
struct File {
    base: sqlite3_file,
    /// With the capabilities of the underlying file, which differ between files of one VFS.
    methods: sqlite3_io_methods,
    notes: *const Notes,
    /// Its index in the notes; absent if there was no memory.
    index: Option<u32>,
    /// The index of the shared memory beside it, once it exists.
    shared: Option<u32>,
    /// Its path, which SQLite keeps for as long as the file is open; NULL for temporary ones.
    name: *const c_char,
}

/// Bytes needed before the underlying file.
pub(super) const SIZE_BYTES: c_int = size_of::<File>() as c_int;

/// The underlying VFS's file.
///
/// # Safety
/// `file` must have room for our object and the underlying one, as SQLite allocates it by `szOsFile`.
pub(super) unsafe fn below(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: these bytes belong to it, by this function's contract.
    unsafe { file.byte_add(size_of::<File>()) }
}

/// Makes `file` ours, after the underlying one was opened.
///
/// # Safety
/// As for [`below`], whose methods must be set; `notes` and `name` must stay valid until the file is closed.
pub(super) unsafe fn begin(file: *mut sqlite3_file, notes: *const Notes, index: Option<u32>, name: *const c_char) {
    // SAFETY: by this function's contract; only this code writes our part of the memory, and SQLite does not move it.
    unsafe {
        let methods = before(&*(*below(file)).pMethods);
        let own = file.cast::<File>();
        own.write(File {
            base: sqlite3_file { pMethods: std::ptr::null() },
            methods,
            notes,
            index,
            shared: None,
            name,
        });
        (*own).base.pMethods = &raw const (*own).methods;
    }
}

/// Methods in front of `below`: exactly those that `below` has.
fn before(below: &sqlite3_io_methods) -> sqlite3_io_methods {
    // Fields of later versions are read only if they exist.
    let (has_2, has_3) = (below.iVersion >= 2, below.iVersion >= 3);
    sqlite3_io_methods {
        iVersion: below.iVersion.min(VERSION),
        xClose: Some(close),
        xRead: below.xRead.and(Some(read)),
        xWrite: below.xWrite.and(Some(write)),
        xTruncate: below.xTruncate.and(Some(truncate)),
        xSync: below.xSync.and(Some(sync)),
        xFileSize: below.xFileSize.and(Some(file_size)),
        xLock: below.xLock.and(Some(lock)),
        xUnlock: below.xUnlock.and(Some(unlock)),
        xCheckReservedLock: below.xCheckReservedLock.and(Some(check_reserved_lock)),
        xFileControl: below.xFileControl.and(Some(file_control)),
        xSectorSize: below.xSectorSize.and(Some(sector_size)),
        xDeviceCharacteristics: below.xDeviceCharacteristics.and(Some(device_characteristics)),
        xShmMap: if has_2 { below.xShmMap.and(Some(shm_map)) } else { None },
        xShmLock: if has_2 { below.xShmLock.and(Some(shm_lock)) } else { None },
        xShmBarrier: if has_2 { below.xShmBarrier.and(Some(shm_barrier)) } else { None },
        xShmUnmap: if has_2 { below.xShmUnmap.and(Some(shm_unmap)) } else { None },
        xFetch: if has_3 { below.xFetch.and(Some(fetch)) } else { None },
        xUnfetch: if has_3 { below.xUnfetch.and(Some(unfetch)) } else { None },
    }
}

/// # Safety
/// `file` must be one that [`begin`] made ours.
unsafe fn note(file: *mut sqlite3_file, kind: CallKind, offset: Option<i64>, bytes: i64, begin_ns: u64) {
    // SAFETY: by this function's contract; the notes exist until all files are closed.
    unsafe {
        let own = file.cast::<File>();
        (*(*own).notes).call(kind, (*own).index, offset, bytes, begin_ns);
    }
}

/// Forwards calls, and records those that have a kind.
macro_rules! hand_on {
    ($($name:ident = $method:ident($($argument:ident: $of:ty),*) -> $back:ty, else $otherwise:expr
        $(, noted as $kind:ident at $offset:expr, $bytes:expr)?;)*) => { $(
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($argument: $of),*) -> $back {
            // SAFETY: SQLite calls with a file that `begin` made ours, so the underlying one is open and has methods.
            unsafe {
                let below = below(file);
                let Some(method) = (*(*below).pMethods).$method else { return $otherwise };
                $(let (begin_ns, offset, bytes) = (now_ns(), $offset, i64::from($bytes));)?
                let back = method(below, $($argument),*);
                $(note(file, CallKind::$kind, offset, bytes, begin_ns);)?
                back
            }
        }
    )* };
}

hand_on! {
    read = xRead(to: *mut c_void, bytes: c_int, at: sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_READ, noted as Read at Some(at), bytes;
    write = xWrite(from: *const c_void, bytes: c_int, at: sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_WRITE, noted as Write at Some(at), bytes;
    truncate = xTruncate(at: sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_TRUNCATE, noted as Truncate at Some(at), 0;
    sync = xSync(flags: c_int) -> c_int, else ffi::SQLITE_IOERR_FSYNC, noted as Sync at None, 0;
    file_size = xFileSize(out: *mut sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_FSTAT, noted as Size at None, 0;
    lock = xLock(level: c_int) -> c_int, else ffi::SQLITE_IOERR_LOCK, noted as Lock at None, 0;
    unlock = xUnlock(level: c_int) -> c_int, else ffi::SQLITE_IOERR_UNLOCK, noted as Unlock at None, 0;
    check_reserved_lock = xCheckReservedLock(out: *mut c_int) -> c_int, else ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    file_control = xFileControl(operation: c_int, argument: *mut c_void) -> c_int, else ffi::SQLITE_NOTFOUND;
    sector_size = xSectorSize() -> c_int, else 0;
    device_characteristics = xDeviceCharacteristics() -> c_int, else 0;
    fetch = xFetch(at: sqlite3_int64, bytes: c_int, out: *mut *mut c_void) -> c_int, else ffi::SQLITE_IOERR_MMAP;
    unfetch = xUnfetch(at: sqlite3_int64, memory: *mut c_void) -> c_int, else ffi::SQLITE_IOERR_MMAP;
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls with a file that `begin` made ours, and does not use it afterwards.
    unsafe {
        let own = file.cast::<File>();
        let below = below(file);
        let Some(close) = (*(*below).pMethods).xClose else { return ffi::SQLITE_IOERR_CLOSE };
        let begin_ns = now_ns();
        let status = close(below);
        (*(*own).notes).closed((*own).index, begin_ns);
        status
    }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    page: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls with a file that `begin` made ours, so the underlying one is open and has methods.
    unsafe {
        let own = file.cast::<File>();
        let below = below(file);
        let Some(map) = (*(*below).pMethods).xShmMap else { return ffi::SQLITE_IOERR_SHMMAP };
        let begin_ns = now_ns();
        let status = map(below, page, bytes, extend, out);
        if (*own).shared.is_none() && status == ffi::SQLITE_OK && !(*own).name.is_null() {
            (*own).shared = shared_memory(&*(*own).notes, CStr::from_ptr((*own).name), begin_ns);
        }
        (*(*own).notes).call(CallKind::SharedMap, (*own).shared, None, 0, begin_ns);
        status
    }
}

/// The shared-memory file of a database.
fn shared_memory(notes: &Notes, database: &CStr, begin_ns: u64) -> Option<u32> {
    let path = std::ffi::CString::new([database.to_bytes(), SHARED_MEMORY].concat()).ok()?;
    notes.opened(&path, FileKind::SharedMemory, begin_ns, begin_ns)
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: as for `shm_map`.
    unsafe {
        let own = file.cast::<File>();
        let below = below(file);
        let Some(lock) = (*(*below).pMethods).xShmLock else { return ffi::SQLITE_IOERR_SHMLOCK };
        let begin_ns = now_ns();
        let status = lock(below, offset, count, flags);
        (*(*own).notes).call(CallKind::SharedLock, (*own).shared, None, 0, begin_ns);
        status
    }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: as for `shm_map`.
    unsafe {
        let below = below(file);
        if let Some(barrier) = (*(*below).pMethods).xShmBarrier {
            barrier(below);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: as for `shm_map`.
    unsafe {
        let own = file.cast::<File>();
        let below = below(file);
        let Some(unmap) = (*(*below).pMethods).xShmUnmap else { return ffi::SQLITE_OK };
        let status = unmap(below, delete);
        // It is opened again when it is next needed.
        (*own).shared = None;
        status
    }
}
