//! Addresses that were let in, in a file: after a restart strangers, however many, do not keep a gateway or a client waiting that is known.
//!
//! A hint and nothing else: a file that is missing, damaged or not writable costs some seconds of waiting, at a time when somebody floods the port. So it is
//! written without waiting for the flash, and not more often than once a minute. It is no list of who may do what: everybody has to prove that.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lock;
use crate::store::{create_anew, read_bounded, seal, spare_path, unseal};

/// Most addresses that are kept, those that came last.
const KNOWN_MAX: usize = 64;
/// Most bytes of the file: a whole IPv6 address has 39 letters.
const FILE_BYTES_MAX: u64 = 4096;
/// How often the file is written at most.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);

/// The addresses, and their file. Several ports may share them.
#[derive(Debug, Clone)]
pub struct KnownAddresses(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    path: PathBuf,
    /// The last one first.
    addresses: Vec<IpAddr>,
    written: Option<Instant>,
    is_to_be_written: bool,
}

impl KnownAddresses {
    /// Those in the file at `path`.
    #[must_use]
    pub fn load(path: &Path) -> KnownAddresses {
        let bytes = read_bounded(path, FILE_BYTES_MAX).unwrap_or_default();
        let text = unseal(&bytes).unwrap_or_default();
        let addresses = text.lines().filter_map(|line| line.trim().parse().ok()).take(KNOWN_MAX).collect();
        let path = path.to_path_buf();
        KnownAddresses(Arc::new(Mutex::new(State { path, addresses, written: None, is_to_be_written: false })))
    }

    /// Where a gateway with this configuration keeps them.
    #[must_use]
    pub fn path_of_gateway(config_path: &Path) -> PathBuf {
        let mut path = config_path.as_os_str().to_owned();
        path.push(".known");
        path.into()
    }

    /// All of them, the last one first.
    #[must_use]
    pub fn all(&self) -> Vec<IpAddr> {
        lock(&self.0).addresses.clone()
    }

    /// One was let in.
    pub fn note(&self, address: IpAddr) {
        self.note_at(Instant::now(), address);
    }

    fn note_at(&self, now: Instant, address: IpAddr) {
        let mut state = lock(&self.0);
        let address = address.to_canonical();
        state.is_to_be_written |= !state.addresses.contains(&address);
        state.addresses.retain(|known| *known != address);
        state.addresses.insert(0, address);
        state.addresses.truncate(KNOWN_MAX);
        if state.written.is_none_or(|written| now.saturating_duration_since(written) >= WRITTEN_EVERY) {
            state.write(now);
        }
    }
}

impl State {
    fn write(&mut self, now: Instant) {
        if !std::mem::take(&mut self.is_to_be_written) {
            return;
        }
        self.written = Some(now);
        let text: String = self.addresses.iter().map(|address| format!("{address}\n")).collect();
        if let Err(error) = put(&self.path, seal(text).as_bytes()) {
            log::debug!("{}: {error}", self.path.display());
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.write(Instant::now());
    }
}

/// Replaces the file. After a power cut it may be damaged, which is found.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = spare_path(path);
    let written = create_anew(&new).and_then(|mut file| file.write_all(bytes)).and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    #[test]
    fn the_last_ones_are_kept_over_a_restart_and_damage_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.bin.known");
        let known = KnownAddresses::load(&path);
        assert!(known.all().is_empty());
        for last in 0..=KNOWN_MAX as u8 {
            known.note(host(last));
        }
        known.note("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(known.all()[0], host(1));
        drop(known);
        let again = KnownAddresses::load(&path).all();
        assert_eq!(again.len(), KNOWN_MAX);
        assert!(!again.contains(&host(0)) && again.contains(&host(1)));
        let sealed = fs::read_to_string(&path).unwrap();
        for damaged in
            [sealed.replacen("10.0.0", "10.9.0", 1), sealed[9..].to_string(), "x".repeat(5000), String::new()]
        {
            fs::write(&path, &damaged).unwrap();
            assert!(KnownAddresses::load(&path).all().is_empty(), "{damaged}");
        }
        fs::write(&path, seal("10.0.0.9\nnonsense\n".to_string())).unwrap();
        assert_eq!(KnownAddresses::load(&path).all(), [host(9)]);
        // It cannot be written, or read.
        KnownAddresses::load(&dir.path().join("missing/e.bin.known")).note(host(9));
        assert!(KnownAddresses::load(dir.path()).all().is_empty());
    }

    #[test]
    fn the_longest_addresses_fit_and_the_file_is_written_once_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.toml.known");
        let (known, start) = (KnownAddresses::load(&path), Instant::now());
        for last in 0..KNOWN_MAX as u16 {
            known.note_at(start, IpAddr::from([0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xfff0 - last]));
        }
        assert_eq!(KnownAddresses::load(&path).all().len(), 1, "the first is written at once");
        known.note_at(start + WRITTEN_EVERY, host(1));
        assert_eq!(KnownAddresses::load(&path).all().len(), KNOWN_MAX);
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        known.note_at(start + 3 * WRITTEN_EVERY, host(1));
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written, "nothing is new");
    }
}
