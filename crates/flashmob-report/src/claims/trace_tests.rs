//! Each claim about INSERTs at, below and above its limits.

use flashmob_results::Document;
use flashmob_results::trace::{AfterLastWrite, Layer, Role, Run, Workload};
use flashmob_results::warning::Code;

use super::Verdict::{DoesNotHold, Holds, TooFewRepetitions};
use super::{Claim, Finding, Verdict};
use crate::tests::builder::{document, parameters, report, steady};
use crate::tests::insert_builder::{paired, run, set, traced};

fn claim(id: &str, documents: Vec<Document>) -> Claim {
    report(documents).claims().into_iter().find(|claim| claim.id == id).unwrap()
}

/// The finding on one device with these runs, or what is missing.
fn found(id: &str, runs: Vec<Run>) -> Result<Finding, String> {
    of_document(id, traced("pc", runs))
}

fn of_document(id: &str, document: Document) -> Result<Finding, String> {
    let claim = claim(id, vec![document]);
    match claim.findings.into_iter().next() {
        Some(finding) => Ok(finding),
        None => Err(claim.lacking[0].1.what.clone()),
    }
}

fn verdict(id: &str, runs: Vec<Run>) -> Result<Verdict, String> {
    found(id, runs).map(|finding| finding.verdict)
}

fn changed(change: impl FnOnce(&mut Run)) -> Run {
    let mut run = run("ext4");
    change(&mut run);
    run
}

fn on_phone(run: Run) -> Document {
    let mut document = traced("phone", vec![run]);
    document.device.system = Some("Android 4.0.3 (API 15)".into());
    document
}

#[test]
fn claims_about_inserts_are_there_where_inserts_were_traced() {
    let ids = |documents| report(documents).claims().iter().map(|c| c.id).collect::<Vec<_>>();
    assert_eq!(ids(vec![traced("pc", vec![run("ext4")])]), ["C18", "C19", "C20", "C21"]);
    let both = ids(vec![traced("pc", vec![run("ext4")]), document("a", None, vec![steady(parameters(), 9.0)])]);
    assert!(both.contains(&"C13") && both.contains(&"C18"), "{both:?}");
    let mut command = run("ext4");
    command.workload = Workload::Command { command: vec!["dd".into()], status: Some(0) };
    assert!(ids(vec![traced("pc", vec![command.clone()])]).is_empty());
    let page = report(vec![traced("pc", vec![command])]).html().unwrap();
    assert!(!page.contains("id=\"claims\"") && !page.contains("reproduce p5"), "{page}");
}

#[test]
fn where_a_processor_is_emulated_counts_are_believed_and_times_are_not() {
    let emulated = |id| {
        let mut document = traced("pc", vec![run("ext4"), run("xfs")]);
        document.device.emulated = Some("qemu-user on x86_64".into());
        of_document(id, document).unwrap().doubts
    };
    assert_eq!(emulated("C19"), [], "writes are counted");
    assert_eq!(emulated("C20"), [Code::Emulated], "gaps are timed");
}

#[test]
fn other_settings_than_the_papers_and_short_runs_are_not_judged() {
    let others = vec![set("ext4", "WAL", "FULL", 900.0), set("ext4", "DELETE", "OFF", 900.0)];
    let few = changed(|run| run.operations.count = 9);
    for runs in [others, vec![few], Vec::new()] {
        for id in ["C18", "C19", "C20", "C21"] {
            let missing = found(id, runs.clone()).unwrap_err();
            assert!(missing.starts_with("no 10 INSERTs or more were traced with journal mode DELETE"), "{missing}");
        }
    }
}

#[test]
fn c18_wants_a_third_between_systems_on_like_hardware() {
    let of = |xfs| verdict("C18", vec![set("ext4", "DELETE", "FULL", 1_000.0), set("xfs", "DELETE", "FULL", xfs)]);
    assert_eq!([of(500.0), of(660.0), of(1_520.0)], [Ok(Holds), Ok(Holds), Ok(Holds)]);
    assert_eq!([of(670.0), of(1_000.0), of(1_500.0)], [Ok(DoesNotHold), Ok(DoesNotHold), Ok(DoesNotHold)]);
    let found =
        found("C18", vec![set("ext4", "DELETE", "FULL", 500.0), set("xfs", "DELETE", "FULL", 1_000.0)]).unwrap();
    assert_eq!(found.numbers, "xfs 1,000/s and ext4 500/s: the slowest does 50\u{a0}% of the fastest (2 times)");
    let one = verdict("C18", vec![set("ext4", "DELETE", "FULL", 500.0), set("ext4", "WAL", "FULL", 1_000.0)]);
    assert_eq!(one, Err("one system alone was traced on this hardware".into()));
}

#[test]
fn c18_compares_systems_of_several_results_and_leaves_other_hardware_apart() {
    let first = traced("ext4", vec![set("ext4", "DELETE", "FULL", 1_000.0)]);
    let second = traced("xfs", vec![set("xfs", "DELETE", "FULL", 400.0)]);
    let mut phone = traced("phone", vec![set("ext4", "DELETE", "FULL", 10.0)]);
    phone.device.cpu = Some("Cortex-A8".into());
    let claim = claim("C18", vec![first, second, phone]);
    assert_eq!(claim.findings.len(), 1);
    assert_eq!((claim.findings[0].verdict, claim.findings[0].entries.clone()), (Holds, vec![0, 1]));
    assert_eq!(claim.lacking, [(2, "one system alone was traced on this hardware".into())]);
}

#[test]
fn c18_goes_by_untraced_rates_and_their_spread() {
    let of = |ext4: &[f64], xfs: &[f64]| {
        verdict("C18", vec![paired(run("ext4"), ext4), paired(set("xfs", "DELETE", "FULL", 1_000.0), xfs)])
    };
    assert_eq!(of(&[1_000.0, 1_010.0, 990.0], &[400.0, 410.0, 390.0]), Ok(Holds));
    assert_eq!(of(&[700.0, 1_000.0, 1_000.0], &[500.0, 650.0, 710.0]), Ok(DoesNotHold), "ranges that touch");
    assert_eq!(of(&[1_000.0, 1_010.0, 990.0], &[990.0, 980.0, 990.0]), Ok(DoesNotHold));
    assert_eq!(of(&[1_000.0, 1_010.0], &[400.0, 410.0, 390.0]), Ok(TooFewRepetitions));
    assert_eq!(of(&[1_000.0, 1_500.0, 1_500.0], &[400.0, 410.0, 390.0]), Ok(Holds));
    assert_eq!(of(&[1_000.0, 1_500.0, 1_510.0], &[400.0, 410.0, 390.0]), Ok(TooFewRepetitions), "unlike");
}

#[test]
fn c19_counts_writes_by_file_and_says_what_became_of_them() {
    let found = found("C19", vec![run("ext4")]).unwrap();
    assert_eq!(found.verdict, DoesNotHold);
    assert_eq!(
        found.numbers,
        "8 writes to the journal and 2 to the database for each insert, SQLite 3.51.0; as on the phone, the journal's are a header, \
         a count, and three for each of the database's (11 = 2 + 3 × 3); the driver got 2 commands for the journal and 1 for the database"
    );
    let of = |journal, database| {
        let counted = changed(|run| {
            for row in run.files.iter_mut().filter(|row| row.work == "pwrite64") {
                row.count = if row.role == Role::Journal { journal } else { database };
            }
        });
        (verdict("C19", vec![counted.clone()]).unwrap(), of_document("C19", on_phone(counted)).unwrap().verdict)
    };
    assert_eq!(of(2_000, 1_000), (Holds, DoesNotHold));
    assert_eq!(of(2_190, 1_090), (Holds, DoesNotHold));
    assert_eq!(of(2_201, 1_000), (DoesNotHold, DoesNotHold));
    assert_eq!(of(2_000, 899), (DoesNotHold, DoesNotHold));
    assert_eq!(of(11_000, 3_000), (DoesNotHold, Holds));
}

#[test]
fn c19_takes_sqlites_own_calls_where_the_kernel_was_silent() {
    let own = changed(|run| {
        run.files.retain(|row| row.work == "pwrite64");
        run.files.iter_mut().for_each(|row| (row.layer, row.work) = (Layer::Sqlite, "xWrite".into()));
    });
    let found = found("C19", vec![own]).unwrap();
    assert!(found.numbers.contains("(SQLite's own calls; system calls were not seen)"), "{}", found.numbers);
    assert!(!found.numbers.contains("the driver got"), "{}", found.numbers);
    let silent = verdict("C19", vec![changed(|run| run.files.clear())]);
    assert_eq!(silent, Err("neither system calls nor SQLite's own calls were seen".into()));
}

/// A system's sums over 100 inserts.
fn system(filesystem: &str, rate: f64, [journal_ns, before_ns, after_ns, commands_after]: [u64; 4]) -> Run {
    let mut run = set(filesystem, "DELETE", "FULL", rate);
    run.after_last_write = Some(AfterLastWrite {
        rounds: 2,
        operations: 100,
        before_ns,
        journal_ns,
        after_ns,
        commands_before: Some(800),
        commands_after: Some(commands_after),
    });
    run
}

#[test]
fn c20_wants_the_difference_of_two_systems_after_the_last_write() {
    let of = |slow| verdict("C20", vec![system("ext4", 1_000.0, [200, 600, 400, 500]), system("xfs", 900.0, slow)]);
    assert_eq!(of([200, 600, 600, 501]), Ok(Holds));
    assert_eq!([of([250, 600, 600, 501]), of([160, 600, 600, 501])], [Ok(Holds), Ok(Holds)], "a quarter apart");
    assert_eq!([of([251, 600, 600, 501]), of([159, 600, 600, 501])], [Ok(DoesNotHold), Ok(DoesNotHold)]);
    assert_eq!(of([200, 600, 600, 500]), Ok(DoesNotHold), "as many commands");
    assert_eq!(of([200, 700, 500, 501]), Ok(DoesNotHold), "half of it lies before");
    assert_eq!(of([200, 699, 501, 501]), Ok(Holds));
    assert_eq!(of([200, 600, 500, 501]), Ok(Holds), "a tenth longer");
    assert_eq!(of([200, 600, 499, 501]), Ok(DoesNotHold), "no difference to place");
    let mut one = system("xfs", 900.0, [200, 600, 600, 501]);
    one.after_last_write.as_mut().unwrap().rounds = 1;
    let verdict = verdict("C20", vec![system("ext4", 1_000.0, [200, 600, 400, 500]), one]);
    assert_eq!(verdict, Ok(TooFewRepetitions), "one round");
}

#[test]
fn c20_tells_the_times_and_what_is_missing() {
    let fast = || system("ext4", 1_000.0, [20_000, 60_000, 40_000, 500]);
    let slow = || system("xfs", 600.0, [22_000, 60_000, 66_800, 700]);
    assert_eq!(
        found("C20", vec![fast(), slow()]).unwrap().numbers,
        "xfs 600/s against ext4 1,000/s: journal writes take 220 ns and 200 ns from the first to the last; 268 ns of the 268 ns that it takes longer lie \
         after the last write to the database (668 ns there against 400 ns, 1.67 times), with 7 and 5 of the driver's commands"
    );
    let lacking = |change: fn(&mut Run)| {
        let mut slow = slow();
        change(&mut slow);
        verdict("C20", vec![fast(), slow]).unwrap_err()
    };
    assert_eq!(verdict("C20", vec![fast()]), Err("one system alone was traced on this hardware".into()));
    assert_eq!(lacking(|run| run.after_last_write = None), "no write to the database was seen within an insert");
    assert_eq!(
        lacking(|run| run.after_last_write.as_mut().unwrap().commands_after = None),
        "the driver's commands were not seen"
    );
    assert_eq!(
        lacking(|run| run.after_last_write.as_mut().unwrap().journal_ns = 0),
        "no insert wrote to its journal twice"
    );
}

/// Inserts of which every second hundred of milliseconds has `quiet`, the others 50.
fn phased(quiet: u32, median_ns: u64, handed_percent: u64) -> Run {
    changed(|run| {
        let mut begins = Vec::new();
        for window in 0..40u32 {
            let many = if window % 2 == 0 { 50 } else { quiet };
            begins.extend((0..many).map(|n| f64::from(window) * 0.1 + 0.1 * f64::from(n) / f64::from(many)));
        }
        let operations = &mut run.operations;
        operations.count = begins.len() as u64;
        operations.per_second = operations.count as f64 / 4.0;
        operations.begins_s = begins;
        let mut latencies = flashmob_results::latency::histogram();
        latencies.record_n(median_ns, operations.count).unwrap();
        operations.latency_ns = flashmob_results::latency::Latency::new(&latencies);
        operations.total_ns = 1_000_000;
        run.handovers[0].total_ns = handed_percent * 10_000;
    })
}

#[test]
fn c21_wants_short_inserts_in_phases_and_long_hand_over_on_a_phone() {
    let of = |run| of_document("C21", on_phone(run)).unwrap();
    assert_eq!(of(phased(5, 1_000_000, 30)).verdict, Holds, "{}", of(phased(5, 1_000_000, 30)).numbers);
    assert_eq!(of(phased(50, 1_000_000, 30)).verdict, DoesNotHold, "no phases");
    assert_eq!(of(phased(5, 2_500_000, 30)).verdict, DoesNotHold, "long inserts");
    assert_eq!(of(phased(5, 1_000_000, 24)).verdict, DoesNotHold, "short hand-over");
}

#[test]
fn c21_is_about_phones_and_tells_figures_elsewhere() {
    let missing = found("C21", vec![run("ext4")]).unwrap_err();
    assert!(missing.starts_with("it speaks of phones, and this is none; here the median insert takes 90"), "{missing}");
    assert!(missing.ends_with("hand-over takes 10\u{a0}% of the time"), "{missing}");
    let few = changed(|run| run.operations.begins_s.truncate(199));
    assert_eq!(verdict("C21", vec![few]), Err("dense and sparse phases need 200 inserts or more".into()));
}

#[test]
fn c21_is_not_judged_where_the_kernels_layers_were_not_seen() {
    let mut run = phased(5, 1_000_000, 0);
    run.layers.retain(|total| total.layer == Layer::Sqlite);
    let missing = of_document("C21", on_phone(run)).unwrap_err();
    assert!(missing.ends_with("hand-over to the kernel's layers was not seen, which needs root"), "{missing}");
}

#[test]
fn a_claim_says_how_a_phone_measures_it_until_one_has() {
    let way = |document: Document| claim("C19", vec![document]).on_phone;
    assert!(way(traced("pc", vec![run("ext4")])).contains("`flashmob push reproduce --papers p5`"));
    assert_eq!(way(on_phone(run("ext4"))), "");
    let c21 = claim("C21", vec![traced("pc", vec![run("ext4")])]).on_phone;
    assert!(c21.contains("`adb root`, then "), "{c21}");
}

#[test]
fn a_phones_page_names_no_command_of_the_computer_for_what_is_missing() {
    let of = |document: Document| {
        let page = crate::tests::builder::report(vec![document]).html().unwrap();
        let claim = page.split("<div class=\"claim\" id=\"C18\"").nth(1).unwrap();
        claim.split("<div class=\"claim\"").next().unwrap().to_string()
    };
    let (phone, pc) = (of(on_phone(run("ext4"))), of(traced("pc", vec![run("ext4")])));
    assert!(phone.contains("Measured as said above") && !phone.contains("<code>flashmob reproduce"), "{phone}");
    assert!(phone.contains("flashmob push reproduce --papers p5 --save DIR"), "{phone}");
    assert!(pc.contains("Measured by <code>flashmob reproduce p5</code>"), "{pc}");
}

#[test]
fn rounds_of_a_system_become_one_result() {
    let round = |rate: f64| traced("pc", vec![paired(run("ext4"), &[rate])]);
    let whole = flashmob_results::merge::traces(vec![round(100.0), round(90.0), round(80.0)]).unwrap();
    let runs = &whole.trace().unwrap().runs;
    let first = round(100.0).trace().unwrap().runs[0].clone();
    let (overhead, sum) = (runs[0].overhead.clone().unwrap(), runs[0].after_last_write.unwrap());
    let one = first.after_last_write.unwrap();
    assert_eq!((runs.len(), overhead.untraced_per_second), (1, vec![100.0, 90.0, 80.0]));
    assert_eq!((sum.rounds, sum.operations, sum.after_ns), (3 * one.rounds, 3 * one.operations, 3 * one.after_ns));
    assert_eq!(runs[0].files, first.files, "counts are those of the first round");
    let mut other = round(70.0);
    other.label = Some("laptop".into());
    assert!(flashmob_results::merge::traces(vec![round(100.0), other]).is_err());
}
