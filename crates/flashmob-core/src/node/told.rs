//! Reports of the device's condition and of progress with flushes to gateways, and answers to probes.
//!
//! Only for gateways that know such frames, and limited, so that one that does not read cannot fill the node's memory.

use std::time::Duration;

use super::Node;
use super::link::{LinkId, LinkState, NodeLink};
use crate::condition::Condition;
use crate::op::Op;
use crate::units::Time;
use crate::wire::condition::{Alive, decode_alive, put_alive, put_condition};
use crate::wire::frame::WireError;

/// Minimum time between two reports on one link: fluctuating figures must not keep a radio awake.
pub const TELL_EVERY: Duration = Duration::from_secs(5);
/// Minimum time between two reports of progress on one link: a fifth of the shortest time after which a gateway gives a silent node up.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// A link with more bytes than this to write gets no report until the next one.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// Most answers to probes behind as many bytes.
const ANSWERS_BEHIND_MAX: u32 = 1024;

/// What was reported on a link.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The gateway knows such frames.
    pub is_wanted: bool,
    /// It hears of progress with flushes.
    pub is_progress_wanted: bool,
    /// It shows how long the store takes.
    pub is_service_wanted: bool,
    /// When that was last reported.
    progress_told: Option<Time>,
    /// Probes answered in a row behind more bytes than [`OUT_BYTES_MAX`].
    answers_behind: u32,
    last: Option<(Box<Condition>, Time)>,
}

impl NodeLink {
    /// Reports a changed condition. If it is too early for that, returns when it will not be.
    fn tell(&mut self, now: Time, condition: &Condition) -> Option<Time> {
        if !self.told.is_wanted || !matches!(self.state, LinkState::Ready) || self.out.len() > OUT_BYTES_MAX {
            return None;
        }
        if let Some((told, at)) = &self.told.last {
            if !condition.is_news_after(told) {
                return None;
            }
            if now - *at < TELL_EVERY {
                return Some(*at + TELL_EVERY);
            }
        }
        self.out.append(|out| put_condition(out, condition));
        self.told.last = Some((Box::new(condition.clone()), now));
        None
    }

    fn tell_progress(&mut self, now: Time) {
        let is_early = self.told.progress_told.is_some_and(|told| now - told < PROGRESS_EVERY);
        let may_be_told = self.told.is_progress_wanted && matches!(self.state, LinkState::Ready);
        if may_be_told && !is_early && self.out.len() <= OUT_BYTES_MAX {
            self.out.append(|out| put_alive(out, Alive::Progress));
            self.told.progress_told = Some(now);
        }
    }
}

impl Node {
    /// Sets the device's condition and reports changes to gateways, to each at most every [`TELL_EVERY`]. If it is too early for one of
    /// them, returns when to call it again.
    pub fn set_condition(&mut self, now: Time, condition: Condition) -> Option<Time> {
        let again = self.links.iter_mut().filter_map(|(_, link)| link.tell(now, &condition)).min();
        self.condition = Some(condition);
        again
    }

    /// Reports the condition on a newly welcomed link.
    #[cold]
    pub(super) fn tell_newcomer(&mut self, now: Time, id: LinkId) {
        if let (Some(condition), Some(link)) = (&self.condition, self.links.get_mut(id.0)) {
            // The first time it is never too early.
            let _ = link.tell(now, condition);
        }
    }

    /// The store has made progress with the flushes that it has, which may take long. Gateways hear of it on the links that these came on, at
    /// most every [`PROGRESS_EVERY`]: they need not take a node for dead whose flash is slow. From now on these flushes keep no others from the
    /// store, and no link from being welcomed.
    #[cold]
    pub fn store_progressed(&mut self, now: Time) {
        for (_, op) in self.in_store.iter_mut().filter(|(_, op)| op.issue.op == Op::Flush) {
            self.store_load -= std::mem::take(&mut op.load);
            let is_news = !std::mem::replace(&mut op.is_slow, true);
            self.slow_flushes += usize::from(is_news);
            for batch in op.parts.iter().filter_map(|part| self.batches.get(part.tag.batch)) {
                if let Some(link) = self.links.get_mut(batch.link.0) {
                    link.slow_in_store += usize::from(is_news);
                    link.tell_progress(now);
                }
            }
        }
        self.settle_fences();
    }

    /// A gateway keeps its link alive, or probes it.
    #[cold]
    #[inline(never)]
    pub(super) fn accept_alive(&mut self, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let alive = decode_alive(meta)?;
        if alive == Alive::Progress {
            return Err(WireError::Malformed("progress of a gateway"));
        }
        if let Some(link) = self.links.get_mut(id.0).filter(|_| alive == Alive::Probe) {
            // Each is answered, so that the gateway knows which one an answer belongs to.
            link.told.answers_behind = if link.out.len() > OUT_BYTES_MAX { link.told.answers_behind + 1 } else { 0 };
            if link.told.answers_behind > ANSWERS_BEHIND_MAX {
                return Err(WireError::Malformed("more probes than answers that were read"));
            }
            link.out.append(|out| put_alive(out, Alive::Here));
        }
        Ok(())
    }
}
