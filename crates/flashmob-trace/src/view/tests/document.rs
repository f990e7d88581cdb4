//! The result that the tests of pages and tables read, generated here so that its format is current.

use std::path::Path;

use flashmob_results::device::Device;
use flashmob_results::trace::{Layer, Losses, Overhead, Source, System, Trace, Workload};
use flashmob_results::{Document, FORMAT, FORMAT_VERSION, Measurement};

use super::super::{RunParts, run};
use super::sample::{Mode, inserts};

fn document() -> Document {
    let runs = [(Mode::Delete, "DELETE"), (Mode::Wal, "WAL")].map(|(mode, name)| {
        let timeline = inserts(mode, 80);
        let source = |name: &str, layers: &[Layer], why: Option<&str>| Source {
            name: name.into(),
            layers: layers.to_vec(),
            is_used: why.is_none(),
            why: why.map(String::from),
        };
        let parts = RunParts {
            name: format!("{name}, FULL"),
            workload: Workload::Sqlite {
                version: "3.46.1".into(),
                inserts: 80,
                string_bytes: 100,
                journal_mode: name.into(),
                synchronous: "FULL".into(),
            },
            system: System {
                kernel: "6.1.0".into(),
                filesystem: Some("ext4".into()),
                filesystem_options: Some("journal".into()),
                device: Some("loop0".into()),
                driver: Some("loop".into()),
                scheduler: Some("mq-deadline".into()),
            },
            sources: vec![
                source("SQLite", &[Layer::Application, Layer::Sqlite], None),
                source("block", &[Layer::Block, Layer::Driver], None),
                source("sched", &[Layer::Processor], Some("the kernel has no such events; nothing mends it")),
            ],
            losses: Losses { events: 16_880, lost: 0, unreadable_bytes: 0, buffer_bytes: 8 << 20 },
            overhead: Some(Overhead {
                untraced_per_second: vec![1_000.0, 1_010.0],
                traced_per_second: vec![950.0, 965.0],
                slowdown_percent: 4.7,
            }),
            elapsed_s: 0.1,
            operation: "insert".into(),
            warnings: Vec::new(),
        };
        run(&timeline, parts, &[0, 1], &[])
    });
    Document {
        format: FORMAT.into(),
        format_version: FORMAT_VERSION,
        program_version: "0.1.0".into(),
        started_unix_s: 1_790_000_000,
        elapsed_s: 3.5,
        interrupted: false,
        label: Some("Sample of traces".into()),
        command: None,
        device: Device { model: Some("Test board".into()), cpus: 4, ..Device::default() },
        preset: None,
        scale: 1.0,
        seed: 1,
        measurement: Measurement::Trace(Trace { runs: runs.into() }),
        warnings: Vec::new(),
    }
}

/// ACCEPT_SAMPLES=1 writes the file.
#[test]
fn the_sample_is_as_it_would_be_made_today() {
    let document = document();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flashmob-report/tests/data/trace.json");
    if std::env::var_os("ACCEPT_SAMPLES").is_some() {
        std::fs::write(&path, format!("{}\n", serde_json::to_string(&document).unwrap())).unwrap();
    }
    let kept = flashmob_results::read::file(&path).unwrap();
    assert!(kept == document, "trace.json differs: ACCEPT_SAMPLES=1 cargo test -p flashmob-trace sample");
}
