//! Setting values, with an undo written first, and putting them back.
//!
//! At any moment the file knows of everything that was changed. What was written down and not set yet is found as it was before, and
//! putting it back is nothing to do.

use crate::change::{self, Change, ChangeError};
use crate::undo::Entry;
use crate::undo::journal::{Journal, JournalError};

/// Why a value was not set.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum TreatError {
    /// What was there cannot be read, so it could not be put back.
    #[error("{what} cannot be read, so it was not set: {source}")]
    Unreadable { what: String, source: std::io::Error },
    /// No undo, no change.
    #[error("{0}; nothing was set")]
    NoUndo(JournalError),
    /// The system did not take it.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// It was set, or was not, and the file says otherwise.
    #[error("{0}; put {1} back by hand")]
    Journal(JournalError, String),
}

/// What came of setting a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// It was this before.
    From(String),
    /// It was so already.
    Already,
}

/// What came of putting a value back.
#[derive(Debug)]
pub enum PutBack {
    /// It is as it was before.
    Back,
    /// It was already.
    Already,
    /// What it belonged to is not there any more, or the device was started anew since.
    Gone,
    /// Somebody else has set it to this since; it was left.
    Changed(String),
    /// It belongs to another network namespace.
    Elsewhere,
    /// It could not be put back.
    Failed(String),
}

impl PutBack {
    /// The entry is not needed any more.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, PutBack::Back | PutBack::Already | PutBack::Gone)
    }
}

/// Sets one value.
///
/// # Errors
/// See [`TreatError`]: then the value is as it was, unless the error says otherwise.
pub fn set(journal: &mut Journal, check: &str, change: &Change) -> Result<Set, TreatError> {
    let what = change.place.words();
    let old = change::read(&change.place).map_err(|source| TreatError::Unreadable { what: what.clone(), source })?;
    if old == change.new {
        return Ok(Set::Already);
    }
    let before = journal.undo.clone();
    journal.undo.note(Entry {
        check: check.into(),
        place: change.place.clone(),
        network: change.place.is_of_network().then(network).flatten(),
        boot: boot(),
        old: old.clone(),
        new: change.new.clone(),
        previous: None,
    });
    if let Err(error) = journal.save() {
        journal.undo = before;
        return Err(TreatError::NoUndo(error));
    }
    let Err(error) = change::write(&change.place, &change.new) else { return Ok(Set::From(old)) };
    // The kernel may have made something else of it.
    let is_as_before = change::read(&change.place).is_ok_and(|found| found == old);
    if !is_as_before && change::write(&change.place, &old).is_err() {
        // The entry stays: whatever is there now, the undo knows what was.
        return Err(error.into());
    }
    journal.undo = before;
    journal.save().map_err(|error| TreatError::Journal(error, what))?;
    Err(error.into())
}

/// Puts everything back, the last first, and tells of each. What is done is taken from the file at once; the file is removed with the last.
///
/// # Errors
/// The file cannot be written any more.
pub fn put_all_back(
    journal: &mut Journal,
    force: bool,
    told: &mut dyn FnMut(&Entry, &PutBack),
) -> Result<(), JournalError> {
    for at in (0..journal.undo.entries.len()).rev() {
        let entry = journal.undo.entries[at].clone();
        let outcome = put_back(&entry, force);
        if outcome.is_done() {
            journal.undo.entries.remove(at);
            journal.save()?;
        }
        told(&entry, &outcome);
    }
    Ok(())
}

fn put_back(entry: &Entry, force: bool) -> PutBack {
    // An entry that says neither is of a kernel that does not tell them apart.
    let is_ours = |noted: &Option<String>, now: Option<String>| noted.is_none() || now.is_none() || *noted == now;
    let is_this_boot = is_ours(&entry.boot, boot());
    // The numbers of namespaces begin anew with each start, so that they say nothing of earlier ones.
    if is_this_boot && entry.place.is_of_network() && !is_ours(&entry.network, network()) {
        return PutBack::Elsewhere;
    }
    let found = match change::read(&entry.place) {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return PutBack::Gone,
        Err(error) => return PutBack::Failed(error.to_string()),
    };
    if found == entry.old {
        return PutBack::Already;
    }
    if !force {
        // After a start anew nothing is left of what was set here: what is there, somebody has chosen.
        match (is_this_boot, entry.is_ours(&found)) {
            (false, _) => return PutBack::Gone,
            (true, false) => return PutBack::Changed(found),
            (true, true) => {}
        }
    }
    match change::write(&entry.place, &entry.old) {
        Ok(()) => PutBack::Back,
        Err(error) => PutBack::Failed(error.to_string()),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// This process's network namespace.
fn network() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/net").ok()?.to_str()?.to_string())
}

/// This start of the kernel.
fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}
