//! A job file of `flashmob bench disk`: any text gives settings or an error, and never a panic.

#![no_main]

use flashmob::commands::bench::disk::job;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(lines) = job::parse(text, "job.toml") {
        // What was accepted gives points, or says why not.
        if let Ok(grid) = lines.settings.grid() {
            let _ = grid.points(1 << 30);
        }
    }
});
