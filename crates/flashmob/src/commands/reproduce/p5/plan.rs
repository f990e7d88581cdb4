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

impl Place {
    /// The result's file name.
    pub fn file(&self) -> String {
        match self {
            Place::Loop(system) => format!("p5-{}.json", system.name()),
            Place::Folder(_) => "p5-folder.json".into(),
        }
    }

    /// Its description.
    pub fn words(&self) -> String {
        match self {
            Place::Loop(system) => label(*system).to_string(),
            Place::Folder(path) => format!("INSERTs in {}", path.display()),
        }
    }
}

/// Settings common to all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// INSERTs of each setting.
    pub inserts: u64,
    /// Rounds: in each, every system is measured once, with a pair of a traced and an untraced run. 0: one round without.
    pub rounds: u64,
    /// Journal modes, separated by commas.
    pub modes: String,
    /// Synchronous levels of the first system; the others have the first of these.
    pub levels: String,
}

/// One system in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which round, from 0.
    pub round: u64,
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

/// Systems in turn, round after round: a change of the machine's load is then not one between systems. Synchronous levels are swept on the first
/// system only: their effect comes from SQLite, not from the file system.
pub fn runs(places: &[Place], rounds: u64) -> Vec<Run> {
    let round = |round: u64| {
        let run = move |(nth, place): (usize, &Place)| Run { round, place: place.clone(), all_levels: nth == 0 };
        places.iter().enumerate().map(run)
    };
    (0..rounds.max(1)).flat_map(round).collect()
}

impl Run {
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
        let numbers = [("--inserts", setup.inserts), ("--pairs", setup.rounds.min(1))];
        words.extend(numbers.into_iter().flat_map(|(option, value)| [option.to_string(), value.to_string()]));
        // One pair each round: which of it comes first alternates, against drift.
        words.extend((self.round % 2 == 1).then(|| "--traced-first".to_string()));
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
        let round = if self.round > 0 { format!(", round {}", self.round + 1) } else { String::new() };
        format!("{}{round}", self.place.words())
    }

    fn guess_s(&self, setup: &Setup) -> f64 {
        let settings = setup.modes.split(',').count() * self.levels(setup).split(',').count();
        let runs = 1 + 2 * setup.rounds.min(1);
        settings as f64 * (SETTING_S + runs as f64 * setup.inserts as f64 * INSERT_S)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::runs::Run as _;
    use super::*;

    #[test]
    fn runs_are_what_the_tracer_takes() {
        let setup = Setup { inserts: 300, rounds: 3, modes: MODES.into(), levels: LEVELS.into() };
        let all = runs(&Kind::ALL.map(Place::Loop), setup.rounds);
        assert_eq!(all.len(), 3 * Kind::ALL.len());
        assert_eq!(
            (&all[0].place, all[0].round),
            (&all[Kind::ALL.len()].place, all[Kind::ALL.len()].round - 1),
            "in turn"
        );
        assert_eq!(
            all[0].arguments(&setup).join(" "),
            "trace sqlite --loop ext4 --scheduler mq-deadline --label ext4 --journal DELETE,TRUNCATE,PERSIST,WAL \
             --synchronous FULL,NORMAL,OFF --inserts 300 --pairs 1"
        );
        assert!(all[1].arguments(&setup).join(" ").contains("--loop ext4-nojournal "));
        // P5's own setting is measured on every system.
        assert!(all.iter().all(|run| run.arguments(&setup).iter().any(|word| word.starts_with("FULL"))));
        assert!(all[0].guess_s(&setup) > 2.0 * all[3].guess_s(&setup));
        let folder = runs(&[Place::Folder("/data".into())], 0);
        assert!(folder[0].arguments(&setup).join(" ").starts_with("trace sqlite /data --journal "));
        assert_eq!(
            (folder[0].place.file(), all[1].place.file()),
            ("p5-folder.json".into(), "p5-ext4-nojournal.json".into())
        );
    }
}
