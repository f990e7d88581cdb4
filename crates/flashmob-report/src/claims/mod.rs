//! What P1, P3, P4 and P5 say of single devices, clusters, networks and INSERTs into a database, each with a criterion, judged for each result.
//!
//! One file for each claim: its module comment gives the criterion and the reason for each tolerance. All go by medians over the
//! repetitions; "differ" and "faster" mean more than 10 % and apart from the repetitions' spread (Mann-Whitney at p < 0.05
//! with four repetitions or more on both sides, ranges that do not touch with fewer). Reads from a warm page cache, writes, and requests with
//! a depth above 1 are never looked at (but for C13, which looks at the device below). Claims about clusters (C4 to C9) go by medians as well, with limits of their own; repetitions that
//! are void count nowhere. A claim of which nothing was measured neither holds nor fails.

mod c1;
mod c10;
mod c11;
mod c12;
mod c13;
mod c14;
mod c15;
mod c16;
mod c17;
mod c18;
mod c19;
mod c2;
mod c20;
mod c21;
mod c3;
mod c4;
mod c5;
mod c6;
mod c7;
mod c8;
mod c9;
#[cfg(test)]
mod cluster_tests;
mod clusters;
#[cfg(test)]
mod network_tests;
mod networks;
pub(crate) mod sets;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace_tests;
mod traces;

use std::collections::BTreeSet;

use flashmob_results::cluster;
use flashmob_results::disk::Point;
use flashmob_results::net;
use flashmob_results::trace::Run;
use flashmob_results::warning::{Code, Warning};

use crate::entry::{Entry, doubts};
use crate::stats::rates;
use crate::{sweep, ways};

/// What came of it for one device or one pair of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As the paper says.
    Holds,
    /// Measured, and otherwise.
    DoesNotHold,
}

/// A claim for one device (or pair), with what it rests on.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which result or results, as positions among the entries.
    pub entries: Vec<usize>,
    /// What tells it from others of the same entries; empty if nothing does.
    pub setting: String,
    /// What came of it.
    pub verdict: Verdict,
    /// The figures behind it.
    pub numbers: String,
    /// What makes some of the points that it rests on doubtful, each kind once.
    pub doubts: Vec<Code>,
    /// Some of the points have a single repetition, so that their spread is unknown.
    pub single: bool,
}

/// What a claim speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One device's storage.
    Device,
    /// A gateway with its nodes.
    Cluster,
    /// What goes between two hosts.
    Network,
    /// Operations through the layers of a system.
    Trace,
}

/// A claim and its findings.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What it speaks of.
    pub subject: Subject,
    /// Its number in the project's list: `C1`.
    pub id: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it says.
    pub words: &'static str,
    /// The same in a few words, for the top of the page.
    pub short: &'static str,
    /// When it is said to hold.
    pub criterion: &'static str,
    /// The paper's own figures; empty where it stands in the words already.
    pub paper: &'static str,
    /// What would measure it.
    pub command: &'static str,
    /// On what, or how, besides; empty if there is nothing to say.
    pub measured_on: &'static str,
    /// One for each device or pair that was measured; empty if none was.
    pub findings: Vec<Finding>,
    /// Results of devices that have nothing on it, as positions among the entries.
    pub without: Vec<usize>,
    /// Results of clusters and networks that have too little on it, as positions among the entries, and what they lack.
    pub lacking: Vec<(usize, String)>,
}

type Judge = fn(&[Entry]) -> Claim;

/// All of them, in order, by what they are about.
const ALL: [(Subject, Judge); 21] = [
    (Subject::Device, c1::claim),
    (Subject::Device, c2::claim),
    (Subject::Device, c3::claim),
    (Subject::Cluster, c4::claim),
    (Subject::Cluster, c5::claim),
    (Subject::Cluster, c6::claim),
    (Subject::Cluster, c7::claim),
    (Subject::Cluster, c8::claim),
    (Subject::Cluster, c9::claim),
    (Subject::Device, c10::claim),
    (Subject::Device, c11::claim),
    (Subject::Device, c12::claim),
    (Subject::Device, c13::claim),
    (Subject::Network, c14::claim),
    (Subject::Network, c15::claim),
    (Subject::Network, c16::claim),
    (Subject::Network, c17::claim),
    (Subject::Trace, c18::claim),
    (Subject::Trace, c19::claim),
    (Subject::Trace, c20::claim),
    (Subject::Trace, c21::claim),
];

/// Claims that go by what is counted, which holds where a processor is emulated; all others go by times.
const COUNTED: [&str; 2] = ["C9", "C19"];

/// The claims about what there are results of, in order. Without any results: those about single devices.
#[must_use]
pub fn judge(entries: &[Entry]) -> Vec<Claim> {
    let clusters = entries.iter().any(|entry| entry.cluster().is_some());
    let networks = entries.iter().any(Entry::is_network);
    let traces = entries.iter().any(|entry| entry.trace().is_some());
    let devices = entries.iter().any(Entry::is_device) || !(clusters || networks || traces);
    let wanted = ALL.iter().filter(|(subject, _)| match subject {
        Subject::Device => devices,
        Subject::Cluster => clusters,
        Subject::Network => networks,
        Subject::Trace => entries.iter().any(may_have_inserts),
    });
    let mut claims: Vec<Claim> = wanted.map(|(_, judge)| judge(entries)).collect();
    for claim in claims.iter_mut().filter(|claim| !COUNTED.contains(&claim.id)) {
        let is_emulated = |at: &usize| entries.get(*at).is_some_and(|entry| entry.document.is_emulated());
        for finding in claim.findings.iter_mut().filter(|finding| finding.entries.iter().any(is_emulated)) {
            finding.doubts.push(Code::Emulated);
        }
    }
    for claim in claims.iter_mut().filter(|claim| claim.subject == Subject::Device) {
        // A device may have several results: what one of them has, it has.
        let measured: Vec<String> =
            claim.findings.iter().flat_map(|f| &f.entries).map(|at| entries[*at].document.name()).collect();
        let lacks = |at: &usize| entries[*at].is_device() && !measured.contains(&entries[*at].document.name());
        claim.without = (0..entries.len()).filter(lacks).collect();
    }
    claims
}

impl Claim {
    /// About clusters, with what came of them; the rest is for the claim to say.
    fn of_clusters(judged: clusters::Judged) -> Claim {
        Claim {
            subject: Subject::Cluster,
            id: "",
            source: "",
            words: "",
            short: "",
            criterion: "",
            paper: "",
            command: "flashmob reproduce p1",
            measured_on: "",
            findings: judged.findings,
            without: Vec::new(),
            lacking: judged.missing,
        }
    }
}

impl Claim {
    /// About networks, with what came of them; the rest is for the claim to say.
    fn of_networks(judged: clusters::Judged) -> Claim {
        Claim { subject: Subject::Network, command: "flashmob reproduce p4", ..Claim::of_clusters(judged) }
    }
}

/// P5 speaks of INSERTs. A traced command or cluster is no matter of its.
fn may_have_inserts(entry: &Entry) -> bool {
    let inserts = |run| crate::inserts::setting(run).is_some();
    entry.trace().is_some_and(|trace| trace.runs.is_empty() || trace.runs.iter().any(inserts))
}

impl Claim {
    /// About INSERTs through the layers, with what came of them; the rest is for the claim to say.
    fn of_traces(judged: clusters::Judged) -> Claim {
        Claim { subject: Subject::Trace, command: "flashmob reproduce p5", ..Claim::of_clusters(judged) }
    }
}

impl Finding {
    /// Of one entry's device.
    fn of(entry: usize, holds: bool, numbers: String, points: &[&Point]) -> Finding {
        let single = points.iter().any(|point| rates(point).len() < 2);
        Finding::new(entry, holds, numbers, points.iter().map(|p| p.warnings.as_slice()), single)
    }

    /// Of one entry's cluster.
    fn of_cluster(entry: usize, holds: bool, numbers: String, points: &[&cluster::Point]) -> Finding {
        let single = points.iter().any(|point| sweep::valid(point).count() < 2);
        Finding::new(entry, holds, numbers, points.iter().map(|p| p.warnings.as_slice()), single)
    }

    /// Of paths between hosts.
    fn of_net(entries: &[usize], holds: bool, numbers: String, points: &[&net::Point]) -> Finding {
        let single = points.iter().any(|point| ways::valid(point).count() < 2);
        let warnings = points.iter().map(|p| p.warnings.as_slice());
        Finding { entries: entries.to_vec(), ..Finding::new(0, holds, numbers, warnings, single) }
    }

    /// Of two captures; each is one transfer, so that there are no repetitions to speak of.
    fn of_captures(entries: &[Entry], pair: [usize; 2], holds: bool, numbers: String) -> Finding {
        let warnings = pair.iter().filter_map(|at| entries.get(*at)).map(|e| e.document.warnings.as_slice());
        Finding { entries: pair.to_vec(), ..Finding::new(0, holds, numbers, warnings, false) }
    }

    /// Of traced runs; each was made once.
    fn of_runs(entries: &[usize], holds: bool, numbers: String, runs: &[&Run]) -> Finding {
        let warnings = runs.iter().map(|run| run.warnings.as_slice());
        Finding { entries: entries.to_vec(), ..Finding::new(0, holds, numbers, warnings, false) }
    }

    fn new<'a>(
        entry: usize,
        holds: bool,
        numbers: String,
        warnings: impl Iterator<Item = &'a [Warning]>,
        single: bool,
    ) -> Finding {
        Finding {
            entries: vec![entry],
            setting: String::new(),
            verdict: if holds { Verdict::Holds } else { Verdict::DoesNotHold },
            numbers,
            doubts: warnings.flat_map(doubts).collect::<BTreeSet<Code>>().into_iter().collect(),
            single,
        }
    }
}

/// Says which setting each finding is of, where an entry has several.
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
