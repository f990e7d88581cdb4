//! Another I/O scheduler for a disk, for the duration of a measurement.
//!
//! The old scheduler is restored on every exit: by [`SchedulerGuard::restore`], when the guard is dropped, and when this process is killed.
//! For the last case a shell in a session of its own holds the reading end of a pipe whose only writing end is in this process: when the
//! process ends, the shell reads the end of the pipe and writes the old value. After an ordinary restore it writes the same value once more
//! and is awaited, so that it cannot undo later changes.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flashmob_results::warning::{Code, Warning};

use super::place::Disk;

/// Setting a scheduler drains the disk's queue first: a full one of a slow card takes seconds.
const WATCHER_ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Built-in commands only, because old Androids have little else. Signals to whole sessions or groups are ignored.
const WATCHER: &str = r#"trap '' INT TERM HUP QUIT PIPE; while read -r _; do :; done; printf %s "$1" >"$2""#;

/// Why the scheduler cannot be set.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum SchedulerError {
    /// The disk of the file is not known.
    #[error("the file lies on no disk with a scheduler of its own, so '{0}' cannot be set; leave the scheduler out")]
    NoDisk(String),
    /// The disk does not report its scheduler.
    #[error("{disk} does not say which scheduler it has ({}); leave the scheduler out", path.display())]
    NoScheduler { disk: String, path: PathBuf },
    /// The kernel does not have this scheduler.
    #[error("the kernel offers no scheduler '{wanted}' for {disk}, only {}{}", offered.join(", "),
        suggestion.as_ref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default())]
    Unknown { disk: String, wanted: String, offered: Vec<String>, suggestion: Option<String> },
    /// Only root may set it.
    #[error("the scheduler of {0} needs root to be set; run this as root, or leave the scheduler out")]
    NotPermitted(String),
    /// The kernel accepted it and has another one.
    #[error("{disk} was told to use '{wanted}' and uses '{found}'")]
    NotTaken { disk: String, wanted: String, found: String },
    /// The old one could not be restored.
    #[error("the scheduler of {disk} could not be restored: {source}; do it by hand: echo {old} > {}", path.display())]
    NotRestored { disk: String, old: String, path: PathBuf, source: io::Error },
    /// Another error of the system.
    #[error("the scheduler of {disk} cannot be set to '{wanted}': {source}")]
    Io { disk: String, wanted: String, source: io::Error },
}

/// Another scheduler for a disk, until this is dropped.
#[derive(Debug)]
pub struct SchedulerGuard {
    disk: Disk,
    path: PathBuf,
    old: String,
    current: String,
    /// The old scheduler has to be restored. False if the disk had the wanted one already.
    is_changed: bool,
    watcher: Option<Child>,
    warning: Option<Warning>,
}

impl SchedulerGuard {
    /// Sets the scheduler of `disk` to `wanted`, unless it is set already, and checks it.
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

    /// The disk's current scheduler.
    #[must_use]
    pub fn current(&self) -> &str {
        &self.current
    }

    /// A warning if the old scheduler would not be restored after this process is killed.
    #[must_use]
    pub fn warning(&self) -> Option<&Warning> {
        self.warning.as_ref()
    }

    /// Restores the old scheduler, and checks it.
    pub fn restore(mut self) -> Result<(), SchedulerError> {
        self.put_back()
    }

    fn change(&mut self, wanted: &str, offered: Vec<String>) -> Result<(), SchedulerError> {
        let disk = self.disk.name.clone();
        // In a container /sys may be read-only for root as well.
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
        // Also names that are not listed: the kernel loads a module of that name.
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
            // The kernel maps some old names to new ones. Results should show the name that was asked for.
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
            // By either of the two.
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
            // There is no caller to return it to, and the user must know.
            let _ = writeln!(io::stderr(), "flashmob: {error}");
        }
    }
}

fn write_value(path: &Path, value: &str) -> io::Result<()> {
    // Sysfs ignores the truncation, which ordinary files need.
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
            // It hangs in the kernel, and would only write the current value.
            let _ = child.kill();
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The nearest name, if at most half of its letters differ or one contains the other.
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
