//! Documents for tests: each says only what it is about.

use std::path::PathBuf;

use flashmob_results::device::{Device, Place};
use flashmob_results::disk::{Cache, Disk, Engine, File, Model, Operation, Parameters, Pattern, Point, Repetition};
use flashmob_results::latency::{Latency, histogram};
use flashmob_results::{Document, FORMAT, FORMAT_VERSION, Measurement};

use crate::{Input, Report};

/// Random cold reads of 4 KiB by one thread.
pub fn parameters() -> Parameters {
    Parameters {
        operation: Operation::Read,
        pattern: Pattern::Random,
        block_bytes: 4_096,
        threads: 1,
        depth: 1,
        engine: Engine::Pread,
        cache: Cache::Cold,
        sync: None,
        scheduler: None,
        range_bytes: 1 << 30,
        requests: Some(1_000),
        time_s: None,
    }
}

pub fn random(block_bytes: u64, threads: u32) -> Parameters {
    Parameters { block_bytes, threads, ..parameters() }
}

pub fn pattern(pattern: Pattern) -> Parameters {
    Parameters { pattern, ..parameters() }
}

pub fn scheduler(name: &str) -> Parameters {
    Parameters { block_bytes: 1, threads: 16, scheduler: Some(name.into()), range_bytes: 128 << 20, ..parameters() }
}

/// A repetition with this rate; its latencies lie around what the rate and the threads make of it.
pub fn repetition(p: &Parameters, rate: f64, samples: u64) -> Repetition {
    let mut latencies = histogram();
    let mean_ns = if rate > 0.0 { 1e9 * f64::from(p.threads) / rate } else { 0.0 };
    // From half of the mean upwards with a tail, evenly spread over the samples.
    for n in 0..samples {
        let part = (n as f64 + 0.5) / samples as f64;
        latencies.saturating_record((mean_ns * (0.5 - 0.5 * (1.0 - part).ln())).clamp(1.0, 1e12) as u64);
    }
    Repetition {
        begin_s: 0.5,
        elapsed_s: if rate > 0.0 { 1_000.0 / rate } else { 0.0 },
        requests: samples,
        bytes: samples.saturating_mul(p.block_bytes),
        errors: 0,
        first_error: None,
        requests_per_second: rate,
        bytes_per_second: rate * p.block_bytes as f64,
        latency_ns: Latency::new(&latencies),
        cpu_user_s: 0.01,
        cpu_system_s: 0.02,
        cached_before_bytes: Some(0),
        cached_after_bytes: Some(4_096),
        fetched_bytes: None,
        foreign_bytes: None,
        upward_fraction: None,
        interrupted: false,
    }
}

/// A point whose repetitions have these rates.
pub fn point(p: Parameters, rates: &[f64]) -> Point {
    let repetitions = rates.iter().map(|rate| repetition(&p, *rate, 20)).collect();
    Point::new(p, repetitions)
}

/// Five repetitions within 2 % of a rate.
pub fn steady(p: Parameters, rate: f64) -> Point {
    point(p, &[0.99, 1.0, 1.01, 0.995, 1.005].map(|part| part * rate))
}

pub fn model(profile: &str) -> Model {
    Model { profile: profile.into(), description: "A model for tests.".into(), slots: 4, size_bytes: 1 << 30 }
}

/// A document of a file on a disk that turns or does not.
pub fn document(name: &str, rotational: Option<bool>, points: Vec<Point>) -> Document {
    Document {
        format: FORMAT.into(),
        format_version: FORMAT_VERSION,
        program_version: "0.1.0".into(),
        started_unix_s: 1_790_000_000,
        elapsed_s: 12.5,
        interrupted: false,
        label: Some(name.into()),
        command: None,
        device: Device {
            model: Some("Test board".into()),
            system: Some("Linux".into()),
            kernel: Some("Linux 6.1.0".into()),
            architecture: Some("aarch64".into()),
            cpu: None,
            cpus: 4,
            memory_bytes: Some(2 << 30),
            emulated: None,
        },
        preset: Some("p1".into()),
        scale: 1.0,
        seed: 1,
        measurement: Measurement::Disk(Disk {
            file: Some(File {
                path: "/data/bench.bin".into(),
                size_bytes: 10 << 30,
                made_by_benchmark: true,
                place: Place {
                    filesystem: Some("ext4".into()),
                    mount_options: Some("rw,noatime".into()),
                    disk: Some("mmcblk0".into()),
                    rotational,
                    scheduler: Some("mq-deadline".into()),
                    schedulers: vec!["none".into(), "mq-deadline".into()],
                    ..Place::default()
                },
            }),
            model: None,
            points,
        }),
        warnings: Vec::new(),
    }
}

/// The same of a model.
pub fn modelled(profile: &str, points: Vec<Point>) -> Document {
    let measurement = Measurement::Disk(Disk { file: None, model: Some(model(profile)), points });
    Document { label: None, measurement, ..document("", None, Vec::new()) }
}

pub fn report(documents: Vec<Document>) -> Report {
    let input = |(n, document)| Input { path: PathBuf::from(format!("result-{n}.json")), document };
    Report::new(documents.into_iter().enumerate().map(input).collect())
}

/// P1's grid: rates that grow up to four threads, and are the same up to 4 KiB.
pub fn grid(blocks: &[u64], threads: &[u32], one: f64, rate_of_thread: impl Fn(u32) -> f64) -> Vec<Point> {
    let mut points = Vec::new();
    for block in blocks {
        let part = if *block > 4_096 { (4_096.0 / *block as f64).powf(0.6) } else { 1.0 };
        points.extend(threads.iter().map(|t| steady(random(*block, *t), one * part * rate_of_thread(*t))));
    }
    points
}

/// Twice with two threads, three times with four and more.
pub fn flat_after_four(threads: u32) -> f64 {
    [1.0, 2.0, 2.6, 3.0].get(threads as usize - 1).copied().unwrap_or(3.0)
}
