//! Claims about a real cluster, by the measured limit of a node's disk: which measurement is taken, at, below and above it; and extents that
//! share a disk.

use flashmob_results::cluster::{Batch, Cluster, Parameters, Point, Setting};
use flashmob_results::disk;
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};

use super::Verdict::{DoesNotHold, Holds, TooFewRepetitions};
use super::{Claim, Finding, Missing, Verdict};
use crate::tests::builder::{document, modelled, parameters as reads, random, report, steady};
use crate::tests::cluster_builder::{LIMIT, as_in_p1, cluster, clustered, document_of, p1, parameters, point};

const K1: Batch = Batch::Fixed(1);
const K10: Batch = Batch::Fixed(10);
const K100: Batch = Batch::Fixed(100);

/// The first `nodes` have disks of their own: `disk-1` and so on.
fn own_disks(nodes: usize) -> Vec<Option<String>> {
    (1..=nodes).map(|node| Some(format!("disk-{node}"))).collect()
}

fn real(points: Vec<Point>, disk_ids: Vec<Option<String>>) -> Document {
    let points = points.into_iter().map(|p| Point::new(p.parameters, p.repetitions, None)).collect();
    document_of(Cluster { setting: Setting::Network, air: None, flash: None, disk_ids, ..cluster(points) })
}

fn on_disk(id: Option<&str>, mut document: Document) -> Document {
    let Measurement::Disk(disk) = &mut document.measurement else { panic!("a disk") };
    disk.file.as_mut().unwrap().place.disk_id = id.map(String::from);
    document
}

/// Reads of 1 B that grow up to 4 threads.
fn tablet(id: Option<&str>, limit: f64) -> Document {
    let points = [(1, 0.4), (4, 1.0), (8, 0.99)].map(|(threads, part)| steady(random(1, threads), part * limit));
    on_disk(id, document("tablet", Some(false), points.to_vec()))
}

fn claim(id: &str, documents: Vec<Document>) -> Claim {
    report(documents).claims().into_iter().find(|claim| claim.id == id).unwrap()
}

fn found(id: &str, documents: Vec<Document>) -> Result<Finding, Missing> {
    let claim = claim(id, documents);
    claim.findings.into_iter().next().ok_or_else(|| claim.lacking[0].1.clone())
}

fn verdict(id: &str, documents: Vec<Document>) -> Result<Verdict, String> {
    found(id, documents).map(|finding| finding.verdict).map_err(|missing| missing.what)
}

/// One node with 32 links at this rate.
fn one(rate: f64) -> Vec<Point> {
    vec![point(parameters(1, 32, K1), rate)]
}

fn what(id: &str, documents: Vec<Document>) -> String {
    found(id, documents).unwrap_err().what
}

#[test]
fn a_nodes_measured_disk_is_the_limit_of_c4_to_c6() {
    let claims = report(vec![real(p1(as_in_p1), own_disks(8)), tablet(Some("disk-1"), LIMIT)]).claims();
    for id in ["C4", "C5", "C6"] {
        let claim = claims.iter().find(|claim| claim.id == id).unwrap();
        let finding = &claim.findings[0];
        assert_eq!((finding.verdict, &finding.entries), (Holds, &vec![0, 1]), "{id}: {}", finding.numbers);
        let named = "the limit of 2,100/s is of random reads of 1 B with 4 threads (page cache cold, range 1 GiB) on the disk of node 1, taken for each";
        assert!(finding.numbers.ends_with(named), "{id}: {}", finding.numbers);
    }
    for id in ["C7", "C8", "C9", "C22"] {
        let claim = claims.iter().find(|claim| claim.id == id).unwrap();
        assert_eq!((claim.findings[0].verdict, &claim.findings[0].entries), (Holds, &vec![0]), "{id} needs no limit");
    }
}

#[test]
fn c4_is_judged_below_at_and_above_nine_tenths_of_what_was_measured() {
    let at = |rate: f64| verdict("C4", vec![real(one(rate), own_disks(1)), tablet(Some("disk-1"), LIMIT)]);
    assert_eq!([at(LIMIT * 0.899), at(LIMIT * 0.9), at(LIMIT * 1.2)], [Ok(DoesNotHold), Ok(Holds), Ok(Holds)]);
}

#[test]
fn c5_is_judged_below_and_at_nine_tenths_of_what_was_measured() {
    let at = |part: f64| {
        let points = vec![point(parameters(1, 8, K1), LIMIT), point(parameters(8, 8, K1), 8.0 * LIMIT * part)];
        verdict("C5", vec![real(points, own_disks(8)), tablet(Some("disk-2"), LIMIT)])
    };
    assert_eq!([at(0.899), at(0.9)], [Ok(Holds), Ok(DoesNotHold)]);
}

#[test]
fn c6_is_judged_below_at_and_above_95_percent_of_what_was_measured() {
    let at = |part: f64| {
        let line = |k| [point(parameters(1, 8, k), LIMIT), point(parameters(8, 8, k), 8.0 * LIMIT * part)];
        let points = [line(K10), line(K100)].concat();
        verdict("C6", vec![real(points, own_disks(8)), tablet(Some("disk-8"), LIMIT)])
    };
    assert_eq!([at(0.949), at(0.95), at(1.0)], [Ok(DoesNotHold), Ok(Holds), Ok(Holds)]);
}

#[test]
fn without_a_measured_disk_the_remedy_is_to_measure_one_and_no_model() {
    let missing = found("C4", vec![real(one(2_050.0), own_disks(1))]).unwrap_err();
    assert_eq!(missing.what, "what one node's flash does alone is not known: no disk of a node was measured");
    let command = "flashmob bench disk FILE --block-size 1 --threads 1,2,4,8,16,32 --save device.json";
    assert_eq!(missing.command.as_deref(), Some(command));
    let html = report(vec![real(one(2_050.0), own_disks(1))]).html().unwrap();
    assert!(
        html.contains(&format!("Measured by <code>{command}</code> on one of the nodes, with FILE beside")),
        "{html}"
    );
    let few =
        found("C4", vec![real(vec![point(parameters(1, 4, K1), 9.0)], own_disks(1)), tablet(Some("disk-1"), LIMIT)]);
    let few = few.unwrap_err();
    assert_eq!(few.what, "k=1 with 1 node was not measured with 8 links or more");
    assert!(few.command.unwrap().starts_with("flashmob bench cluster --config FILE "));
    // A model stays the remedy for models.
    let lab = found("C4", vec![clustered(vec![point(parameters(1, 4, K1), 9.0)])]).unwrap_err();
    assert_eq!(lab.command, None);
}

#[test]
fn a_disk_of_no_node_is_not_taken_and_one_of_which_nothing_is_said_is_named_so() {
    let of = |nodes: Vec<Option<String>>, disks: Vec<Document>| {
        found("C4", [vec![real(one(2_050.0), nodes)], disks].concat())
    };
    let other = of(own_disks(1), vec![tablet(Some("disk-7"), LIMIT)]).unwrap_err();
    assert!(other.what.contains("are not the nodes', or their systems were restarted since"), "{}", other.what);
    for (nodes, disk) in [(Vec::new(), Some("disk-7")), (own_disks(1), None), (vec![None], Some("disk-7"))] {
        let taken = of(nodes, vec![tablet(disk, LIMIT)]).unwrap();
        assert!(
            taken.numbers.ends_with("on the disk of tablet; the results do not say whether it is a node's"),
            "{}",
            taken.numbers
        );
    }
    // The rotating disk of C1 and C23 is no node's, unless it is.
    let pc = |id| on_disk(id, document("pc", Some(true), vec![steady(random(1, 4), 2_000.0)]));
    assert!(of(Vec::new(), vec![pc(None)]).is_err());
    assert_eq!(of(Vec::new(), vec![pc(None), tablet(None, LIMIT)]).unwrap().entries, [0, 2]);
    assert!(of(own_disks(1), vec![pc(Some("disk-1"))]).unwrap().numbers.contains("on the disk of node 1"));
    // Another device beside it, and a model, count for nothing once a node's disk is known.
    let all = vec![
        modelled("nexus7-emmc", vec![steady(random(1, 4), 1.0)]),
        tablet(None, 9.0),
        tablet(Some("disk-1"), LIMIT),
    ];
    assert_eq!(of(own_disks(1), all).unwrap().entries, [0, 3]);
}

#[test]
fn of_several_devices_one_must_be_known_to_be_a_nodes() {
    let mut phone = tablet(None, 900.0);
    (phone.label, phone.device.model) = (Some("phone".into()), Some("Phone".into()));
    let both = |id| what("C4", vec![real(one(2_050.0), Vec::new()), tablet(id, LIMIT), phone.clone()]);
    assert!(both(None).ends_with("which of the measured disks (tablet and phone) is a node's"), "{}", both(None));
    let known = found("C4", vec![real(one(2_050.0), own_disks(1)), phone.clone(), tablet(Some("disk-1"), LIMIT)]);
    assert_eq!(known.unwrap().entries, [0, 2]);
    // Two results of equal hardware: the first one's.
    let twins = vec![real(one(2_050.0), Vec::new()), tablet(None, LIMIT), tablet(None, LIMIT)];
    assert_eq!(found("C4", twins).unwrap().entries, [0, 1]);
}

#[test]
fn measured_disks_of_several_nodes_must_be_equal() {
    let with = |second: f64| {
        let both = vec![tablet(Some("disk-2"), second), tablet(Some("disk-1"), LIMIT)];
        found("C4", [vec![real(one(2_050.0), own_disks(2))], both].concat())
    };
    let equal = with(LIMIT * 1.1).unwrap();
    assert!(equal.entries == [0, 2] && equal.numbers.contains("the disk of node 1,"), "{}", equal.numbers);
    assert_eq!(
        with(LIMIT * 1.11).unwrap_err().what,
        "the claim is about equal nodes, and the measured disks differ: that of node 1 2,100/s and that of node 2 2,331/s"
    );
}

#[test]
fn the_limit_is_the_most_of_random_reads_of_this_size_with_four_threads_or_more() {
    let by = |points: Vec<disk::Point>| {
        let disk = on_disk(Some("disk-1"), document("tablet", Some(false), points));
        found("C4", vec![real(one(2_050.0), own_disks(1)), disk])
    };
    let numbers = |points| by(points).unwrap().numbers;
    let few = by(vec![steady(random(1, 1), 900.0), steady(random(1, 2), 1_500.0)]).unwrap_err();
    assert_eq!(few.what, "random reads of 1 B with 4 threads or more were not measured on tablet");
    let most =
        numbers(vec![steady(random(1, 4), 2_000.0), steady(random(1, 16), 2_100.0), steady(random(1, 32), 2_050.0)]);
    assert!(most.contains("the limit of 2,100/s is of random reads of 1 B with 16 threads"), "{most}");
    // The kernel reads whole pages: of 4 KiB it has as many to fetch. It does not read less for 16 KiB.
    let pages = numbers(vec![steady(random(4_096, 4), 2_000.0), steady(random(16_384, 4), 900.0)]);
    assert!(
        pages.contains("the limit of 2,000/s is of random reads of 4 KiB in place of 1 B with 4 threads"),
        "{pages}"
    );
    assert!(by(vec![steady(random(16_384, 4), 900.0)]).is_err());
    let both = numbers(vec![steady(random(4_096, 4), 2_200.0), steady(random(1, 4), 2_000.0)]);
    assert!(both.contains("of random reads of 1 B with 4 threads"), "{both}");
    // What the disk did under another scheduler or from memory is not what it does for a node.
    let scheduler = disk::Parameters { scheduler: Some("bfq".into()), ..random(1, 4) };
    let warm = disk::Parameters { cache: disk::Cache::Warm, ..random(1, 4) };
    let own = vec![steady(scheduler.clone(), 3_000.0), steady(warm, 90_000.0), steady(random(1, 4), 2_000.0)];
    assert!(numbers(own).contains("the limit of 2,000/s"));
    assert!(numbers(vec![steady(scheduler, 3_000.0)]).contains("(page cache cold, bfq, range 1 GiB)"));
    let sorted = disk::Parameters { pattern: disk::Pattern::Sort, threads: 4, block_bytes: 1, ..reads() };
    assert!(by(vec![steady(sorted, 2_000.0)]).is_err());
}

#[test]
fn doubts_and_few_repetitions_of_the_disk_are_those_of_the_verdict() {
    let with = |change: fn(&mut disk::Point)| {
        let mut point = steady(random(1, 4), LIMIT);
        change(&mut point);
        let disk = on_disk(Some("disk-1"), document("tablet", Some(false), vec![point]));
        found("C4", vec![real(one(2_050.0), own_disks(1)), disk]).unwrap()
    };
    let doubted = with(|point| point.warnings.push(Warning::new(Code::OtherIo, "others")));
    assert_eq!((doubted.verdict, doubted.doubts), (Holds, vec![Code::OtherIo]));
    let once = with(|point| *point = disk::Point::new(point.parameters.clone(), point.repetitions[..1].to_vec()));
    assert_eq!(once.verdict, TooFewRepetitions);
    let twice = with(|point| *point = disk::Point::new(point.parameters.clone(), point.repetitions[..2].to_vec()));
    assert_eq!(twice.verdict, Holds);
}

#[test]
fn a_measured_disk_is_not_the_limit_of_nodes_that_are_models() {
    let mut nodes = real(one(2_050.0), Vec::new());
    nodes.warnings.push(Warning::new(Code::Modelled, "1 of 1 nodes answer as slowly as a modelled flash"));
    assert_eq!(what("C4", vec![nodes, tablet(None, LIMIT)]), "what one node's flash does alone is not known");
    // A lab's model has its own limit.
    let lab = vec![clustered(one(LIMIT)), tablet(None, LIMIT * 10.0)];
    assert_eq!(found("C4", lab).map(|f| (f.verdict, f.entries)), Ok((Holds, vec![0])));
}

#[test]
fn claims_about_several_nodes_are_not_judged_where_extents_share_a_disk() {
    let shared = |disks: Vec<Option<String>>, nodes: u32| {
        let few = |p: &Parameters| p.nodes <= nodes;
        let points = p1(as_in_p1).into_iter().filter(|p| few(&p.parameters)).collect();
        report(vec![real(points, disks), tablet(Some("disk-1"), LIMIT)]).claims()
    };
    let last_two = [own_disks(7), vec![Some("disk-7".to_string())]].concat();
    let claims = shared(last_two.clone(), 8);
    let of = |claims: &[Claim], id: &str| {
        let claim = claims.iter().find(|claim| claim.id == id).unwrap();
        claim.findings.first().map(|f| f.verdict).ok_or_else(|| claim.lacking[0].1.what.clone())
    };
    for id in ["C5", "C6", "C7", "C22"] {
        let reason = of(&claims, id).unwrap_err();
        assert!(
            reason.starts_with("the extents of nodes 7 and 8 are on one disk and share its limit"),
            "{id}: {reason}"
        );
    }
    for id in ["C4", "C8", "C9"] {
        assert_eq!(of(&claims, id), Ok(Holds), "{id} is about one node, or about no disk");
    }
    assert_eq!(of(&shared(last_two, 4), "C5"), Ok(Holds), "the sharing nodes took no part");
    let unknown = shared(vec![None; 8], 8);
    assert_eq!(of(&unknown, "C6"), Ok(Holds), "where nothing is known nothing is said");
    let html = report(vec![real(p1(as_in_p1), vec![Some("disk-1".into()); 8])]).html().unwrap();
    assert!(html.contains("1 disk for the extents of 8 nodes"), "in the table of clusters");
}

#[test]
fn a_cluster_that_is_faster_than_its_disks_was_answered_from_memory() {
    for (part, expected) in [(1.49, true), (1.5, true), (1.51, false)] {
        let documents = vec![real(one(part * LIMIT), own_disks(1)), tablet(Some("disk-1"), LIMIT)];
        assert_eq!(verdict("C4", documents).is_ok(), expected, "{part}");
    }
    let missing = found("C4", vec![real(one(2.0 * LIMIT), own_disks(1)), tablet(Some("disk-1"), LIMIT)]).unwrap_err();
    assert_eq!(missing.what, "with 1 node it did 4,200/s where their disks do 2,100/s: it was answered from memory");
    assert!(missing.measured_on.contains("--direct"));
}
