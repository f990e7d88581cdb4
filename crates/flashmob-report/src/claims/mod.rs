//! The claims of P1, P3, P4 and P5 about single devices, clusters, networks and INSERTs into a database, each with a criterion, judged for each result.
//!
//! One file for each claim: its module comment gives the criterion and the reason for each tolerance. All go by medians over the
//! repetitions, of which each point needs two or more (more where a claim says so) for a verdict; "differ" and "faster" mean more than 10 % and apart from the repetitions' spread (Mann-Whitney at p < 0.05
//! with four repetitions or more on both sides, disjoint ranges with fewer). Reads from a warm page cache, writes, and requests with
//! a depth above 1 are ignored (except in C13, which is about the device below). Claims about clusters (C4 to C9, C22, C23) have limits of their own; void repetitions are
//! ignored. A claim without a measurement neither holds nor fails.

#[cfg(test)]
mod cluster_tests;
mod clusters;
mod datagrams_over_rtt;
mod deadline_beats_others;
mod each_node_adds_little;
mod equal_pairs;
mod few_packets_in_flight;
mod flash_beats_disk;
mod gap_after_last_write;
mod larger_fewer_packets;
mod links_saturate;
mod missing;
#[cfg(test)]
mod network_tests;
mod networks;
mod no_gain_below_4_kib;
mod node_limit;
#[cfg(test)]
mod node_limit_tests;
mod on_phone;
mod one_node_reaches_its_limit;
mod order_matters;
mod phases_on_a_phone;
mod plain_cluster_beats_disk;
mod proportional_to_nodes;
mod receive_maximum_is_the_cause;
mod reno_equals_cubic;
mod sequential_beats_random;
pub(crate) mod sets;
mod several_nodes_stay_below;
mod small_receiver_collapses;
#[cfg(test)]
mod step_tests;
mod systems_differ;
mod ten_carries_ten_times;
#[cfg(test)]
mod tests;
mod threads_help_up_to_four;
#[cfg(test)]
mod trace_tests;
mod traces;
mod tuned_is_like_the_other;
mod upward_steps_are_faster;
mod writes_per_insert;

use std::collections::BTreeSet;

use flashmob_results::cluster;
use flashmob_results::disk::Point;
use flashmob_results::net;
use flashmob_results::trace::Run;
use flashmob_results::warning::{Code, Warning};

pub use missing::Missing;

use crate::entry::{Entry, doubts};
use crate::stats::rates;
use crate::{sweep, ways, words};

/// The verdict for one device or one pair of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds as in the paper.
    Holds,
    /// It holds, over a model one of whose parameters was chosen so that it does: no evidence.
    Fitted,
    /// It was measured and does not hold.
    DoesNotHold,
    /// Some point has too few repetitions, or too different ones, to say.
    TooFewRepetitions,
}

impl Verdict {
    /// It holds, of itself or because a model was fitted to it.
    #[must_use]
    pub fn is_met(self) -> bool {
        matches!(self, Verdict::Holds | Verdict::Fitted)
    }
}

/// The judgement of a claim for one device or pair, with its evidence.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The results, as positions among the entries.
    pub entries: Vec<usize>,
    /// Setting that distinguishes it from other findings of the same entries; empty if there are none.
    pub setting: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The figures that it rests on.
    pub numbers: String,
    /// Kinds of warnings about the points that it rests on, each once.
    pub doubts: Vec<Code>,
}

/// The subject of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One device's storage.
    Device,
    /// A gateway with its nodes.
    Cluster,
    /// The network between two hosts.
    Network,
    /// Operations through the layers of a system.
    Trace,
}

/// A claim and its findings.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its subject.
    pub subject: Subject,
    /// Its number in the project's list: `C1`.
    pub id: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// The statement.
    pub words: &'static str,
    /// The same in a few words, for the top of the page.
    pub short: &'static str,
    /// Criterion for it to hold.
    pub criterion: &'static str,
    /// The paper's own figures; empty where it stands in the words already.
    pub paper: &'static str,
    /// Command that measures it.
    pub command: &'static str,
    /// Further conditions of the measurement; may be empty.
    pub measured_on: &'static str,
    /// How a phone or tablet measures it, with commands between backticks; empty if one has.
    pub on_phone: &'static str,
    /// One for each device or pair that was measured; empty if none was.
    pub findings: Vec<Finding>,
    /// Results of devices that have nothing on it, as positions among the entries.
    pub without: Vec<usize>,
    /// Results of clusters and networks that have too little on it, as positions among the entries, and what they lack.
    pub lacking: Vec<(usize, Missing)>,
}

impl Claim {
    /// The verdict over all findings: failing if one fails, else undecided if one is, fitted if all are. `None`: it was not measured.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let any = |verdict: Verdict| self.findings.iter().any(|finding| finding.verdict == verdict);
        let by_weight = [Verdict::DoesNotHold, Verdict::TooFewRepetitions, Verdict::Holds, Verdict::Fitted];
        by_weight.into_iter().find(|verdict| any(*verdict))
    }

    /// True if it was measured with enough repetitions for a verdict.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict != Verdict::TooFewRepetitions)
    }
}

/// A claim before it is judged. Texts are empty where there is nothing to say.
struct Definition {
    subject: Subject,
    id: &'static str,
    source: &'static str,
    words: &'static str,
    short: &'static str,
    criterion: &'static str,
    paper: &'static str,
    command: &'static str,
    measured_on: &'static str,
    on_phone: &'static str,
    judge: fn(&[Entry]) -> Judged,
}

impl Definition {
    const DEVICE: Definition = Definition {
        subject: Subject::Device,
        id: "",
        source: "",
        words: "",
        short: "",
        criterion: "",
        paper: "",
        command: "",
        measured_on: "",
        on_phone: "",
        judge: |_| Judged::default(),
    };
    const CLUSTER: Definition = Definition {
        subject: Subject::Cluster,
        command: "flashmob reproduce p1",
        on_phone: on_phone::TABLETS,
        ..Definition::DEVICE
    };
    const NETWORK: Definition = Definition {
        subject: Subject::Network,
        command: "flashmob reproduce p4",
        on_phone: on_phone::TCP,
        ..Definition::DEVICE
    };
    const TRACE: Definition = Definition {
        subject: Subject::Trace,
        command: "flashmob reproduce p5",
        on_phone: on_phone::P5,
        ..Definition::DEVICE
    };

    fn judged(&self, entries: &[Entry]) -> Claim {
        let Judged { findings, missing } = (self.judge)(entries);
        Claim {
            subject: self.subject,
            id: self.id,
            source: self.source,
            words: self.words,
            short: self.short,
            criterion: self.criterion,
            paper: self.paper,
            command: self.command,
            measured_on: self.measured_on,
            on_phone: self.on_phone,
            findings,
            without: Vec::new(),
            lacking: missing,
        }
    }
}

/// Findings, and for each result without one what is missing.
#[derive(Default)]
struct Judged {
    findings: Vec<Finding>,
    missing: Vec<(usize, Missing)>,
}

impl Judged {
    /// Adds the findings of one result, each with its setting. Without a finding, the first reason is reported as missing, or else `nothing`.
    fn add(&mut self, at: usize, results: impl IntoIterator<Item = (String, Result<Finding, Missing>)>, nothing: &str) {
        let (mut found, mut missing) = (Vec::new(), None);
        for (setting, result) in results {
            match result {
                Ok(finding) => found.push((setting, finding)),
                Err(what) => missing = missing.or(Some(what)),
            }
        }
        if found.is_empty() {
            self.missing.push((at, missing.unwrap_or_else(|| nothing.into())));
        }
        self.findings.extend(tell_apart(found));
    }
}

/// Judges sets of points of every device.
fn each_set<'a, S>(
    entries: &'a [Entry],
    sets: fn(&'a Entry) -> Vec<S>,
    judge: impl Fn(usize, &S) -> Option<(String, Finding)>,
) -> Judged {
    let of_entry = |(at, entry)| tell_apart(sets(entry).iter().filter_map(|set| judge(at, set)).collect());
    Judged { findings: entries.iter().enumerate().flat_map(of_entry).collect(), missing: Vec::new() }
}

/// All claims, in order.
const ALL: [Definition; 26] = [
    flash_beats_disk::CLAIM,
    threads_help_up_to_four::CLAIM,
    no_gain_below_4_kib::CLAIM,
    one_node_reaches_its_limit::CLAIM,
    several_nodes_stay_below::CLAIM,
    proportional_to_nodes::CLAIM,
    links_saturate::CLAIM,
    ten_carries_ten_times::CLAIM,
    larger_fewer_packets::CLAIM,
    sequential_beats_random::CLAIM,
    order_matters::CLAIM,
    deadline_beats_others::CLAIM,
    upward_steps_are_faster::CLAIM,
    small_receiver_collapses::CLAIM,
    reno_equals_cubic::CLAIM,
    few_packets_in_flight::CLAIM,
    receive_maximum_is_the_cause::CLAIM,
    systems_differ::CLAIM,
    writes_per_insert::CLAIM,
    gap_after_last_write::CLAIM,
    phases_on_a_phone::CLAIM,
    each_node_adds_little::CLAIM,
    plain_cluster_beats_disk::CLAIM,
    equal_pairs::CLAIM,
    datagrams_over_rtt::CLAIM,
    tuned_is_like_the_other::CLAIM,
];

/// Repetitions of each point that a verdict needs, where a claim does not ask for more: with one its spread is unknown.
const REPETITIONS_MIN: usize = 2;

/// Claims about counts, which are valid on emulated processors; all others are about times.
const COUNTED: [&str; 2] = ["C9", "C19"];

/// The claims about what there are results of, in order. Without any results: those about single devices.
#[must_use]
pub fn judge(entries: &[Entry]) -> Vec<Claim> {
    let clusters = entries.iter().any(|entry| entry.cluster().is_some());
    let networks = entries.iter().any(Entry::is_network);
    let traces = entries.iter().any(|entry| entry.trace().is_some());
    let devices = entries.iter().any(Entry::is_device) || !(clusters || networks || traces);
    let wanted = ALL.iter().filter(|definition| match definition.subject {
        Subject::Device => devices,
        Subject::Cluster => clusters,
        Subject::Network => networks,
        Subject::Trace => entries.iter().any(may_have_inserts),
    });
    let mut claims: Vec<Claim> = wanted.map(|definition| definition.judged(entries)).collect();
    let is_of_phone =
        |at: &usize| entries.get(*at).is_some_and(|entry| entry.is_android() && !entry.document.is_modelled());
    for claim in claims.iter_mut().filter(|claim| claim.findings.iter().any(|f| f.entries.iter().any(is_of_phone))) {
        claim.on_phone = "";
    }
    for claim in claims.iter_mut().filter(|claim| !COUNTED.contains(&claim.id)) {
        let is_emulated = |at: &usize| entries.get(*at).is_some_and(|entry| entry.document.is_emulated());
        for finding in claim.findings.iter_mut().filter(|finding| finding.entries.iter().any(is_emulated)) {
            finding.doubts.push(Code::Emulated);
        }
    }
    for claim in claims.iter_mut().filter(|claim| claim.subject == Subject::Device) {
        // A device may have several results: one with a finding suffices.
        let measured: Vec<String> =
            claim.findings.iter().flat_map(|f| &f.entries).map(|at| entries[*at].document.name()).collect();
        let lacks = |at: &usize| entries[*at].is_device() && !measured.contains(&entries[*at].document.name());
        claim.without = (0..entries.len()).filter(lacks).collect();
    }
    claims
}

/// P5's claims are about INSERTs, not about traced commands or clusters.
fn may_have_inserts(entry: &Entry) -> bool {
    let inserts = |run| crate::inserts::setting(run).is_some();
    entry.trace().is_some_and(|trace| trace.runs.is_empty() || trace.runs.iter().any(inserts))
}

impl Finding {
    fn of(entry: usize, holds: bool, numbers: String, points: &[&Point]) -> Finding {
        let least = points.iter().map(|point| rates(point).len()).min();
        Finding::new(entry, holds, numbers, points.iter().map(|p| p.warnings.as_slice()))
            .needing(REPETITIONS_MIN, least)
    }

    fn of_cluster(entry: usize, holds: bool, numbers: String, points: &[&cluster::Point]) -> Finding {
        let least = points.iter().map(|point| sweep::valid(point).count()).min();
        Finding::new(entry, holds, numbers, points.iter().map(|p| p.warnings.as_slice()))
            .needing(REPETITIONS_MIN, least)
    }

    fn of_net(entries: &[usize], holds: bool, numbers: String, points: &[&net::Point]) -> Finding {
        Finding::of_net_needing(REPETITIONS_MIN, entries, holds, numbers, points)
    }

    fn of_net_needing(
        wanted: usize,
        entries: &[usize],
        holds: bool,
        numbers: String,
        points: &[&net::Point],
    ) -> Finding {
        let least = points.iter().map(|point| ways::valid(point).count()).min();
        let warnings = points.iter().map(|p| p.warnings.as_slice());
        Finding { entries: entries.to_vec(), ..Finding::new(0, holds, numbers, warnings) }.needing(wanted, least)
    }

    /// Each capture is a single transfer, without repetitions.
    fn of_captures(entries: &[Entry], pair: [usize; 2], holds: bool, numbers: String) -> Finding {
        let warnings = pair.iter().filter_map(|at| entries.get(*at)).map(|e| e.document.warnings.as_slice());
        Finding { entries: pair.to_vec(), ..Finding::new(0, holds, numbers, warnings) }
    }

    /// Counts of calls, and times of single runs, are judged without repetitions; C18 and C20 ask for rounds themselves.
    fn of_runs(entries: &[usize], holds: bool, numbers: String, runs: &[&Run]) -> Finding {
        let warnings = runs.iter().map(|run| run.warnings.as_slice());
        Finding { entries: entries.to_vec(), ..Finding::new(0, holds, numbers, warnings) }
    }

    fn new<'a>(entry: usize, holds: bool, numbers: String, warnings: impl Iterator<Item = &'a [Warning]>) -> Finding {
        Finding {
            entries: vec![entry],
            setting: String::new(),
            verdict: if holds { Verdict::Holds } else { Verdict::DoesNotHold },
            numbers,
            doubts: warnings.flat_map(doubts).collect::<BTreeSet<Code>>().into_iter().collect(),
        }
    }

    /// No verdict if the point with the fewest repetitions has fewer than `wanted`; its figures stay.
    fn needing(self, wanted: usize, least: Option<usize>) -> Finding {
        match least {
            Some(least) if least < wanted => Finding {
                verdict: Verdict::TooFewRepetitions,
                numbers: format!(
                    "{} ({} of the least repeated point, {wanted} needed)",
                    self.numbers,
                    words::plural(least as u64, "repetition")
                ),
                ..self
            },
            _ => self,
        }
    }
}

/// Names the setting of each finding where an entry has several.
fn tell_apart(findings: Vec<(String, Finding)>) -> Vec<Finding> {
    let several: Vec<bool> = findings
        .iter()
        .map(|(_, f)| findings.iter().filter(|(_, other)| other.entries == f.entries).count() > 1)
        .collect();
    let named = findings.into_iter().zip(several);
    named
        .map(|((setting, f), several)| Finding { setting: if several { setting } else { String::new() }, ..f })
        .collect()
}

/// Median of the requests each second.
fn rate(point: &Point) -> f64 {
    point.summary.requests_per_second.median
}
