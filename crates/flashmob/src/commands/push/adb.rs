//! The program `adb`, one request at a time: each has a time limit, and failures become errors with a remedy.
//! It must not be left running, nor get the terminal's signals to this program, which forwards Ctrl-C itself.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::trouble::{Trouble, trouble};
pub use crate::commands::command_line::quoted;

/// For requests that a device answers at once. The first one may have to start adb's server.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of checks whether a request is answered.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How to run `adb`.
#[derive(Clone, Debug)]
pub struct Adb {
    program: String,
}

/// The outcome of a command on the device.
#[derive(Debug)]
pub struct Answer {
    /// Its output, without the carriage returns of old devices' terminals.
    pub text: String,
    /// Its exit status.
    pub status: i32,
}

impl Adb {
    /// The program with this name or path.
    pub fn new(program: &str) -> Adb {
        Adb { program: program.to_string() }
    }

    /// A command of it, in its own process group.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null()).process_group(0);
        command
    }

    /// Starts a command; if the program is missing, the error says where to get it.
    pub fn spawn(&self, command: &mut Command) -> anyhow::Result<Child> {
        command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow::anyhow!(
                "'{}' is not installed; install it (Debian, Ubuntu: apt install adb; others: Android's platform tools), or give its path with --adb PATH",
                self.program
            ),
            _ => anyhow::anyhow!("cannot run '{}': {error}", self.program),
        })
    }

    /// Runs a command, and waits for its end.
    pub fn ask<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, timeout: Duration) -> anyhow::Result<Output> {
        let mut command = self.command(args);
        let mut child = self.spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let deadline = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                // It may have exited already.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Trouble::Silent { seconds: timeout.as_secs() }.into());
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        Ok(Output { status, stdout: stdout.join().unwrap_or_default(), stderr: stderr.join().unwrap_or_default() })
    }

    /// As [`Adb::ask`]; a failure is an error with adb's message.
    pub fn text<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        timeout: Duration,
    ) -> anyhow::Result<String> {
        let output = self.ask(args, timeout)?;
        if output.status.success() {
            Ok(lines(&output.stdout))
        } else {
            Err(trouble(&format!("{}{}", lines(&output.stderr), lines(&output.stdout))).into())
        }
    }

    /// Runs a shell script on the device that these options of adb select.
    ///
    /// Devices before Android 7 do not report the exit status, so the script prints it.
    pub fn shell(&self, device: [&str; 2], script: &str, timeout: Duration) -> anyhow::Result<Answer> {
        let line = format!("{{ {script}\n}} 2>&1; echo {STATUS_MARK}$?");
        let output = self.ask(device.into_iter().chain(["shell", &line]), timeout)?;
        match answer(&lines(&output.stdout)) {
            Some(answer) => Ok(answer),
            None => Err(trouble(&format!("{}{}", lines(&output.stderr), lines(&output.stdout))).into()),
        }
    }

    /// As [`Adb::shell`]; a failure is an error with the script's output.
    pub fn shell_text(&self, device: [&str; 2], script: &str, timeout: Duration) -> anyhow::Result<String> {
        let answer = self.shell(device, script, timeout)?;
        if answer.status == 0 { Ok(answer.text) } else { Err(trouble(&answer.text).into()) }
    }
}

/// Precedes the exit status of a script.
const STATUS_MARK: &str = "flashmob-status:";

/// Removes the status from the end; `None` if the script did not get that far.
fn answer(text: &str) -> Option<Answer> {
    let (before, status) = text.trim_end().rsplit_once(STATUS_MARK)?;
    Some(Answer { text: before.to_string(), status: status.parse().ok()? })
}

fn lines(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n")
}

/// Reads a pipe to its end in the background.
pub fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After an error, the bytes so far are used.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Words quoted for a shell.
pub fn quoted_all<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_as_they_are() {
        for word in ["plain", "", "two words", "it's", "$HOME", "a\"b", "*", "\\", "--size=1GiB", "a\nb"] {
            let output = Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(quoted("--size=1GiB"), "--size=1GiB");
    }

    #[test]
    fn the_status_is_what_stands_last() {
        let ended = answer("x\nflashmob-status:3\nflashmob-status:0\n").unwrap();
        assert_eq!((ended.text.as_str(), ended.status), ("x\nflashmob-status:3\n", 0));
        assert_eq!(answer("no newlineflashmob-status:127\n").unwrap().status, 127);
        assert!(answer("it was cut off").is_none());
        assert!(answer("flashmob-status:").is_none());
    }

    #[test]
    fn a_question_has_an_end_and_a_missing_program_a_remedy() {
        let error = Adb::new("sleep").ask(["60"], Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("no answer from adb within"), "{error}");
        let error = Adb::new("/nowhere/adb").ask(["devices"], ANSWER_TIMEOUT).unwrap_err().to_string();
        assert!(error.contains("apt install adb"), "{error}");
    }
}
