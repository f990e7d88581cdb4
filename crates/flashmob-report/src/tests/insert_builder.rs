//! Documents of traced INSERTs for tests: each says only what it is about.

use flashmob_results::latency::{Latency, histogram};
use flashmob_results::trace::{
    AfterLastWrite, FileTotal, Handover, Layer, LayerTotal, Losses, Operations, Overhead, Role, Run, System, Timeline,
    Trace, Workload,
};
use flashmob_results::{Document, Measurement};

use super::builder::document;

/// 1,000 INSERTs of a millisecond, one after the other, as SQLite of today makes them on ext4.
pub fn run(filesystem: &str) -> Run {
    let mut latencies = histogram();
    latencies.record_n(900_000, 1_000).unwrap();
    let row = |role, layer, work: &str, count: u64, bytes| FileTotal {
        role,
        file: "p5.db".into(),
        layer,
        work: work.into(),
        count,
        bytes,
        time_ns: count * 1_000,
    };
    let layer =
        |layer, spans, time_ns| LayerTotal { layer, spans, bytes: 0, time_ns, inclusive_ns: time_ns, unowned_spans: 0 };
    Run {
        name: "DELETE, FULL".into(),
        workload: Workload::Sqlite {
            version: "3.51.0".into(),
            inserts: 1_000,
            string_bytes: 100,
            journal_mode: "DELETE".into(),
            synchronous: "FULL".into(),
        },
        system: System {
            kernel: "6.1.0".into(),
            filesystem: Some(filesystem.into()),
            filesystem_options: None,
            device: Some("loop0".into()),
            driver: Some("loop".into()),
            scheduler: Some("mq-deadline".into()),
        },
        sources: Vec::new(),
        losses: Losses::default(),
        overhead: None,
        elapsed_s: 1.0,
        operations: Operations {
            name: "insert".into(),
            count: 1_000,
            per_second: 1_000.0,
            latency_ns: Latency::new(&latencies),
            total_ns: 900_000_000,
            unattributed_ns: 0,
            begins_s: (0..1_000).map(|n| f64::from(n) / 1_000.0).collect(),
            durations_ms: vec![0.9; 1_000],
        },
        layers: vec![
            layer(Layer::Sqlite, 1_000, 100_000_000),
            layer(Layer::SystemCall, 14_000, 200_000_000),
            layer(Layer::Driver, 12_000, 600_000_000),
        ],
        handovers: vec![Handover {
            from: Layer::Block,
            to: Layer::Driver,
            count: 12_000,
            total_ns: 90_000_000,
            longest_ns: 100_000,
        }],
        files: vec![
            row(Role::Journal, Layer::SystemCall, "pwrite64", 8_000, 8_000_000),
            row(Role::Database, Layer::SystemCall, "pwrite64", 2_000, 8_192_000),
            row(Role::Journal, Layer::SystemCall, "fdatasync", 2_000, 0),
            row(Role::Database, Layer::SystemCall, "fdatasync", 1_000, 0),
            row(Role::Directory, Layer::SystemCall, "fdatasync", 1_000, 0),
            row(Role::Journal, Layer::Driver, "write", 2_000, 20_000_000),
            row(Role::Database, Layer::Driver, "write", 1_000, 8_192_000),
            row(Role::FilesystemJournal, Layer::Driver, "write", 8_000, 40_000_000),
            row(Role::Flush, Layer::Driver, "flush", 2_000, 0),
        ],
        commands: None,
        timeline: Timeline::default(),
        after_last_write: Some(AfterLastWrite {
            rounds: 3,
            operations: 999,
            before_ns: 600_000_000,
            journal_ns: 199_800_000,
            after_ns: 399_000_000,
            commands_before: Some(8_000),
            commands_after: Some(5_000),
        }),
        warnings: Vec::new(),
    }
}

/// The same in another journal mode and level, with this rate in three rounds, 1 % apart.
pub fn set(filesystem: &str, mode: &str, level: &str, rate: f64) -> Run {
    let mut run = run(filesystem);
    run.name = format!("{mode}, {level}");
    if let Workload::Sqlite { journal_mode, synchronous, .. } = &mut run.workload {
        (*journal_mode, *synchronous) = (mode.into(), level.into());
    }
    run.operations.per_second = rate;
    paired(run, &[rate * 0.99, rate, rate * 1.01])
}

/// Untraced rates, one for each pair.
pub fn paired(mut run: Run, untraced: &[f64]) -> Run {
    run.overhead = Some(Overhead {
        untraced_per_second: untraced.to_vec(),
        traced_per_second: untraced.iter().map(|rate| rate * 0.95).collect(),
        slowdown_percent: 5.0,
    });
    run
}

/// Of one device.
pub fn traced(name: &str, runs: Vec<Run>) -> Document {
    let mut document = document(name, None, Vec::new());
    document.device.cpu = Some("Celeron 440".into());
    Document { preset: None, measurement: Measurement::Trace(Trace { runs }), ..document }
}
