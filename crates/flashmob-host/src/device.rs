//! The description of this device.

use std::path::Path;
use std::process::{Command, Stdio};

use flashmob_results::device::Device;

use super::{cpuinfo, emulation, is_android, is_android_at, text};

/// Placeholders in a PC's DMI tables.
const PLACEHOLDERS: [&str; 8] = [
    "to be filled by o.e.m.",
    "system product name",
    "system manufacturer",
    "default string",
    "not specified",
    "none",
    "o.e.m.",
    "unknown",
];

/// This device, as far as it can be identified.
#[must_use]
pub fn describe() -> Device {
    let device = describe_with(Path::new("/"), is_android(), &|name| getprop(name));
    let emulated = emulation::emulator();
    // The kernel describes the processors of the emulator's host.
    let cpu = device.cpu.filter(|_| emulated.is_none());
    Device { cpu, emulated, ..device }
}

/// The device whose `/proc`, `/sys`, `/etc` and `/system` are below `root`. Architecture and processors are those of this process, as is the
/// kernel if `root` does not contain it.
#[must_use]
pub fn describe_at(root: &Path) -> Device {
    describe_with(root, is_android_at(root), &|_| None)
}

fn describe_with(root: &Path, android: bool, live: &dyn Fn(&str) -> Option<String>) -> Device {
    let property = |name: &str| live(name).or_else(|| built_property(root, name));
    let model = android.then(|| property("ro.product.model")).flatten();
    let system = if android { android_system(&property) } else { pretty_name(root) };
    let uname = rustix::system::uname();
    let release =
        text(root.join("proc/sys/kernel/osrelease")).unwrap_or_else(|| uname.release().to_string_lossy().into());
    Device {
        model: model.or_else(|| text(root.join("proc/device-tree/model"))).or_else(|| dmi_model(root)),
        system,
        kernel: Some(format!("{} {release}", uname.sysname().to_string_lossy())),
        architecture: Some(uname.machine().to_string_lossy().into()),
        cpu: text(root.join("proc/cpuinfo")).and_then(|info| cpuinfo::cpu_name(&info)),
        cpus: usable_cpus(),
        memory_bytes: memory_bytes(root),
        emulated: None,
    }
}

/// Processors that this process may use; at least 1.
fn usable_cpus() -> u32 {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) if set.count() > 0 => set.count(),
        _ => std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
    }
}

fn memory_bytes(root: &Path) -> Option<u64> {
    let info = text(root.join("proc/meminfo"))?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn dmi_model(root: &Path) -> Option<String> {
    let told = |name: &str| {
        text(root.join("sys/class/dmi/id").join(name))
            .filter(|text| !PLACEHOLDERS.contains(&text.to_lowercase().as_str()))
    };
    match (told("sys_vendor"), told("product_name")) {
        (Some(vendor), Some(name)) if !name.starts_with(&vendor) => Some(format!("{vendor} {name}")),
        (_, Some(name)) => Some(name),
        (vendor, None) => vendor,
    }
}

fn pretty_name(root: &Path) -> Option<String> {
    let release = text(root.join("etc/os-release")).or_else(|| text(root.join("usr/lib/os-release")))?;
    let value = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
    let quoted = ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    // Shell escapes are allowed; no distribution has more than an escaped quote.
    let name = quoted.unwrap_or(value).replace('\\', "");
    (!name.is_empty()).then_some(name)
}

fn android_system(property: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let release = property("ro.build.version.release");
    let api = property("ro.build.version.sdk");
    match (release, api) {
        (Some(release), Some(api)) => Some(format!("Android {release} (API {api})")),
        (Some(release), None) => Some(format!("Android {release}")),
        (None, Some(api)) => Some(format!("Android (API {api})")),
        (None, None) => Some("Android".into()),
    }
}

/// A property from the files that Android's `init` reads.
fn built_property(root: &Path, name: &str) -> Option<String> {
    // Since Android 8 only root may read build.prop.
    ["system/build.prop", "vendor/build.prop", "product/etc/build.prop", "product/build.prop", "default.prop"]
        .iter()
        .filter_map(|file| text(root.join(file)))
        .find_map(|text| {
            let mut pairs = text.lines().filter_map(|line| line.split_once('='));
            let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_string())
        })
}

/// A property of the running system.
fn getprop(name: &str) -> Option<String> {
    if !is_android() {
        return None;
    }
    let output = Command::new("getprop").arg(name).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let value = String::from_utf8_lossy(&output.stdout).trim().to_string();
    (output.status.success() && !value.is_empty()).then_some(value)
}
