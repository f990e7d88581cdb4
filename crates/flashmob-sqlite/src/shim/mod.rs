//! A VFS in front of SQLite's own that records each call and forwards it unchanged.
//!
//! It has exactly the capabilities of the underlying VFS (versions, shared memory, memory mapping), and returns results unchanged. It must
//! not panic, because a panic must not cross C.

mod file;
mod vfs;

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi;

use crate::Error;
use crate::notes::Notes;

/// Registered under a unique name until it is dropped. Connections that use it must be closed before.
pub(crate) struct Shim {
    name: CString,
    vfs: *mut ffi::sqlite3_vfs,
    context: *mut Context,
}

struct Context {
    below: *mut ffi::sqlite3_vfs,
    notes: Notes,
}

impl Shim {
    pub fn register(notes: Notes) -> Result<Shim, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("flashmob-{number}")).map_err(|_| Error::Shim("its name"))?;
        // SAFETY: NULL asks for the default VFS, which exists as long as the process does.
        let below = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        if below.is_null() {
            return Err(Error::Shim("there is no VFS to put it before"));
        }
        let context = Box::into_raw(Box::new(Context { below, notes }));
        // SAFETY: `below` was returned by SQLite and is not NULL.
        let vfs = Box::into_raw(Box::new(vfs::before(unsafe { &*below }, name.as_ptr(), context.cast())));
        let shim = Shim { name, vfs, context };
        // SAFETY: `vfs` and everything that it points to stay in place until `drop`, which unregisters it.
        if unsafe { ffi::sqlite3_vfs_register(shim.vfs, 0) } != ffi::SQLITE_OK {
            return Err(Error::Shim("it was refused"));
        }
        Ok(shim)
    }

    pub fn name(&self) -> &CStr {
        &self.name
    }

    pub fn notes(&self) -> &Notes {
        // SAFETY: only `drop` frees it, and there is no mutable reference to it.
        unsafe { &(*self.context).notes }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // SAFETY: no connection uses it any more, as this type requires, so nothing else has either pointer; both came from boxes.
        unsafe {
            ffi::sqlite3_vfs_unregister(self.vfs);
            drop(Box::from_raw(self.vfs));
            drop(Box::from_raw(self.context));
        }
    }
}
