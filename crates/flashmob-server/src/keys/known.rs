//! Addresses that a node has let in, in a file beside its extent: after a restart strangers, however many, do not keep a gateway waiting that it knows.
//!
//! It is a hint and nothing else: a file that is missing, damaged or not writable costs some seconds of waiting, at a time when somebody floods the port.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::store::{put_file, read_bounded};

/// Most addresses that are kept, those that came last.
const KNOWN_MAX: usize = 16;
/// Most bytes of the file.
const FILE_BYTES_MAX: u64 = 1024;

/// The addresses, and their file.
#[derive(Debug)]
pub struct KnownAddresses {
    path: PathBuf,
    /// The last one first.
    addresses: Vec<IpAddr>,
}

impl KnownAddresses {
    /// Those in the file at `path`.
    #[must_use]
    pub fn load(path: &Path) -> KnownAddresses {
        let bytes = read_bounded(path, FILE_BYTES_MAX).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let addresses = text.lines().filter_map(|line| line.trim().parse().ok()).take(KNOWN_MAX).collect();
        KnownAddresses { path: path.to_path_buf(), addresses }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().copied()
    }

    /// One was let in. The file is written for one that is new alone, which is rare.
    pub fn note(&mut self, address: IpAddr) {
        let address = address.to_canonical();
        let is_new = !self.addresses.contains(&address);
        self.addresses.retain(|known| *known != address);
        self.addresses.insert(0, address);
        self.addresses.truncate(KNOWN_MAX);
        if is_new {
            let text: String = self.addresses.iter().map(|address| format!("{address}\n")).collect();
            if let Err(error) = put_file(&self.path, text.as_bytes()) {
                log::debug!("{}: {error}", self.path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_over_a_restart_and_damage_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.bin.known");
        let mut known = KnownAddresses::load(&path);
        assert_eq!(known.iter().count(), 0);
        for host in 0..=KNOWN_MAX as u8 {
            known.note(IpAddr::from([10, 0, 0, host]));
        }
        known.note("::ffff:10.0.0.1".parse().unwrap());
        let again: Vec<IpAddr> = KnownAddresses::load(&path).iter().collect();
        assert_eq!(again.len(), KNOWN_MAX);
        assert!(!again.contains(&IpAddr::from([10, 0, 0, 0])) && again.contains(&IpAddr::from([10, 0, 0, 1])));
        assert_eq!(known.iter().next(), Some(IpAddr::from([10, 0, 0, 1])));
        std::fs::write(&path, "10.0.0.9\nnonsense\n\u{0}\n").unwrap();
        assert_eq!(KnownAddresses::load(&path).iter().collect::<Vec<_>>(), [IpAddr::from([10, 0, 0, 9])]);
        std::fs::write(&path, vec![b'1'; 5000]).unwrap();
        assert_eq!(KnownAddresses::load(&path).iter().count(), 0);
        // It cannot be written.
        KnownAddresses::load(&dir.path().join("missing/e.bin.known")).note(IpAddr::from([10, 0, 0, 9]));
    }
}
