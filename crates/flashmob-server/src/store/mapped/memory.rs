//! The mapping itself: address space over the file's page cache, read with care.
//!
//! There must be no references into this memory: the kernel, other processes and our own `pwrite` change it at
//! any time. It is read by raw pointer only, and what was read counts only after [`Memory::copy`] has looked twice:
//!
//! - **struck**: a page could not be had (see [`super::sigbus`]), what was copied may be empty memory;
//! - **cut in the middle of a page**: then no page is missing, but the kernel has zeroed the rest of that page, and
//!   nothing faults. A cut anywhere also takes the *last* page of the extent away, and it does so earlier: the kernel
//!   sets the new size, unmaps everything behind it from every process, and zeroes the rest of the page after that. So
//!   one byte of the last page is touched after each copy: if that page is still there, the cut had not begun to zero
//!   when the copy ended. The last page itself has no such watchman and is never served from here.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::super::sys::usage_of_thread;
use super::sigbus::Guard;

/// A file or block device mapped for reading. Unmapped when dropped.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    /// Whole pages that cover the extent.
    len_bytes: usize,
    page_bytes: usize,
    guard: Option<Guard>,
}

// SAFETY: the memory belongs to no thread, all access is by volatile reads or opaque copies, and the guard is an index
// into a table of atomics.
unsafe impl Send for Memory {}
// SAFETY: as above; no method changes anything but the kernel's page tables.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps the first `size_bytes` of `file`, which must be there: at least two pages of them. May block.
    pub fn map(file: &File, size_bytes: u64) -> io::Result<Memory> {
        let page_bytes = rustix::param::page_size();
        let too_large = || io::Error::other("it is larger than the address space allows");
        let size_bytes = usize::try_from(size_bytes).map_err(|_| too_large())?;
        let len_bytes = size_bytes.checked_next_multiple_of(page_bytes).ok_or_else(too_large)?;
        if len_bytes < 2 * page_bytes {
            return Err(io::Error::other("it is smaller than two pages"));
        }
        // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len_bytes, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("it was mapped to address 0"))?;
        let mut memory = Memory { start, len_bytes, page_bytes, guard: None };
        memory.guard = Some(Guard::new(start.as_ptr().addr(), len_bytes)?);
        // SAFETY: the range is our own mapping, and this advice changes no contents.
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), len_bytes, Advice::Random)? };
        // The watchman should never have to be fetched from the device. Without the right to lock one page (RLIMIT_MEMLOCK)
        // it is still the page that is touched most.
        let last = memory.at(len_bytes - page_bytes);
        // SAFETY: the last page of our own mapping.
        if let Err(error) = unsafe { rustix::mm::mlock(last.cast_mut().cast(), page_bytes) } {
            log::debug!("the last page of a mapping cannot be locked in memory: {}", io::Error::from(error));
        }
        memory.touch_watchman();
        Ok(memory)
    }

    /// Bytes that may be read from here: all but the last page.
    pub fn servable_bytes(&self) -> u64 {
        (self.len_bytes - self.page_bytes) as u64
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Whether a page could not be had, so that nothing here is the file any more.
    pub fn is_struck(&self) -> bool {
        self.guard.as_ref().is_none_or(Guard::is_struck)
    }

    /// The address of a byte; `offset` must be within the mapping.
    fn at(&self, offset: usize) -> *const u8 {
        debug_assert!(offset < self.len_bytes);
        // SAFETY: within the mapping, by the caller's promise and the checks of the public methods.
        unsafe { self.start.as_ptr().cast_const().add(offset) }
    }

    /// Copies `into.len()` bytes from `offset_bytes`, within [`Memory::servable_bytes`]. False: `into` holds nothing that
    /// may be believed.
    ///
    /// For Rust, memory that is written meanwhile by somebody else gives no particular value. Here the writer is the
    /// kernel, outside of this program, and the bytes are a message like any that the network brings: every value is
    /// valid, and which of two versions a reader gets that runs beside a write is open, as with `pread`. What matters is
    /// that the compiler neither reads again nor assumes the memory unchanged, so single bytes are read volatile, and
    /// everything else goes through one `memcpy` into exclusive memory, with a fence behind it.
    #[inline]
    pub fn copy(&self, offset_bytes: u64, into: &mut [u8]) -> bool {
        let len = into.len();
        if len == 0 || offset_bytes.checked_add(len as u64).is_none_or(|end| end > self.servable_bytes()) {
            return false;
        }
        let from = self.at(offset_bytes as usize);
        if let [byte] = into {
            // SAFETY: within the mapping, which stays until `self` is dropped; a page that is gone is replaced by the
            // handler of SIGBUS.
            *byte = unsafe { from.read_volatile() };
        } else {
            // SAFETY: as above, for `len` bytes; `into` is exclusive memory and does not overlap the mapping.
            unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), len) };
        }
        // First the bytes, then the watchman, then the mark: in this order on every processor.
        fence(Ordering::Acquire);
        self.touch_watchman();
        compiler_fence(Ordering::SeqCst);
        !self.is_struck()
    }

    /// Touches the last page. If it is gone, the mapping is struck when this returns.
    #[inline]
    pub fn touch_watchman(&self) {
        // SAFETY: a byte of the mapping; see `copy`.
        unsafe { self.at(self.len_bytes - self.page_bytes).read_volatile() };
    }

    /// Lets the processor fetch the line at `offset_bytes` ahead. Never faults: a page that is not there is left alone.
    #[inline]
    pub fn prefetch(&self, offset_bytes: u64) {
        if offset_bytes >= self.servable_bytes() {
            return;
        }
        let address = self.at(offset_bytes as usize);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, for any address; SSE is part of x86_64.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a hint, for any address; it changes neither memory nor flags.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = address;
    }

    /// Which pages of the range are in the page cache: one byte for each in `pages`, whose lowest bit says so. The
    /// range starts at a page and lies within the mapping. False if the kernel does not tell.
    pub fn resident(&self, offset_bytes: u64, pages: &mut [u8]) -> bool {
        let len_bytes = pages.len() * self.page_bytes;
        let offset = offset_bytes as usize;
        if len_bytes == 0 || !offset.is_multiple_of(self.page_bytes) || offset + len_bytes > self.len_bytes {
            return false;
        }
        // SAFETY: the range lies in our own mapping, and `pages` has room for a byte for each of its pages.
        unsafe { libc::mincore(self.at(offset).cast_mut().cast(), len_bytes, pages.as_mut_ptr()) == 0 }
    }

    /// Gives the page tables back, and with them what counts as this process's memory. The page cache keeps the pages, and the
    /// next read finds them by a minor fault.
    pub fn drop_page_tables(&self) {
        // SAFETY: the range is our own mapping of a file, from which the pages come back as they are. Once struck it
        // is empty memory, and stays so.
        let result = unsafe {
            rustix::mm::madvise(self.start.as_ptr().cast(), self.len_bytes - self.page_bytes, Advice::LinuxDontNeed)
        };
        if let Err(error) = result {
            log::debug!("page tables of a mapping cannot be dropped: {}", io::Error::from(error));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // First the handler has to let go of it: the addresses may be reused right after.
        self.guard = None;
        // SAFETY: our own mapping, or what the handler put in its place; there are no pointers into it.
        if let Err(error) = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len_bytes) } {
            log::error!("a file cannot be unmapped: {}", io::Error::from(error));
        }
    }
}

/// Major faults of this thread since it started: how often it waited for a page to be read from a device.
pub(super) fn major_faults() -> u64 {
    usage_of_thread().map_or(0, |usage| u64::try_from(usage.ru_majflt).unwrap_or(0))
}
