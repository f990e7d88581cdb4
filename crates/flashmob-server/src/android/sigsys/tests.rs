//! Under a filter that traps one call: in processes of their own, for a filter stays for good.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use super::*;

const CASE: &str = "FLASHMOB_TEST_SIGSYS_CASE";
/// A call that neither Rust nor a C library makes by itself.
const TRAPPED: libc::c_long = libc::SYS_vhangup;

fn run(case: &str) -> Option<ExitStatus> {
    if crate::store::tests::is_left_out("children") {
        return None;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "android::sigsys::tests::child", "--ignored", "--nocapture"])
        .env(CASE, case)
        .output()
        .unwrap();
    if !output.status.success() {
        println!("{case}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Some(output.status)
}

/// Traps [`TRAPPED`] in this process from now on, and says ENOSYS to nobody else.
fn trap_one() {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let give = libc::BPF_RET | libc::BPF_K;
    // SAFETY: these make values out of numbers.
    let mut program = unsafe {
        [
            libc::BPF_STMT(load as u16, 0),
            libc::BPF_JUMP(is_equal as u16, TRAPPED as u32, 0, 1),
            libc::BPF_STMT(give as u16, libc::SECCOMP_RET_TRAP),
            libc::BPF_STMT(give as u16, libc::SECCOMP_RET_ALLOW),
        ]
    };
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives through the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

fn make_the_call() -> (libc::c_long, i32) {
    // SAFETY: it is trapped, and takes no arguments.
    let result = unsafe { libc::syscall(TRAPPED) };
    (result, std::io::Error::last_os_error().raw_os_error().unwrap())
}

#[test]
#[ignore = "started by the other tests of this file"]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    if case == "blocked before" {
        // SAFETY: all-zero is a valid set, and the calls write to it or read it.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
    }
    if case != "no handler" {
        install_first();
    }
    trap_one();
    if case == "sent" {
        // SAFETY: sends a signal to this process.
        unsafe { libc::raise(libc::SIGSYS) };
        unreachable!("it ends here");
    }
    assert_eq!(answered(), [0; 0]);
    for _ in 0..3 {
        assert_eq!(make_the_call(), (-1, libc::ENOSYS));
    }
    if case == "threads" {
        let all = || (0..1000).all(|_| make_the_call() == (-1, libc::ENOSYS));
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(all)).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }
    assert_eq!(answered(), [TRAPPED as i32], "each call is remembered once");
    // Others still come through.
    assert!(std::fs::metadata("/").is_ok());
}

#[test]
fn a_forbidden_call_ends_a_process_without_the_handler() {
    let Some(status) = run("no handler") else { return };
    assert_eq!(status.signal(), Some(libc::SIGSYS));
}

#[test]
fn a_forbidden_call_is_answered_as_one_that_the_kernel_does_not_have() {
    for case in ["answered", "threads", "blocked before"] {
        let Some(status) = run(case) else { return };
        assert!(status.success(), "{case}: {status}");
    }
}

#[test]
fn a_signal_that_was_sent_ends_the_process_as_ever() {
    let Some(status) = run("sent") else { return };
    assert_eq!(status.signal(), Some(libc::SIGSYS));
}

#[test]
fn more_calls_than_can_be_remembered_do_no_harm() {
    let before = answered();
    for number in 10_000..10_000 + 2 * REMEMBERED as i32 {
        remember(number);
    }
    assert!(before.len() < REMEMBERED && answered().len() == REMEMBERED);
}
