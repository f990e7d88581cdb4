//! A member's extent is given up, and the fresh one that its node serves takes its place.
//!
//! The fresh extent was refused before, because the map knows another: only a person can say that the old one will not come back. From that
//! decision on every copy on the member is behind, and the old extent is refused for ever: its data is old.

use super::{AcceptLossError, AcceptedLoss, Copies, Cx, bit};
use crate::copies::{MapError, Marks, Record};
use crate::gateway::Gateway;
use crate::planted::{self, Bug};
use crate::units::Time;

/// An extent was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The extent that was given up.
    pub given_up: [u8; 16],
    /// The one in its place.
    pub taken: [u8; 16],
    /// Copies that have to be made again.
    pub copies: u32,
    /// The loss that somebody accepted with the extent.
    pub accepted: AcceptedLoss,
    /// The number of its record: see [`Gateway::is_recorded`].
    pub number: u64,
}

/// Why an extent is not replaced. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum ReplaceError {
    /// The volume is of another layout.
    #[error("the volume has no copies: the data of a node's extent is nowhere else")]
    NoCopies,
    /// No such node.
    #[error("the volume has no node {number}, or not any more; it has had {count}, counted from 0")]
    NoNode { number: usize, count: usize },
    /// The extent has the place already: it was asked for before.
    #[error("the node has extent {extent:032x} already; nothing has to be done")]
    Done { extent: u128 },
    /// The node serves the extent that is to be given up.
    #[error(
        "the node serves its extent, and nothing has to be replaced; to replace it all the same, stop the node, move its \
         file away and start it with an empty one"
    )]
    InUse,
    /// No fresh extent was seen at the node's address lately.
    #[error(
        "no fresh extent is there; start a node with an empty file of {size_bytes} bytes at that address first{}",
        said(refusal)
    )]
    NothingThere { size_bytes: u64, refusal: Option<String> },
    /// The fresh extent is not the one that was shown to who decides.
    #[error("another extent is there now ({found:032x}); look at it again")]
    Another { found: u128 },
    /// It would be a loss of data.
    #[error(
        "the old extent has the only current copy of {chunks} chunks (the first is {first}); wait until they have \
         another, or bring the old extent back; if it is gone for good, accept the loss of what the other copies lack: --accept-loss"
    )]
    OnlyCopy { chunks: u32, first: u32 },
    /// The loss cannot be accepted.
    #[error(transparent)]
    Loss(#[from] AcceptLossError),
    /// A later gateway is in charge.
    #[error("another gateway is in charge of the volume: {0}")]
    Deposed(String),
    /// Nothing can be recorded.
    #[error("the map cannot be written; see the gateway's log")]
    MapTrouble,
    /// The map refuses it.
    #[error(transparent)]
    Map(#[from] MapError),
}

fn said(refusal: &Option<String>) -> String {
    refusal.as_ref().map(|text| format!(" (the node there is refused: {text})")).unwrap_or_default()
}

impl Copies {
    /// Chunks of which a member has the only current copy: how many, and the first.
    pub(super) fn only_copies(&self, member: u16) -> (u32, Option<u32>) {
        let mut only = self.image.chunks_of(member).filter(|&(chunk, copy)| self.current(chunk) == bit(copy));
        let first = only.next().map(|(chunk, _)| chunk);
        (first.map_or(0, |_| 1 + only.count() as u32), first)
    }

    /// Puts a fresh extent in the place of a member's. All its copies are behind. Returns the number of the record.
    fn replace(
        &mut self,
        cx: &mut Cx<'_>,
        member: u16,
        extent_id: [u8; 16],
        size_bytes: u64,
        accepts_loss: bool,
    ) -> Result<(u64, AcceptedLoss), ReplaceError> {
        if let Some(reason) = &self.deposed {
            return Err(ReplaceError::Deposed(reason.clone()));
        }
        if self.log.trouble().is_some() {
            return Err(ReplaceError::MapTrouble);
        }
        let record = Record::Extent { member, extent_id, size_bytes };
        let accepted = match self.only_copies(member) {
            (_, Some(_)) if accepts_loss => self.accept_all(cx, member, &record)?,
            (chunks, Some(first)) => return Err(ReplaceError::OnlyCopy { chunks, first }),
            (_, None) => AcceptedLoss::default(),
        };
        self.image.apply(&record)?;
        let seq = self.log.push(record, true);
        if !planted::is(Bug::AckBeforeReplaced) {
            self.bulk_seq = seq;
        }
        if planted::is(Bug::FreshExtentCurrent) {
            for (chunk, copy) in self.image.chunks_of(member).collect::<Vec<_>>() {
                let marks = self.image.marks(chunk);
                self.mark(chunk, Marks { behind: marks.behind & !bit(copy), ..marks });
            }
        }
        self.note_hollow(member);
        self.counters.replaced += 1;
        let state = &mut self.members[usize::from(member)];
        (state.usable_from, state.is_born, state.out_since) = (None, false, Some(cx.now));
        // The fresh one has nothing that would not be copied to it.
        (state.is_paused, state.needed_at) = (false, None);
        state.seen.clear();
        state.age = None;
        self.unlinked(cx, member);
        self.search_anew(member);
        self.forget_scrub_of(cx, member);
        self.give_up_member(cx, member);
        self.forget_kept(member);
        self.after_bulk(cx, member);
        Ok((seq, accepted))
    }
}

impl Gateway {
    /// The number over all volumes of a volume's node.
    #[must_use]
    pub fn node_number(&self, volume: usize, number: usize) -> Option<usize> {
        let state = self.volumes.get(volume)?;
        (number < state.spec.extents.len()).then(|| state.node_of(number as u32))
    }

    /// The volume of a node that is counted over all volumes, and its number there.
    #[must_use]
    pub fn place_of(&self, node: usize) -> Option<(usize, usize)> {
        self.nodes.get(node).map(|state| (state.volume, state.extent as usize))
    }

    /// Gives up the extent of a node of a volume with copies, and takes the fresh one that the node was refused for. `expected` is what
    /// whoever decides was shown, if anything. If it `accepts_loss`, chunks of which the old extent has the only current copy get the best other one
    /// as that: see [`Gateway::accept_loss`].
    pub fn replace_extent(
        &mut self,
        now: Time,
        volume: usize,
        number: usize,
        expected: Option<[u8; 16]>,
        accepts_loss: bool,
    ) -> Result<Replaced, ReplaceError> {
        let state = self.volumes.get(volume).ok_or(ReplaceError::NoCopies)?;
        let copies = state.copies.as_deref().ok_or(ReplaceError::NoCopies)?;
        let count = state.spec.extents.len();
        if copies.image.is_gone(number as u16) {
            return Err(ReplaceError::NoNode { number, count });
        }
        let known = copies.image.members().get(number).ok_or(ReplaceError::NoNode { number, count })?;
        let (given_up, size_bytes) = (known.extent_id, known.size_bytes);
        if expected == Some(given_up) {
            return Err(ReplaceError::Done { extent: u128::from_be_bytes(given_up) });
        }
        let (member, index) = (number as u16, state.node_of(number as u32));
        let node = &self.nodes[index];
        if node.links_up > 0 {
            return Err(ReplaceError::InUse);
        }
        let Some(offer) = node.offer_now(now) else {
            return Err(ReplaceError::NothingThere { size_bytes, refusal: node.refusal.clone() });
        };
        if expected.is_some_and(|expected| expected != offer.extent_id) {
            return Err(ReplaceError::Another { found: u128::from_be_bytes(offer.extent_id) });
        }
        let copies = copies.image.chunks_of(member).count() as u32;
        let replaced = self.with_copies(now, volume, |copies, cx| {
            copies.replace(cx, member, offer.extent_id, offer.size_bytes, accepts_loss)
        });
        let (number_of_record, accepted) = replaced.unwrap_or(Err(ReplaceError::NoCopies))?;
        let node = &mut self.nodes[index];
        (node.extent_id, node.boot_id, node.offer, node.refusal) = (Some(offer.extent_id), None, None, None);
        self.volumes[volume].refusals.remove(&number);
        self.try_node(now, index, true);
        Ok(Replaced { given_up, taken: offer.extent_id, copies, accepted, number: number_of_record })
    }

    /// Whether the decision with this number is durable in a volume's map.
    #[must_use]
    pub fn is_recorded(&self, volume: usize, number: u64) -> bool {
        let copies = self.volumes.get(volume).and_then(|state| state.copies.as_deref());
        copies.is_some_and(|copies| copies.log.is_durable(number))
    }
}
