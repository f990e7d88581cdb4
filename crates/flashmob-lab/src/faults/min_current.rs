//! Changes need more than one current copy (`min_current`).
//!
//! The promise: a change is acknowledged only while so many copies of each of its chunks are current. Until then it waits, and fails after the timeout as
//! one that no copy answers does; so does a flush, and a read of a chunk whose copies have to be compared first.

use flashmob_core::copies::MapImage;
use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;

use super::World;
use super::scenario::Scenario;

/// Which chunks have enough current copies by the decisions of the gateway in charge.
#[derive(Debug, Default)]
pub(super) struct Enough {
    /// By chunk: whether it had them at the last look, and when it had them last.
    chunks: Vec<(bool, Time)>,
}

/// Draws whether changes need more than one current copy.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_drawn = rng.random_ratio(1, 6);
    let Some(plan) = scenario.copies.as_mut().filter(|plan| is_drawn && plan.copies > 1) else { return };
    plan.min_current = rng.random_range(2..=plan.copies);
}

impl Scenario {
    /// How many copies requests need that are current and there.
    pub(super) fn copies_needed(&self) -> usize {
        self.copies.as_ref().map_or(1, |plan| plan.min_current)
    }
}

impl World {
    /// The gateway may have decided something, or begins. Between two looks a chunk has what it had at the first.
    pub(super) fn note_enough(&mut self, is_start: bool) {
        let needed = self.scenario.copies_needed();
        let image = self.gateway.core.as_ref().filter(|_| !self.gateway.is_former).and_then(|core| core.map(0));
        let Some(image) = image.filter(|_| needed > 1) else { return };
        let now = self.ctx.now;
        let chunks = &mut self.enough.chunks;
        chunks.resize(chunks.len().max(image.chunks() as usize), (true, now));
        for (chunk, (had, at)) in (0..image.chunks()).zip(chunks) {
            let has = current_copies(image, chunk) >= needed;
            if has || *had || is_start {
                *at = now;
            }
            *had = has;
        }
    }

    /// A change was acknowledged that was asked for then: so many copies of its chunks were current at some moment since.
    pub(super) fn check_enough(&self, spans: &[(u64, u32)], asked: Time) -> Result<(), String> {
        let Some(plan) = self.scenario.copies.as_ref().filter(|plan| plan.min_current > 1) else { return Ok(()) };
        for &(at, len) in spans.iter().filter(|(_, len)| *len > 0) {
            for chunk in at / plan.chunk_bytes..=(at + u64::from(len) - 1) / plan.chunk_bytes {
                if self.enough.chunks.get(chunk as usize).is_some_and(|&(_, last)| last < asked) {
                    let needed = plan.min_current;
                    return Err(format!("a change of chunk {chunk} is acknowledged without {needed} current copies"));
                }
            }
        }
        Ok(())
    }
}

fn current_copies(image: &MapImage, chunk: u32) -> usize {
    let marks = image.marks(chunk);
    image.copies() - (marks.behind | marks.doubtful).count_ones() as usize
}
