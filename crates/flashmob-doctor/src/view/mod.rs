//! The data of a device that is visible without privileges: files below a root directory, and the output of a few programs.
//!
//! The root is `/` for this device. For a copied tree it is that of the copy, and then no system call and no program of this device is used.
//! The outputs of programs are then files in the folder `commands`, named by the command's words with `_` between them.

pub mod cluster;
mod data;
pub mod etcd;
mod interfaces;
mod programs;
mod target;

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use cluster::Cluster;
pub use data::{Data, Space};
pub use etcd::Etcd;
pub use interfaces::Interface;
pub use programs::Answer;
pub use target::{Rate, Target};

use crate::path::Found;

/// Longer files are truncated.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// The visible data of a device.
#[derive(Debug)]
pub struct View {
    root: PathBuf,
    is_live: bool,
    is_android: bool,
    /// The path that settings are judged by.
    pub target: Target,
    /// The path to a peer, if one was named.
    pub path: Option<Found>,
    /// The place of the data, if it was named.
    pub data: Option<Data>,
    /// A cluster, if its gateway was named.
    pub cluster: Option<Cluster>,
    /// The etcd cluster of gateways, if it was named.
    pub etcd: Option<Etcd>,
}

impl View {
    /// This device.
    #[must_use]
    pub fn of_this_device() -> View {
        View {
            root: "/".into(),
            is_live: true,
            is_android: flashmob_host::is_android(),
            target: Target::default(),
            path: None,
            data: None,
            cluster: None,
            etcd: None,
        }
    }

    /// A copied tree.
    #[must_use]
    pub fn of_tree(root: &Path) -> View {
        let is_android = root.join("system/build.prop").symlink_metadata().is_ok();
        View {
            root: root.into(),
            is_live: false,
            is_android,
            target: Target::default(),
            path: None,
            data: None,
            cluster: None,
            etcd: None,
        }
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is this device, so that system calls and programs are available.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether it runs Android.
    #[must_use]
    pub fn is_android(&self) -> bool {
        self.is_android
    }

    /// The text of a small file, without white space at its ends; `None` if it cannot be read. `path` is relative to the root.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        text(&self.root.join(path))
    }

    /// The number that a file holds.
    #[must_use]
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A setting of the kernel by the name that `sysctl` has for it.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> Option<String> {
        self.text(&format!("proc/sys/{}", name.replace('.', "/")))
    }

    /// The same as a number.
    #[must_use]
    pub fn sysctl_number(&self, name: &str) -> Option<i64> {
        self.sysctl(name)?.parse().ok()
    }

    /// Names in a folder, in order; none if it cannot be read.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The output of a program.
    #[must_use]
    pub fn ask(&self, program: &str, words: &[&str]) -> Answer {
        if self.is_live { programs::run(program, words) } else { programs::recorded(&self.root, program, words) }
    }
}

/// The text of a small file, whatever bytes are in it.
pub(crate) fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    // In a copied tree it may be a pipe without a writer.
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()?;
    file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_in_a_copied_tree_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(text(&pipe).as_deref(), Some(""));
    }
}
