//! C8: without I/O, batches of ten carry nearly ten times as many requests as single ones.
//!
//! At the largest number of nodes that both were measured with, each with the links that suit it best: at least 7 times. "Close to ten" is what
//! P1 says of lines on a figure; 7 is where one would no longer say so.

use flashmob_results::cluster::Point;
use flashmob_results::disk::Spread;

use super::clusters::{Case, HUNDRED, ONE, TEN, best, each, most_nodes, per_second};
use super::{Definition, Finding, Missing};
use crate::sweep::{Sweep, rate};
use crate::words;

const TIMES_MIN: f64 = 7.0;

pub(super) const CLAIM: Definition = Definition {
    id: "C8",
    source: "P1, Fig. 10",
    words: "Without I/O, k = 10 carries close to ten times the requests of k = 1.",
    short: "No I/O: k=10 carries ten times k=1",
    criterion: "Without I/O, at the largest n, each with the best of all links: k = 10 does 7 times the requests of k = 1 or more.",
    paper: "close to 10 times",
    judge: |entries| each(entries, true, judged),
    ..Definition::CLUSTER
};

fn judged(case: Case, sweep: &Sweep) -> Result<Finding, Missing> {
    let nodes = most_nodes(sweep, &[ONE, TEN])?;
    let (one, ten) = (best(sweep, nodes, ONE)?, best(sweep, nodes, TEN)?);
    let times = rate(ten) / rate(one);
    // What the number of links does to it.
    let equal: Vec<f64> = sweep
        .over_links(nodes, ONE)
        .filter_map(|p| sweep.at(nodes, p.parameters.links, TEN).map(|q| rate(q) / rate(p)))
        .collect();
    let at_equal = if equal.len() > 1 {
        let times = Spread::of(equal);
        format!("; with equal links {} to {} times", words::number(times.min), words::number(times.max))
    } else {
        String::new()
    };
    let hundred = sweep.best(nodes, HUNDRED).map_or_else(String::new, |p| {
        format!("; k=100 {}, {} times k=1", per_second(p), words::number(rate(p) / rate(one)))
    });
    let numbers = format!(
        "{}: k=1 {}, k=10 {}, {} times as many{at_equal}{hundred}",
        words::plural(u64::from(nodes), "node"),
        per_second(one),
        per_second(ten),
        words::number(times),
    );
    let points: Vec<&Point> = vec![one, ten];
    Ok(Finding::of_cluster(case.at, times >= TIMES_MIN, numbers, &points))
}
