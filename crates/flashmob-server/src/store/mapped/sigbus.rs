//! Handling of mapped pages that are not readable: the file was truncated, or its device failed.
//!
//! The kernel then sends SIGBUS to the thread that touched the page. The handler here looks whether the address lies in
//! one of our mappings. If so it puts empty memory in the place of the **whole** mapping, so that the copy can run to its
//! end, and marks the mapping as struck; the reader sees the mark before it believes a byte. Any other SIGBUS goes to
//! whoever handled it before, which for most programs means that it ends the process.
//!
//! The table is static and lock-free, for the handler may run at any instruction. The handler does nothing but atomic
//! loads, stores and `mmap`, a bare system call. `signal-hook` does not fit: it runs the earlier handler first, always,
//! and the one that Rust's runtime installs gives the process up.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

/// Maximum number of mappings: more than a gateway has local extents. Further extents are not mapped.
const ENTRIES: usize = 256;
/// Stands in `start` while an entry is being filled; no mapping begins there.
const RESERVED: usize = 1;

/// One mapping that the handler answers for. It matches nothing while `end` is 0.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    struck: AtomicBool,
}

#[allow(clippy::declare_interior_mutable_const, reason = "the initial value of each entry")]
const EMPTY: Entry = Entry { start: AtomicUsize::new(0), end: AtomicUsize::new(0), struck: AtomicBool::new(false) };
static TABLE: [Entry; ENTRIES] = [EMPTY; ENTRIES];

/// The previous action for SIGBUS.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
/// Whether the handler stands, decided once for the process.
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

/// A mapping's place in the table. Give it up before the memory is unmapped.
#[derive(Debug)]
pub(super) struct Guard(usize);

impl Guard {
    /// Answers for `len_bytes` of mapped memory at `start` from now on.
    pub fn new(start: usize, len_bytes: usize) -> io::Result<Guard> {
        if is_blocked()? {
            return Err(io::Error::other("SIGBUS is blocked in this thread"));
        }
        (*INSTALLED.get_or_init(install)).map_err(io::Error::from_raw_os_error)?;
        let claim =
            |entry: &&Entry| entry.start.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let index = TABLE
            .iter()
            .position(|entry| claim(&entry))
            .ok_or_else(|| io::Error::other(format!("{ENTRIES} files are mapped already")))?;
        let entry = &TABLE[index];
        entry.struck.store(false, Ordering::Relaxed);
        entry.start.store(start, Ordering::Relaxed);
        entry.end.store(start + len_bytes, Ordering::Release);
        Ok(Guard(index))
    }

    /// Whether a page could not be had: what was copied since the mapping was made may be empty memory.
    #[inline]
    pub fn is_struck(&self) -> bool {
        TABLE[self.0].struck.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let entry = &TABLE[self.0];
        entry.end.store(0, Ordering::Release);
        entry.start.store(0, Ordering::Release);
    }
}

/// Whether this thread, and those it starts, would be killed by a fault instead of being asked.
fn is_blocked() -> io::Result<bool> {
    // SAFETY: an all-zero sigset_t is a valid place for the kernel to write to, and a null set changes nothing.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        match libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set) {
            0 => Ok(libc::sigismember(&set, libc::SIGBUS) == 1),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn install() -> Result<(), i32> {
    let last_errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    // SAFETY: both structures are valid for the calls; all-zero is a valid sigaction. The handler keeps to what may be
    // done in one: see `on_sigbus`. What was there before is known before it can be asked for.
    unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut previous) != 0 {
            return Err(last_errno());
        }
        PREVIOUS.get_or_init(|| previous);
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_sigbus;
        action.sa_sigaction = handler as usize;
        // On the alternate stack where the thread has one: an overflow of the stack may end here as well.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) != 0 {
            return Err(last_errno());
        }
    }
    Ok(())
}

/// The handler. Only what is safe in one: atomics, `mmap`, `sigaction`, `raise`; no locks, no memory from the heap.
extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo_t with SA_SIGINFO. `si_addr` means something for faults only, whose code
    // is above 0.
    unsafe {
        let code = (*info).si_code;
        if code > 0 && rescue((*info).si_addr() as usize) {
            return;
        }
        pass_on(signal, code, info, context);
    }
}

/// Puts empty memory in the place of the mapping that `address` lies in. False: in none, or it could not be done.
fn rescue(address: usize) -> bool {
    for entry in &TABLE {
        let end = entry.end.load(Ordering::Acquire);
        let start = entry.start.load(Ordering::Relaxed);
        if start <= address && address < end {
            // The mark first: as soon as there is memory to read, its contents are invalid.
            entry.struck.store(true, Ordering::SeqCst);
            // SAFETY: the range is one of our own mappings, alive while its entry is (the faulting reader holds it), so
            // no other memory is replaced. errno belongs to the code that was interrupted.
            unsafe {
                let errno = errno_location();
                let saved = *errno;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
                let new = libc::mmap(start as *mut c_void, end - start, libc::PROT_READ, flags, -1, 0);
                *errno = saved;
                return new != libc::MAP_FAILED;
            }
        }
    }
    false
}

/// Does what would have been done without us.
///
/// # Safety
/// `info` and `context` must be what the kernel passed to the handler.
unsafe fn pass_on(signal: c_int, code: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // What faulted faults again when the handler returns; a signal that was sent, or tells of a page nobody
    // has touched, has to be raised anew.
    let faults_again = code > 0 && code != libc::BUS_MCEERR_AO;
    let previous = PREVIOUS.get();
    let action = previous.map_or(libc::SIG_DFL, |p| p.sa_sigaction);
    // SAFETY: a value that is neither SIG_DFL nor SIG_IGN is a handler of the kind that its flags say; the structure
    // for SIG_DFL is all-zero, which is what it means.
    unsafe {
        if action == libc::SIG_IGN && !faults_again {
            return;
        }
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            let default: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &default, std::ptr::null_mut());
            if !faults_again {
                libc::raise(signal);
            }
            return;
        }
        if previous.is_some_and(|p| p.sa_flags & libc::SA_SIGINFO != 0) {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(action);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(action);
            handler(signal);
        }
    }
}

fn errno_location() -> *mut c_int {
    // SAFETY: both return the address of the calling thread's errno, and have no conditions.
    #[cfg(not(target_os = "android"))]
    unsafe {
        libc::__errno_location()
    }
    #[cfg(target_os = "android")]
    unsafe {
        libc::__errno()
    }
}
