//! Count, duration and times of operations.

use flashmob_results::latency::{Latency, histogram};
use flashmob_results::trace::{Operations, Timeline};

use super::{seconds, thinned};

/// Totals of all operations; `name` is the name of one.
#[must_use]
pub fn operations(timeline: &Timeline, name: &str) -> Operations {
    let all = &timeline.operations;
    let mut latencies = histogram();
    let (mut total_ns, mut unattributed_ns) = (0_u64, 0_u64);
    for operation in all {
        let duration_ns = operation.end_ns.saturating_sub(operation.begin_ns);
        latencies.saturating_record(duration_ns);
        total_ns = total_ns.saturating_add(duration_ns);
        unattributed_ns = unattributed_ns.saturating_add(operation.unattributed_ns);
    }
    let begin_ns = all.iter().map(|operation| operation.begin_ns).min().unwrap_or(0);
    let end_ns = all.iter().map(|operation| operation.end_ns).max().unwrap_or(0);
    let elapsed_s = seconds(end_ns.saturating_sub(begin_ns));
    let shown: Vec<usize> = thinned(all.len()).collect();
    let of = |value: &dyn Fn(usize) -> f64| shown.iter().map(|at| value(*at)).collect();
    Operations {
        name: name.to_string(),
        count: all.len() as u64,
        per_second: if elapsed_s > 0.0 { all.len() as f64 / elapsed_s } else { 0.0 },
        latency_ns: Latency::new(&latencies),
        total_ns,
        unattributed_ns,
        begins_s: of(&|at| seconds(all[at].begin_ns.saturating_sub(begin_ns))),
        durations_ms: of(&|at| all[at].end_ns.saturating_sub(all[at].begin_ns) as f64 / 1e6),
    }
}
