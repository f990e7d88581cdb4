//! The device that this program runs on.
//!
//! Nothing here fails because a file in `/sys` or `/proc` is missing, unreadable or malformed: its value is then unknown (`None`), because
//! kernels differ, from 3.1 on an old tablet to current ones. Changes of the host, such as of the scheduler, do fail, with a remedy. Readers
//! take a root directory, usually `/`.
//!
//! - [`device`]: the device's description; [`emulation`]: whether its processor is emulated
//! - [`place`]: mount, file system and disk of a file
//! - [`power`]: battery, charger, screen and highest temperature
//! - [`scheduler`]: another I/O scheduler for the duration of a measurement
//! - [`watch`]: throttling and other programs' I/O during a measurement
//! - [`cache`]: the page cache of a file; [`cache_life`]: how long it stays

pub mod cache;
mod cache_life;
mod cpuinfo;
pub mod device;
pub mod emulation;
pub mod flushes;
mod mounts;
mod names;
pub mod place;
pub mod power;
pub mod scheduler;
mod thermal;
pub mod threads;
pub mod watch;

#[cfg(test)]
mod tests;

pub use cache_life::cache_life;
pub use names::{addresses_of, addresses_of_authority};

use std::io::Read;
use std::path::Path;

/// Longer files are truncated.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// The text of a small file, without white space and NULs at its ends; `None` if it cannot be read or is empty.
fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_string())
}

/// The number that a file holds.
fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// Entries of a directory whose names are `prefix` and a number, in order; none if it cannot be read.
fn numbered(dir: impl AsRef<Path>, prefix: &str) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<(u64, std::path::PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let digits = name.to_str()?.strip_prefix(prefix)?;
            Some((digits.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Major and minor number of the kernel below `root`; 0 where it does not tell them.
fn kernel_release(root: &Path) -> (u32, u32) {
    let release = text(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// True on Android, which a program built for Linux can detect only at run time.
#[must_use]
pub fn is_android() -> bool {
    cfg!(target_os = "android") || std::env::var_os("ANDROID_ROOT").is_some() || is_android_at(Path::new("/"))
}

fn is_android_at(root: &Path) -> bool {
    root.join("system/build.prop").symlink_metadata().is_ok()
}
