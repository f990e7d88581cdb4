//! Outputs of the system's programs, used only where no file has the data, with a time limit.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Android's services answer in milliseconds, or not at all when they hang.
const WAIT_MAX: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(2);
/// Longer output is truncated.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The outcome of running a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its output.
    Said(String),
    /// It failed: its message, or the reason.
    Refused(String),
    /// There is no such program.
    Absent,
}

/// Runs it, without input.
pub(super) fn run(program: &str, words: &[&str]) -> Answer {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Answer::Absent,
        Err(error) => return Answer::Refused(error.to_string()),
    };
    // Threads, because a full pipe would block the program. They end with it; those of a hanging program are not awaited.
    let read = |from: Option<Box<dyn Read + Send>>| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let listen = move || {
            let mut bytes = Vec::new();
            if let Some(from) = from {
                let _ = from.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
            }
            let _ = sender.send(String::from_utf8_lossy(&bytes).trim().to_string());
        };
        // Without a thread there is no output.
        let _ = std::thread::Builder::new().stack_size(128 * 1024).spawn(listen);
        receiver
    };
    let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < WAIT_MAX => std::thread::sleep(POLL),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Answer::Refused(format!("no answer within {} s", WAIT_MAX.as_secs()));
            }
        }
    };
    // It has ended; only its children may still hold the pipe.
    let text = |from: std::sync::mpsc::Receiver<String>| from.recv_timeout(WAIT_MAX).unwrap_or_default();
    let (out, err) = (text(out), text(err));
    if status.success() {
        return Answer::Said(out);
    }
    let said = if err.is_empty() { out } else { err };
    let line = said.lines().next().unwrap_or_default();
    Answer::Refused(if line.is_empty() { status.to_string() } else { line.to_string() })
}

/// Its recorded output in a copied tree.
pub(super) fn recorded(root: &Path, program: &str, words: &[&str]) -> Answer {
    let name = [&[program], words].concat().join("_").replace('/', "_");
    super::text(&root.join("commands").join(name)).map_or(Answer::Absent, Answer::Said)
}
