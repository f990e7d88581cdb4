//! Processes of flashmob that a command starts for itself, from this very binary: watched through their logs, and gone
//! with it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal};

/// How long a process may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to end when asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Lines that may wait to be looked at while it comes up.
const LINES_WAITING: usize = 1024;
/// Lines of its log that are kept in memory, for when it goes wrong.
const LINES_KEPT: usize = 100;

/// A command that runs this very binary, ends with the thread that starts it, and reads nothing.
pub fn of_this_binary(args: &[String]) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(args).env_remove("FLASHMOB_LOG").stdin(Stdio::null()).stdout(Stdio::null());
    end_with_parent(&mut command);
    Ok(command)
}

/// Makes a command end when the thread that started it ends, however it does.
pub fn end_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before it was asked for: then no signal will come.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(std::io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: between fork and exec only two system calls are made, which allocate nothing and take no lock.
    unsafe {
        command.pre_exec(ask);
    }
}

/// One process; ended when dropped.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    name: String,
    log: PathBuf,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts it; what it says goes to `NAME.log` in `dir`.
    pub fn start(dir: &Path, name: &str, mut command: Command) -> anyhow::Result<Process> {
        let mut child = command.stderr(Stdio::piped()).spawn().with_context(|| format!("cannot start {name}"))?;
        let log = dir.join(format!("{name}.log"));
        let mut file = File::create(&log)?;
        let (sender, lines) = sync_channel(LINES_WAITING);
        let said = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    // A full disk must not stop the process that is being watched.
                    let _ = writeln!(file, "{line}");
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    if said.len() == LINES_KEPT {
                        said.pop_front();
                    }
                    said.push_back(line.clone());
                    // Nobody waits for lines any more once it is up.
                    let _ = sender.try_send(line);
                }
            });
        }
        Ok(Process { child, lines, name: name.to_string(), log, said })
    }

    /// Waits for a line of its log with `mark` in it and returns what follows the mark.
    pub fn await_line(&mut self, mark: &str) -> anyhow::Result<String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Some((_, rest)) = line.split_once(mark) {
                return Ok(rest.to_string());
            }
        }
        anyhow::bail!(
            "{} did not start; its output:\n  {}\n(log: {})",
            self.name,
            self.last_lines().join("\n  "),
            self.log.display()
        )
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it said last.
    #[must_use]
    pub fn last_lines(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Kills it at once, as when its device fails, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let pid = Pid::from_child(&self.child);
        // It may have ended in this moment.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
