//! C5: without aggregation a cluster does more the more nodes it has, but none of several nodes reaches its limit, however many links it has.
//!
//! k = 1, at each number of nodes the links that suit it best. Three things: no rate is more than 3 % below that of any fewer nodes (two runs of
//! one point differ by about as much); the largest number does at least 10 % more than one node; and there each node does less than 90 % of
//! its limit, even with the best of all links up to 8 at least. The paper's sentence speaks of two nodes and more. How many an air can feed
//! depends on the air, so the largest number decides, and the numbers say from how many on nodes stay below.

use flashmob_results::cluster::{Attachment, Point};

use super::clusters::{Case, LINKS_MANY, ONE, best, each, most_links, nodes_from_one, per_second};
use super::{Definition, Finding, Judged, Missing, Verdict};
use crate::entry::Entry;
use crate::sweep::{Sweep, rate};
use crate::words;

const FALL_MAX: f64 = 0.03;
const GROWTH_MIN: f64 = 1.10;
const PART_BELOW: f64 = 0.90;

pub(super) const CLAIM: Definition = Definition {
    id: "C5",
    source: "P1, Fig. 7",
    words: "Without aggregation (k = 1) and with two nodes or more, throughput grows with the nodes, but each stays below its limit, and more links do not help.",
    short: "k=1: several nodes stay below theirs",
    criterion: "k = 1, the best of all links (up to 8 at least): no rate more than 3 % below that of any fewer nodes, the most nodes do at least 10 % more than one, and each of them less than 90 % of its own limit.",
    paper: "grows with n; each node below its 2,100/s for n of 2 and more, with up to 32 links",
    judge: |entries| {
        let mut judged = each(entries, false, judged);
        mark_fitted(entries, &mut judged);
        judged
    },
    ..Definition::CLUSTER
};

/// The profile that was fitted, and the parameter that was chosen for it; written out it is the same.
const FITTED_AIR: &str = "11n-2014";
const FITTED_AMPDU: &str = "ampdu=64";

/// Over the model of P1's air, with the gateway where P1 had it, the frames in one transmission were chosen so that this claim holds
/// (`docs/models.md`); nothing else of the model was fitted.
fn is_fitted(entry: &Entry) -> bool {
    let air = entry.cluster().and_then(|cluster| cluster.air.as_ref());
    air.is_some_and(|air| {
        let mut parts = air.profile.split(',').map(str::trim);
        let is_fitted =
            parts.next() == Some(FITTED_AIR) && parts.all(|part| !part.starts_with("ampdu") || part == FITTED_AMPDU);
        is_fitted && air.gateway == Attachment::Wireless
    })
}

/// What holds over the model that was fitted to this figure is fitted.
pub(super) fn mark_fitted(entries: &[Entry], judged: &mut Judged) {
    for finding in judged.findings.iter_mut().filter(|f| f.verdict == Verdict::Holds) {
        if finding.entries.iter().any(|at| entries.get(*at).is_some_and(is_fitted)) {
            finding.verdict = Verdict::Fitted;
        }
    }
}

fn judged(case: Case, sweep: &Sweep) -> Result<Finding, Missing> {
    case.disks_of_their_own(sweep)?;
    let limit = case.limit(sweep)?;
    let nodes = nodes_from_one(sweep, ONE)?;
    let points: Vec<&Point> = nodes.iter().map(|n| best(sweep, *n, ONE)).collect::<Result<_, _>>()?;
    limit.reached_disks(&points)?;
    let (first, last) = (points[0], points[points.len() - 1]);
    most_links(sweep, last.parameters.nodes, ONE, LINKS_MANY)?;
    let part = |p: &Point| rate(p) / (limit.requests_per_second * f64::from(p.parameters.nodes));
    let mut falls: Vec<String> = Vec::new();
    let mut best_before = first;
    for point in points.iter().skip(1) {
        if rate(point) < rate(best_before) * (1.0 - FALL_MAX) {
            falls.push(format!("from {} to {}", best_before.parameters.nodes, point.parameters.nodes));
        }
        if rate(point) > rate(best_before) {
            best_before = point;
        }
    }
    let growth = rate(last) / rate(first);
    let below = part(last) < PART_BELOW;
    let rates: Vec<String> = points
        .iter()
        .map(|p| format!("n={} {} ({} of the limit)", p.parameters.nodes, per_second(p), words::percent(part(p))))
        .collect();
    // From there on all stay below.
    let reaching = points.iter().rposition(|p| part(p) >= PART_BELOW);
    let from = match reaching {
        None => "every node stays below, one alone too".to_string(),
        Some(at) => match points.get(at + 1) {
            Some(p) => format!("nodes stay below from n={} on", p.parameters.nodes),
            None => "with the most nodes each reaches its limit".into(),
        },
    };
    let fallen = if falls.is_empty() { String::new() } else { format!("; it falls {} nodes", words::list(&falls)) };
    let numbers = format!("{}; {} times as much as one node; {from}{fallen}", rates.join(", "), words::number(growth));
    let holds = falls.is_empty() && growth >= GROWTH_MIN && below;
    Ok(limit.beside(Finding::of_cluster(case.at, holds, numbers, &points)))
}
