//! The file with the values before any change.
//!
//! Root reads and applies it. So it may contain only places that this program sets ([`Place::is_sound`]) and short printable values, and it
//! must belong to its reader and not be writable by others ([`journal`]).

pub mod journal;

use serde::{Deserialize, Serialize};

use crate::change::Place;

/// Name of the format.
pub const FORMAT: &str = "flashmob-doctor-undo";
/// Its version.
pub const FORMAT_VERSION: u32 = 1;

/// Longest undo file.
pub const BYTES_MAX: usize = 1 << 20;
/// Longest value; the longest that is set has three numbers of ten digits.
const VALUE_BYTES_MAX: usize = 200;

/// The values that were set and not restored yet, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// Always `flashmob-doctor-undo`.
    pub format: String,
    /// Version of this form: 1.
    pub format_version: u32,
    /// The values.
    pub entries: Vec<Entry>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The check that found the old value wrong.
    pub check: String,
    /// Its place.
    pub place: Place,
    /// The network namespace, if the place belongs to one.
    pub network: Option<String>,
    /// The kernel's boot id: values do not outlive a boot.
    pub boot: Option<String>,
    /// The value before the first change.
    pub old: String,
    /// The value set last.
    pub new: String,
    /// The value set before: still current if this was killed before setting the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl Default for Undo {
    fn default() -> Undo {
        Undo { format: FORMAT.into(), format_version: FORMAT_VERSION, entries: Vec::new() }
    }
}

/// Why a text is not a valid undo file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum UndoError {
    /// It is too long.
    #[error("it is longer than any undo")]
    TooLong,
    /// It is malformed.
    #[error("it is no undo: {0}")]
    Form(#[from] serde_json::Error),
    /// It is of another program or version.
    #[error("it is '{format}', version {version}, and not '{FORMAT}', version {FORMAT_VERSION}")]
    Version { format: String, version: u32 },
    /// A place or value that was never set by this program.
    #[error("entry {0} names a place or a value that flashmob never sets; nothing was done")]
    Unsound(usize),
}

impl Undo {
    /// Parses and validates it.
    ///
    /// # Errors
    /// See [`UndoError`].
    pub fn parse(text: &[u8]) -> Result<Undo, UndoError> {
        if text.len() > BYTES_MAX {
            return Err(UndoError::TooLong);
        }
        let undo: Undo = serde_json::from_slice(text)?;
        if undo.format != FORMAT || undo.format_version != FORMAT_VERSION {
            let format = undo.format.chars().filter(|c| !c.is_control()).take(80).collect();
            return Err(UndoError::Version { format, version: undo.format_version });
        }
        match undo.entries.iter().position(|entry| !entry.is_sound()) {
            Some(at) => Err(UndoError::Unsound(at + 1)),
            None => Ok(undo),
        }
    }

    /// Its text.
    ///
    /// # Errors
    /// None known.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// Adds `entry`, before it is set. A place that is listed already keeps its oldest value.
    pub fn note(&mut self, mut entry: Entry) {
        if let Some(at) = self.position(&entry) {
            let noted = self.entries.remove(at);
            entry.old = noted.old;
            entry.previous = Some(noted.new);
        }
        self.entries.push(entry);
    }

    /// The index of an entry for the same place.
    #[must_use]
    pub fn position(&self, entry: &Entry) -> Option<usize> {
        self.entries
            .iter()
            .position(|other| other.place == entry.place && other.network == entry.network && other.boot == entry.boot)
    }
}

impl Entry {
    /// Whether the current value was set by this program.
    #[must_use]
    pub fn is_ours(&self, found: &str) -> bool {
        self.new == found || self.previous.as_deref() == Some(found)
    }

    fn is_sound(&self) -> bool {
        let is_value = |text: &str| {
            !text.is_empty() && text.len() <= VALUE_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        };
        let is_word = |text: &Option<String>| text.as_deref().is_none_or(is_value);
        self.place.is_sound()
            && [&self.check, &self.old, &self.new].into_iter().all(|text| is_value(text))
            && is_word(&self.network)
            && is_word(&self.boot)
            && is_word(&self.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &str, old: &str, new: &str) -> Entry {
        Entry {
            check: "receive-buffer".into(),
            place: Place::Sysctl { name: name.into() },
            network: Some("net:[4026531840]".into()),
            boot: None,
            old: old.into(),
            new: new.into(),
            previous: None,
        }
    }

    #[test]
    fn the_oldest_value_is_kept_and_the_newest_is_known() {
        let mut undo = Undo::default();
        undo.note(entry("net.a", "1", "2"));
        undo.note(entry("net.b", "1", "2"));
        undo.note(entry("net.a", "2", "3"));
        let twice = Entry { previous: Some("2".into()), ..entry("net.a", "1", "3") };
        assert_eq!(undo.entries, [entry("net.b", "1", "2"), twice.clone()]);
        assert!(twice.is_ours("3") && twice.is_ours("2"), "it may have been killed before it set the last");
        assert!(!twice.is_ours("1") && !twice.is_ours("4"));
        let elsewhere = Entry { network: None, ..entry("net.a", "7", "8") };
        undo.note(elsewhere.clone());
        assert_eq!(undo.entries[2], elsewhere, "of another network it is another one");
        assert_eq!(Undo::parse(undo.text().unwrap().as_bytes()).unwrap(), undo);
    }

    #[test]
    fn what_this_program_never_writes_is_refused() {
        let with = |entry: Entry| {
            let undo = Undo { entries: vec![entry], ..Undo::default() };
            Undo::parse(undo.text().unwrap().as_bytes()).map_err(|error| error.to_string())
        };
        assert!(with(entry("net.a", "1", "2")).is_ok());
        for wrong in [
            entry("kernel.core_pattern", "core", "x"),
            entry("net.a", "1\n2", "2"),
            entry("net.a", "", "2"),
            entry("net.a", "1", &"x".repeat(201)),
            Entry { place: Place::Scheduler { disk: "../../x".into() }, ..entry("net.a", "1", "2") },
        ] {
            assert!(with(wrong).unwrap_err().contains("entry 1"));
        }
        assert!(with(entry("net.a", "1", &"x".repeat(200))).is_ok());
        let other = Undo { format_version: 2, ..Undo::default() };
        assert!(Undo::parse(other.text().unwrap().as_bytes()).unwrap_err().to_string().contains("version 2"));
        assert!(matches!(Undo::parse(&vec![b' '; BYTES_MAX + 1]), Err(UndoError::TooLong)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Undo::parse(&bytes);
        }

        #[test]
        fn whatever_is_read_is_sound(name in "[a-z./]{0,12}", value in "\\PC{0,5}", cut in 0usize..400) {
            let undo = Undo { entries: vec![entry(&name, &value, "1")], ..Undo::default() };
            let text = undo.text().unwrap();
            for text in [text.as_bytes(), &text.as_bytes()[..cut.min(text.len())]] {
                if let Ok(undo) = Undo::parse(text) {
                    prop_assert!(undo.entries.iter().all(Entry::is_sound));
                }
            }
        }
    }
}
