//! P5's measurements, as runs of `flashmob trace sqlite`: one for each system, with the settings that show which writes can be avoided.

use std::path::PathBuf;

use crate::commands::trace::loop_fs::Kind;

/// The place of the INSERTs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a loop device with its own file system.
    Loop(Kind),
    /// In a directory.
    Folder(PathBuf),
}

/// Settings common to all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// INSERTs of each setting.
    pub inserts: u64,
    /// Additional pairs of a traced and an untraced run.
    pub pairs: u64,
    /// Journal modes, separated by commas.
    pub modes: String,
    /// Synchronous levels of the first system; the others have the first of these.
    pub levels: String,
}

/// One system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its place.
    pub place: Place,
    /// All levels, not only P5's.
    all_levels: bool,
}

/// Default journal modes.
pub const MODES: &str = "DELETE,TRUNCATE,PERSIST,WAL";
/// Default levels; P5's is the first.
pub const LEVELS: &str = "FULL,NORMAL,OFF";
/// P5's kernels had sorting schedulers for eMMC and the PC's disk: this is the nearest of today's.
const SCHEDULER: &str = "mq-deadline";
/// Estimated seconds of a setting besides its INSERTs, and of one INSERT, until the first run has completed.
const SETTING_S: f64 = 0.7;
const INSERT_S: f64 = 0.001;

/// A file system's name on the page.
fn label(system: Kind) -> &'static str {
    match system {
        Kind::Ext4NoJournal => "ext4 without journal",
        _ => system.filesystem(),
    }
}

/// Synchronous levels are swept on the first system only: their effect comes from SQLite, not from the file system.
pub fn runs(places: Vec<Place>) -> Vec<Run> {
    places.into_iter().enumerate().map(|(nth, place)| Run { place, all_levels: nth == 0 }).collect()
}

impl Run {
    /// The result's file name.
    pub fn file(&self) -> String {
        match &self.place {
            Place::Loop(system) => format!("p5-{}.json", system.name()),
            Place::Folder(_) => "p5-folder.json".into(),
        }
    }

    /// The program's arguments.
    pub fn arguments(&self, setup: &Setup) -> Vec<String> {
        let mut words = vec!["trace".to_string(), "sqlite".into()];
        match &self.place {
            Place::Loop(system) => words.extend(
                ["--loop", &system.name(), "--scheduler", SCHEDULER, "--label", label(*system)].map(String::from),
            ),
            Place::Folder(path) => words.push(path.display().to_string()),
        }
        words.extend(["--journal", &setup.modes, "--synchronous", self.levels(setup)].map(String::from));
        let numbers = [("--inserts", setup.inserts), ("--pairs", setup.pairs)];
        words.extend(numbers.into_iter().flat_map(|(option, value)| [option.to_string(), value.to_string()]));
        words
    }

    fn levels<'a>(&self, setup: &'a Setup) -> &'a str {
        let first = setup.levels.split(',').next().unwrap_or_default();
        if self.all_levels { &setup.levels } else { first }
    }
}

impl super::super::runs::Run for Run {
    type Setup = Setup;

    fn words(&self) -> String {
        match &self.place {
            Place::Loop(system) => label(*system).to_string(),
            Place::Folder(path) => format!("INSERTs in {}", path.display()),
        }
    }

    fn guess_s(&self, setup: &Setup) -> f64 {
        let settings = setup.modes.split(',').count() * self.levels(setup).split(',').count();
        let runs = 1 + 2 * setup.pairs;
        settings as f64 * (SETTING_S + runs as f64 * setup.inserts as f64 * INSERT_S)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::runs::Run as _;
    use super::*;

    #[test]
    fn runs_are_what_the_tracer_takes() {
        let setup = Setup { inserts: 300, pairs: 1, modes: MODES.into(), levels: LEVELS.into() };
        let all = runs(Kind::ALL.map(Place::Loop).to_vec());
        assert_eq!(
            all[0].arguments(&setup).join(" "),
            "trace sqlite --loop ext4 --scheduler mq-deadline --label ext4 --journal DELETE,TRUNCATE,PERSIST,WAL \
             --synchronous FULL,NORMAL,OFF --inserts 300 --pairs 1"
        );
        assert!(all[1].arguments(&setup).join(" ").contains("--loop ext4-nojournal "));
        // P5's own setting is measured on every system.
        assert!(all.iter().all(|run| run.arguments(&setup).iter().any(|word| word.starts_with("FULL"))));
        assert!(all[0].guess_s(&setup) > 2.0 * all[3].guess_s(&setup));
        let folder = runs(vec![Place::Folder("/data".into())]);
        assert!(folder[0].arguments(&setup).join(" ").starts_with("trace sqlite /data --journal "));
        assert_eq!((folder[0].file(), all[1].file()), ("p5-folder.json".into(), "p5-ext4-nojournal.json".into()));
    }
}
