//! Asking whether to set a value, setting it, and restoring all of them.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use flashmob_doctor::change::{self, Change};
use flashmob_doctor::look::Looked;
use flashmob_doctor::treat::{PutBack, Set, put_all_back, set};
use flashmob_doctor::undo::journal::{Journal, JournalError};
use flashmob_host as host;

use super::STATUS_WRONG;
use super::args::DoctorArgs;
use crate::commands::tell::{Form, harmless, print};

/// Checks of the arguments before any check of the device.
pub fn check(args: &DoctorArgs) -> anyhow::Result<()> {
    if args.fix && !args.yes {
        ensure_value!(
            io::stdin().is_terminal() && io::stderr().is_terminal(),
            "--fix asks before each change, but stdin is not a terminal; add --yes to apply all of them"
        );
    }
    Ok(())
}

/// Sets the values that can be set; true if any was.
pub fn fix(args: &DoctorArgs, found: &Looked) -> anyhow::Result<bool> {
    let findings = || found.diagnosis.checks.iter().zip(&found.changes).filter(|(_, changes)| !changes.is_empty());
    if findings().next().is_none() {
        tell(args, "--fix has nothing to set\n")?;
        return Ok(false);
    }
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "setting these values needs root; run it as root: sudo flashmob doctor --fix"
    );
    let path = undo_path(args)?;
    let mut journal = Journal::open(&path)?;
    let mut done: Vec<&Change> = Vec::new();
    let mut failed = 0;
    for (check, changes) in findings() {
        for change in changes {
            if !args.yes && !is_wanted(&check.name, change)? {
                continue;
            }
            match set(&mut journal, &check.name, change) {
                Ok(Set::From(old)) => {
                    done.push(change);
                    let what = change.place.words();
                    tell(args, &format!("set     {what}: '{}' instead of '{}'\n", change.new, harmless(&old)))?;
                }
                Ok(Set::Already) => {}
                // The others may succeed.
                Err(error) => {
                    failed += 1;
                    log::error!("{}: {error}", check.name);
                }
            }
        }
    }
    if !done.is_empty() {
        let mut text = format!(
            "{} set, until the next boot; 'flashmob doctor --undo' restores the previous values ({}).\nTo make the changes permanent, as root:\n",
            done.len(),
            journal.path().display()
        );
        for change in &done {
            text.push_str(&format!("  {}\n", change.lasting()));
        }
        tell(args, &text)?;
    }
    anyhow::ensure!(failed == 0 || !done.is_empty(), "no value could be set; see above");
    Ok(!done.is_empty())
}

/// Asks on the terminal. The end of the input is a no, to this and all further questions.
fn is_wanted(check: &str, change: &Change) -> anyhow::Result<bool> {
    let now = change::read(&change.place).map_or("?".to_string(), |value| harmless(&value));
    let mut err = io::stderr();
    write!(err, "{check}: set {} from '{now}' to '{}'? [y/N] ", change.place.words(), change.new)?;
    err.flush()?;
    let mut answer = String::new();
    let len = io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    if len == 0 {
        writeln!(err)?;
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Restores all values.
pub fn undo(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let path = undo_path(args)?;
    match path.symlink_metadata() {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            print(&format!("nothing to restore ({} does not exist)\n", path.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "restoring values needs root; run it as root: sudo flashmob doctor --undo"
    );
    let mut journal = Journal::open(&path)?;
    let (mut left, mut said) = (0, String::new());
    let outcome: Result<(), JournalError> = put_all_back(&mut journal, args.force, &mut |entry, outcome| {
        let (what, old) = (entry.place.words(), &entry.old);
        left += usize::from(!outcome.is_done());
        let line = match outcome {
            PutBack::Back => format!("back    {what}: '{old}'"),
            PutBack::Already => format!("was     {what}: '{old}' already"),
            PutBack::Gone => format!("gone    {what}: it no longer exists, or this device has restarted since"),
            PutBack::Changed(now) => format!(
                "LEFT    {what}: it was changed to '{}' since, it was '{old}'; add --force to restore that",
                harmless(now)
            ),
            PutBack::Elsewhere => format!(
                "LEFT    {what}: it was set in another network namespace ({}); run this command there",
                entry.network.as_deref().unwrap_or("unknown")
            ),
            PutBack::Failed(why) => format!("FAILED  {what} could not be restored to '{old}': {}", harmless(why)),
        };
        said.push_str(&line);
        said.push('\n');
    });
    print(&said)?;
    outcome?;
    if left == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!("{left} not restored; kept in {}\n", path.display()))?;
    Ok(ExitCode::from(STATUS_WRONG))
}

/// Reports changes on stdout for people, and on stderr if stdout has JSON.
fn tell(args: &DoctorArgs, text: &str) -> anyhow::Result<()> {
    if args.output == Form::Table {
        return print(text);
    }
    let _ = io::stderr().write_all(text.as_bytes());
    Ok(())
}

fn undo_path(args: &DoctorArgs) -> anyhow::Result<PathBuf> {
    const NAME: &str = "doctor-undo.json";
    if let Some(path) = &args.undo_file {
        return Ok(path.clone());
    }
    if rustix::process::geteuid().is_root() && !host::is_android() {
        return Ok(PathBuf::from("/var/lib/flashmob").join(NAME));
    }
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    let state = state.context("no folder for the undo file; give a file with --undo-file FILE")?;
    Ok(state.join("flashmob").join(NAME))
}
