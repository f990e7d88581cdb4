//! Several results of one subject as one.

use crate::clock;
use crate::cluster::{self, Cluster};
use crate::disk::{self, Disk};
use crate::net;
use crate::trace::{Overhead, Run};
use crate::warning::Warning;
use crate::{Document, Measurement};

/// Why documents cannot be merged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("there are no results to merge")]
    Nothing,
    /// It is of another kind.
    #[error("a result of another kind cannot be merged into one of {0}")]
    Kind(&'static str),
    /// They differ in a property that must be equal.
    #[error("results of different {0} cannot be merged: their {1} differs")]
    Different(&'static str, &'static str),
}

/// Subjects, for errors.
const CLUSTERS: &str = "clusters";
const NETWORKS: &str = "networks";
const DISKS: &str = "disks";
const TRACES: &str = "traces";

/// Merges results of one cluster: equal in setting, air, flash, extent, copies, weak nodes, rebuilt node, disks, label, seed and version. Points are
/// appended; those with equal parameters become one with the repetitions of both. A result without flash and without I/O
/// matches any flash.
///
/// The earliest begin counts; each repetition's begin is relative to it. The result is interrupted if one of them is.
///
/// # Errors
/// See [`MergeError`].
pub fn clusters(documents: Vec<Document>) -> Result<Document, MergeError> {
    all(documents, CLUSTERS, |whole, part| {
        let (Measurement::Cluster(into), Measurement::Cluster(from)) = (whole, part) else {
            return Err(MergeError::Kind(CLUSTERS));
        };
        same(into.setting == from.setting, CLUSTERS, "setting (network, lab or simulator)")?;
        same(into.air == from.air, CLUSTERS, "air")?;
        same(into.extent_bytes == from.extent_bytes, CLUSTERS, "extent")?;
        same(goes_with(into, &from), CLUSTERS, "flash")?;
        same(into.copies == from.copies, CLUSTERS, "copies")?;
        same(into.weak == from.weak, CLUSTERS, "weak nodes")?;
        same(into.rebuild == from.rebuild, CLUSTERS, "rebuilt node")?;
        if into.disk_ids.is_empty() {
            into.disk_ids = from.disk_ids;
        } else {
            let is_same = from.disk_ids.is_empty() || into.disk_ids == from.disk_ids;
            same(is_same, CLUSTERS, "disks (a node's system was restarted, or a node was moved)")?;
        }
        into.flash = into.flash.take().or(from.flash);
        let mut points = std::mem::take(&mut into.points);
        append(
            &mut points,
            from.points,
            |a, b| a.parameters == b.parameters,
            |a, b| {
                let limit = into.flash_limit(a.parameters.block_bytes, a.parameters.read_percent);
                let warnings = joined_warnings(a.warnings, b.warnings);
                let repetitions = [a.repetitions, b.repetitions].concat();
                cluster::Point { warnings, ..cluster::Point::new(a.parameters, repetitions, limit) }
            },
        );
        into.points = points;
        Ok(())
    })
}

/// Merges results of one network: equal in setting, server, label, seed and version. A modelled path
/// belongs to its points, which may differ. Otherwise as [`clusters`].
///
/// # Errors
/// See [`MergeError`].
pub fn nets(documents: Vec<Document>) -> Result<Document, MergeError> {
    all(documents, NETWORKS, |whole, part| {
        let (Measurement::Net(into), Measurement::Net(from)) = (whole, part) else {
            return Err(MergeError::Kind(NETWORKS));
        };
        same(into.setting == from.setting, NETWORKS, "setting (network or lab)")?;
        same(into.server == from.server, NETWORKS, "server")?;
        append(
            &mut into.points,
            from.points,
            |a, b| a.parameters == b.parameters,
            |a, b| {
                let warnings = joined_warnings(a.warnings, b.warnings);
                let repetitions = [a.repetitions, b.repetitions].concat();
                net::Point { warnings, ..net::Point::new(a.parameters, repetitions) }
            },
        );
        Ok(())
    })
}

/// Merges results of one disk: equal in file or model, label, seed and version. Otherwise as [`clusters`]; a merged point keeps
/// the first one's commands, because steps are from one command to the next.
///
/// # Errors
/// See [`MergeError`].
pub fn disks(documents: Vec<Document>) -> Result<Document, MergeError> {
    all(documents, DISKS, |whole, part| {
        let (Measurement::Disk(into), Measurement::Disk(from)) = (whole, part) else {
            return Err(MergeError::Kind(DISKS));
        };
        let of = |disk: &Disk| disk.file.as_ref().map(|file| (file.path.clone(), file.size_bytes));
        same(of(into) == of(&from), DISKS, "file")?;
        same(into.model == from.model, DISKS, "model")?;
        append(
            &mut into.points,
            from.points,
            |a, b| a.parameters == b.parameters,
            |a, b| {
                let (warnings, commands) = (joined_warnings(a.warnings, b.warnings), a.commands.or(b.commands));
                let repetitions = [a.repetitions, b.repetitions].concat();
                disk::Point { warnings, commands, ..disk::Point::new(a.parameters, repetitions) }
            },
        );
        Ok(())
    })
}

/// Merges rounds of the same traced workload on one system: equal in label, seed and version, runs in name and workload. A merged run has
/// the rates of all rounds, the sums of what lay before and after the last writes, and all else of the first round.
///
/// # Errors
/// See [`MergeError`].
pub fn traces(documents: Vec<Document>) -> Result<Document, MergeError> {
    all(documents, TRACES, |whole, part| {
        let (Measurement::Trace(into), Measurement::Trace(from)) = (whole, part) else {
            return Err(MergeError::Kind(TRACES));
        };
        append(&mut into.runs, from.runs, |a, b| a.name == b.name && a.workload == b.workload, rounds);
        Ok(())
    })
}

fn rounds(a: Run, b: Run) -> Run {
    let pairs =
        |run: &Run| run.overhead.clone().map(|o| (o.untraced_per_second, o.traced_per_second)).unwrap_or_default();
    let ((without, with), (more_without, more_with)) = (pairs(&a), pairs(&b));
    let after_last_write = match (a.after_last_write, b.after_last_write) {
        (Some(first), Some(second)) => Some(first.and(second)),
        (first, second) => first.or(second),
    };
    Run {
        overhead: Overhead::of_pairs([without, more_without].concat(), [with, more_with].concat()),
        after_last_write,
        warnings: joined_warnings(a.warnings, b.warnings),
        ..a
    }
}

/// Adds the second measurement to the first.
type Join = fn(&mut Measurement, Measurement) -> Result<(), MergeError>;

fn all(documents: Vec<Document>, kind: &'static str, join: Join) -> Result<Document, MergeError> {
    let mut documents = documents.into_iter();
    let mut whole = documents.next().ok_or(MergeError::Nothing)?;
    match (&whole.measurement, kind) {
        (Measurement::Cluster(_), CLUSTERS)
        | (Measurement::Net(_), NETWORKS)
        | (Measurement::Disk(_), DISKS)
        | (Measurement::Trace(_), TRACES) => {}
        _ => return Err(MergeError::Kind(kind)),
    }
    for part in documents {
        whole = two(whole, part, kind, join)?;
    }
    Ok(whole)
}

fn same(equal: bool, kind: &'static str, what: &'static str) -> Result<(), MergeError> {
    if equal { Ok(()) } else { Err(MergeError::Different(kind, what)) }
}

fn two(mut whole: Document, mut part: Document, kind: &'static str, join: Join) -> Result<Document, MergeError> {
    same(whole.label == part.label, kind, "label")?;
    same(whole.program_version == part.program_version, kind, "version of flashmob")?;
    same(whole.seed == part.seed, kind, "seed")?;
    // The time of an unset clock cannot be compared: then the second part is taken to follow the first at once.
    if clock::is_set(whole.started_unix_s) != clock::is_set(part.started_unix_s) {
        let next = |of: &Document| of.started_unix_s.saturating_add(of.elapsed_s.max(0.0) as u64);
        if clock::is_set(whole.started_unix_s) {
            part.started_unix_s = next(&whole);
        } else {
            whole.started_unix_s = part.started_unix_s.saturating_sub(whole.elapsed_s.max(0.0) as u64);
        }
    }
    // The earlier begin counts; the difference is added to those of the later one's repetitions.
    let begun = whole.started_unix_s.min(part.started_unix_s);
    for document in [&mut whole, &mut part] {
        let later_s = (document.started_unix_s - begun) as f64;
        begins(&mut document.measurement).into_iter().for_each(|begin_s| *begin_s += later_s);
    }
    let end = |d: &Document| (d.started_unix_s - begun) as f64 + d.elapsed_s;
    whole.elapsed_s = end(&whole).max(end(&part));
    whole.started_unix_s = begun;
    whole.interrupted |= part.interrupted;
    whole.scale = whole.scale.min(part.scale);
    if whole.preset != part.preset {
        whole.preset = None;
    }
    if whole.command != part.command {
        whole.command = None;
    }
    whole.warnings = joined_warnings(whole.warnings, part.warnings);
    join(&mut whole.measurement, part.measurement)?;
    Ok(whole)
}

/// The begin of each repetition, to be shifted.
fn begins(measurement: &mut Measurement) -> Vec<&mut f64> {
    match measurement {
        Measurement::Cluster(of) => {
            of.points.iter_mut().flat_map(|p| &mut p.repetitions).map(|r| &mut r.begin_s).collect()
        }
        Measurement::Net(of) => of.points.iter_mut().flat_map(|p| &mut p.repetitions).map(|r| &mut r.begin_s).collect(),
        Measurement::Disk(of) => {
            of.points.iter_mut().flat_map(|p| &mut p.repetitions).map(|r| &mut r.begin_s).collect()
        }
        Measurement::Capture(_) | Measurement::Trace(_) => Vec::new(),
    }
}

/// Both lists, with equal warnings once.
fn joined_warnings(mut warnings: Vec<Warning>, more: Vec<Warning>) -> Vec<Warning> {
    for warning in more {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

/// Equal flash, or one of them without flash and without I/O.
fn goes_with(a: &Cluster, b: &Cluster) -> bool {
    let idle = |c: &Cluster| c.flash.is_none() && c.points.iter().all(|p| p.parameters.no_io);
    a.flash == b.flash || idle(a) || idle(b)
}

/// Appends points; two with equal parameters are merged.
fn append<P>(into: &mut Vec<P>, from: Vec<P>, is_same: impl Fn(&P, &P) -> bool, joined: impl Fn(P, P) -> P) {
    for point in from {
        match into.iter().position(|known| is_same(known, &point)) {
            Some(at) => {
                let known = into.remove(at);
                into.insert(at, joined(known, point));
            }
            None => into.push(point),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Batch, Batches, FlashLimit, FlashModel, Parameters, Point, Repetition, Setting};
    use crate::device::Device;
    use crate::latency::{Latency, histogram};
    use crate::net::Net;
    use crate::warning::{Code, Warning};
    use crate::{FORMAT, FORMAT_VERSION};

    fn repetition(rate: f64) -> Repetition {
        let mut latencies = histogram();
        latencies.record(1_000).unwrap();
        Repetition {
            begin_s: 5.0,
            elapsed_s: 1.0,
            requests: rate as u64,
            bytes: rate as u64,
            errors: 0,
            requests_per_second: rate,
            latency_ns: Latency::new(&latencies),
            batches: Batches::default(),
            packets: None,
            air: None,
            flash_busy_fraction: None,
            gateway_cpu_s: 0.1,
            hedged: None,
            rebuild: None,
            lateness: None,
            is_void: false,
        }
    }

    fn point(nodes: u32, no_io: bool, rate: f64) -> Point {
        let batch = Batch::Fixed(1);
        let parameters = Parameters {
            nodes,
            links: 1,
            batch,
            block_bytes: 1,
            read_percent: 100.0,
            outstanding: 256,
            no_io,
            order: None,
            air_load_percent: None,
        };
        let warnings = vec![Warning::new(Code::FewSamples, "few")];
        Point { warnings, ..Point::new(parameters, vec![repetition(rate)], Some(100.0)) }
    }

    fn document(started_unix_s: u64, points: Vec<Point>) -> Document {
        let limits = vec![FlashLimit { block_bytes: 1, read_percent: 100.0, requests_per_second: 100.0 }];
        Document {
            format: FORMAT.into(),
            format_version: FORMAT_VERSION,
            program_version: "0.1.0".into(),
            started_unix_s,
            elapsed_s: 10.0,
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
                flash: Some(FlashModel { profile: "emmc".into(), description: "x".into(), limits }),
                extent_bytes: 1 << 30,
                disk_ids: Vec::new(),
                copies: None,
                weak: None,
                rebuild: None,
                points,
            }),
            warnings: vec![Warning::new(Code::Modelled, "modelled")],
        }
    }

    fn changed(document: &Document, change: impl FnOnce(&mut Cluster)) -> Document {
        let mut document = document.clone();
        let Measurement::Cluster(cluster) = &mut document.measurement else { panic!("a cluster") };
        change(cluster);
        document
    }

    #[test]
    fn a_part_from_before_the_clock_was_set_comes_next_to_the_others() {
        let at = |started_unix_s| Document { elapsed_s: 30.0, ..document(started_unix_s, Vec::new()) };
        let later = clock::EARLIEST_UNIX_S + 1_000;
        for (first, second, begun) in [(5, later, later - 30), (later, 5, later)] {
            let whole = two(at(first), at(second), "cluster", |_, _| Ok(())).unwrap();
            assert_eq!((whole.started_unix_s, whole.elapsed_s), (begun, 60.0), "and not 56 years apart");
        }
    }

    #[test]
    fn points_are_appended_and_equal_ones_joined() {
        let (first, second) = (
            document(1_000, vec![point(1, false, 50.0)]),
            document(1_030, vec![point(1, false, 60.0), point(2, false, 90.0)]),
        );
        for (a, b) in [(first.clone(), second.clone()), (second, first)] {
            let whole = clusters(vec![a, b]).unwrap();
            assert_eq!((whole.started_unix_s, whole.elapsed_s, whole.warnings.len()), (1_000, 40.0, 1));
            let points = &whole.cluster().unwrap().points;
            assert_eq!(points.len(), 2);
            let both = points.iter().find(|p| p.parameters.nodes == 1).unwrap();
            assert_eq!((both.summary.repetitions, both.summary.requests_per_second.median), (2, 55.0));
            assert_eq!((both.summary.flash_fraction.unwrap().median, both.warnings.len()), (0.55, 1));
            let begins: Vec<f64> = both.repetitions.iter().map(|r| r.begin_s).collect();
            assert!(begins.contains(&5.0) && begins.contains(&35.0), "{begins:?}");
        }
    }

    #[test]
    fn only_what_is_of_one_cluster_is_merged() {
        let one = document(0, vec![point(1, false, 50.0)]);
        let different = |other| match clusters(vec![one.clone(), other]) {
            Err(MergeError::Different("clusters", what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(different(changed(&one, |c| c.extent_bytes += 1)), "extent");
        assert_eq!(different(changed(&one, |c| c.setting = Setting::Simulator)), "setting (network, lab or simulator)");
        assert_eq!(different(changed(&one, |c| c.flash = None)), "flash");
        let copies = Some(cluster::CopiesModel { copies: 2, home_only: false, scrub: false });
        assert_eq!(different(changed(&one, |c| c.copies = copies)), "copies");
        assert_eq!(different(changed(&one, |c| c.weak = Some("1:flash=2".into()))), "weak nodes");
        assert_eq!(different(Document { seed: 2, ..one.clone() }), "seed");
        assert_eq!(different(Document { label: Some("a".into()), ..one.clone() }), "label");
        assert_eq!(clusters(Vec::new()), Err(MergeError::Nothing));
        let on = |disk: &str| changed(&one, |c| c.disk_ids = vec![Some(disk.into())]);
        for known in [vec![one.clone(), on("a")], vec![on("a"), one.clone()], vec![on("a"), on("a")]] {
            assert_eq!(clusters(known).unwrap().cluster().unwrap().disk_ids, [Some("a".to_string())]);
        }
        let moved = clusters(vec![on("a"), on("b")]);
        assert!(
            matches!(moved, Err(MergeError::Different("clusters", what)) if what.starts_with("disks")),
            "{moved:?}"
        );
        let disk = crate::disk::Disk { file: None, model: None, points: Vec::new() };
        let disk = Document { measurement: Measurement::Disk(disk), ..one.clone() };
        assert_eq!(clusters(vec![disk.clone()]), Err(MergeError::Kind("clusters")));
        assert_eq!(clusters(vec![one, disk]), Err(MergeError::Kind("clusters")));
    }

    #[test]
    fn what_neither_reads_nor_writes_goes_with_any_flash() {
        let with = document(0, vec![point(1, false, 50.0)]);
        let without = changed(&document(9, vec![point(1, true, 700.0)]), |c| c.flash = None);
        for parts in [vec![with.clone(), without.clone()], vec![without, with]] {
            let whole = clusters(parts).unwrap();
            let cluster = whole.cluster().unwrap();
            assert_eq!((cluster.points.len(), cluster.flash_limit(1, 100.0)), (2, Some(100.0)));
        }
    }

    #[test]
    fn a_part_that_was_cut_short_cuts_the_whole() {
        let one = document(0, vec![point(1, false, 50.0)]);
        let cut = Document { interrupted: true, preset: Some("p1".into()), ..one.clone() };
        let whole = clusters(vec![one, cut]).unwrap();
        assert!(whole.interrupted && whole.preset.is_none());
    }

    fn net_document(started_unix_s: u64, streams: u32, rate: f64) -> Document {
        let parameters = net::Parameters {
            protocol: net::Protocol::Tcp,
            direction: net::Direction::Up,
            streams,
            congestion: None,
            rate_bits_per_second: None,
            block_bytes: 131_072,
            window_bytes: None,
            messages: None,
            path: None,
            client_receive_max_bytes: None,
            server_receive_max_bytes: None,
        };
        let flow = net::Flow {
            direction: net::Direction::Up,
            sent_bytes: 1,
            received_bytes: 1,
            sent_bits_per_second: rate,
            received_bits_per_second: rate,
            retransmissions: Some(1),
            udp: None,
        };
        let repetition = net::Repetition {
            begin_s: 5.0,
            elapsed_s: 1.0,
            peer: "iperf3".into(),
            flows: vec![flow],
            streams: Vec::new(),
            intervals: Vec::new(),
            exchange: None,
            cpu_s: 0.0,
            peer_cpu_s: None,
            lateness: None,
            is_void: false,
        };
        let points = vec![net::Point::new(parameters, vec![repetition])];
        let measurement = Measurement::Net(Net { setting: Setting::Lab, server: "a:1".into(), points });
        Document { measurement, ..document(started_unix_s, Vec::new()) }
    }

    #[test]
    fn parts_of_a_network_become_one() {
        let parts = vec![net_document(100, 1, 10.0), net_document(130, 1, 20.0), net_document(160, 4, 5.0)];
        let whole = nets(parts.clone()).unwrap();
        let points = &whole.net().unwrap().points;
        assert_eq!((points.len(), whole.started_unix_s, whole.elapsed_s), (2, 100, 70.0));
        assert_eq!((points[0].summary.repetitions, points[0].summary.up_bits_per_second.unwrap().median), (2, 15.0));
        assert_eq!((points[0].repetitions[1].begin_s, points[1].repetitions[0].begin_s), (35.0, 65.0));
        assert_eq!(points[0].summary.down_bits_per_second, None);
        let mut other = parts[0].clone();
        let Measurement::Net(net) = &mut other.measurement else { panic!("a network") };
        net.server = "b:1".into();
        assert_eq!(nets(vec![parts[0].clone(), other]), Err(MergeError::Different("networks", "server")));
        assert_eq!(nets(vec![document(0, Vec::new())]), Err(MergeError::Kind("networks")));
        assert_eq!(nets(vec![parts[0].clone(), document(0, Vec::new())]), Err(MergeError::Kind("networks")));
    }

    fn disk_document(started_unix_s: u64, pattern: disk::Pattern, rate: f64) -> Document {
        let mut latencies = histogram();
        latencies.record(1_000).unwrap();
        let parameters = disk::Parameters {
            operation: disk::Operation::Read,
            pattern,
            block_bytes: 4_096,
            threads: 1,
            depth: 1,
            engine: disk::Engine::Pread,
            cache: disk::Cache::Cold,
            sync: None,
            scheduler: None,
            range_bytes: 1 << 30,
            requests: Some(1),
            time_s: None,
        };
        let repetition = disk::Repetition {
            begin_s: 1.0,
            elapsed_s: 1.0,
            requests: 1,
            bytes: 4_096,
            errors: 0,
            first_error: None,
            requests_per_second: rate,
            bytes_per_second: rate,
            latency_ns: Latency::new(&latencies),
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            cached_before_bytes: None,
            cached_after_bytes: None,
            fetched_bytes: None,
            foreign_bytes: None,
            upward_fraction: None,
            interrupted: false,
        };
        let model = disk::Model { profile: "emmc".into(), description: "x".into(), slots: 4, size_bytes: 1 << 30 };
        let points = vec![disk::Point::new(parameters, vec![repetition])];
        let measurement = Measurement::Disk(Disk { file: None, model: Some(model), points });
        Document { measurement, ..document(started_unix_s, Vec::new()) }
    }

    #[test]
    fn parts_of_a_disk_become_one() {
        let parts = vec![
            disk_document(100, disk::Pattern::Sort, 10.0),
            disk_document(130, disk::Pattern::Sort, 20.0),
            disk_document(160, disk::Pattern::Rand, 5.0),
        ];
        let whole = disks(parts.clone()).unwrap();
        let points = &whole.disk().unwrap().points;
        assert_eq!((points.len(), whole.started_unix_s, whole.elapsed_s), (2, 100, 70.0));
        assert_eq!((points[0].summary.repetitions, points[0].summary.requests_per_second.median), (2, 15.0));
        assert_eq!((points[0].repetitions[1].begin_s, points[1].repetitions[0].begin_s), (31.0, 61.0));
        let mut other = parts[0].clone();
        let Measurement::Disk(disk) = &mut other.measurement else { panic!("a disk") };
        disk.model = None;
        assert_eq!(disks(vec![parts[0].clone(), other]), Err(MergeError::Different("disks", "model")));
        assert_eq!(disks(vec![document(0, Vec::new())]), Err(MergeError::Kind("disks")));
    }
}
