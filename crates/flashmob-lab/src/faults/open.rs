//! Few chunks may be open at once: the longest idle ones settle early, which needs a flush of each of their copies.
//!
//! The promise: what settled early is as permanent as what settled in time, which the power cuts and the end of a run judge; and no more chunks stay open
//! than may be, but for those that are changed, or whose copies cannot be flushed.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::{WATCH_INTERVAL, World};

/// How long chunks stay open where few may be: longer than it takes to settle the surplus.
const SETTLE_AFTER: Duration = Duration::from_secs(3);
/// Rounds of the watch in which a surplus may be there though nothing disturbs anybody.
const ROUNDS_MAX: u32 = 15;

/// Draws whether few chunks may be open at once.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let chunks = scenario.new_map().map_or(0, |image| image.chunks());
    let Some(plan) = scenario.copies.as_mut().filter(|_| chunks > 1 && rng.random_ratio(1, 6)) else { return };
    plan.open_max = Some(*pick(rng, &[1, 1, 2, 4]));
    if rng.random() {
        plan.settle_after = SETTLE_AFTER;
    }
}

impl World {
    /// Looks for more open chunks than may be, while nothing happens.
    pub(super) fn check_open(&mut self) {
        let Some(open_max) = self.scenario.copies.as_ref().and_then(|plan| plan.open_max) else { return };
        // A flush that takes long keeps its chunks open.
        let are_flushes_late = self.scenario.faults.iter().any(|(_, fault)| {
            use Fault::{FailedSyncs, SlowFlush, StoreErrors, StuckFlush};
            matches!(fault, FailedSyncs(..) | SlowFlush(..) | StoreErrors(..) | StuckFlush(..))
        });
        if are_flushes_late {
            return;
        }
        let status = self.gateway.core.as_ref().and_then(|core| core.copies_status(self.ctx.now, 0));
        let Some(status) = status else { return };
        let is_disturbed =
            self.disturbed_until.iter().any(|until| until.is_some_and(|until| until + WATCH_INTERVAL >= self.ctx.now));
        let is_busy = self.clients.iter().any(|client| client.open.values().any(|pending| pending.op.mutates()));
        let is_at_work = status.jobs > 0 || status.in_doubt > 0 || status.behind + status.doubtful > 0;
        let is_durable = status.decisions.0 == status.decisions.1 && status.waits_for.is_none();
        let are_linked = (0..self.scenario.first_spare()).all(|node| self.gateway.links_ready(node) > 0);
        let is_calm = !is_disturbed && !is_busy && !is_at_work && is_durable && are_linked;
        self.surplus_rounds = match is_calm && status.open as usize > open_max {
            true => self.surplus_rounds + 1,
            false => 0,
        };
        if self.surplus_rounds > ROUNDS_MAX {
            self.ctx.fail(format!("{} chunks are open and idle, though {open_max} may be", status.open));
        }
    }
}
