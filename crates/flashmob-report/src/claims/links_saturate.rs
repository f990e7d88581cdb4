//! C7: with k = 10 eight links to each node are enough, with k = 100 four.
//!
//! At the largest number of nodes: the rate with 8 (4) links is within 5 % of the best over all links, of which some must be more. A line that
//! is flat earlier holds as well, for more links than these gain nothing; the numbers say where it becomes flat.

use flashmob_results::cluster::{Batch, Point};

use super::clusters::{Case, HUNDRED, TEN, each, most_nodes, per_second};
use super::{Definition, Finding, Missing};
use crate::sweep::{Sweep, rate};
use crate::words;

const WITHIN: f64 = 0.05;
const ENOUGH: [(Batch, u32); 2] = [(TEN, 8), (HUNDRED, 4)];

pub(super) const CLAIM: Definition = Definition {
    id: "C7",
    source: "P1, Fig. 8, 9",
    words: "With k = 10 throughput is saturated at 8 links to each node, with k = 100 at 4.",
    short: "8 links suffice at k=10, 4 at k=100",
    criterion: "At the largest n, k = 10 with 8 links and k = 100 with 4 are within 5 % of the best over all links, more than these among them.",
    paper: "k=10 saturates at 8 links, k=100 at 4",
    judge: |entries| each(entries, false, judged),
    ..Definition::CLUSTER
};

fn judged(case: Case, sweep: &Sweep) -> Result<Finding, Missing> {
    case.disks_of_their_own(sweep)?;
    let nodes = most_nodes(sweep, &[TEN, HUNDRED])?;
    let (mut holds, mut texts, mut used) = (true, Vec::new(), Vec::new());
    for (batch, links) in ENOUGH {
        let points: Vec<&Point> = sweep.over_links(nodes, batch).collect();
        let missing = |what: &str| format!("{} with {nodes} nodes was not measured with {what}", words::batch(batch));
        let at = points.iter().find(|p| p.parameters.links == links);
        let at = at.ok_or_else(|| missing(&format!("{links} links")))?;
        if points.iter().all(|p| p.parameters.links <= links) {
            return Err(missing(&format!("more than {links} links")).into());
        }
        let most = points.iter().map(|p| rate(p)).fold(0.0, f64::max);
        let flat = |p: &&&Point| rate(p) >= most * (1.0 - WITHIN);
        let first = points.iter().find(flat).map_or(0, |p| p.parameters.links);
        holds &= flat(&at);
        texts.push(format!(
            "{} {} with {links} links, {} of the best {}/s; saturated from {} on",
            words::batch(batch),
            per_second(at),
            words::percent(rate(at) / most),
            words::number(most),
            words::plural(u64::from(first), "link"),
        ));
        used.extend(points);
    }
    let numbers = format!("{}: {}", words::plural(u64::from(nodes), "node"), texts.join("; "));
    Ok(Finding::of_cluster(case.at, holds, numbers, &used))
}
