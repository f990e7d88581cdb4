//! The committed seeds are those that the encoders write today, and every target survives them.
//!
//! `SEEDS=write cargo test -p flashmob-fuzz` writes them anew.

use std::path::PathBuf;

use flashmob_fuzz::TARGETS;
use flashmob_fuzz::seeds::seeds;

/// Targets whose seeds no encoder writes.
const BY_HAND: [&str; 4] = ["sizes", "job", "results", "tls"];

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target)
}

#[test]
fn seeds_are_what_the_encoders_write() {
    let is_writing = std::env::var("SEEDS").is_ok_and(|how| how == "write");
    for (target, _) in TARGETS {
        let seeds = seeds(target);
        assert!(seeds.len() >= 3 || BY_HAND.contains(&target), "{target}");
        for (name, bytes) in seeds {
            let path = folder(target).join(name);
            if is_writing {
                std::fs::create_dir_all(folder(target)).expect("a folder for seeds");
                std::fs::write(&path, &bytes).expect("a seed");
            }
            assert!(std::fs::read(&path).ok().as_ref() == Some(&bytes), "{} is stale: SEEDS=write", path.display());
        }
    }
}

#[test]
fn every_target_survives_its_seeds() {
    for (target, run) in TARGETS {
        let mut count = 0;
        for entry in std::fs::read_dir(folder(target)).expect("seeds") {
            run(&std::fs::read(entry.expect("a seed").path()).expect("a seed"));
            count += 1;
        }
        assert!(count > 0, "{target} has no seeds");
    }
}

#[test]
fn every_target_of_the_fuzzer_is_replayed() {
    let targets = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("libfuzzer/targets");
    for entry in std::fs::read_dir(targets).expect("targets") {
        let path = entry.expect("a target").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name} is missing in TARGETS");
    }
}
