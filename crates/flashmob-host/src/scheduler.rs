//! Another I/O scheduler for a disk, for as long as a measurement lasts.
//!
//! The old one comes back on every way out: by [`SchedulerGuard::restore`], when the guard is dropped, and when this
//! process is killed. For the last, a shell of a session of its own holds the reading end of a pipe whose writing end
//! only this process has: when it is gone, for whatever reason, the shell reads the end and writes the old value. After an
//! ordinary restore it writes the same value once more and is waited for, so that it cannot undo what comes later.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flashmob_results::warning::{Code, Warning};

use super::place::Disk;

/// To write a scheduler means to empty the disk's queue first. A full one of a slow card takes seconds, not this.
const WATCHER_ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Built-in commands only, for old Androids have little else. Signals that end whole sessions or groups are ignored.
const WATCHER: &str = r#"trap '' INT TERM HUP QUIT PIPE; while read -r _; do :; done; printf %s "$1" >"$2""#;

/// Why the scheduler is not as wished.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum SchedulerError {
    /// The file lies on no disk that is known.
    #[error("the file lies on no disk with a scheduler of its own, so '{0}' cannot be set; leave the scheduler out")]
    NoDisk(String),
    /// The disk does not say which scheduler it has.
    #[error("{disk} does not say which scheduler it has ({}); leave the scheduler out", path.display())]
    NoScheduler { disk: String, path: PathBuf },
    /// The kernel does not have it.
    #[error("the kernel offers no scheduler '{wanted}' for {disk}, only {}{}", offered.join(", "),
        suggestion.as_ref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default())]
    Unknown { disk: String, wanted: String, offered: Vec<String>, suggestion: Option<String> },
    /// Only root may.
    #[error("the scheduler of {0} needs root to be set; run this as root, or leave the scheduler out")]
    NotPermitted(String),
    /// The kernel took it and has another one all the same.
    #[error("{disk} was told to use '{wanted}' and uses '{found}'")]
    NotTaken { disk: String, wanted: String, found: String },
    /// The old one could not be put back.
    #[error("the scheduler of {disk} could not be put back: {source}; do it by hand: echo {old} > {}", path.display())]
    NotRestored { disk: String, old: String, path: PathBuf, source: io::Error },
    /// The system refused otherwise.
    #[error("the scheduler of {disk} cannot be set to '{wanted}': {source}")]
    Io { disk: String, wanted: String, source: io::Error },
}

/// A disk with another scheduler than it had, until this is dropped.
#[derive(Debug)]
pub struct SchedulerGuard {
    disk: Disk,
    path: PathBuf,
    old: String,
    current: String,
    /// What is still to be put back. False also if the scheduler was the wished one already.
    is_changed: bool,
    watcher: Option<Child>,
    warning: Option<Warning>,
}

impl SchedulerGuard {
    /// Sets the scheduler of `disk` to `wanted` and checks that it is so. If it was so already, nothing is done.
    pub fn set(disk: Option<&Disk>, wanted: &str) -> Result<SchedulerGuard, SchedulerError> {
        let Some(disk) = disk else { return Err(SchedulerError::NoDisk(wanted.into())) };
        let path = disk.scheduler_path();
        let (current, offered) = disk.schedulers();
        let Some(old) = current else {
            return Err(SchedulerError::NoScheduler { disk: disk.name.clone(), path });
        };
        let (disk, current) = (disk.clone(), old.clone());
        let mut guard = SchedulerGuard { disk, path, old, current, is_changed: false, watcher: None, warning: None };
        if guard.current != wanted {
            guard.change(wanted, offered)?;
        }
        Ok(guard)
    }

    /// The scheduler that the disk had before.
    #[must_use]
    pub fn previous(&self) -> &str {
        &self.old
    }

    /// The scheduler that it has now.
    #[must_use]
    pub fn current(&self) -> &str {
        &self.current
    }

    /// A doubt whether the old one would come back if this process were killed.
    #[must_use]
    pub fn warning(&self) -> Option<&Warning> {
        self.warning.as_ref()
    }

    /// Puts the old scheduler back and checks that it is so.
    pub fn restore(mut self) -> Result<(), SchedulerError> {
        self.put_back()
    }

    fn change(&mut self, wanted: &str, offered: Vec<String>) -> Result<(), SchedulerError> {
        let disk = self.disk.name.clone();
        // Not only who may not write: in a container /sys may be read-only for root as well.
        let refused = |source: io::Error| match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => SchedulerError::NotPermitted(disk.clone()),
            _ => SchedulerError::Io { disk: disk.clone(), wanted: wanted.into(), source },
        };
        OpenOptions::new().write(true).open(&self.path).map_err(refused)?;
        match watch_over(&self.path, &self.old) {
            Ok(child) => self.watcher = Some(child),
            Err(error) => {
                let (old, path) = (&self.old, self.path.display());
                self.warning = Some(Warning::new(
                    Code::Scheduler,
                    format!(
                        "no shell could be started ({error}), so the scheduler of {disk} stays changed if this process is killed; then: echo {old} > {path}"
                    ),
                ));
            }
        }
        self.is_changed = true;
        // Not only what is listed: the kernel loads a module by the name that is written.
        let written = write_value(&self.path, wanted);
        let found = self.disk.schedulers().0.unwrap_or_default();
        if written.is_ok() && found == wanted {
            self.current = found;
            return Ok(());
        }
        self.put_back()?;
        let is_unknown = !offered.iter().any(|name| name == wanted);
        match written {
            Err(error) if !(is_unknown && error.raw_os_error() == Some(libc::EINVAL)) => Err(refused(error)),
            // The kernel takes some old names for new ones. What is asked for should be what is written down.
            _ if is_unknown => {
                let suggestion = suggestion(wanted, &offered);
                Err(SchedulerError::Unknown { disk, wanted: wanted.into(), offered, suggestion })
            }
            _ => Err(SchedulerError::NotTaken { disk, wanted: wanted.into(), found }),
        }
    }

    fn put_back(&mut self) -> Result<(), SchedulerError> {
        if !self.is_changed {
            return Ok(());
        }
        self.is_changed = false;
        let mut restored = write_value(&self.path, &self.old);
        if let Some(child) = self.watcher.take() {
            dismiss(child);
        }
        let found = self.disk.schedulers().0.unwrap_or_default();
        if found == self.old {
            // Whichever of the two did it.
            restored = Ok(());
        } else if restored.is_ok() {
            restored = Err(io::Error::other(format!("it is '{found}'")));
        }
        self.current = found;
        restored.map_err(|source| SchedulerError::NotRestored {
            disk: self.disk.name.clone(),
            old: self.old.clone(),
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for SchedulerGuard {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            // Nobody is left to hand it to, and the user must know.
            let _ = writeln!(io::stderr(), "flashmob: {error}");
        }
    }
}

fn write_value(path: &Path, value: &str) -> io::Result<()> {
    // Truncated, which sysfs ignores, so that an ordinary file will do as well.
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

/// Starts the shell that writes `value` to `path` when this process is gone.
fn watch_over(path: &Path, value: &str) -> io::Result<Child> {
    let start = |shell: &str| {
        let mut command = Command::new(shell);
        command.args(["-c", WATCHER, "sh", value]).arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        // SAFETY: between fork and exec only setsid(2) is called, which takes no lock and no memory.
        unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
        command.spawn()
    };
    match start("sh") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => start("/system/bin/sh"),
        started => started,
    }
}

/// Closes the pipe and waits for the shell, which writes the old value once more.
fn dismiss(mut child: Child) {
    drop(child.stdin.take());
    let begun = Instant::now();
    while let Ok(None) = child.try_wait() {
        if begun.elapsed() > WATCHER_ENDS_WITHIN {
            // It hangs in the kernel; it would do no harm but write what is there already.
            let _ = child.kill();
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The nearest name, if at most half of its letters differ or one holds the other.
fn suggestion(wanted: &str, offered: &[String]) -> Option<String> {
    let wanted = wanted.to_lowercase();
    let contains = |name: &&String| !wanted.is_empty() && (name.contains(&wanted) || wanted.contains(name.as_str()));
    let near = offered
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, name), name))
        .filter(|(distance, name)| *distance <= name.chars().count() / 2)
        .min();
    offered.iter().find(contains).or(near.map(|(_, name)| name)).cloned()
}
