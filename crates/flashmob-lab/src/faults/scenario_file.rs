//! Scenarios as files: what a seed stood for when it failed.
//!
//! A seed names a run only as long as nothing else is drawn from it. A file has the cluster, its clients and its faults themselves, so that a
//! history that once failed stays the same when faults of other kinds are added.

use serde::{Deserialize, Serialize};

use super::scenario::Scenario;

/// A scenario, and what it is kept for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// The failure that the scenario once showed, in a sentence.
    pub history: String,
    /// The run.
    pub scenario: Scenario,
}

/// Why a file is no scenario.
#[derive(Debug, thiserror::Error)]
#[error("no scenario: {0}")]
pub struct ScenarioError(#[from] serde_json::Error);

impl ScenarioFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Says where the text is wrong.
    pub fn parse(text: &str) -> Result<ScenarioFile, ScenarioError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The text of the file.
    ///
    /// # Errors
    /// A rate is not finite.
    pub fn to_text(&self) -> Result<String, ScenarioError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn every_scenario_is_read_as_it_was_written(seed: u64, family in 0..3) {
            let scenario = match family {
                0 => Scenario::from_seed(seed),
                1 => Scenario::with_copies_from_seed(seed),
                _ => Scenario::killed_from_seed(seed),
            };
            let file = ScenarioFile { history: "it failed".to_string(), scenario };
            prop_assert_eq!(ScenarioFile::parse(&file.to_text().unwrap()).unwrap(), file);
        }

        #[test]
        fn other_text_is_refused(text in "\\PC{0,80}", cut in 1..200usize) {
            prop_assert!(ScenarioFile::parse(&text).is_err());
            let whole = ScenarioFile { history: String::new(), scenario: Scenario::plain(1, 1, 4096) }.to_text().unwrap();
            prop_assert!(ScenarioFile::parse(&whole[..whole.len() - 1 - cut]).is_err());
        }
    }
}
