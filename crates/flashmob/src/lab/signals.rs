//! Forwarding signals to the lab's command.
//!
//! The terminal sends Ctrl-C to the whole foreground group, including the command, so it needs no forwarding. Signals that
//! are sent to `flashmob lab` alone are forwarded, from process to process, to the command.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::Context;

/// Signals that request termination.
const ENDING: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
/// Sent by the kernel, as for the terminal's Ctrl-C; not by a process.
const SI_KERNEL: i32 = 0x80;

/// Blocks these signals in this process and in those that it forks, to be received by waiting.
pub fn hold_back() -> io::Result<()> {
    mask(libc::SIG_BLOCK, &set(&[libc::SIGINT, libc::SIGTERM, libc::SIGCHLD]))
}

/// Unblocks the signals in a command.
pub fn as_ever(command: &mut Command) {
    let all = set(&[]);
    // SAFETY: between fork and exec only one system call is made, which allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || mask(libc::SIG_SETMASK, &all));
    }
}

/// Waits for a child's end, and forwards signals that were sent to this process. Returns its exit status. Signals must be
/// blocked.
pub fn hand_on_and_wait(child: i32) -> anyhow::Result<u8> {
    let awaited = set(&[libc::SIGINT, libc::SIGTERM, libc::SIGCHLD]);
    loop {
        let (signal, code) = wait(&awaited)?;
        if signal != libc::SIGCHLD {
            hand_on(signal, code, child);
            continue;
        }
        let mut status = 0;
        // SAFETY: a plain system call that fills in `status`.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 => {}
            -1 => return Err(io::Error::last_os_error()).context("cannot wait for the lab"),
            _ => return Ok(exit_status(status)),
        }
    }
}

/// The terminal, and whether this process was in its foreground.
///
/// A shell in the lab takes the terminal, and cannot return it: it does not see the processes that had it before.
#[derive(Debug)]
pub struct Terminal {
    was_ours: bool,
}

impl Terminal {
    /// Records whether this process is in the foreground.
    #[must_use]
    pub fn note() -> Terminal {
        // SAFETY: plain system calls; without a terminal the first fails, and no group has that number.
        Terminal { was_ours: unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() } }
    }

    /// Returns the terminal to this process's group if it had it.
    pub fn take_back(&self) {
        // A background process that takes the terminal is stopped by this signal, unless it is blocked.
        if self.was_ours && mask(libc::SIG_BLOCK, &set(&[libc::SIGTTOU])).is_ok() {
            // SAFETY: a plain system call. If it fails, the terminal is gone, or belongs to the shell that started this process.
            unsafe { libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpgrp()) };
        }
    }
}

/// The exit status that a shell has for this wait status.
#[must_use]
pub fn exit_status(wait_status: i32) -> u8 {
    if libc::WIFSIGNALED(wait_status) {
        128 + libc::WTERMSIG(wait_status) as u8
    } else {
        libc::WEXITSTATUS(wait_status) as u8
    }
}

/// The receiver of signals that reach the lab's first process.
#[derive(Debug)]
pub struct Target(AtomicI32);

/// None yet: signals end the lab.
pub static COMMAND: Target = Target(AtomicI32::new(0));

impl Target {
    /// Forwards signals to this process from now on.
    pub fn set(&self, pid: u32) {
        self.0.store(pid as i32, Ordering::Release);
    }

    /// Starts a thread that forwards signals. Signals must be blocked.
    pub fn hand_on(&'static self) -> io::Result<()> {
        std::thread::Builder::new().name("signals".to_string()).spawn(move || {
            let awaited = set(&ENDING);
            while let Ok((signal, code)) = wait(&awaited) {
                match self.0.load(Ordering::Acquire) {
                    0 => std::process::exit(128 + signal),
                    command => hand_on(signal, code, command),
                }
            }
        })?;
        Ok(())
    }
}

fn hand_on(signal: i32, code: i32, to: i32) {
    if code != SI_KERNEL {
        // SAFETY: a plain system call. The process is an unreaped child of this one, or is gone: then it fails.
        unsafe { libc::kill(to, signal) };
    }
}

/// Waits for one of these; returns the signal and how it was sent.
fn wait(set: &libc::sigset_t) -> anyhow::Result<(i32, i32)> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: both pointers are valid, to structures of the right type.
        let signal = unsafe { libc::sigwaitinfo(set, info.as_mut_ptr()) };
        if signal > 0 {
            // SAFETY: zeroed bytes are a valid siginfo, and the kernel has filled it in.
            return Ok((signal, unsafe { info.assume_init() }.si_code));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("cannot wait for signals");
        }
    }
}

fn set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset fills in the whole set; the signals are constants that exist.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn mask(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set outlives the call; the old one is not requested.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn ends_are_called_as_shells_call_them() {
        let of = |line: &str| {
            let status = Command::new("/bin/sh").args(["-c", line]).status().unwrap();
            exit_status(status.into_raw())
        };
        assert_eq!((of("exit 7"), of("kill -9 $$"), of("kill -TERM $$")), (7, 137, 143));
    }
}
