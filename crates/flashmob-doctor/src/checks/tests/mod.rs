//! Each check on made-up trees: at, below and above its thresholds.

mod android;
mod any_bytes;
mod cluster;
mod disk;
mod etcd;
mod machine;
mod network;

use std::path::{Path, PathBuf};

use flashmob_results::diagnosis::Outcome;

use super::{Finding, TABLE};
use crate::view::{Target, View};

/// A root directory with files, until it is dropped.
pub struct Tree(tempfile::TempDir);

impl Tree {
    pub fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (path, text) in files {
            tree.file(path, text);
        }
        tree
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn file(&self, path: &str, text: &str) -> &Tree {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub fn view(&self) -> View {
        View::of_tree(self.root())
    }

    /// The finding of the check of this name.
    pub fn look(&self, name: &str) -> Finding {
        look(&self.view(), name)
    }

    /// The same for a path.
    pub fn look_for(&self, name: &str, bits_per_second: f64, rtt_s: f64) -> Finding {
        let mut view = self.view();
        view.target = Target { rtt_s, bits_per_second, is_assumed: false };
        look(&view, name)
    }

    /// The same with data at a path.
    pub fn look_at_data(&self, name: &str, path: &str) -> Finding {
        let mut view = self.view();
        view.add_data(Path::new(path)).unwrap();
        look(&view, name)
    }
}

pub fn look(view: &View, name: &str) -> Finding {
    let finding = TABLE.iter().find(|(each, _)| *each == name).unwrap().1(view);
    // Properties of every finding.
    let is_wrong = matches!(finding.outcome, Outcome::Wrong | Outcome::Severe);
    assert_eq!(is_wrong, !finding.cost.is_empty(), "{finding:?}");
    assert!(!finding.found.is_empty());
    assert!(is_wrong || (finding.changes.is_empty() && finding.command.is_empty()), "{finding:?}");
    let says_nothing = finding.changes.is_empty() && finding.command.is_empty() && finding.advice.is_empty();
    assert!(!(is_wrong && says_nothing), "{finding:?}");
    assert!(finding.changes.iter().all(|change| change.place.is_sound()), "{finding:?}");
    finding
}

/// The commands that fix it.
pub fn commands(finding: &Finding) -> Vec<String> {
    finding.changes.iter().map(crate::change::Change::command).collect()
}

#[test]
fn names_are_such_as_one_types_and_each_is_there_once() {
    let mut names: Vec<&str> = TABLE.iter().map(|(name, _)| *name).collect();
    assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLE.len());
}

#[test]
fn of_an_empty_tree_nothing_is_said_that_is_not_known() {
    let tree = Tree::new(&[]);
    for (name, _) in TABLE {
        let outcome = tree.look(name).outcome;
        assert!(matches!(outcome, Outcome::Unknown | Outcome::NotApplicable | Outcome::Well), "{name}: {outcome:?}");
        assert_ne!(outcome, Outcome::Well, "{name}");
    }
}

#[test]
fn the_documents_name_every_check() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    let text = std::fs::read_to_string(path).unwrap();
    for (name, _) in TABLE {
        assert!(text.contains(&format!("| `{name}` |")), "{name}");
    }
}
