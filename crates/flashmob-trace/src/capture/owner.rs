//! Ownership of instances and probes. Their names contain the process id and its start time, so that those of an exited process can be told from those
//! in use, even if the process id was reused.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::tracefs::{self, Tracefs};

const INSTANCE_PREFIX: &str = "flashmob-";
/// Names of probe groups must be C identifiers.
const GROUP_PREFIX: &str = "flashmob_";

/// Numbers the sessions of this process.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

/// A session of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    process: u32,
    /// In clock ticks since boot, as in `/proc/PID/stat`.
    started: u64,
    session: u32,
}

impl Owner {
    pub fn new() -> Owner {
        let process = std::process::id();
        let session = SESSIONS.fetch_add(1, Ordering::Relaxed);
        Owner { process, started: started(process).unwrap_or(0), session }
    }

    pub fn instance(&self, what: &str) -> String {
        format!("{INSTANCE_PREFIX}{}-{}-{}-{what}", self.process, self.started, self.session)
    }

    pub fn group(&self, number: usize) -> String {
        format!("{}{number}", self.group_prefix())
    }

    /// The common prefix of its probe groups.
    pub fn group_prefix(&self) -> String {
        format!("{GROUP_PREFIX}{}_{}_{}_", self.process, self.started, self.session)
    }

    /// Parses the name of an instance or group; `None` if this program did not create it.
    fn of(name: &str) -> Option<Owner> {
        let (rest, separator) = match name.strip_prefix(INSTANCE_PREFIX) {
            Some(rest) => (rest, '-'),
            None => (name.strip_prefix(GROUP_PREFIX)?, '_'),
        };
        let mut parts = rest.splitn(4, separator);
        let (process, started, session) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next()?;
        Some(Owner { process: process.parse().ok()?, started: started.parse().ok()?, session: session.parse().ok()? })
    }

    /// The process exists, and its id was not reused.
    fn lives(&self) -> bool {
        started(self.process).is_some_and(|started| started == self.started)
    }
}

fn started(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command name in parentheses may itself contain parentheses; the start time is the 20th field after it.
    text[text.rfind(')')? + 1..].split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Removes instances and probes of sessions whose process has exited. The kernel refuses to remove those still in use (EBUSY), for example by another
/// container.
pub fn remove_left_overs(tracefs: &Tracefs) {
    let is_dead = |name: &str| Owner::of(name).is_some_and(|owner| !owner.lives());
    for entry in std::fs::read_dir(tracefs.instances()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_dead) {
            let name = entry.file_name();
            match std::fs::remove_dir(entry.path()) {
                Ok(()) => log::info!("removed {}, left in the kernel by a killed run", name.display()),
                Err(error) => {
                    log::warn!("cannot remove {}, left in the kernel by a killed run: {error}", name.display())
                }
            }
        }
    }
    let probes = tracefs.root().join("uprobe_events");
    for (group, event) in probes_in(&probes) {
        if is_dead(&group) {
            remove_probe(&probes, &group, &event);
        }
    }
}

/// Groups and names of all probes.
fn probes_in(path: &Path) -> Vec<(String, String)> {
    let text = tracefs::read(path).unwrap_or_default();
    let name = |line: &str| {
        let (group, event) = line.split_ascii_whitespace().next()?.split_once(':')?.1.split_once('/')?;
        Some((group.to_string(), event.to_string()))
    };
    text.lines().filter_map(name).collect()
}

/// Removes a probe, which must not be enabled.
pub fn remove_probe(path: &Path, group: &str, event: &str) {
    if let Err(error) = tracefs::append(path, &format!("-:{group}/{event}")) {
        log::warn!("cannot remove the probe {group}/{event}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner() {
        let own = Owner::new();
        assert!(own.started > 0);
        for name in [own.instance("threads"), own.group(3)] {
            assert_eq!(Owner::of(&name), Some(own), "{name}");
            assert!(Owner::of(&name).unwrap().lives());
        }
        let other = Owner { started: own.started + 1, ..own };
        assert!(!Owner::of(&other.instance("devices")).unwrap().lives(), "a number that was given out again");
        assert_ne!(Owner::new(), own);
    }

    #[test]
    fn names_of_others_are_left_alone() {
        for name in [
            "flashmob",
            "flashmob-",
            "flashmob-1-2-3",
            "flashmob-a-2-3-threads",
            "mine-1-2-3-threads",
            "flashmob_1_2",
            "perf",
        ] {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }
}
