//! Processes that this program starts: found in the path, watched through their logs, and gone with it.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

/// How long a process may take until it is ready.
pub const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to end when asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// A running process; ended when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts a program; what it says goes to `NAME.log` in `dir`.
    pub fn start(dir: &Path, name: &str, program: &Path, args: &[String]) -> anyhow::Result<Process> {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(args).env_remove("FLASHMOB_LOG").stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        command.current_dir(dir);
        end_with_us(&mut command);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Process { child, name: name.to_string(), log })
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for a line of its log with `mark` in it, and returns what follows the mark.
    pub fn await_line(&mut self, mark: &str) -> anyhow::Result<String> {
        let mut found = None;
        self.await_ready(mark, |log| {
            // Only whole lines: the last one may still be in the writing.
            let whole = log.rfind('\n').map_or("", |end| &log[..end]);
            found = whole.lines().find_map(|line| line.split_once(mark)).map(|(_, rest)| rest.trim().to_string());
            found.is_some()
        })?;
        found.context("it was just found")
    }

    /// Waits until `ready`, which gets the log so far, says so.
    pub fn await_ready(&mut self, what: &str, mut ready: impl FnMut(&str) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            // A log need not be text.
            let log = String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned();
            if ready(&log) {
                return Ok(());
            }
            let ended = self.ended();
            if ended.is_some() || Instant::now() > deadline {
                let how = ended.map_or("is not ready".to_string(), |status| format!("ended ({status})"));
                let last: Vec<&str> = log.lines().rev().take(3).collect();
                anyhow::bail!(
                    "{} {how} before: {what}; it said: {}",
                    self.name,
                    last.into_iter().rev().collect::<Vec<_>>().join(" / ")
                );
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends a signal and waits for the end.
    pub fn stop(&mut self, signal: rustix::process::Signal) {
        // It may have ended already.
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if self.ended().is_some() {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.stop(rustix::process::Signal::TERM);
        }
    }
}

/// However this program ends, the process ends with it.
pub fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec only one system call is made, which allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?));
    }
}

/// Where a program is, if it is in the path or where only root looks.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Where a program is; an error that names it if it is nowhere.
pub fn require(program: &str) -> anyhow::Result<PathBuf> {
    find(program).with_context(|| format!("'{program}' is not installed"))
}

/// A port that was free just now, for servers that cannot choose one themselves.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").context("no port is free")?.local_addr()?.port())
}

/// The first line that `program ARG` prints, to say which version was measured.
pub fn version(program: &str, arg: &str) -> Option<String> {
    let output = Command::new(find(program)?).arg(arg).stdin(Stdio::null()).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&text).lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_string())
}
