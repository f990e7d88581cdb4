//! A value that can be set: where it is, what it is now, and the commands with which people would set it.
//!
//! Only these few kinds of places exist, and each checks the names in it: whatever an undo file says, nothing else is ever written to.

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
    /// How far ahead of a reader a disk is read, in KiB.
    Readahead {
        /// Such as `mmcblk0`.
        disk: String,
    },
    /// Who chooses the frequency of some processors.
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

/// A value for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub place: Place,
    /// What.
    pub new: String,
}

impl Place {
    /// All its names are such as the kernel has, so that it can only be what it says.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Place::Sysctl { name } => {
                let is_part = |part: &str| {
                    !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                };
                // Nothing but the network's settings is ever changed here.
                name.starts_with("net.") && name.len() < 100 && name.split('.').all(is_part)
            }
            Place::Scheduler { disk } | Place::Readahead { disk } => is_file_name(disk),
            Place::Governor { policy } => policy
                .strip_prefix("policy")
                .is_some_and(|number| (1..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit())),
            Place::PowerSave { interface } | Place::Mtu { interface } => interface::is_name(interface),
        }
    }

    /// It belongs to a network namespace, and there may be another one of the same name elsewhere.
    #[must_use]
    pub fn is_of_network(&self) -> bool {
        matches!(self, Place::Sysctl { .. } | Place::PowerSave { .. } | Place::Mtu { .. })
    }

    /// What it is, in words.
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
    /// As one would type it, as root.
    #[must_use]
    pub fn command(&self) -> String {
        let new = &self.new;
        match &self.place {
            Place::Sysctl { name } if new.contains(' ') => format!("sysctl -w {name}='{new}'"),
            Place::Sysctl { name } => format!("sysctl -w {name}={new}"),
            Place::Scheduler { disk } => format!("echo {new} > /sys/block/{}/queue/scheduler", sysfs_name(disk)),
            Place::Readahead { disk } => format!("echo {new} > /sys/block/{}/queue/read_ahead_kb", sysfs_name(disk)),
            Place::Governor { policy } => {
                format!("echo {new} > /sys/devices/system/cpu/cpufreq/{policy}/scaling_governor")
            }
            Place::PowerSave { interface } => format!("iw dev {interface} set power_save {new}"),
            Place::Mtu { interface } => format!("ip link set dev {interface} mtu {new}"),
        }
    }

    /// What would make it last beyond the next boot.
    #[must_use]
    pub fn lasting(&self) -> String {
        let new = &self.new;
        match &self.place {
            Place::Sysctl { name } => format!("echo '{name} = {new}' >> /etc/sysctl.d/90-flashmob.conf"),
            Place::Scheduler { disk } => udev(disk, "scheduler", new),
            Place::Readahead { disk } => udev(disk, "read_ahead_kb", new),
            Place::Governor { policy } => {
                format!(
                    "echo 'w /sys/devices/system/cpu/cpufreq/{policy}/scaling_governor - - - - {new}' >> /etc/tmpfiles.d/flashmob.conf"
                )
            }
            Place::PowerSave { interface } => format!(
                "echo 'ACTION==\"add\", SUBSYSTEM==\"net\", KERNEL==\"{interface}\", RUN+=\"/usr/sbin/iw dev {interface} set power_save {new}\"' >> /etc/udev/rules.d/90-flashmob.rules"
            ),
            Place::Mtu { interface } => format!(
                "echo 'ACTION==\"add\", SUBSYSTEM==\"net\", KERNEL==\"{interface}\", ATTR{{mtu}}=\"{new}\"' >> /etc/udev/rules.d/90-flashmob.rules"
            ),
        }
    }
}

fn udev(disk: &str, attribute: &str, value: &str) -> String {
    format!(
        "echo 'ACTION==\"add|change\", KERNEL==\"{disk}\", ATTR{{queue/{attribute}}}=\"{value}\"' >> /etc/udev/rules.d/90-flashmob.rules"
    )
}

/// `/` in the name of a disk is `!` in its folder.
fn sysfs_name(disk: &str) -> String {
    disk.replace('/', "!")
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
