//! What a node tells its gateways without being asked: how its device is; and that it is there, when one wants to know.
//!
//! Only to gateways that said they know such frames, and never so much that a gateway which does not read could fill the
//! node's memory with it.

use std::time::Duration;

use super::Node;
use super::link::{LinkId, LinkState, NodeLink};
use crate::condition::Condition;
use crate::units::Time;
use crate::wire::condition::{decode_alive, put_alive, put_condition};
use crate::wire::frame::WireError;

/// Least time between two tellings on one link: what wavers must not keep a radio awake.
pub const TELL_EVERY: Duration = Duration::from_secs(5);
/// A link with more bytes than this to write is not told: it will be next time.
const OUT_BYTES_MAX: usize = 64 * 1024;

/// What was told on a link.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The gateway knows such frames.
    pub is_wanted: bool,
    last: Option<(Box<Condition>, Time)>,
}

impl NodeLink {
    /// Tells what is new. Where it is too early for that, when it is not any more.
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
    /// How the device is now. Gateways are told of what is new, each at most every [`TELL_EVERY`]. If that is too early for one of
    /// them, says when to call it again.
    pub fn set_condition(&mut self, now: Time, condition: Condition) -> Option<Time> {
        let again = self.links.iter_mut().filter_map(|(_, link)| link.tell(now, &condition)).min();
        self.condition = Some(condition);
        again
    }

    /// A link was welcomed just now.
    #[cold]
    pub(super) fn tell_newcomer(&mut self, now: Time, id: LinkId) {
        if let (Some(condition), Some(link)) = (&self.condition, self.links.get_mut(id.0)) {
            // The first time it is never too early.
            let _ = link.tell(now, condition);
        }
    }

    /// A gateway keeps its link alive, or wants to know whether the node lives.
    #[cold]
    #[inline(never)]
    pub(super) fn accept_alive(&mut self, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let wants_answer = decode_alive(meta)?;
        // Where bytes are on their way they answer.
        if let Some(link) = self.links.get_mut(id.0)
            && wants_answer
            && link.out.is_empty()
        {
            link.out.append(|out| put_alive(out, false));
        }
        Ok(())
    }
}
