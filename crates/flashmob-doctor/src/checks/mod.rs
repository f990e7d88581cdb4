//! The checks: what is looked at, in which order, and how each says what it found.
//!
//! A check is a function from a [`View`] to a [`Finding`]. It changes nothing, and where it cannot know it says `unknown`. Thresholds stand as
//! constants with their reasons; `docs/doctor.md` tells them to users.

mod android;
mod buffers;
mod cgroups;
mod disk;
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

/// All checks in the order in which they are told: the path, the network's settings, the disk, the machine, Android. Names never change
/// their meaning.
pub const TABLE: [(&str, Look); 28] = [
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
];

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What came of it.
    pub outcome: Outcome,
    /// What was found, in a sentence.
    pub found: String,
    /// What it costs.
    pub cost: String,
    /// What mends it, where that is no change that could be made here.
    pub command: String,
    /// What else to know.
    pub advice: String,
    /// The values that mend it.
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

/// What those say that are about the data's disk when nobody named the data.
fn without_data() -> Finding {
    Finding::not_applicable("no data was named").with_advice("name the node's file or its folder with --data PATH")
}
