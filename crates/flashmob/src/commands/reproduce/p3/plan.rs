//! P3's measurements, as runs of `flashmob bench disk`: its presets, one after the other.

use std::path::PathBuf;

/// The subject of the measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A model of a device.
    Model(String),
    /// A file on a disk of this machine.
    File(PathBuf),
}

/// Settings common to all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The subject of the measurement.
    pub subject: Subject,
    /// Fraction of the presets' size and work.
    pub scale: f64,
    /// Random seed.
    pub seed: u64,
    /// The device's label.
    pub label: Option<String>,
}

/// One preset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Its name.
    pub preset: &'static str,
    /// A description of its purpose.
    pub words: &'static str,
    /// Estimated seconds at full size, at some 500 reads per second.
    full_s: f64,
}

/// All presets, in the order of the figures.
pub const RUNS: [Run; 3] = [
    Run { preset: "p3-basic", words: "sequential and random reads", full_s: 22.0 },
    Run { preset: "p3-order", words: "orders of addresses", full_s: 580.0 },
    Run { preset: "p3-scheduler", words: "I/O schedulers", full_s: 32.0 },
];
/// Startup and shutdown of a run.
const RUN_S: f64 = 0.5;

impl Run {
    /// The program's arguments.
    pub fn arguments(&self, setup: &Setup) -> Vec<String> {
        let mut words = vec!["bench".to_string(), "disk".into()];
        match &setup.subject {
            Subject::Model(profile) => words.extend(["--model".into(), profile.clone()]),
            Subject::File(path) => words.push(path.display().to_string()),
        }
        words.extend(["--preset", self.preset, "--commands"].map(String::from));
        words.extend(["--scale".into(), setup.scale.to_string(), "--seed".into(), setup.seed.to_string()]);
        words.extend(setup.label.iter().flat_map(|label| ["--label".to_string(), label.clone()]));
        words
    }
}

impl super::super::runs::Run for Run {
    type Setup = Setup;

    fn words(&self) -> String {
        self.words.to_string()
    }

    fn guess_s(&self, setup: &Setup) -> f64 {
        RUN_S + self.full_s * (setup.scale * setup.scale).max(0.004)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::runs::Run as _;
    use super::*;

    #[test]
    fn runs_are_what_the_benchmark_takes() {
        let setup = |subject| Setup { subject, scale: 0.1, seed: 7, label: Some("tablet".into()) };
        let words = RUNS[2].arguments(&setup(Subject::Model("emmc".into()))).join(" ");
        assert_eq!(
            words,
            "bench disk --model emmc --preset p3-scheduler --commands --scale 0.1 --seed 7 --label tablet"
        );
        let words = RUNS[0].arguments(&setup(Subject::File("/data/x".into()))).join(" ");
        assert!(words.starts_with("bench disk /data/x --preset p3-basic "), "{words}");
        assert!(RUNS[1].guess_s(&setup(Subject::Model("emmc".into()))) < 10.0);
    }
}
