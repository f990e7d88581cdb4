//! What P1 and P3 say of single devices, each with a criterion, judged for each result.
//!
//! One file for each claim: its module comment gives the criterion and the reason for each tolerance. All go by medians over the
//! repetitions; "differ" and "faster" mean more than 10 % and apart from the repetitions' spread (Mann-Whitney at p < 0.05
//! with four repetitions or more on both sides, ranges that do not touch with fewer). Reads from a warm page cache, writes, and requests with
//! a depth above 1 are never looked at. A claim of which nothing was measured neither holds nor fails.

mod c1;
mod c10;
mod c11;
mod c12;
mod c2;
mod c3;
pub(crate) mod sets;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use flashmob_results::disk::Point;
use flashmob_results::warning::Code;

use crate::entry::{Entry, doubts};
use crate::stats::rates;

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

/// A claim and its findings.
#[derive(Clone, Debug)]
pub struct Claim {
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
    /// What would measure it.
    pub command: &'static str,
    /// On what, or how, besides; empty if there is nothing to say.
    pub measured_on: &'static str,
    /// One for each device or pair that was measured; empty if none was.
    pub findings: Vec<Finding>,
    /// Results of devices that have nothing on it, as positions among the entries.
    pub without: Vec<usize>,
}

/// All claims about single devices, in order.
#[must_use]
pub fn judge(entries: &[Entry]) -> Vec<Claim> {
    let mut claims = vec![
        c1::claim(entries),
        c2::claim(entries),
        c3::claim(entries),
        c10::claim(entries),
        c11::claim(entries),
        c12::claim(entries),
    ];
    for claim in &mut claims {
        // A device may have several results: what one of them has, it has.
        let measured: Vec<String> =
            claim.findings.iter().flat_map(|f| &f.entries).map(|at| entries[*at].document.name()).collect();
        claim.without = (0..entries.len()).filter(|at| !measured.contains(&entries[*at].document.name())).collect();
    }
    claims
}

impl Finding {
    /// Of one entry.
    fn of(entry: usize, holds: bool, numbers: String, points: &[&Point]) -> Finding {
        Finding {
            entries: vec![entry],
            setting: String::new(),
            verdict: if holds { Verdict::Holds } else { Verdict::DoesNotHold },
            numbers,
            doubts: {
                let all = points.iter().flat_map(|point| doubts(point));
                all.collect::<BTreeSet<Code>>().into_iter().collect()
            },
            single: points.iter().any(|point| rates(point).len() < 2),
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
