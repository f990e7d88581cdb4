//! The calls of the VFS itself.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_vfs};

use super::{Context, file};
use crate::notes::now_ns;
use crate::report::{CallKind, FileKind};

/// Highest VFS version that is supported.
const VERSION: c_int = 3;

/// A VFS in front of `below`: exactly the methods that `below` has.
pub(super) fn before(below: &sqlite3_vfs, name: *const c_char, context: *mut c_void) -> sqlite3_vfs {
    // Fields of later versions are read only if they exist.
    let (has_2, has_3) = (below.iVersion >= 2, below.iVersion >= 3);
    sqlite3_vfs {
        iVersion: below.iVersion.min(VERSION),
        szOsFile: file::SIZE_BYTES + below.szOsFile,
        mxPathname: below.mxPathname,
        pNext: ptr::null_mut(),
        zName: name,
        pAppData: context,
        xOpen: Some(open),
        xDelete: below.xDelete.and(Some(delete)),
        xAccess: below.xAccess.and(Some(access)),
        xFullPathname: below.xFullPathname.and(Some(full_pathname)),
        xDlOpen: below.xDlOpen.and(Some(dl_open)),
        xDlError: below.xDlError.and(Some(dl_error)),
        xDlSym: below.xDlSym.and(Some(dl_sym)),
        xDlClose: below.xDlClose.and(Some(dl_close)),
        xRandomness: below.xRandomness.and(Some(randomness)),
        xSleep: below.xSleep.and(Some(sleep)),
        xCurrentTime: below.xCurrentTime.and(Some(current_time)),
        xGetLastError: below.xGetLastError.and(Some(last_error)),
        xCurrentTimeInt64: if has_2 { below.xCurrentTimeInt64.and(Some(current_time_int64)) } else { None },
        xSetSystemCall: if has_3 { below.xSetSystemCall.and(Some(set_system_call)) } else { None },
        xGetSystemCall: if has_3 { below.xGetSystemCall.and(Some(system_call)) } else { None },
        xNextSystemCall: if has_3 { below.xNextSystemCall.and(Some(next_system_call)) } else { None },
    }
}

/// # Safety
/// `vfs` must have been made by [`before`], and still be registered.
unsafe fn context<'a>(vfs: *mut sqlite3_vfs) -> &'a Context {
    // SAFETY: by this function's contract; `before` put it there.
    unsafe { &*(*vfs).pAppData.cast::<Context>() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with our VFS and with `szOsFile` bytes for the file; the underlying one gets its own pointer, after our bytes.
    unsafe {
        let context = context(vfs);
        let below = file::below(file);
        (*file).pMethods = ptr::null();
        (*below).pMethods = ptr::null();
        let Some(open) = (*context.below).xOpen else { return ffi::SQLITE_CANTOPEN };
        let begin_ns = now_ns();
        let status = open(context.below, name, below, flags, out_flags);
        let end_ns = now_ns();
        if (*below).pMethods.is_null() {
            // It need not be closed, so ours need not be either.
            return status;
        }
        let path = if name.is_null() { c"(temporary)" } else { CStr::from_ptr(name) };
        let index = match status {
            ffi::SQLITE_OK => context.notes.opened(path, kind(flags), begin_ns, end_ns),
            _ => None,
        };
        file::begin(file, &context.notes, index, name);
        status
    }
}

fn kind(flags: c_int) -> FileKind {
    match flags {
        _ if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 => FileKind::Database,
        _ if flags & ffi::SQLITE_OPEN_MAIN_JOURNAL != 0 => FileKind::Journal,
        _ if flags & ffi::SQLITE_OPEN_WAL != 0 => FileKind::Wal,
        _ => FileKind::Other,
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite calls with our VFS and a name that ends with a NUL.
    unsafe {
        let context = context(vfs);
        let Some(delete) = (*context.below).xDelete else { return ffi::SQLITE_IOERR_DELETE };
        let begin_ns = now_ns();
        let status = delete(context.below, name, sync_folder);
        let file = if name.is_null() { None } else { context.notes.file_of(CStr::from_ptr(name)) };
        context.notes.call(CallKind::Delete, file, None, 0, begin_ns);
        status
    }
}

unsafe extern "C" fn access(vfs: *mut sqlite3_vfs, name: *const c_char, flags: c_int, result: *mut c_int) -> c_int {
    // SAFETY: SQLite calls with our VFS and arguments for the underlying one.
    unsafe {
        let context = context(vfs);
        let Some(access) = (*context.below).xAccess else { return ffi::SQLITE_IOERR_ACCESS };
        let begin_ns = now_ns();
        let status = access(context.below, name, flags, result);
        context.notes.call(CallKind::Access, None, None, 0, begin_ns);
        status
    }
}

/// Forwards calls that are not recorded.
macro_rules! hand_on {
    ($($name:ident = $method:ident($($argument:ident: $of:ty),*) -> $back:ty, else $otherwise:expr;)*) => { $(
        unsafe extern "C" fn $name(vfs: *mut sqlite3_vfs, $($argument: $of),*) -> $back {
            // SAFETY: SQLite calls with our VFS and arguments for the underlying one.
            unsafe {
                let below = context(vfs).below;
                match (*below).$method {
                    Some(method) => method(below, $($argument),*),
                    None => $otherwise,
                }
            }
        }
    )* };
}

/// SQLite's type of a library's function.
type Symbol = Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)>;

hand_on! {
    full_pathname = xFullPathname(name: *const c_char, bytes: c_int, out: *mut c_char) -> c_int, else ffi::SQLITE_CANTOPEN;
    dl_open = xDlOpen(name: *const c_char) -> *mut c_void, else ptr::null_mut();
    dl_error = xDlError(bytes: c_int, message: *mut c_char) -> (), else {};
    dl_sym = xDlSym(library: *mut c_void, symbol: *const c_char) -> Symbol, else None;
    dl_close = xDlClose(library: *mut c_void) -> (), else {};
    randomness = xRandomness(bytes: c_int, out: *mut c_char) -> c_int, else 0;
    sleep = xSleep(microseconds: c_int) -> c_int, else 0;
    current_time = xCurrentTime(out: *mut f64) -> c_int, else ffi::SQLITE_ERROR;
    last_error = xGetLastError(bytes: c_int, message: *mut c_char) -> c_int, else 0;
    current_time_int64 = xCurrentTimeInt64(out: *mut sqlite3_int64) -> c_int, else ffi::SQLITE_ERROR;
    set_system_call = xSetSystemCall(name: *const c_char, call: ffi::sqlite3_syscall_ptr) -> c_int, else ffi::SQLITE_NOTFOUND;
    system_call = xGetSystemCall(name: *const c_char) -> ffi::sqlite3_syscall_ptr, else None;
    next_system_call = xNextSystemCall(name: *const c_char) -> *const c_char, else ptr::null();
}
