//! A node is paused: somebody wants to take its device away for a while, and nothing is to wait for it.
//!
//! A paused member is out, as one is that does not answer: nothing is read from it or changed there, and its copies of chunks that change are
//! behind. Its link is broken once, so that nothing is carried out late that was sent before, and made again.
//!
//! It is only paused while that costs nobody anything. While the other members that are there cannot answer for all that it has, and for some time
//! after one of them failed an operation, it is used all the same. It is not on record: a gateway that starts uses all nodes.

use std::time::Duration;

use super::{Copies, Cx, bit};
use crate::gateway::{Event, Gateway};
use crate::units::Time;

/// How long a paused member that is used all the same stays so, once others can answer for it again.
const CALM: Duration = Duration::from_secs(30);
/// How often is looked whether paused members are needed, if nothing has happened to others: all places of the map are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What is to be known of members that are paused.
#[derive(Debug, Default)]
pub(super) struct Paused {
    /// Which members could be used at the last look.
    usable: Vec<bool>,
    looked: Time,
    /// A member has failed an operation since.
    has_failed: bool,
}

/// Why a node is not paused, or not used again. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum PauseError {
    /// The volume is of another layout.
    #[error("the volume has no copies: reads and writes of what is on the node would wait for it")]
    NoCopies,
    /// No such node.
    #[error("the volume has no node {number}; it has {count}, counted from 0")]
    NoNode { number: usize, count: usize },
    /// Others cannot answer for it.
    #[error(
        "{chunks} chunks of the node (the first is {first}) have too few current copies on other nodes that are there, or are \
         being compared or mended: see `flashmob volume show`, whether another node is away or paused, or copies are behind"
    )]
    Needed { chunks: u32, first: u32 },
    /// Another node that would answer for it was not heard lately, and is asked now whether it is alive.
    #[error("it is not known whether {0}, which has the same chunks, is alive; it is being asked")]
    NotHeard(String),
    /// A later gateway is in charge.
    #[error("another gateway is in charge of the volume: {0}")]
    Deposed(String),
}

impl Copies {
    /// Chunks of a member that have fewer current copies on other members that can be used than a change needs: how many, and the first. If
    /// `is_strict`, copies that may differ, or have blocks that do not match, do not count.
    pub(super) fn needed(&self, cx: &Cx<'_>, member: u16, is_strict: bool) -> Option<(u32, u32)> {
        let others_min = self.min_current.max(1) as u32;
        let has_too_few = |&(chunk, copy): &(u32, usize)| {
            let unfit = if is_strict { self.corrupt_of(chunk) } else { 0 };
            let others = self.usable_of(cx, chunk, self.current(chunk) & !bit(copy) & !unfit);
            others.count_ones() < others_min || (is_strict && self.is_on_hold(chunk))
        };
        let mut needed = self.image.chunks_of(member).filter(has_too_few);
        let (first, _) = needed.next()?;
        Some((1 + needed.count() as u32, first))
    }

    /// The members that have chunks with this one, and were not heard lately: a connection may outlast its device.
    fn unheard_beside(&self, cx: &Cx<'_>, member: u16) -> Option<u16> {
        let is_unheard = |other: &u16| *other != member && cx.now - cx.heard(*other) >= self.lately();
        let chunks = self.image.chunks_of(member);
        chunks.flat_map(|(chunk, _)| self.members_of(chunk, self.current(chunk))).find(is_unheard)
    }

    /// The name of a member that would have to answer for this one and was not heard lately. All others are asked then whether they are alive.
    pub(super) fn ask_unheard(&self, cx: &mut Cx<'_>, member: u16) -> Option<String> {
        let unheard = self.unheard_beside(cx, member)?;
        let others = (0..self.members.len() as u16).filter(|other| *other != member);
        let probes: Vec<usize> = others.map(|other| cx.node(other)).collect();
        cx.probes.extend(probes);
        Some(cx.name(unheard))
    }

    fn pause(&mut self, cx: &mut Cx<'_>, member: u16) -> Result<(), PauseError> {
        if let Some(reason) = &self.deposed {
            return Err(PauseError::Deposed(reason.clone()));
        }
        if self.members[usize::from(member)].is_paused {
            return Ok(());
        }
        if let Some((chunks, first)) = self.needed(cx, member, true) {
            return Err(PauseError::Needed { chunks, first });
        }
        if let Some(unheard) = self.ask_unheard(cx, member) {
            return Err(PauseError::NotHeard(unheard));
        }
        self.members[usize::from(member)].is_paused = true;
        cx.tell(Event::NodeWarning(
            cx.name(member),
            "it is paused: nothing is read from it or written to it".to_string(),
        ));
        self.set_aside(cx, member);
        Ok(())
    }

    /// A paused member is not used from now on.
    fn set_aside(&mut self, cx: &mut Cx<'_>, member: u16) {
        self.members[usize::from(member)].needed_at = None;
        if !self.is_out(member) {
            // Nothing waits for what it has not made permanent. Others have it, or it would be needed.
            let fallen = self.do_without(member, |_| true).unwrap_or_default();
            fallen.into_iter().for_each(|(chunk, copy)| self.keep(chunk, bit(copy)));
            self.go_on_without(cx, member, "it is paused");
        }
        self.look_at(cx.now);
    }

    fn resume(&mut self, cx: &mut Cx<'_>, member: u16) -> Result<(), PauseError> {
        if let Some(reason) = &self.deposed {
            return Err(PauseError::Deposed(reason.clone()));
        }
        if std::mem::take(&mut self.members[usize::from(member)].is_paused) {
            cx.tell(Event::NodeWarning(cx.name(member), "it is paused no longer".to_string()));
            self.usable(cx, member);
        }
        Ok(())
    }

    /// Whether a node is paused.
    pub(super) fn is_any_paused(&self) -> bool {
        self.members.iter().any(|member| member.is_paused)
    }

    /// A member has failed an operation: those that are paused may be needed.
    pub(super) fn note_failed(&mut self, cx: &Cx<'_>) {
        if self.is_any_paused() {
            self.paused.has_failed = true;
            self.look_at(cx.now);
        }
    }

    /// Uses paused members all the same while they are needed.
    pub(super) fn look_at_paused(&mut self, cx: &mut Cx<'_>) {
        if !self.is_any_paused() {
            return;
        }
        let usable: Vec<bool> = (0..self.members.len() as u16).map(|member| self.is_usable(cx, member)).collect();
        let has_failed = std::mem::take(&mut self.paused.has_failed);
        if !has_failed && usable == self.paused.usable && cx.now - self.paused.looked < LOOK_EVERY {
            return;
        }
        (self.paused.usable, self.paused.looked) = (usable, cx.now);
        for member in 0..self.members.len() as u16 {
            let state = &self.members[usize::from(member)];
            if !state.is_paused {
                continue;
            }
            let needed_at = state.needed_at;
            if has_failed || self.needed(cx, member, needed_at.is_some()).is_some() {
                self.members[usize::from(member)].needed_at = Some(cx.now);
                if needed_at.is_none() {
                    let text = "it is paused, and used all the same while others cannot answer for it".to_string();
                    cx.tell(Event::NodeWarning(cx.name(member), text));
                    self.usable(cx, member);
                }
            } else if needed_at.is_some_and(|at| cx.now - at >= CALM) && self.unheard_beside(cx, member).is_none() {
                let text = "it is paused again: others can answer for it".to_string();
                cx.tell(Event::NodeWarning(cx.name(member), text));
                self.set_aside(cx, member);
            }
        }
    }
}

impl Gateway {
    /// Pauses a node of a volume with copies, or uses it again.
    pub fn pause_node(&mut self, now: Time, volume: usize, number: usize, is_paused: bool) -> Result<(), PauseError> {
        let state = self.volumes.get(volume).filter(|state| state.copies.is_some()).ok_or(PauseError::NoCopies)?;
        let count = state.spec.extents.len();
        let is_gone = state.copies.as_deref().is_some_and(|copies| copies.image.is_gone(number as u16));
        if number >= count || is_gone {
            return Err(PauseError::NoNode { number, count });
        }
        let paused = self.with_copies(now, volume, |copies, cx| match is_paused {
            true => copies.pause(cx, number as u16),
            false => copies.resume(cx, number as u16),
        });
        paused.unwrap_or(Err(PauseError::NoCopies))
    }

    /// Whether a node (counted over all volumes) is paused.
    #[must_use]
    pub fn is_paused(&self, node: usize) -> bool {
        let member = self.nodes.get(node).and_then(|node| {
            let copies = self.volumes[node.volume].copies.as_deref()?;
            copies.members.get(node.extent as usize)
        });
        member.is_some_and(|member| member.is_paused)
    }
}
