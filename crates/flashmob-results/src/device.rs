//! The device of a measurement, and the place of its file.

use serde::{Deserialize, Serialize};

/// A device, as far as it says what it is. What could not be found out is `null`, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Model, such as `Nexus 7` or `Raspberry Pi 4 Model B Rev 1.4`.
    pub model: Option<String>,
    /// Operating system: `Android 4.4.2 (API 19)` or the distribution's own name.
    pub system: Option<String>,
    /// Kernel, such as `Linux 6.1.0`.
    pub kernel: Option<String>,
    /// Architecture, such as `aarch64`.
    pub architecture: Option<String>,
    /// Processor, such as `Intel(R) Core(TM) i7-2700K`.
    pub cpu: Option<String>,
    /// Processors that this process may use.
    pub cpus: u32,
    /// Physical memory.
    pub memory_bytes: Option<u64>,
    /// The emulator of the processor, such as `qemu-user on x86_64`; absent on a real one. Its counts are valid, its times are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<String>,
}

/// Where the file of a measurement lies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Type of the file system, such as `ext4` or `f2fs`.
    pub filesystem: Option<String>,
    /// Its mount options.
    pub mount_options: Option<String>,
    /// The disk's name in the kernel, such as `mmcblk0`.
    pub disk: Option<String>,
    /// The model that the disk reports.
    pub disk_model: Option<String>,
    /// Size of the whole disk.
    pub disk_bytes: Option<u64>,
    /// True for a rotating disk; absent where it is not known: virtual disks and USB sticks report themselves as rotating.
    pub rotational: Option<bool>,
    /// I/O scheduler that was in charge before anything was changed.
    pub scheduler: Option<String>,
    /// Schedulers that the kernel offers for this disk.
    #[serde(default)]
    pub schedulers: Vec<String>,
    /// The disk's readahead.
    pub readahead_bytes: Option<u64>,
    /// Tells the disk from others until its system restarts: equal in results of one disk, and for the extents of nodes on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<String>,
}

impl Device {
    /// The model; without one, the processor, the system or the architecture.
    #[must_use]
    pub fn name(&self) -> String {
        [&self.model, &self.cpu, &self.system, &self.architecture]
            .into_iter()
            .flatten()
            .next()
            .cloned()
            .unwrap_or_else(|| "unknown device".into())
    }
}
