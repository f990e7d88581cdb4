//! Work on one device: its paths, requests to it, and whether to stop.
//!
//! On the device: the program at FOLDER/flashmob, and its files in FOLDER/flashmob.d.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};

use super::adb::{ANSWER_TIMEOUT, Adb, Answer, quoted};
use super::binary::{Binary, Processor, find};
use super::devices::{Attached, Properties, properties};
use super::trouble::trouble;

/// Lowest supported speed of a cable or network.
const COPY_BYTES_PER_S_MIN: u64 = 100_000;
/// Interval of checks for a process's end or a request to stop.
pub const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Interval of queries about the progress of a copy.
const PROGRESS_AGAIN: Duration = Duration::from_millis(500);

/// Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// A device with work in progress.
pub struct Session {
    pub adb: Adb,
    pub device: Attached,
    pub properties: Properties,
    pub folder: String,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
}

impl Session {
    pub fn begin(adb: &Adb, device: Attached, folder: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<Session> {
        let properties = properties(adb, &device, folder).with_context(|| device.name())?;
        Ok(Session { adb: adb.clone(), device, properties, folder: folder.to_string(), stop: Arc::clone(stop) })
    }

    /// Its display name.
    pub fn name(&self) -> String {
        match &self.properties.model {
            Some(model) => format!("{model} ({})", self.device.serial),
            None => self.device.name(),
        }
    }

    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The program on the device, as a shell word.
    pub fn program(&self) -> String {
        quoted(&format!("{}/flashmob", self.folder))
    }

    /// A file of the program on the device.
    pub fn kept(&self, name: &str) -> String {
        format!("{}/flashmob.d/{name}", self.folder)
    }

    /// Runs a script; a failure is an error that names the device.
    pub fn shell(&self, script: &str) -> anyhow::Result<String> {
        self.adb.shell_text(self.device.selection(), script, ANSWER_TIMEOUT).with_context(|| self.name())
    }

    /// The arguments of adb for a command on this device.
    pub fn adb_args<'a, const N: usize>(&'a self, args: [&'a str; N]) -> impl Iterator<Item = &'a str> {
        self.device.selection().into_iter().chain(args)
    }

    /// Runs a script that may fail.
    pub fn try_shell(&self, script: &str) -> anyhow::Result<Answer> {
        self.adb.shell(self.device.selection(), script, ANSWER_TIMEOUT).with_context(|| self.name())
    }

    /// Makes sure that the right binary is there, complete, and runs.
    pub fn install(&self, named: Option<&Path>) -> anyhow::Result<()> {
        let processor = Processor::of(&self.properties).with_context(|| self.name())?;
        let binary = find(named, processor).with_context(|| self.name())?;
        // Also with an existing binary: its directory may have been removed.
        self.shell(&format!("mkdir -p {}", quoted(&self.kept(""))))?;
        if self.has("flashmob", &binary)? {
            log::info!("{}: binary is up to date", self.name());
            return Ok(());
        }
        if let Some(free_bytes) = self.properties.free_bytes {
            let size = flashmob_core::units::Bytes(binary.size_bytes);
            anyhow::ensure!(
                free_bytes > binary.size_bytes,
                "{}: not enough space: the binary needs {size}, {} are free in {}",
                self.name(),
                flashmob_core::units::Bytes(free_bytes),
                self.folder
            );
        }
        self.copy(&binary)?;
        anyhow::ensure!(
            self.has("flashmob.new", &binary)?,
            "{}: the copy differs from the original; check the cable and try again",
            self.name()
        );
        let new = quoted(&format!("{}/flashmob.new", self.folder));
        // A running node keeps the file that it has open.
        let script = format!("chmod 755 {new} && {new} --version && mv {new} {}", self.program());
        let answer = self.try_shell(&script)?;
        if answer.status != 0 {
            self.try_shell(&format!("rm -f {new}"))?;
            let said = answer.text.replace("flashmob.new", "flashmob");
            return Err(anyhow::Error::from(trouble(&said)).context(self.name()));
        }
        let place = self.program();
        log::info!("{}: {} ({}) is {place}", self.name(), answer.text.trim(), processor.name());
        Ok(())
    }

    /// True if the file there has the binary's size and, where the device can compute it, its hash.
    fn has(&self, name: &str, binary: &Binary) -> anyhow::Result<bool> {
        let path = quoted(&format!("{}/{name}", self.folder));
        let answer = self.try_shell(&format!("ls -l {path} && sha256sum {path}"))?;
        let (listed, hashed) = answer.text.split_once('\n').unwrap_or((&answer.text, ""));
        Ok(listed_size(listed) == Some(binary.size_bytes) && (hash_of(hashed).is_none_or(|hash| hash == binary.sha256)))
    }

    /// Copies it under a temporary name.
    fn copy(&self, binary: &Binary) -> anyhow::Result<()> {
        let there = format!("{}/flashmob.new", self.folder);
        let mut command = self.adb.command(self.adb_args(["push"]));
        command.arg(&binary.path).arg(&there);
        let limit = ANSWER_TIMEOUT + Duration::from_secs(binary.size_bytes / COPY_BYTES_PER_S_MIN);
        let mut line = ProgressLine::new(&format!("copying to {}", self.name()));
        let mut asked = Instant::now();
        let outcome = self.transfer(command, limit, true, || {
            use std::io::IsTerminal;
            if asked.elapsed() >= PROGRESS_AGAIN && std::io::stderr().is_terminal() {
                asked = Instant::now();
                let answer =
                    self.adb.shell(self.device.selection(), &format!("ls -l {}", quoted(&there)), PROGRESS_AGAIN * 4);
                // For display only.
                if let Some(done) = answer.ok().and_then(|answer| listed_size(&answer.text)) {
                    line.show(&Progress { done, total: binary.size_bytes, unit: Unit::Bytes });
                }
            }
        });
        drop(line);
        if outcome.is_err() {
            // A partial binary is useless and takes space; a disconnected device cannot remove it.
            let _ = self.try_shell(&format!("rm -f {}", quoted(&there)));
        }
        outcome
    }

    /// Copies a small file to the device, for its owner alone.
    pub fn send(&self, here: &Path, there: &str) -> anyhow::Result<()> {
        // Where others cannot look while it is there with other rights.
        let folder = quoted(&format!("{}/flashmob.d", self.folder));
        self.shell(&format!("mkdir -p {folder} && chmod 700 {folder}"))?;
        let mut command = self.adb.command(self.adb_args(["push"]));
        command.arg(here).arg(there);
        self.transfer(command, ANSWER_TIMEOUT, true, || {})?;
        self.shell(&format!("chmod 600 {}", quoted(there))).map(|_| ())
    }

    /// Copies a file from the device, also after a request to stop: the results so far.
    pub fn fetch(&self, there: &str, here: &Path) -> anyhow::Result<()> {
        let mut command = self.adb.command(self.adb_args(["pull", there]));
        command.arg(here);
        self.transfer(command, ANSWER_TIMEOUT, false, || {})
    }

    /// Runs an adb command that copies; kills it at the time limit or, if `may_stop`, on a request to stop.
    fn transfer(
        &self,
        mut command: Command,
        limit: Duration,
        may_stop: bool,
        mut meanwhile: impl FnMut(),
    ) -> anyhow::Result<()> {
        let mut child = self.adb.spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let deadline = Instant::now() + limit;
        while child.try_wait()?.is_none() {
            let is_stopped = may_stop && self.stopping();
            if is_stopped || Instant::now() >= deadline {
                let _ = child.kill();
                let _ = child.wait();
                anyhow::ensure!(!is_stopped, Stopped);
                anyhow::bail!(
                    "{}: copying did not finish within {} s; try another cable or port",
                    self.name(),
                    limit.as_secs()
                );
            }
            meanwhile();
            std::thread::sleep(LOOK_AGAIN);
        }
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Err(anyhow::Error::from(trouble(&said)).context(self.name()))
    }
}

/// The size in a line of `ls -l`: the last number before the date. Devices before Android 6 have no link count.
fn listed_size(line: &str) -> Option<u64> {
    let words: Vec<_> = line.split_whitespace().collect();
    let is_date = |word: &&str| {
        word.len() == 10
            && word.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() })
    };
    let month = |word: &&str| word.len() == 3 && word.bytes().all(|b| b.is_ascii_alphabetic());
    let date = words.iter().position(is_date).or_else(|| words.iter().position(month))?;
    words.get(date.checked_sub(1)?)?.parse().ok()
}

/// A hash, if the device's answer is one.
fn hash_of(line: &str) -> Option<&str> {
    let word = line.split_whitespace().next()?;
    (word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_old_and_new_lists() {
        assert_eq!(
            listed_size("-rwxr-xr-x 1 shell shell 11825664 2026-11-22 07:05 /data/local/tmp/flashmob"),
            Some(11_825_664)
        );
        assert_eq!(listed_size("-rwxrwxrwx shell    shell    11825664 2026-11-22 07:05 flashmob"), Some(11_825_664));
        assert_eq!(listed_size("-rwxr-xr-x 1 root root 42 Nov 22 07:05 /data/local/tmp/flashmob"), Some(42));
        assert_eq!(listed_size("ls: /data/local/tmp/flashmob: No such file or directory"), None);
        assert_eq!(listed_size(""), None);
    }

    #[test]
    fn only_a_hash_is_taken_for_one() {
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash_of(&format!("{hash}  /data/local/tmp/flashmob")), Some(hash));
        assert_eq!(hash_of("/system/bin/sh: sha256sum: not found"), None);
    }
}
