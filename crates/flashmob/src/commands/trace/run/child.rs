//! The command, stopped before exec until it is traced.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;

/// The environment variable with the path of the file for the command's markers.
const MARKER_VARIABLE: &str = "FLASHMOB_TRACE_MARKER";

/// The process id of the running command; 0 without one.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// From here on signals only affect the command, and its trace is still reported: Ctrl-C reaches it directly, a signal to this process
/// alone is forwarded.
pub fn hand_on_signals() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let hand_on = move || {
        for signal in signals.forever() {
            let id = libc::pid_t::try_from(RUNNING.load(Ordering::Acquire)).unwrap_or(0);
            if signal == SIGTERM && id > 0 {
                // SAFETY: it takes only numbers. The process is this one's child.
                unsafe { libc::kill(id, SIGTERM) };
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).stack_size(128 * 1024).spawn(hand_on)?;
    Ok(())
}

/// A process that becomes the command when it is released.
///
/// Spawning a program returns only after exec, so it is spawned on a thread of its own, and waits between fork and exec.
pub struct Child {
    id: u32,
    go: File,
    started: JoinHandle<io::Result<std::process::Child>>,
    name: String,
}

/// The outcome of the command.
pub struct Ended {
    pub status: ExitStatus,
    /// Its duration.
    pub elapsed: Duration,
}

/// The command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {name}: {source}")]
pub struct NotStarted {
    name: String,
    source: io::Error,
}

impl NotStarted {
    /// The exit status that shells have for it.
    pub fn status(&self) -> u8 {
        if self.source.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

impl Child {
    /// Creates the process. With `quiet` its output goes to stderr, because stdout has a document.
    pub fn hold(command: &[String], marker: Option<&Path>, quiet: bool) -> anyhow::Result<Child> {
        let (program, arguments) = command.split_first().context("no command given")?;
        let (told, tell) = io::pipe()?;
        let (wait, go) = io::pipe()?;
        let mut command = Command::new(program);
        command.args(arguments);
        match marker {
            Some(path) => command.env(MARKER_VARIABLE, path),
            None => command.env_remove(MARKER_VARIABLE),
        };
        if quiet {
            command.stdout(Stdio::from(rustix::io::dup(io::stderr())?));
        }
        let (tell_fd, wait_fd) = (tell.as_raw_fd(), wait.as_raw_fd());
        let (tell, wait): (OwnedFd, OwnedFd) = (tell.into(), wait.into());
        // SAFETY: between fork and exec it calls only getpid, write and read, which are async-signal-safe, on its open descriptors.
        unsafe {
            command.pre_exec(move || {
                let id = libc::getpid().to_ne_bytes();
                if libc::write(tell_fd, id.as_ptr().cast(), id.len()) != 4 {
                    return Err(io::Error::last_os_error());
                }
                let mut byte = 0u8;
                // The end of the pipe in place of a byte: the tracing process has exited.
                match libc::read(wait_fd, (&raw mut byte).cast(), 1) {
                    1 => Ok(()),
                    _ => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
                }
            });
        }
        let started = std::thread::Builder::new().name("starter".into()).spawn(move || {
            let child = command.spawn();
            drop((tell, wait));
            child
        })?;
        let mut id = [0; 4];
        let mut told = File::from(OwnedFd::from(told));
        if let Err(error) = told.read_exact(&mut id) {
            // The process could not be created.
            let reason = started.join().ok().and_then(Result::err).unwrap_or(error);
            return Err(reason).with_context(|| format!("cannot start {program}"));
        }
        let go = File::from(OwnedFd::from(go));
        Ok(Child { id: u32::from_ne_bytes(id), go, started, name: program.clone() })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Releases it, and waits for its end.
    pub fn go(self) -> anyhow::Result<Ended> {
        let Child { id, mut go, started, name } = self;
        let begun = Instant::now();
        go.write_all(&[1])?;
        let child = started.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")));
        let mut child = match child {
            Ok(child) => child,
            Err(source) => return Err(NotStarted { name, source }.into()),
        };
        RUNNING.store(id, Ordering::Release);
        let status = child.wait();
        RUNNING.store(0, Ordering::Release);
        let status = status?;
        Ok(Ended { status, elapsed: begun.elapsed() })
    }
}
