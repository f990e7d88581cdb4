//! The checks, their order and their findings.
//!
//! A check is a function from a [`View`] to a [`Finding`]. It changes nothing, and reports `unknown` where it cannot decide. Thresholds are
//! constants with their reasons; `docs/doctor.md` documents them for users.

mod android;
mod buffers;
mod cgroups;
mod cluster;
mod disk;
mod etcd;
mod interfaces;
mod machine;
mod peer;
mod space;
mod tcp;

#[cfg(test)]
mod tests;

use flashmob_results::diagnosis::Outcome;

use crate::change::Change;
use crate::view::View;

/// A check's function.
pub type Look = fn(&View) -> Finding;

/// All checks in the order of reports: the path, the network's settings, the disk, the machine, Android, a cluster, etcd. Names never change their meaning.
pub const TABLE: [(&str, Look); 40] = [
    ("peer", peer::answer),
    ("mtu", interfaces::mtu),
    ("path-mtu", peer::mtu),
    ("receive-buffer", buffers::receive),
    ("send-buffer", buffers::send),
    ("socket-limits", buffers::limits),
    ("window-scaling", tcp::window_scaling),
    ("receive-autotuning", buffers::receive_autotuning),
    ("congestion-control", tcp::congestion_control),
    ("slow-start-after-idle", tcp::slow_start_after_idle),
    ("selective-acknowledgement", tcp::selective_acknowledgement),
    ("wifi-power-save", interfaces::power_save),
    ("data-place", disk::place),
    ("flush-barriers", disk::barriers),
    ("free-space", space::bytes_free),
    ("free-inodes", space::inodes_free),
    ("io-scheduler", disk::scheduler),
    ("readahead", disk::readahead),
    ("clock", machine::clock),
    ("memory", machine::memory),
    ("cgroup-memory", cgroups::memory),
    ("cgroup-cpu", cgroups::cpu),
    ("cpu-governor", machine::governor),
    ("heat", machine::heat),
    ("open-files", machine::open_files),
    ("android-battery", android::battery),
    ("android-background", android::background),
    ("android-processes", android::processes),
    ("android-low-memory", android::low_memory),
    ("cluster-nodes", cluster::away),
    ("cluster-devices", cluster::devices),
    ("cluster-copies", cluster::copies),
    ("cluster-domains", cluster::domains),
    ("cluster-spare", cluster::spare),
    ("cluster-batteries", cluster::batteries),
    ("cluster-heat", cluster::heat),
    ("cluster-space", cluster::space),
    ("etcd-members", etcd::members),
    ("etcd-space", etcd::space),
    ("etcd-time", etcd::time),
];

/// The finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The outcome.
    pub outcome: Outcome,
    /// What was found, in a sentence.
    pub found: String,
    /// Its cost.
    pub cost: String,
    /// The command that fixes it, where that is not one of `changes`.
    pub command: String,
    /// Further advice.
    pub advice: String,
    /// The changes that fix it.
    pub changes: Vec<Change>,
}

impl Finding {
    fn of(outcome: Outcome, found: impl Into<String>) -> Finding {
        Finding {
            outcome,
            found: found.into(),
            cost: String::new(),
            command: String::new(),
            advice: String::new(),
            changes: Vec::new(),
        }
    }

    fn well(found: impl Into<String>) -> Finding {
        Finding::of(Outcome::Well, found)
    }

    fn wrong(found: impl Into<String>, cost: impl Into<String>) -> Finding {
        Finding { cost: cost.into(), ..Finding::of(Outcome::Wrong, found) }
    }

    fn severe(found: impl Into<String>, cost: impl Into<String>) -> Finding {
        Finding { cost: cost.into(), ..Finding::of(Outcome::Severe, found) }
    }

    fn unknown(found: impl Into<String>) -> Finding {
        Finding::of(Outcome::Unknown, found)
    }

    fn not_applicable(found: impl Into<String>) -> Finding {
        Finding::of(Outcome::NotApplicable, found)
    }

    fn with_command(self, command: impl Into<String>) -> Finding {
        Finding { command: command.into(), ..self }
    }

    fn with_advice(self, advice: impl Into<String>) -> Finding {
        Finding { advice: advice.into(), ..self }
    }

    fn with_change(mut self, change: Change) -> Finding {
        self.changes.push(change);
        self
    }
}

/// A change of a setting of the kernel.
fn sysctl(name: &str, new: impl Into<String>) -> Change {
    Change { place: crate::change::Place::Sysctl { name: name.into() }, new: new.into() }
}

/// The finding of checks of the data's disk if the data was not named.
fn without_data() -> Finding {
    Finding::not_applicable("no data was named").with_advice("name the node's file or its folder with --data PATH")
}
