//! The identity of a gateway towards nodes: the same after a restart, different on another machine or for another
//! configuration. Nodes cancel unfinished work of an earlier start of the same gateway.

use std::path::Path;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// The identity of a gateway with that name.
#[must_use]
pub fn named_id(name: &str) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update(b"name\0");
    hasher.update(name.as_bytes());
    first_half(&hasher.finalize())
}

/// The identity of a gateway without a name, from its machine's name and the path of its configuration.
#[must_use]
pub fn derived_id(config_path: &Path) -> [u8; 16] {
    let mut hasher = Sha256::new();
    let path = std::fs::canonicalize(config_path).unwrap_or_else(|_| config_path.to_path_buf());
    hasher.update(b"path\0");
    hasher.update(rustix::system::uname().nodename().to_bytes());
    hasher.update(b"\0");
    hasher.update(path.as_os_str().as_encoded_bytes());
    first_half(&hasher.finalize())
}

/// Where a map is used: this machine, and the path of the map.
///
/// A machine without `/etc/machine-id` is not told apart from another one without it.
#[must_use]
pub fn home_of(map_path: &Path) -> [u8; 16] {
    home_on(&std::fs::read_to_string("/etc/machine-id").unwrap_or_default(), map_path)
}

fn home_on(machine_id: &str, map_path: &Path) -> [u8; 16] {
    let path = std::fs::canonicalize(map_path).unwrap_or_else(|_| map_path.to_path_buf());
    let mut hasher = Sha256::new();
    hasher.update(b"home\0");
    hasher.update(machine_id.trim());
    hasher.update(b"\0");
    hasher.update(path.as_os_str().as_encoded_bytes());
    first_half(&hasher.finalize())
}

/// The session number of this start: nanoseconds since 1970, so that later ones are larger.
#[must_use]
pub fn session() -> u64 {
    session_at(SystemTime::now())
}

/// With a clock that may not be set: 1 before 1970, at most 2100, so that numbers remain after a clock was wrong.
fn session_at(now: SystemTime) -> u64 {
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // 2100-01-01, in seconds since 1970.
    let latest = Duration::from_secs(4_102_444_800);
    u64::try_from(since_epoch.min(latest).as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn first_half(hash: &[u8]) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_a_machine_and_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let [here, link] = ["pool.map", "link"].map(|name| dir.path().join(name));
        std::fs::write(&here, b"").unwrap();
        std::os::unix::fs::symlink(&here, &link).unwrap();
        let home = home_on("a1\n", &here);
        assert_eq!(home, home_on("a1", &link), "a link leads to the same place");
        assert_ne!(home, home_on("a2", &here), "another machine");
        assert_ne!(home, home_on("a1", dir.path()), "another path");
    }

    #[test]
    fn a_clock_that_is_not_set_still_numbers_starts() {
        let at = |unix_s| session_at(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s));
        assert_eq!(at(0), 1);
        assert_eq!(session_at(SystemTime::UNIX_EPOCH - Duration::from_secs(9)), 1);
        assert_eq!(at(1_790_000_000), 1_790_000_000_000_000_000);
        assert_eq!(at(40_000_000_000), at(50_000_000_000), "the year 3237 is not believed");
        assert!(i64::try_from(at(u64::MAX / 2)).is_ok(), "what TOML can keep");
    }
}
