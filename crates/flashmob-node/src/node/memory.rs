//! `--memory`: a node's memory limit, by default a part of its device's memory.
//!
//! A node shares a tablet with a system that kills programs when memory runs out, large ones first. So by default it takes a sixteenth of
//! the memory, with an upper and a lower bound; a control group may allow less than the device has.

use std::path::Path;

use clap::Args;
use flashmob_core::node::MEMORY_BYTES_MIN;
use flashmob_core::units::Bytes;

/// Largest default: more does not help a node.
const AUTO_BYTES_MAX: u64 = 64 << 20;
/// A node's part of the device's memory, as a divisor.
const AUTO_PART: u64 = 16;
/// Budgets are whole mebibytes, for readability.
const STEP_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct MemoryArgs {
    /// Memory limit of the node, at least 16MiB; auto is a sixteenth of the available memory, between 16MiB and 64MiB.
    #[arg(long, value_parser = parse, default_value = "auto", value_name = "auto|SIZE")]
    memory: Memory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Auto,
    Bytes(u64),
}

fn parse(text: &str) -> Result<Memory, String> {
    match text {
        "auto" => Ok(Memory::Auto),
        text => crate::values::size(text).map(Memory::Bytes),
    }
}

impl MemoryArgs {
    /// The node's limit in bytes; logs it.
    pub fn settle(&self) -> anyhow::Result<u64> {
        let there = There::look(Path::new("/"));
        let bytes = match self.memory {
            Memory::Auto => there.budget_bytes(),
            Memory::Bytes(bytes) => bytes,
        };
        ensure_value!(
            bytes >= MEMORY_BYTES_MIN,
            "--memory {} is too small; give at least 16MiB, or auto",
            Bytes(bytes)
        );
        match there.least() {
            Some((there_bytes, whose)) if self.memory == Memory::Auto => {
                log::info!("memory limit: {} of the {} of {whose}", Bytes(bytes), Bytes(there_bytes));
            }
            Some((there_bytes, whose)) if bytes > there_bytes / 2 => {
                log::warn!(
                    "--memory {} is more than half of the {} of {whose}: the system may kill this node; --memory auto uses {}",
                    Bytes(bytes),
                    Bytes(there_bytes),
                    Bytes(there.budget_bytes())
                );
            }
            _ => log::info!("memory limit: {}", Bytes(bytes)),
        }
        Ok(bytes)
    }
}

/// The available memory, as far as it can be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct There {
    device_bytes: Option<u64>,
    group_bytes: Option<u64>,
}

impl There {
    /// Reads it from the system below `root`.
    fn look(root: &Path) -> There {
        There { device_bytes: device_bytes(root), group_bytes: group_bytes(root) }
    }

    /// The smallest of these, and its source.
    fn least(&self) -> Option<(u64, &'static str)> {
        let device = self.device_bytes.map(|bytes| (bytes, "this device"));
        let group = self.group_bytes.map(|bytes| (bytes, "its control group"));
        device.into_iter().chain(group).min()
    }

    /// A node's part of it.
    fn budget_bytes(&self) -> u64 {
        let part = self.least().map_or(0, |(bytes, _)| bytes / AUTO_PART / STEP_BYTES * STEP_BYTES);
        part.clamp(MEMORY_BYTES_MIN, AUTO_BYTES_MAX)
    }
}

/// Memory of the device, without the kernel's own.
fn device_bytes(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024).filter(|&bytes| bytes > 0)
}

/// The lowest limit of the control groups that this process is in, of either version.
fn group_bytes(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = text.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (mount, file) = if controllers.is_empty() {
            ("sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            return Vec::new();
        };
        let group = Path::new(group.trim_start_matches('/'));
        group.ancestors().map(|group| root.join(mount).join(group).join(file)).collect()
    });
    // "max" does not parse, and version 1 has a number larger than any device's memory for "no limit".
    let number = |path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    limits.filter_map(number).filter(|&bytes| bytes > 0 && bytes < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn budget_mib(device: Option<u64>, group: Option<u64>) -> u64 {
        let bytes = |mib| mib * MIB;
        There { device_bytes: device.map(bytes), group_bytes: group.map(bytes) }.budget_bytes() / MIB
    }

    #[test]
    fn a_node_takes_a_sixteenth_between_its_limits() {
        for (device, expected) in [
            (1, 16),
            (255, 16),
            (256, 16),
            (271, 16),
            (272, 17),
            (970, 60),
            (1023, 63),
            (1024, 64),
            (1025, 64),
            (8192, 64),
        ] {
            assert_eq!(budget_mib(Some(device), None), expected, "{device}MiB");
        }
        assert_eq!(budget_mib(None, None), 16, "where nothing is known it takes the least");
    }

    #[test]
    fn a_control_group_may_have_less_than_the_device() {
        assert_eq!(budget_mib(Some(8192), Some(512)), 32);
        assert_eq!(budget_mib(Some(512), Some(8192)), 32);
        assert_eq!(budget_mib(None, Some(512)), 32);
    }

    #[test]
    fn sizes_and_auto_are_understood() {
        assert_eq!(parse("auto"), Ok(Memory::Auto));
        assert_eq!(parse("32MiB"), Ok(Memory::Bytes(32 * MIB)));
        assert!(parse("much").is_err());
        for (bytes, is_enough) in [(MEMORY_BYTES_MIN - 1, false), (MEMORY_BYTES_MIN, true)] {
            assert_eq!(MemoryArgs { memory: Memory::Bytes(bytes) }.settle().is_ok(), is_enough);
        }
    }

    #[test]
    fn limits_are_read_of_both_versions_and_of_every_group_above() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(There::look(root.path()), There::default());
        write("proc/meminfo", "MemTotal:        2097152 kB\nMemFree: 1 kB\n");
        write("proc/self/cgroup", "4:cpu:/x\n3:memory:/old\n0::/apps/node\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "1073741824\n");
        write("sys/fs/cgroup/apps/node/memory.max", "max\n");
        let device_bytes = Some(2 << 30);
        assert_eq!(There::look(root.path()), There { device_bytes, group_bytes: Some(1 << 30) });
        write("sys/fs/cgroup/apps/memory.max", "536870912\n");
        assert_eq!(There::look(root.path()), There { device_bytes, group_bytes: Some(512 << 20) });
        write("proc/meminfo", "MemTotal: lots\n");
        assert_eq!(There::look(root.path()).least(), Some((512 << 20, "its control group")));
    }
}
