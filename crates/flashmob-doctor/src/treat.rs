//! Setting values, after the undo file was written, and restoring them.
//!
//! At any moment the file lists everything that was changed. A value that was listed and not set yet is found unchanged, and needs no
//! restoring.

use crate::change::{self, Change, ChangeError};
use crate::undo::Entry;
use crate::undo::journal::{Journal, JournalError};

/// Why a value was not set.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum TreatError {
    /// The old value cannot be read, so it could not be restored.
    #[error("{what} cannot be read, so it was not set: {source}")]
    Unreadable { what: String, source: std::io::Error },
    /// The undo file cannot be written.
    #[error("{0}; nothing was set")]
    NoUndo(JournalError),
    /// The system refused the value.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The undo file does not match the value.
    #[error("{0}; put {1} back by hand")]
    Journal(JournalError, String),
}

/// The outcome of setting a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// It was set; its old value.
    From(String),
    /// It had this value already.
    Already,
}

/// The outcome of restoring a value.
#[derive(Debug)]
pub enum PutBack {
    /// It was restored.
    Back,
    /// It had the old value already.
    Already,
    /// Its device is gone, or the system was restarted.
    Gone,
    /// Another program has set it to this value; it was left.
    Changed(String),
    /// It belongs to another network namespace.
    Elsewhere,
    /// It could not be restored.
    Failed(String),
}

impl PutBack {
    /// Whether the entry is not needed any more.
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
    // The kernel may have set another value.
    let is_as_before = change::read(&change.place).is_ok_and(|found| found == old);
    if !is_as_before && change::write(&change.place, &old).is_err() {
        // The entry stays, with the old value.
        return Err(error.into());
    }
    journal.undo = before;
    journal.save().map_err(|error| TreatError::Journal(error, what))?;
    Err(error.into())
}

/// Restores all values, the last first, and reports each. Restored entries are removed from the file at once, the file with the last.
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
    // An entry without either is of a kernel that does not distinguish them.
    let is_ours = |noted: &Option<String>, now: Option<String>| noted.is_none() || now.is_none() || *noted == now;
    let is_this_boot = is_ours(&entry.boot, boot());
    // The numbers of namespaces are valid only until the next boot.
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
        // After a reboot the values of this program are gone: the current value is deliberate.
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

/// This boot of the kernel.
fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}
