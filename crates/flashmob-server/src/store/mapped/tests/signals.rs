//! SIGBUS that is none of ours, in processes of their own.

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

const CASE: &str = "FLASHMOB_TEST_SIGBUS_CASE";

/// Runs [`child`] with `case` in a process of its own.
fn run(case: &str) -> Option<ExitStatus> {
    if crate::store::tests::is_left_out("children") {
        return None;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::mapped::tests::signals::child", "--ignored", "--nocapture"])
        .env(CASE, case)
        .output()
        .unwrap();
    Some(output.status)
}

/// Touches a page of a file that is shorter than its mapping; the mapping is not one of the store's.
fn touch_a_missing_page(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // SAFETY: a new mapping at an address of the kernel's choice. The read faults, as it shall.
    unsafe {
        let (read, shared) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        let start = rustix::mm::mmap(std::ptr::null_mut(), 1 << 22, read, shared, &file, 0).unwrap();
        start.cast::<u8>().add(3 << 20).read_volatile();
    }
}

extern "C" fn exit_42(_: libc::c_int) {
    // SAFETY: _exit may be called in a handler, and does not return.
    unsafe { libc::_exit(42) }
}

#[test]
#[ignore = "started by the other tests of this file"]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    if case.starts_with("handled") {
        let mut action: libc::sigaction =
            // SAFETY: all-zero is a valid sigaction.
            unsafe { std::mem::zeroed() };
        action.sa_sigaction = exit_42 as extern "C" fn(libc::c_int) as usize;
        // SAFETY: the structure is whole, and the handler keeps to what may be done in one.
        assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) }, 0);
    }
    let scene = Scene::new(REGION_BYTES);
    scene.warm(0);
    if case.ends_with("ours first") {
        let victim = Scene::new(REGION_BYTES);
        victim.warm(0);
        truncate(&victim.path, 0);
        assert_ne!(victim.rig.store.try_read(0, &mut [0; 5]), TryRead::Hit);
    }
    if case.contains("sent") {
        // SAFETY: sends a signal to this process.
        unsafe { libc::raise(libc::SIGBUS) };
        // Rust's own handler lets the first one pass that names no address, and gives up its place.
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGBUS) };
    } else {
        touch_a_missing_page(&scene.path);
    }
}

#[test]
fn a_fault_elsewhere_still_ends_the_process() {
    for case in ["plain", "plain, ours first", "sent"] {
        if let Some(status) = run(case) {
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{case}: {status}");
        }
    }
}

#[test]
fn a_fault_elsewhere_goes_to_the_handler_that_was_there_before() {
    for case in ["handled", "handled, ours first", "handled, sent"] {
        if let Some(status) = run(case) {
            assert_eq!(status.code(), Some(42), "{case}: {status}");
        }
    }
}
