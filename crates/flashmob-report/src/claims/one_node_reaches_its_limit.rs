//! C4: without aggregation one node, asked over many links, comes close to what its flash does alone.
//!
//! k = 1, one node, the most links of the sweep (P1: 32): at least 90 % of the node's own limit. P1's figure lies on the limit as far as one
//! can read it; a tenth is what its lines wander by. At least 8 links: with fewer the claim is about something else.

use super::clusters::{Case, LINKS_MANY, ONE, each, most_links, per_second};
use super::{Definition, Finding, Missing};
use crate::sweep::{Sweep, rate};
use crate::words;

const PART_MIN: f64 = 0.90;

pub(super) const CLAIM: Definition = Definition {
    id: "C4",
    source: "P1, Fig. 7",
    words: "Without aggregation (k = 1) one node asked over 32 links comes close to what its flash does.",
    short: "k=1: one node reaches its limit",
    criterion: "k = 1, one node, the most links of the sweep (8 at least): 90 % or more of the node's own limit.",
    paper: "about 2,100/s of 2,100/s with 32 links",
    judge: |entries| each(entries, false, judged),
    ..Definition::CLUSTER
};

fn judged(case: Case, sweep: &Sweep) -> Result<Finding, Missing> {
    let limit = case.limit(sweep)?;
    let point = most_links(sweep, 1, ONE, LINKS_MANY)?;
    limit.reached_disks(&[point])?;
    let part = rate(point) / limit.requests_per_second;
    let numbers = format!(
        "{} with {}, {} of the {}/s that its flash does",
        per_second(point),
        words::plural(u64::from(point.parameters.links), "link"),
        words::percent(part),
        words::number(limit.requests_per_second)
    );
    Ok(limit.beside(Finding::of_cluster(case.at, part >= PART_MIN, numbers, &[point])))
}
