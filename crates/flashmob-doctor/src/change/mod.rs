//! A value that can be set: its place, its current value, and the equivalent commands.
//!
//! Only these few kinds of places exist, and each checks its names: whatever an undo file contains, nothing else is written to.

pub mod interface;
mod set;

use serde::{Deserialize, Serialize};

pub(crate) use set::power_save;
pub use set::{ChangeError, read, write};

/// A place with a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// A setting of the kernel, as `sysctl` names it.
    Sysctl {
        /// Such as `net.ipv4.tcp_rmem`.
        name: String,
    },
    /// The scheduler of a disk's queue.
    Scheduler {
        /// Such as `mmcblk0`.
        disk: String,
    },
    /// The readahead of a disk, in KiB.
    Readahead {
        /// Such as `mmcblk0`.
        disk: String,
    },
    /// The frequency governor of some processors.
    Governor {
        /// Such as `policy0`.
        policy: String,
    },
    /// Wi-Fi's power save, `on` or `off`.
    PowerSave {
        /// Such as `wlan0`.
        interface: String,
    },
    /// The largest packet of an interface, in bytes.
    Mtu {
        /// Such as `wlan0`.
        interface: String,
    },
}

/// A new value for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The place.
    pub place: Place,
    /// The value.
    pub new: String,
}

impl Place {
    /// Whether its names are valid, so that it cannot lead elsewhere.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Place::Sysctl { name } => {
                let is_part = |part: &str| {
                    !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                };
                // Only network settings are ever changed.
                name.starts_with("net.") && name.len() < 100 && name.split('.').all(is_part)
            }
            Place::Scheduler { disk } | Place::Readahead { disk } => is_file_name(disk),
            Place::Governor { policy } => policy
                .strip_prefix("policy")
                .is_some_and(|number| (1..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit())),
            Place::PowerSave { interface } | Place::Mtu { interface } => interface::is_name(interface),
        }
    }

    /// Whether it belongs to a network namespace: another may have a place of the same name.
    #[must_use]
    pub fn is_of_network(&self) -> bool {
        matches!(self, Place::Sysctl { .. } | Place::PowerSave { .. } | Place::Mtu { .. })
    }

    /// Its file; for an interface only its folder in sysfs, because its values are read and set by other means.
    pub(crate) fn file(&self) -> String {
        // `/` in the name of a disk is `!` in its folder.
        let queue = |disk: &str, file: &str| format!("/sys/block/{}/queue/{file}", disk.replace('/', "!"));
        match self {
            Place::Sysctl { name } => format!("/proc/sys/{}", name.replace('.', "/")),
            Place::Scheduler { disk } => queue(disk, "scheduler"),
            Place::Readahead { disk } => queue(disk, "read_ahead_kb"),
            Place::Governor { policy } => format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor"),
            Place::PowerSave { interface } | Place::Mtu { interface } => format!("/sys/class/net/{interface}"),
        }
    }

    /// Its description.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Place::Sysctl { name } => name.clone(),
            Place::Scheduler { disk } => format!("the scheduler of {disk}"),
            Place::Readahead { disk } => format!("the readahead of {disk} in KiB"),
            Place::Governor { policy } => format!("the governor of {policy}"),
            Place::PowerSave { interface } => format!("the power save of {interface}"),
            Place::Mtu { interface } => format!("the MTU of {interface}"),
        }
    }
}

impl Change {
    /// The equivalent command, for root.
    #[must_use]
    pub fn command(&self) -> String {
        let new = &self.new;
        match &self.place {
            Place::Sysctl { name } if new.contains(' ') => format!("sysctl -w {name}='{new}'"),
            Place::Sysctl { name } => format!("sysctl -w {name}={new}"),
            Place::PowerSave { interface } => format!("iw dev {interface} set power_save {new}"),
            Place::Mtu { interface } => format!("ip link set dev {interface} mtu {new}"),
            place => format!("echo {new} > {}", place.file()),
        }
    }

    /// A command that makes it permanent.
    #[must_use]
    pub fn lasting(&self) -> String {
        let new = &self.new;
        match &self.place {
            Place::Sysctl { name } => format!("echo '{name} = {new}' >> /etc/sysctl.d/90-flashmob.conf"),
            Place::Scheduler { disk } => udev(&queue_rule(disk, "scheduler", new)),
            Place::Readahead { disk } => udev(&queue_rule(disk, "read_ahead_kb", new)),
            place @ Place::Governor { .. } => {
                format!("echo 'w {} - - - - {new}' >> /etc/tmpfiles.d/flashmob.conf", place.file())
            }
            Place::PowerSave { interface } => udev(&format!(
                "\"add\", SUBSYSTEM==\"net\", KERNEL==\"{interface}\", RUN+=\"/usr/sbin/iw dev {interface} set power_save {new}\""
            )),
            Place::Mtu { interface } => {
                udev(&format!("\"add\", SUBSYSTEM==\"net\", KERNEL==\"{interface}\", ATTR{{mtu}}=\"{new}\""))
            }
        }
    }
}

fn queue_rule(disk: &str, attribute: &str, value: &str) -> String {
    format!("\"add|change\", KERNEL==\"{disk}\", ATTR{{queue/{attribute}}}=\"{value}\"")
}

fn udev(rule: &str) -> String {
    format!("echo 'ACTION=={rule}' >> /etc/udev/rules.d/90-flashmob.rules")
}

fn is_file_name(name: &str) -> bool {
    let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    !name.is_empty() && name.len() < 100 && name.bytes().all(sound) && !name.starts_with('.') && !name.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        let sysctl = |name: &str| Place::Sysctl { name: name.into() }.is_sound();
        assert!(sysctl("net.ipv4.tcp_rmem") && sysctl("net.core.rmem_max"));
        for wrong in ["kernel.core_pattern", "net", "net.", "net..x", "net./x", "net.ipv4.x y", "net.IPV4", ""] {
            assert!(!sysctl(wrong), "{wrong}");
        }
        let disk = |name: &str| Place::Scheduler { disk: name.into() }.is_sound();
        assert!(disk("mmcblk0") && disk("cciss/c0d0") && disk("dm-0"));
        for wrong in ["", "..", "../x", "a/../b", ".x", "a b", "a\n"] {
            assert!(!disk(wrong), "{wrong}");
        }
        let governor = |name: &str| Place::Governor { policy: name.into() }.is_sound();
        assert!(governor("policy0") && governor("policy12"));
        assert!(!governor("policy") && !governor("policyx") && !governor("policy/0") && !governor("policy00000"));
        let mtu = |name: &str| Place::Mtu { interface: name.into() }.is_sound();
        assert!(mtu("wlan0") && mtu("enp3s0.7"));
        for wrong in ["", "..", "a/b", "a b", "sixteen-letters-", "a&reboot", "a|b", "a>b", "a*", "a(b)", "-a", "a#b"] {
            assert!(!mtu(wrong), "{wrong}");
        }
    }

    #[test]
    fn commands_are_as_one_types_them() {
        let of = |place: Place, new: &str| Change { place, new: new.into() };
        let sysctl = of(Place::Sysctl { name: "net.ipv4.tcp_rmem".into() }, "4096 131072 6291456");
        assert_eq!(sysctl.command(), "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'");
        assert!(sysctl.lasting().contains("'net.ipv4.tcp_rmem = 4096 131072 6291456' >> /etc/sysctl.d"));
        let disk = of(Place::Scheduler { disk: "cciss/c0d0".into() }, "mq-deadline");
        assert_eq!(disk.command(), "echo mq-deadline > /sys/block/cciss!c0d0/queue/scheduler");
        assert!(disk.lasting().contains("ATTR{queue/scheduler}=\"mq-deadline\""));
    }
}
