//! C9: without aggregation many very small packets cross the air; aggregation makes them larger and fewer.
//!
//! At the largest number of nodes that k = 1, 10 and 100 were measured with, for every number of links that all three have: the mean packet
//! grows with k (none more than 3 % smaller than that of a smaller k, and that of k = 100 at least 10 % larger than that of k = 1), and k = 10 and
//! k = 100 take at least 10 % fewer frames on the air per request than k = 1. On real air, frames are not counted: TCP packets are used instead.

use flashmob_results::cluster::Point;

use super::clusters::{Case, HUNDRED, ONE, TEN, each, most_nodes};
use super::{Definition, Finding, Missing};
use crate::sweep::{Sweep, frames_per_request};
use crate::words;

const SMALLER_MAX: f64 = 0.03;
const LARGER_MIN: f64 = 1.10;
const FRAMES_MAX: f64 = 0.90;

pub(super) const CLAIM: Definition = Definition {
    id: "C9",
    source: "P1, Fig. 11, 12",
    words: "Without aggregation many very small packets cross the air; aggregation makes packets larger, and fewer of them carry a request.",
    short: "Aggregation: larger and fewer packets",
    criterion: "At the largest n and at every number of links: the mean packet grows from k = 1 over 10 to 100 (none more than 3 % smaller than the one before, in all 10 % or more), and k = 10 and 100 take at least 10 % fewer frames for each request than k = 1.",
    paper: "mean packet size rises with k, packets/s fall (no figures in the text)",
    judge: |entries| each(entries, false, judged),
    ..Definition::CLUSTER
};

/// Of k = 1, 10 and 100 with equally many nodes and links.
struct Three<'a> {
    links: u32,
    points: [&'a Point; 3],
    bytes: [f64; 3],
    frames: [f64; 3],
}

impl Three<'_> {
    fn holds(&self) -> bool {
        let [one, ten, hundred] = self.bytes;
        let grows =
            ten >= one * (1.0 - SMALLER_MAX) && hundred >= ten * (1.0 - SMALLER_MAX) && hundred >= one * LARGER_MIN;
        grows && self.frames[1..].iter().all(|frames| *frames <= self.frames[0] * FRAMES_MAX)
    }
}

fn judged(case: Case, sweep: &Sweep) -> Result<Finding, Missing> {
    let nodes = most_nodes(sweep, &[ONE, TEN, HUNDRED])?;
    let mut threes: Vec<Three> = Vec::new();
    for p in sweep.over_links(nodes, ONE) {
        threes.extend(three(sweep, nodes, p.parameters.links));
    }
    let Some(last) = threes.last() else {
        return Err("packets of k=1, k=10 and k=100 were not counted with equally many links".into());
    };
    let failing: Vec<String> = threes.iter().filter(|t| !t.holds()).map(|t| t.links.to_string()).collect();
    // The one with the most links stands for all, or the first that fails.
    let shown = threes.iter().find(|t| !t.holds()).unwrap_or(last);
    let row = |values: [f64; 3]| values.map(words::number).join(", ");
    let numbers = format!(
        "{}, {}: with k=1, 10, 100 a mean packet has {} bytes, and a request takes {} frames{}",
        words::plural(u64::from(nodes), "node"),
        words::plural(u64::from(shown.links), "link"),
        row(shown.bytes),
        row(shown.frames),
        if failing.is_empty() {
            format!("; so at each of {} numbers of links", threes.len())
        } else {
            format!("; not so with {} links", words::list(&failing))
        }
    );
    let points: Vec<&Point> = threes.iter().flat_map(|t| t.points).collect();
    Ok(Finding::of_cluster(case.at, failing.is_empty(), numbers, &points))
}

fn three<'a>(sweep: &Sweep<'a>, nodes: u32, links: u32) -> Option<Three<'a>> {
    let points = [sweep.at(nodes, links, ONE)?, sweep.at(nodes, links, TEN)?, sweep.at(nodes, links, HUNDRED)?];
    let mut three = Three { links, points, bytes: [0.0; 3], frames: [0.0; 3] };
    for (nth, point) in points.iter().enumerate() {
        three.bytes[nth] = point.summary.packet_bytes.map(|s| s.median).filter(|b| b.is_finite() && *b > 0.0)?;
        three.frames[nth] = frames_per_request(point)?;
    }
    Some(three)
}
