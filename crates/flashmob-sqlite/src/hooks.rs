//! SQLite's own hooks: begin and end of statements, begin of commits.

use std::ffi::{c_int, c_uint, c_void};

use rusqlite::{Connection, ffi};

use crate::notes::Notes;

/// Makes `connection` record its statements and commits in `notes`.
///
/// # Safety
/// `notes` must not move until the connection is closed, and only the thread that uses `notes` may use the connection.
pub(crate) unsafe fn watch(connection: &Connection, notes: *const Notes) -> bool {
    let mask = (ffi::SQLITE_TRACE_STMT | ffi::SQLITE_TRACE_PROFILE) as c_uint;
    // SAFETY: the connection is open; by this function's contract `notes` outlives the hooks that get it.
    unsafe {
        let handle = connection.handle();
        ffi::sqlite3_commit_hook(handle, Some(commits), notes.cast_mut().cast());
        ffi::sqlite3_trace_v2(handle, mask, Some(traces), notes.cast_mut().cast()) == ffi::SQLITE_OK
    }
}

unsafe extern "C" fn traces(event: c_uint, context: *mut c_void, _: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: the context is the pointer given to `watch`, still valid by its contract.
    let notes = unsafe { &*context.cast::<Notes>() };
    if event == ffi::SQLITE_TRACE_STMT as c_uint {
        notes.statement_begins();
    } else {
        notes.statement_ends();
    }
    0
}

unsafe extern "C" fn commits(context: *mut c_void) -> c_int {
    // SAFETY: as in `traces`.
    unsafe { &*context.cast::<Notes>() }.commit_begins();
    // Any other value would turn the commit into a rollback.
    0
}
