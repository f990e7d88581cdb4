//! Somebody has a member's copies made anew from the others, as its device may not have what it says: its bytes match their checksums and differ, after a
//! backup that nothing tells from the extent, or a flash that lost a write together with its checksum.
//!
//! That is one decision: all copies of the member that others can answer for are behind, and are compared and made equal as those of a node that was
//! away are. What they hold stays until it is written over, block by block where it differs. It is decided only if every copy of the member can be done
//! without: a chunk of which it has the only current copy would have none.

use super::{Copies, Cx, MoveError, bit};
use crate::copies::{Marks, Record};
use crate::gateway::{Event, Gateway};
use crate::planted::{self, Bug};
use crate::units::Time;

/// A member's copies are made equal to others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resynced {
    /// How many copies that are.
    pub copies: u32,
    /// How many of them lacked something already.
    pub lacked: u32,
    /// The number of the last record: see [`Gateway::is_recorded`].
    pub number: u64,
}

/// Why a member's copies are not made equal to others. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum ResyncError {
    /// There would be no current copy.
    #[error(
        "node {name} has the only current copy of {chunks} chunks (the first is {first}): nothing could be made equal to another; \
         wait until they have another, as `flashmob volume show` tells"
    )]
    OnlyCopy { name: String, chunks: u32, first: u32 },
    /// Other copies cannot answer meanwhile.
    #[error(
        "{chunks} chunks of node {name} (the first is {first}) have too few current copies on other nodes that are there, or are \
         being compared or mended: see `flashmob volume show`, whether another node is away or paused, or copies are behind"
    )]
    Needed { name: String, chunks: u32, first: u32 },
    /// Nothing is made equal there.
    #[error("node {0} is paused, and nothing is written to it: end that first with `flashmob volume resume`")]
    Paused(String),
    /// Another node that would answer for it was not heard lately, and is asked now whether it is alive.
    #[error("it is not known whether {0}, which has the same chunks, is alive; it is being asked: try again")]
    NotHeard(String),
    /// Nothing can be decided, or there is no such node.
    #[error(transparent)]
    Undecided(#[from] MoveError),
}

impl Copies {
    /// Has the copies of a member made equal to others.
    fn resync_member(&mut self, cx: &mut Cx<'_>, member: u16) -> Result<Resynced, ResyncError> {
        self.may_decide()?;
        if self.members[usize::from(member)].is_paused {
            return Err(ResyncError::Paused(cx.name(member)));
        }
        if !planted::is(Bug::LastCopyResynced) {
            if let (chunks, Some(first)) = self.only_copies(member) {
                return Err(ResyncError::OnlyCopy { name: cx.name(member), chunks, first });
            }
            if let Some((chunks, first)) = self.needed(cx, member, true) {
                return Err(ResyncError::Needed { name: cx.name(member), chunks, first });
            }
            if let Some(unheard) = self.ask_unheard(cx, member) {
                return Err(ResyncError::NotHeard(unheard));
            }
        }
        self.give_up_member(cx, member);
        let copies = self.image.chunks_of(member).count() as u32;
        let marks_of = |(chunk, copy): (u32, usize)| (chunk, bit(copy), self.image.marks(chunk));
        let lacking = self.image.chunks_of(member).map(marks_of).filter(|(_, copy, marks)| marks.behind & copy == 0);
        let lacking: Vec<(u32, Marks)> = lacking
            .map(|(chunk, copy, marks)| {
                let others = if planted::is(Bug::LastCopyResynced) { 0 } else { marks.behind };
                (chunk, Marks { behind: others | copy, doubtful: marks.doubtful & !copy, ..marks })
            })
            .collect();
        let lacked = copies - lacking.len() as u32;
        for (chunk, copy) in self.image.chunks_of(member).collect::<Vec<_>>() {
            self.scrub.bad.fell_behind(chunk, copy);
        }
        for &(chunk, marks) in &lacking {
            self.note_behind(chunk, self.image.marks(chunk).behind, marks.behind);
        }
        let fallen: Vec<(u32, u8)> = self.image.chunks_of(member).map(|(chunk, copy)| (chunk, bit(copy))).collect();
        let fallen: Vec<(u32, u8)> =
            fallen.into_iter().filter(|(chunk, copy)| self.current(*chunk) & copy != 0).collect();
        for record in Record::of_marks(lacking) {
            self.bulk_seq = self.decide(record);
        }
        fallen.into_iter().for_each(|(chunk, copy)| self.keep(chunk, copy));
        // A scrub of it would read what is written anew.
        self.forget_scrub_of(cx, member);
        let text =
            format!("{copies} copies on it are compared with others and made equal to them, as somebody has asked for");
        cx.tell(Event::NodeWarning(cx.name(member), text));
        self.after_bulk(cx, member);
        Ok(Resynced { copies, lacked, number: self.log.wanted() })
    }
}

impl Gateway {
    /// Has all copies on a node of a volume with copies made equal to those on others: they are behind from now on. The decision has effect once it is
    /// durable and in mirrors: see [`Gateway::is_recorded`].
    pub fn resync_node(&mut self, now: Time, volume: usize, number: usize) -> Result<Resynced, ResyncError> {
        let state = self.volumes.get(volume).ok_or(MoveError::NoCopies)?;
        let copies = state.copies.as_deref().ok_or(MoveError::NoCopies)?;
        let count = state.spec.extents.len();
        if number >= count || copies.image.is_gone(number as u16) {
            return Err(MoveError::NoNode { number, count }.into());
        }
        let resynced = self.with_copies(now, volume, |copies, cx| copies.resync_member(cx, number as u16));
        resynced.unwrap_or(Err(MoveError::NoCopies.into()))
    }
}
