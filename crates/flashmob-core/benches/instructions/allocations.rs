//! Counts how often memory is asked for, while counting is on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether calls are counted now.
static IS_ON: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The system's allocator, and a count.
struct Counting;

fn count() {
    if IS_ON.load(Ordering::Relaxed) {
        CALLS.store(CALLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator as it came; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract of `alloc`, which is that of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size_bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above; the block is one of the system's, as all are.
        unsafe { System.realloc(block, layout, size_bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Switches counting on or off, and says what it was.
pub fn set_on(is_on: bool) -> bool {
    IS_ON.swap(is_on, Ordering::Relaxed)
}

/// Calls of `alloc` and `realloc` since the last time this was asked.
pub fn take_calls() -> u64 {
    CALLS.swap(0, Ordering::Relaxed)
}
