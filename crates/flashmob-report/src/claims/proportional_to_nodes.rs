//! C6: with aggregation a cluster does nearly as many times as much as it has nodes.
//!
//! k = 10 and k = 100, at each number of nodes the links that suit it best: at least 90 % of as many times the rate of one node, and with eight
//! nodes at least 95 % of eight times the node's limit, which is what P1 reports (16,000 of 16,800). Both batches must be measured, with one
//! node and with eight.

use flashmob_results::cluster::{Batch, Point};

use super::clusters::{Case, HUNDRED, NODES_MAX, TEN, best, each, nodes_from_one, per_second};
use super::node_limit::Limit;
use super::{Definition, Finding, Missing};
use crate::sweep::{Sweep, rate};
use crate::words;

const PROPORTION_MIN: f64 = 0.90;
const PART_MIN: f64 = 0.95;

pub(super) const CLAIM: Definition = Definition {
    id: "C6",
    source: "P1, Fig. 8, 9",
    words: "With aggregation (k = 10 and 100) throughput is close to proportional to the nodes, up to 95 % of what eight nodes' flash does.",
    short: "k=10, 100: n nodes do n times as much",
    criterion: "k = 10 and k = 100, the best of all links: at every n 90 % or more of n times the rate of one node, and with 8 nodes 95 % or more of 8 times the node's own limit.",
    paper: "about 16,000/s with 8 nodes, 95 % of 8 x 2,100/s",
    judge: |entries| each(entries, false, judged),
    ..Definition::CLUSTER
};

struct Line<'a> {
    words: String,
    holds: bool,
    points: Vec<&'a Point>,
}

fn judged(case: Case, sweep: &Sweep) -> Result<Finding, Missing> {
    case.disks_of_their_own(sweep)?;
    let limit = case.limit(sweep)?;
    let lines = [line(sweep, TEN, &limit)?, line(sweep, HUNDRED, &limit)?];
    let points: Vec<&Point> = lines.iter().flat_map(|l| l.points.iter().copied()).collect();
    let numbers = format!("{}; {}", lines[0].words, lines[1].words);
    Ok(limit.beside(Finding::of_cluster(case.at, lines.iter().all(|l| l.holds), numbers, &points)))
}

fn line<'a>(sweep: &Sweep<'a>, batch: Batch, limit: &Limit) -> Result<Line<'a>, Missing> {
    let nodes = nodes_from_one(sweep, batch)?;
    let eight = best(sweep, NODES_MAX, batch)?;
    let points: Vec<&Point> = nodes.iter().map(|n| best(sweep, *n, batch)).collect::<Result<_, _>>()?;
    limit.reached_disks(&points)?;
    let limit = limit.requests_per_second;
    let one = points[0];
    let proportion = |p: &Point| rate(p) / (rate(one) * f64::from(p.parameters.nodes));
    let part = rate(eight) / (limit * f64::from(NODES_MAX));
    let short: Vec<String> = points
        .iter()
        .filter(|p| proportion(p) < PROPORTION_MIN)
        .map(|p| format!("n={} {}", p.parameters.nodes, words::percent(proportion(p))))
        .collect();
    let least = points.iter().map(|p| proportion(p)).fold(f64::INFINITY, f64::min);
    let proportional = if short.is_empty() {
        format!("at every n {} or more of n times one node", words::percent(least))
    } else {
        format!("of n times one node only: {}", words::list(&short))
    };
    let words = format!(
        "{}: {} with one node, {} with 8, {} of 8 x {}/s; {proportional}",
        words::batch(batch),
        per_second(one),
        per_second(eight),
        words::percent(part),
        words::number(limit),
    );
    Ok(Line { words, holds: short.is_empty() && part >= PART_MIN, points })
}
