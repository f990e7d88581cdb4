//! What the owner wants to be moved: nodes are drained, and volumes are balanced.

use std::collections::BTreeSet;

use super::super::Copies;
use super::orphans::Search;
use crate::copies::{Plan, Record};
use crate::gateway::Gateway;
use crate::units::{Bytes, Time};

/// Why copies are not moved. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum MoveError {
    /// The volume is of another layout.
    #[error("the volume has no copies: its data cannot be moved while it is used")]
    NoCopies,
    /// No such node.
    #[error("the volume has no node {number}, or not any more; it has had {count}, counted from 0")]
    NoNode { number: usize, count: usize },
    /// Other nodes are full.
    #[error(
        "{copies} copies would have no room on other nodes that are there, in other domains than their other \
         copies: {} is free there; add a node (`flashmob volume add`)",
        Bytes(free.saturating_mul(*chunk_bytes))
    )]
    NoRoom { copies: u32, free: u64, chunk_bytes: u64 },
    /// Other nodes that are linked are full, and some are not linked.
    #[error(
        "{copies} copies would have no room on other nodes that are linked, in other domains than their other copies; {}",
        unheard(names)
    )]
    NoRoomYet { copies: u32, names: String },
    /// A later gateway is in charge.
    #[error("another gateway is in charge of the volume: {0}")]
    Deposed(String),
    /// Nothing can be recorded.
    #[error("the map cannot be written; see the gateway's log")]
    MapTrouble,
    /// The map's end was dropped, and nodes are waited for: a decision now would keep them from being taken from their mirrors.
    #[error(
        "the volume's map may lack decisions, and nodes that may know them are waited for: try again when they are linked (the gateway's log \
         names them)"
    )]
    MapCut,
    /// A node's claim that another gateway is in charge is not verified yet.
    #[error(
        "a node says that another gateway is in charge of the volume, which is being verified; try again in a minute"
    )]
    Claimed,
}

/// The remedy where the room on nodes that are not linked is not counted.
pub(in super::super) fn unheard(names: &str) -> String {
    format!(
        "not linked: {names}, so neither the room there counts, nor that an extent has grown. Try again once they are linked, or add a node (`flashmob volume add`)"
    )
}

/// What will move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// Copies that will move.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of copies that moved in a second when some did last; `None` if none did for long enough since this gateway began.
    pub bytes_per_s: Option<f64>,
    /// The number of the decision to do so: see [`Gateway::is_recorded`]. 0 if nothing was decided.
    pub number: u64,
}

/// The state of what moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MovesStatus {
    /// Nodes are to be filled evenly.
    pub is_balancing: bool,
    /// Copies that are to move, as planned so far, and those that do.
    pub left: u64,
    /// Copies that are to leave their node, and for which there is no room elsewhere.
    pub stranded: u32,
    /// Chunks that cannot be moved before a block is written again, or a node is back: no copy that is there matches its checksums.
    pub unreadable: usize,
    /// Chunks that cannot be moved now: no current copy of them is there.
    pub without_source: usize,
    /// A node that has its part in the balance, and cannot be used now.
    pub waits_for: Option<u16>,
    /// Somebody ended the balance before its end.
    pub was_cancelled: bool,
    /// Places that copies have left, and that cannot be used for others yet.
    pub freed: usize,
    /// The free places of all nodes were looked through for what a killed gateway has left there.
    pub is_searched: bool,
    /// Bytes of copies that move in a second; `None` while none have.
    pub bytes_per_s: Option<f64>,
}

impl Copies {
    /// The state of what moves.
    pub(in super::super) fn moves_status(&self, now: Time) -> MovesStatus {
        let moves = &self.moves;
        let is_planned = !moves.steps.is_empty() || !moves.guests.is_empty();
        let is_awaited = |member: u16| self.image.is_balancing() && !is_planned && !self.image.takes_no_copies(member);
        MovesStatus {
            is_balancing: self.image.is_balancing(),
            left: (moves.steps.len() + moves.guests.len()) as u64,
            stranded: if self.is_moving() { moves.stranded } else { 0 },
            unreadable: moves.unreadable.len(),
            without_source: moves.without_source.len(),
            waits_for: moves.closed.iter().copied().find(|&member| is_awaited(member)),
            was_cancelled: moves.was_cancelled,
            freed: moves.freed.len(),
            is_searched: moves.searches.iter().all(Search::is_over),
            bytes_per_s: moves.pace.copies_per_s(now).map(|copies| copies * self.image.chunk_bytes() as f64),
        }
    }

    pub(in super::super) fn may_decide(&self) -> Result<(), MoveError> {
        match &self.deposed {
            Some(reason) => Err(MoveError::Deposed(reason.clone())),
            None if self.log.trouble().is_some() => Err(MoveError::MapTrouble),
            None if self.is_cut() => Err(MoveError::MapCut),
            None if self.serves_nothing() => Err(MoveError::Claimed),
            None => Ok(()),
        }
    }

    fn outlook(&self, plan: &Plan) -> Outlook {
        let copies = plan.steps.len() as u64;
        let chunk_bytes = self.image.chunk_bytes();
        let bytes_per_s = self.moves.pace.last_copies_per_s().map(|copies| copies * chunk_bytes as f64);
        Outlook { copies, bytes: copies * chunk_bytes, bytes_per_s, number: 0 }
    }
}

impl Gateway {
    /// Has all copies moved away from a node of a volume with copies, or no longer (`is_leaving`). If `is_dry`, it only tells what would move.
    pub fn drain_node(
        &mut self,
        now: Time,
        volume: usize,
        number: usize,
        is_leaving: bool,
        is_dry: bool,
    ) -> Result<Outlook, MoveError> {
        let state = self.volumes.get(volume).ok_or(MoveError::NoCopies)?;
        let count = state.spec.extents.len();
        let member = number as u16;
        let is_gone = |copies: &Copies| number >= count || copies.image.is_gone(member);
        if state.copies.as_deref().is_some_and(is_gone) {
            return Err(MoveError::NoNode { number, count });
        }
        let decided = self.with_copies(now, volume, |copies, cx| {
            copies.may_decide()?;
            let mut leaving: BTreeSet<u16> = copies.image.leaving().collect();
            if is_leaving {
                leaving.insert(member);
            } else {
                leaving.remove(&member);
            }
            let closed = copies.closed(cx);
            let plan = copies.image.plan(&leaving, copies.image.is_balancing(), &closed);
            let mut outlook = copies.outlook(&plan);
            let is_news = copies.image.is_leaving(member) != is_leaving;
            if is_leaving && is_news && plan.all_stranded() > 0 {
                // Those that are drained already may have no room either.
                let others: BTreeSet<u16> = copies.image.leaving().collect();
                let before = copies.image.plan(&others, copies.image.is_balancing(), &closed).all_stranded();
                let stranded = plan.all_stranded().saturating_sub(before);
                let open = (0..count as u16).filter(|other| !leaving.contains(other) && !closed.contains(other));
                let image = &copies.image;
                let free = open.map(|other| u64::from(image.slots(other).saturating_sub(image.copies_on(other)))).sum();
                if stranded > 0 {
                    if let Some(names) = copies.names_of_unlinked(cx, &leaving) {
                        return Err(MoveError::NoRoomYet { copies: stranded, names });
                    }
                    return Err(MoveError::NoRoom { copies: stranded, free, chunk_bytes: image.chunk_bytes() });
                }
            }
            if !is_dry {
                if is_news {
                    copies.decide(Record::Leaving { member, is_leaving });
                    copies.drop_guests_on(cx, member);
                    copies.plan_anew(cx);
                }
                outlook.number = copies.log.wanted();
            }
            Ok(outlook)
        });
        decided.unwrap_or(Err(MoveError::NoCopies))
    }

    /// Whether a node (counted over all volumes) is drained, and is to have no copies.
    #[must_use]
    pub fn is_leaving(&self, node: usize) -> bool {
        let Some(state) = self.nodes.get(node) else { return false };
        let copies = self.volumes[state.volume].copies.as_deref();
        copies.is_some_and(|copies| copies.image.is_leaving(state.extent as u16))
    }

    /// Whether it has none any more.
    #[must_use]
    pub fn is_drained(&self, node: usize) -> bool {
        let Some(state) = self.nodes.get(node) else { return false };
        let copies = self.volumes[state.volume].copies.as_deref();
        self.is_leaving(node) && copies.is_some_and(|copies| copies.is_empty(state.extent as u16))
    }

    /// Has copies moved until all nodes are filled evenly, or no longer (`is_wanted`). If `is_dry`, it only tells what would move.
    pub fn balance(&mut self, now: Time, volume: usize, is_wanted: bool, is_dry: bool) -> Result<Outlook, MoveError> {
        let decided = self.with_copies(now, volume, |copies, cx| {
            copies.may_decide()?;
            let leaving = copies.image.leaving().collect();
            let plan = copies.image.plan(&leaving, is_wanted, &copies.closed(cx));
            let mut outlook = copies.outlook(&plan);
            if !is_dry {
                if copies.image.is_balancing() != is_wanted {
                    copies.decide(Record::Balance { is_wanted });
                    copies.moves.was_cancelled = !is_wanted;
                    copies.plan_anew(cx);
                }
                outlook.number = copies.log.wanted();
            }
            Ok(outlook)
        });
        decided.unwrap_or(Err(MoveError::NoCopies))
    }
}
