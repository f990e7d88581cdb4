//! Uprobes at entry and return of SQLite's functions, in any program or library.
//!
//! In a capture their events have the system [`SYSTEM`], whatever the kernel calls it: `sqlite3_step` with `statement`, `sqlite3_prepare_v2` with `sql`,
//! and `sqlite3_step_return` with `result`.

mod elf;
mod find;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

pub use find::find_sqlite;

use super::owner::{self, Owner};
use super::tracefs::{self, Tracefs};

/// The system of these events in captures.
pub const SYSTEM: &str = "flashmob_sqlite";

/// The probed functions, with their first two arguments.
const FUNCTIONS: [(&str, &str, Option<&str>); 5] = [
    ("sqlite3_step", "statement", None),
    ("sqlite3_prepare_v2", "database", Some("sql")),
    ("sqlite3_prepare_v3", "database", Some("sql")),
    ("sqlite3_exec", "database", Some("sql")),
    ("sqlite3_finalize", "statement", None),
];

/// Registers of a function's first two arguments on this architecture.
const ARGUMENTS: Option<[&str; 2]> = if cfg!(target_arch = "x86_64") {
    Some(["%di", "%si"])
} else if cfg!(target_arch = "aarch64") {
    Some(["%x0", "%x1"])
} else if cfg!(target_arch = "arm") {
    Some(["%r0", "%r1"])
} else {
    None
};

/// Probes in the kernel; removed on drop, when they must not be enabled any more.
#[derive(Debug)]
pub struct Probes {
    list: PathBuf,
    /// Groups and names.
    pub events: Vec<(String, String)>,
    /// The probed files; the kernel may know them by their descriptors.
    _files: Vec<File>,
}

impl Probes {
    /// Places probes in each file. The second value lists the files that cannot be probed, with reasons.
    pub fn place(tracefs: &Tracefs, owner: &Owner, files: &[PathBuf]) -> (Probes, Vec<String>) {
        let list = tracefs.root().join("uprobe_events");
        let mut probes = Probes { list, events: Vec::new(), _files: Vec::new() };
        let mut why = Vec::new();
        for (number, path) in files.iter().enumerate() {
            if let Err(words) = probes.place_in(path, &owner.group(number)) {
                why.push(format!("{}: {words}", path.display()));
            }
        }
        (probes, why)
    }

    fn place_in(&mut self, path: &Path, group: &str) -> Result<(), String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let functions = elf::functions(&file, &FUNCTIONS.map(|(name, _, _)| name))?;
        if functions.is_empty() {
            return Err("it has no symbols of SQLite functions; use a file that is not stripped".to_string());
        }
        // uprobe_events takes no blanks or colons in paths; a path through /proc/PID/fd avoids them.
        let is_plain = path.to_str().is_some_and(|path| !path.contains(|c: char| c.is_whitespace() || c == ':'));
        let by_descriptor = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        let shown = if is_plain { path.to_path_buf() } else { by_descriptor };
        let shown = std::path::absolute(&shown).unwrap_or(shown);
        for (name, offset) in functions {
            let arguments = arguments(name);
            self.add(group, name, &format!("p:{group}/{name} {}:{offset:#x}{arguments}", shown.display()))?;
            let back = format!("{name}_return");
            self.add(group, &back, &format!("r:{group}/{back} {}:{offset:#x} result=$retval:s32", shown.display()))?;
        }
        self._files.push(file);
        Ok(())
    }

    fn add(&mut self, group: &str, event: &str, line: &str) -> Result<(), String> {
        tracefs::append(&self.list, line).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "the kernel cannot probe programs (CONFIG_UPROBE_EVENTS)".to_string(),
            _ => format!("the kernel refuses '{line}': {}", tracefs::words(&error)),
        })?;
        self.events.push((group.into(), event.into()));
        Ok(())
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        for (group, event) in &self.events {
            owner::remove_probe(&self.list, group, event);
        }
    }
}

fn arguments(function: &str) -> String {
    let known = FUNCTIONS.iter().find(|(name, _, _)| *name == function);
    let (Some([first, second]), Some((_, pointer, text))) = (ARGUMENTS, known) else { return String::new() };
    let text = text.map_or(String::new(), |name| format!(" {name}=+0({second}):string"));
    format!(" {pointer}={first}{text}")
}
