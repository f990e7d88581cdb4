//! The device that this program runs on, and what must be put back there.
//!
//! Nothing here fails because a file in `/sys` or `/proc` is missing, unreadable or odd: such a thing is
//! simply not known (`None`), for kernels differ from 3.1 on an old tablet to today's. A change of the host, such as of the
//! scheduler, does fail, and says what to do. Readers take a root directory, `/` as a rule.
//!
//! - [`device`]: what the device is; [`emulation`]: whether its processor is one
//! - [`place`]: where a file lies: mount, file system, disk
//! - [`power`]: battery, charger, screen, and the warmest zone
//! - [`scheduler`]: another I/O scheduler for a while, put back whatever happens
//! - [`watch`]: heat, slowed processors and other people's I/O during a measurement
//! - [`cache`]: what of a file is in memory, and getting it out of there or in

pub mod cache;
mod cpuinfo;
pub mod device;
pub mod emulation;
mod mounts;
mod names;
pub mod place;
pub mod power;
pub mod scheduler;
mod thermal;
pub mod watch;

#[cfg(test)]
mod tests;

pub use names::{addresses_of, addresses_of_authority};

use std::io::Read;
use std::path::Path;

/// No file that is read here is longer; what is beyond is cut off.
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

/// Entries of a directory whose names begin with `prefix` and a digit, in order; none if it cannot be read.
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

/// True on Android, which a program that was built for plain Linux can tell only when it runs.
#[must_use]
pub fn is_android() -> bool {
    cfg!(target_os = "android") || std::env::var_os("ANDROID_ROOT").is_some() || is_android_at(Path::new("/"))
}

fn is_android_at(root: &Path) -> bool {
    root.join("system/build.prop").symlink_metadata().is_ok()
}
