//! Checks of the samples of followed requests: stages in order in each clock, clock offsets within their errors, and no sample kept for ever.
//!
//! The simulator knows how far each node's clock really is ahead.

use flashmob_core::gateway::{FINISHED_MAX, IN_FLIGHT_MAX, Sample};

use super::World;
use super::gateway::CLOCK_START_NS;

impl World {
    /// Looks at the samples that ended since this was last called, and at how many there are.
    pub(super) fn check_samples(&mut self) {
        let Some(core) = &self.gateway.core else { return };
        let counters = core.sample_counters();
        let ended = counters.finished + counters.failed + counters.abandoned + counters.untold;
        let in_flight = core.samples_in_flight() as u64;
        let mut wrong = None;
        if counters.begun != ended + in_flight
            || in_flight > IN_FLIGHT_MAX as u64
            || core.samples().count() > FINISHED_MAX
        {
            wrong = Some(format!("{counters:?} with {in_flight} samples in flight do not add up"));
        }
        let mut last = self.samples_seen;
        for sample in core.samples().filter(|sample| sample.number > self.samples_seen) {
            last = last.max(sample.number);
            self.ctx.totals.samples += 1;
            self.ctx.totals.sampled_ways += u64::from(sample.pieces.iter().any(|piece| piece.times.is_some()));
            wrong = wrong.or_else(|| self.wrong_with(sample).map(|what| format!("{what}: {sample:?}")));
        }
        self.samples_seen = last;
        for node in 0..self.nodes.len() {
            if let Some(clock) = core.clock_of(node, self.ctx.now)
                && clock.offset_ns.abs_diff(self.scenario.clocks_ahead_ns[node]) > clock.error_ns
            {
                wrong = Some(format!("node {node}'s clock is not where it is said to be: {clock:?}"));
            }
        }
        if let Some(what) = wrong {
            self.ctx.fail(what);
        }
    }

    fn wrong_with(&self, sample: &Sample) -> Option<&'static str> {
        if !(sample.received <= sample.queued && sample.queued <= sample.replied && sample.replied <= self.ctx.now) {
            return Some("stages of a sample are out of order");
        }
        if sample.failure.is_none() && sample.pieces.iter().any(|piece| piece.times.is_none()) {
            return Some("a sample that did not fail is not complete");
        }
        for piece in &sample.pieces {
            let (Some(placed), Some(times), Some(clock)) = (piece.placed(CLOCK_START_NS), piece.times, piece.clock)
            else {
                continue;
            };
            let mut way = vec![sample.queued, piece.batched, placed.sent];
            way.extend(placed.at_node);
            way.extend([placed.returned, sample.replied]);
            if !way.is_sorted() || !times.stages_ns().is_sorted() {
                return Some("stages of a piece are out of order");
            }
            let ahead_ns = self.scenario.clocks_ahead_ns[piece.node];
            if clock.offset_ns.abs_diff(ahead_ns) > clock.error_ns {
                return Some("a node's clock is not where a sample says");
            }
            // Where the truth is known, the node's times lie where they are said to, within the error that is said.
            let truth_ns = i128::from(times.received_ns) - i128::from(ahead_ns) - i128::from(CLOCK_START_NS);
            let off_ns = (i128::from(placed.at_node[0].as_nanos()) - truth_ns).unsigned_abs();
            if off_ns > u128::from(clock.error_ns) {
                return Some("a node's stages are not where a sample says");
            }
        }
        None
    }
}
