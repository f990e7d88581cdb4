//! File names passed to system calls. The kernel's events hold only the address of the name in the caller's memory.
//!
//! A small eBPF program at the exit of each such call reads the name and emits it as `bpf_trace:bpf_trace_printk`, an event in the session's buffer like
//! any other: same clock, traced threads only. It is emitted by the calling thread between the `sys_enter_…` and `sys_exit_…` records of the call; at exit,
//! because by then the kernel has read the name, so its page is resident. The program is freed when its descriptor is closed, at the latest on exit.

mod calls;
mod kernel;
mod program;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::tracefs::{self, Tracefs};
use crate::record::Record;

/// The event that carries names.
pub const EVENT: (&str, &str) = ("bpf_trace", "bpf_trace_printk");
/// Distinguishes our lines from those of other programs.
const PREFIX: &str = "flashmob";
/// Loading a program enables the event globally, once or twice, the last time up to this much later. If the kernel takes longer, it is disabled at the
/// end of the session.
const TURNED_ON_WITHIN: Duration = Duration::from_millis(50);

/// A file name passed to a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The call without `sys_enter_`: `openat`.
    pub call: String,
    /// The argument: `filename`, `oldname`.
    pub argument: String,
    /// The path as passed; a relative one is relative to the call's `dfd`. Empty if it could not be read.
    pub path: String,
}

/// The file name in a record of [`EVENT`].
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

/// The attached program; detached on drop.
#[derive(Debug)]
pub struct Names {
    _attached: OwnedFd,
    switch: Switch,
}

impl Names {
    /// Attaches the program. Must be called before events of system calls are enabled, so that a name precedes the exit of its call. The error is a
    /// message with its remedy.
    pub fn attach(tracefs: &Tracefs) -> Result<Names, String> {
        let registers = calls::REGISTERS.ok_or("the registers of system calls are not known for this architecture")?;
        // One at a time: another process may have enabled the event and be about to disable it.
        let _turn = take_turn(&tracefs.instances()).inspect_err(|error| log::debug!("cannot lock tracefs: {error}"));
        let switch = Switch::look(tracefs);
        let program = program::say(PREFIX, calls::CALLS, &registers);
        let attached = kernel::attach(&program, c"sys_exit").map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "the kernel refuses eBPF programs: run this as root".to_string(),
            Some(libc::ENOSYS | libc::EINVAL) => {
                format!("the kernel is too old for the eBPF program, or built without eBPF ({error}); Linux 5.9 or later is needed")
            }
            _ => format!("the kernel refuses the eBPF program: {error}"),
        })?;
        switch.wait_and_turn_off();
        Ok(Names { _attached: attached, switch })
    }
}

/// Takes a lock against other processes and threads; released with the descriptor.
fn take_turn(folder: &Path) -> std::io::Result<File> {
    let file = File::open(folder)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

impl Drop for Names {
    fn drop(&mut self) {
        // Again: the kernel may have enabled it late.
        self.switch.turn_off();
    }
}

/// The event's `enable` file of the top-level buffer, outside of instances. The kernel sets it when a program uses the event, and never clears it; it
/// is restored.
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

    /// Returns whether it was on.
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
