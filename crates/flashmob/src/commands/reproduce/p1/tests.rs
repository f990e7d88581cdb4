//! Results that are kept when runs fail or are interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flashmob_results::cluster::{Batches, Cluster, Parameters, Point, Repetition, Setting};
use flashmob_results::device::Device;
use flashmob_results::latency::{Latency, histogram};
use flashmob_results::{Document, FORMAT, FORMAT_VERSION, Measurement, read};

use super::plan::{Place, Run, Setup, runs};
use super::{kept_file, measure};

fn setup() -> Setup {
    Setup {
        place: Place::Lab,
        air: "11n,loss=1%".into(),
        gateway: "wired",
        flash: "emmc".into(),
        seed: 1,
        time: Duration::from_secs(1),
        repeat: 1,
        limit: 2_000.0,
    }
}

fn document(run: &Run) -> Document {
    let mut points = Vec::new();
    for &nodes in &run.nodes {
        for &links in &run.links {
            let parameters = Parameters {
                nodes,
                links,
                batch: run.batch,
                block_bytes: 1,
                read_percent: 100.0,
                outstanding: 256,
                no_io: run.no_io,
                order: None,
                air_load_percent: None,
            };
            let repetition = Repetition {
                begin_s: 0.0,
                elapsed_s: 1.0,
                requests: 100,
                bytes: 100,
                errors: 0,
                requests_per_second: 100.0,
                latency_ns: Latency::new(&histogram()),
                batches: Batches::default(),
                packets: None,
                air: None,
                flash_busy_fraction: None,
                gateway_cpu_s: 0.0,
                hedged: None,
                rebuild: None,
                lateness: None,
                is_void: false,
            };
            points.push(Point::new(parameters, vec![repetition], None));
        }
    }
    Document {
        format: FORMAT.into(),
        format_version: FORMAT_VERSION,
        program_version: "0.1.0".into(),
        started_unix_s: 1,
        elapsed_s: 1.0,
        interrupted: false,
        label: None,
        command: None,
        device: Device::default(),
        preset: None,
        scale: 1.0,
        seed: 1,
        measurement: Measurement::Cluster(Cluster {
            setting: Setting::Lab,
            air: None,
            flash: None,
            extent_bytes: 1,
            disk_ids: Vec::new(),
            copies: None,
            weak: None,
            rebuild: None,
            points,
        }),
        warnings: Vec::new(),
    }
}

/// Points that were measured, and the file's content. Nothing is measured: a run may fail, and another be the last before an interruption.
fn measured(fails_at: Option<usize>, stops_at: Option<usize>) -> anyhow::Result<(usize, Document)> {
    let (folder, stop) = (tempfile::tempdir()?, AtomicBool::new(false));
    let path = kept_file(folder.path(), &setup())?;
    let mut begun = 0;
    let one = |run: &Run, _: &dyn Fn()| {
        begun += 1;
        anyhow::ensure!(fails_at != Some(begun), "it burns");
        if stops_at == Some(begun) {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(Some(document(run)))
    };
    let outcome = measure(&runs(true, false), &setup(), &stop, Some(path.clone()), one)?;
    let kept = read::file(&path)?;
    assert_eq!(outcome.as_ref(), Some(&kept), "the file has what the page has");
    Ok((kept.cluster().unwrap().points.len(), kept))
}

#[test]
fn all_runs_are_one_cluster() {
    let (points, document) = measured(None, None).unwrap();
    assert_eq!((points, document.interrupted), (136, false));
    assert_eq!(document.preset.as_deref(), Some("p1"));
}

#[test]
fn what_was_measured_before_a_stop_is_kept_and_says_so() {
    let (points, document) = measured(None, Some(2)).unwrap();
    assert_eq!((points, document.interrupted), (40, true));
}

#[test]
fn one_run_that_fails_costs_its_points_the_first_ends_it() {
    assert_eq!(measured(Some(6), None).unwrap().0, 116);
    assert_eq!(measured(Some(1), None).unwrap_err().to_string(), "it burns");
}

#[test]
fn an_earlier_result_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = kept_file(folder.path(), &setup()).unwrap();
    assert_eq!(path.file_name().unwrap(), "p1-lab-11n_loss_1_-wired-emmc.json");
    std::fs::write(&path, "x").unwrap();
    let error = kept_file(folder.path(), &setup()).unwrap_err().to_string();
    assert!(error.contains("already exists") && error.contains("--save"), "{error}");
}
