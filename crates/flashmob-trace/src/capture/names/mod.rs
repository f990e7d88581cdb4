//! Names of files as system calls get them: the kernel's events hold only where the name is in the caller's memory.
//!
//! A program of some dozen instructions at the end of each such call reads the name there and says it to the kernel's own event for such things,
//! `bpf_trace:bpf_trace_printk`, which lands in the session's buffer like any other, on the same clock and of the followed threads only. It is emitted by
//! the calling thread, between the records `sys_enter_…` and `sys_exit_…` of its call: at the end, because the kernel itself has read the name by
//! then, so that it is in memory. The program lives by a descriptor, and ends with the process.

mod calls;
mod kernel;
mod program;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::tracefs::{self, Tracefs};
use crate::record::Record;

/// The event that says names.
pub const EVENT: (&str, &str) = ("bpf_trace", "bpf_trace_printk");
/// Lines of others begin otherwise.
const PREFIX: &str = "flashmob";
/// The kernel turns its event on for everybody when a program is loaded, once or twice, the last time up to so much later; if it is busier than that,
/// the end of the session puts it right.
const TURNED_ON_WITHIN: Duration = Duration::from_millis(50);

/// A name that a system call got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The call without `sys_enter_`: `openat`.
    pub call: String,
    /// Which of its arguments: `filename`, `oldname`.
    pub argument: String,
    /// The path as the caller gave it; relative ones begin where the call's `dfd` is. Empty if it could not be read.
    pub path: String,
}

/// The name in a record, if it is of that sort.
#[must_use]
pub fn file_name(record: &Record<'_>) -> Option<FileName> {
    if !record.is(EVENT.0, EVENT.1) {
        return None;
    }
    let text = record.text("bpf_string")?;
    let (call, argument, path) = parts(&text)?;
    Some(FileName { call: call.into(), argument: argument.into(), path: path.into() })
}

fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let mut parts = text.splitn(4, ' ');
    if parts.next()? != PREFIX {
        return None;
    }
    Some((parts.next()?, parts.next()?, parts.next()?))
}

/// The program that says names, while this lives.
#[derive(Debug)]
pub struct Names {
    _attached: OwnedFd,
    switch: Switch,
}

impl Names {
    /// Attaches the program. It must be there before events of system calls are enabled, so that names come before the end of their call. The error
    /// is for people, with its remedy.
    pub fn attach(tracefs: &Tracefs) -> Result<Names, String> {
        let registers =
            calls::REGISTERS.ok_or("it is not known where this processor keeps the arguments of system calls")?;
        // One at a time, so that nobody finds it turned on by another who is about to turn it off.
        let _turn = take_turn(&tracefs.instances()).inspect_err(|error| log::debug!("no turns are taken: {error}"));
        let switch = Switch::look(tracefs);
        let program = program::say(PREFIX, calls::CALLS, &registers);
        let attached = kernel::attach(&program, c"sys_exit").map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "the kernel refuses eBPF programs: run this as root".to_string(),
            Some(libc::ENOSYS | libc::EINVAL) => {
                format!("the kernel is too old for the eBPF program, or built without ({error}); Linux 5.9 has it")
            }
            _ => format!("the kernel refuses the eBPF program: {error}"),
        })?;
        switch.wait_and_turn_off();
        Ok(Names { _attached: attached, switch })
    }
}

/// Waits for other processes and threads that are at the same; the lock ends with the descriptor.
fn take_turn(folder: &Path) -> std::io::Result<File> {
    let file = File::open(folder)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

impl Drop for Names {
    fn drop(&mut self) {
        // Once more: the kernel may have been busy when it should have turned it on.
        self.switch.turn_off();
    }
}

/// The switch of the event for everybody, outside of instances. The kernel turns it on when a program wants the event, and never off; nobody asked for
/// that, so it is put back.
#[derive(Debug)]
struct Switch {
    path: PathBuf,
    was_off: bool,
}

impl Switch {
    fn look(tracefs: &Tracefs) -> Switch {
        let path = tracefs.root().join("events").join(EVENT.0).join(EVENT.1).join("enable");
        let was_off = tracefs::read(&path).is_ok_and(|text| text.starts_with('0'));
        Switch { path, was_off }
    }

    /// Whether it was on.
    fn turn_off(&self) -> bool {
        let is_on = self.was_off && tracefs::read(&self.path).is_ok_and(|text| text.starts_with('1'));
        if is_on && let Err(error) = tracefs::write(&self.path, "0") {
            log::warn!("{} stays on: {error}", self.path.display());
        }
        is_on
    }

    fn wait_and_turn_off(&self) {
        let mut last_on = Instant::now();
        while self.was_off && last_on.elapsed() < TURNED_ON_WITHIN {
            if self.turn_off() {
                last_on = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything_but_nothing_else_is_taken_for_one() {
        assert_eq!(parts("flashmob openat filename /a b/c"), Some(("openat", "filename", "/a b/c")));
        assert_eq!(parts("flashmob rename oldname "), Some(("rename", "oldname", "")));
        for text in ["", "flashmob", "flashmob openat", "flashmob openat filename", "other openat filename /a"] {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
