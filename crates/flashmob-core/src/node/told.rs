//! Reports of the device's condition to gateways, and answers to probes.
//!
//! Only for gateways that know such frames, and limited, so that one that does not read cannot fill the node's memory.

use std::time::Duration;

use super::Node;
use super::link::{LinkId, LinkState, NodeLink};
use crate::condition::Condition;
use crate::units::Time;
use crate::wire::condition::{decode_alive, put_alive, put_condition};
use crate::wire::frame::WireError;

/// Minimum time between two reports on one link: fluctuating figures must not keep a radio awake.
pub const TELL_EVERY: Duration = Duration::from_secs(5);
/// A link with more bytes than this to write gets no report until the next one.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// Most answers to probes behind as many bytes.
const ANSWERS_BEHIND_MAX: u32 = 1024;

/// What was reported on a link.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The gateway knows such frames.
    pub is_wanted: bool,
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

    /// A gateway keeps its link alive, or probes it.
    #[cold]
    #[inline(never)]
    pub(super) fn accept_alive(&mut self, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let wants_answer = decode_alive(meta)?;
        if let Some(link) = self.links.get_mut(id.0).filter(|_| wants_answer) {
            // Each is answered, so that the gateway knows which one an answer belongs to.
            link.told.answers_behind = if link.out.len() > OUT_BYTES_MAX { link.told.answers_behind + 1 } else { 0 };
            if link.told.answers_behind > ANSWERS_BEHIND_MAX {
                return Err(WireError::Malformed("more probes than answers that were read"));
            }
            link.out.append(|out| put_alive(out, false));
        }
        Ok(())
    }
}
