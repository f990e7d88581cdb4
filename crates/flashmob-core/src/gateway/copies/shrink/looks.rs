//! Whether chunks behind the new end of a volume may go: their copies tell where they hold data; or they are given up, and nobody can change them any more.

use std::collections::{BTreeMap, BTreeSet};

use super::{Shrink, Step};
use crate::gateway::copies::resize::ResizeError;
use crate::gateway::copies::watch::WATCH_INTERVAL;
use crate::gateway::copies::{Copies, Cx, Inner, bit, each};
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::wire::map::{MAP_BYTES, Map};

/// Chunks that are looked at at a time.
const LOOKS_MAX: usize = 16;

/// Which chunks behind the end hold nothing.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// No chunk from this one on was asked for yet.
    next: u32,
    /// Those before it that are to be asked for again.
    again: BTreeSet<u32>,
    /// Those that were asked for: by chunk and member, from where in it.
    out: BTreeMap<(u32, u16), (u32, RequestKey)>,
    /// Members that failed to tell it, by chunk, and the last of these failures.
    failed: BTreeMap<u32, Vec<u16>>,
    failure: Option<(u16, Failure)>,
}

impl Looks {
    pub(super) fn from(chunk: u32) -> Looks {
        Looks { next: chunk, ..Looks::default() }
    }

    /// A member that could not tell it, and why.
    pub(super) fn failure(&self) -> Option<(u16, Failure)> {
        self.failure
    }

    /// How many chunks from `first` on were looked at.
    pub(super) fn done(&self, first: u32) -> u32 {
        // At most as many as there are chunks.
        let left = self.out.keys().map(|(chunk, _)| chunk).chain(&self.again).collect::<BTreeSet<_>>().len() as u32;
        (self.next - first).saturating_sub(left)
    }
}

impl Copies {
    fn looks(&mut self) -> Option<&mut Looks> {
        match &mut self.shrink {
            Some(Shrink { step: Step::Looks(looks), .. }) => Some(looks),
            _ => None,
        }
    }

    /// Asks the copies of each chunk behind the end that are current and there where they hold data: a flash may have lost what another has. True if all
    /// were looked at, and are holes.
    pub(super) fn look_behind_end(&mut self, cx: &mut Cx<'_>) -> bool {
        let chunks = self.image.chunks();
        loop {
            let Some(looks) = self.looks() else { return false };
            let Some(chunk) = looks.again.first().copied().or((looks.next < chunks).then_some(looks.next)) else {
                return looks.out.is_empty();
            };
            if looks.out.len() >= LOOKS_MAX {
                return false;
            }
            if self.is_on_hold(chunk) {
                self.compare_soon(cx, chunk);
            }
            if self.is_on_hold(chunk) || !self.ask_copies(cx, chunk) {
                self.await_chunk(cx, chunk);
                return false;
            }
            if let Some(looks) = self.looks() {
                looks.again.remove(&chunk);
                looks.next = looks.next.max(chunk + 1);
            }
        }
    }

    /// Whether a former gateway that does not know that it is one cannot change what is given up any more: it needs all copies that are not behind for
    /// that, and where they share a map it can have none put behind. So one of them on a node that takes nothing from it is enough, and stays so. It is so
    /// before the chunk `next`. Where data is looked for, a node was asked for it.
    pub(super) fn is_fenced_behind_end(&mut self, cx: &Cx<'_>, next: u32) -> bool {
        let is_known = |copies: &Copies, chunk, copy| copies.is_known(copies.member_of(chunk, copy));
        let is_fenced = |chunk: &u32| {
            planted::is(Bug::ShrinkUnfenced) || each(self.holders(*chunk)).any(|copy| is_known(self, *chunk, copy))
        };
        let unfenced = (next..self.image.chunks()).find(|chunk| !is_fenced(chunk));
        if let (Some(shrink), Some(chunk)) = (&mut self.shrink, unfenced.filter(|chunk| *chunk > next)) {
            (shrink.since, shrink.step) = (cx.now, Step::Fence(chunk));
        }
        unfenced.is_none()
    }

    /// The nodes that have copies of a chunk that are not behind.
    pub(super) fn names_of(&self, cx: &Cx<'_>, chunk: u32) -> String {
        let members = self.members_of(chunk, self.holders(chunk)).into_iter();
        members.map(|member| cx.name(member)).collect::<Vec<_>>().join(", ")
    }

    /// A chunk cannot be looked at now.
    fn await_chunk(&mut self, cx: &Cx<'_>, chunk: u32) {
        let holders = self.members_of(chunk, self.holders(chunk));
        let awaits = holders.into_iter().find(|&member| !self.is_usable(cx, member));
        if let Some(shrink) = &mut self.shrink {
            shrink.awaits = awaits;
        }
    }

    /// Asks for the holes of a chunk. False if no current copy can be asked.
    fn ask_copies(&mut self, cx: &mut Cx<'_>, chunk: u32) -> bool {
        let usable = self.usable_of(cx, chunk, self.current(chunk)) & !self.failed_looks(chunk);
        let members = self.members_of(chunk, usable);
        usable != 0 && members.into_iter().all(|member| self.ask_behind_end(cx, (chunk, member), 0))
    }

    /// Asks a member for the holes of the rest of a chunk, unless it is asked already. False if it has no copy of it.
    fn ask_behind_end(&mut self, cx: &mut Cx<'_>, (chunk, member): (u32, u16), from: u32) -> bool {
        if self.looks().is_some_and(|looks| looks.out.contains_key(&(chunk, member))) {
            return true;
        }
        let place = self.copy_on(chunk, member).and_then(|copy| self.locate(chunk, copy, from));
        let Some((_, offset_bytes)) = place else { return false };
        let what = (Op::Map, OpFlags::NONE);
        let key = self.insert_inner(cx, Inner::Look { chunk, member }, what.0, what.1, vec![0; MAP_BYTES]);
        let len = self.image.chunk_bytes() as u32 - from;
        self.send(cx, key, member, what, (offset_bytes, len));
        if let Some(shrink) = &mut self.shrink {
            shrink.awaits = None;
        }
        if let Some(looks) = self.looks() {
            looks.out.insert((chunk, member), (from, key));
        }
        self.look_at(cx.now + WATCH_INTERVAL);
        true
    }

    /// A copy of a chunk behind the end has told where it holds data.
    pub(in crate::gateway::copies) fn looked(
        &mut self,
        cx: &mut Cx<'_>,
        (chunk, member): (u32, u16),
        key: RequestKey,
        result: Result<Vec<u8>, Failure>,
    ) {
        let asked = self.looks().and_then(|looks| looks.out.get(&(chunk, member)).copied());
        let Some((from, _)) = asked.filter(|asked| asked.1 == key) else { return };
        self.looks().map(|looks| looks.out.remove(&(chunk, member)));
        self.look_at(cx.now);
        let len = self.image.chunk_bytes() as u32 - from;
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(failure) => return self.look_failed(cx, chunk, member, failure),
        };
        let Ok(map) = Map::decode(&bytes, len) else {
            return self.look_failed(cx, chunk, member, Failure::Invalid);
        };
        let mut looked = 0;
        let mut data_at = None;
        for (run_bytes, is_hole) in map.runs() {
            data_at = data_at.or((!is_hole).then_some(looked));
            looked += run_bytes;
        }
        if let Some(at) = data_at.filter(|_| !planted::is(Bug::ShrinkUnlooked)) {
            let offset_bytes = u64::from(chunk) * self.image.chunk_bytes() + u64::from(from + at);
            return self.end_shrink(cx, Err(ResizeError::HoldsData { offset_bytes }));
        }
        if looked == 0 {
            return self.look_failed(cx, chunk, member, Failure::Invalid);
        }
        if let Some(shrink) = &mut self.shrink {
            shrink.since = cx.now;
        }
        let goes_on =
            looked >= len || (self.is_usable(cx, member) && self.ask_behind_end(cx, (chunk, member), from + looked));
        if !goes_on {
            self.ask_again(chunk);
        }
    }

    /// A copy does not tell it: another is asked, if there is one.
    fn look_failed(&mut self, cx: &mut Cx<'_>, chunk: u32, member: u16, failure: Failure) {
        self.ask_again(chunk);
        let Some(looks) = self.looks().filter(|_| failure != Failure::ShuttingDown) else { return };
        looks.failed.entry(chunk).or_default().push(member);
        looks.failure = Some((member, failure));
        if self.current(chunk) & !self.failed_looks(chunk) == 0 {
            self.end_shrink(cx, Err(untold(cx, (member, failure))));
        }
    }

    /// Copies of a chunk that do not tell it.
    fn failed_looks(&mut self, chunk: u32) -> u8 {
        let failed = self.looks().and_then(|looks| looks.failed.get(&chunk).cloned()).unwrap_or_default();
        failed.into_iter().filter_map(|member| self.copy_on(chunk, member)).map(bit).fold(0, |mask, copy| mask | copy)
    }

    fn ask_again(&mut self, chunk: u32) {
        if let Some(looks) = self.looks() {
            looks.again.insert(chunk);
        }
    }

    /// A member has no link any more: others are asked.
    pub(in crate::gateway::copies) fn drop_looks(&mut self, cx: &mut Cx<'_>, member: Option<u16>) {
        let Some(looks) = self.looks() else { return };
        let of_member = looks.out.extract_if(.., |(_, of), _| member.is_none_or(|member| *of == member));
        for ((chunk, _), (_, key)) in of_member.collect::<Vec<_>>() {
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
            self.ask_again(chunk);
        }
    }
}

/// Why it is not known what lies behind the end.
pub(super) fn untold(cx: &Cx<'_>, (member, failure): (u16, Failure)) -> ResizeError {
    let name = cx.name(member);
    match failure {
        Failure::NotSupported => ResizeError::CannotTell { name },
        _ => ResizeError::Failed { name, failure },
    }
}
