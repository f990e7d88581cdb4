//! Which starts of gateways a map has had, and what a mirror has that the map has not.

use super::STARTS_MAX;
use crate::wire::hello::Charge;
use crate::wire::mirror::MirrorState;

/// A start of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Its number.
    pub epoch: u64,
    /// Drawn at random for it.
    pub nonce: u64,
    /// The version of the map with its record. What was decided before has smaller numbers.
    pub version: u64,
}

/// The last starts of gateways with a map, the present one included, and how much it had at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Epoch and nonce of the present one.
    pub(super) present: (u64, u64),
    /// Oldest first; at most [`STARTS_MAX`]. None where it is not known when they were.
    pub(super) starts: Vec<Start>,
    /// See [`MapImage::decisions`](super::MapImage::decisions).
    pub(super) decisions: u64,
}

/// What a mirror has that a map has not: one of the two is an older state that was used, or a branch of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// So many decisions.
    Decisions(u64),
    /// The start of a gateway with this epoch.
    Start(u64),
}

impl History {
    /// Whether a gateway with that charge had nothing that is not in the map, as far as it knows its starts.
    #[must_use]
    pub fn knows(&self, charge: &Charge) -> bool {
        if self.starts.first().is_none_or(|first| charge.epoch < first.epoch) {
            return charge.epoch <= self.present.0;
        }
        let is_it = |start: &Start| (start.epoch, start.nonce) == (charge.epoch, charge.nonce);
        let Some(at) = self.starts.iter().position(is_it) else { return false };
        let end =
            self.starts.get(at + 1).map_or(self.present.0.saturating_add(self.decisions), |next| next.version - 1);
        charge.version <= end
    }

    /// What the mirror has that the map lacks; `None` if the map follows from the mirror, as all do that one gateway after the other has written.
    ///
    /// A mirror gets only what is durable in the map. So that of an earlier start ends before the start that followed. Starts that are no longer
    /// known are compared by the number of decisions: an older map that has made as many as it lacks passes.
    #[must_use]
    pub fn lacking(&self, mirror: &MirrorState) -> Option<Lacking> {
        if (mirror.epoch, mirror.nonce) == self.present {
            return None;
        }
        let is_it = |start: &Start| (start.epoch, start.nonce) == (mirror.epoch, mirror.nonce);
        if self.starts.first().is_none_or(|first| mirror.epoch < first.epoch) {
            let lacks = mirror.decisions().checked_sub(self.decisions).filter(|&lacks| lacks > 0);
            return lacks.map(Lacking::Decisions);
        }
        let Some(at) = self.starts.iter().position(is_it) else { return Some(Lacking::Start(mirror.epoch)) };
        let next = self.starts.get(at + 1)?;
        (mirror.version >= next.version).then(|| Lacking::Decisions(mirror.version - next.version + 1))
    }

    /// Whether a mirror with this history has all that the map had before its present start, and more. If the map `is_cut`, earlier starts that the
    /// mirror does not know count like the present one: they have decided nothing that counts.
    #[must_use]
    pub fn is_continued_by(&self, mirror: &History, is_cut: bool) -> bool {
        let Some(at) = self.starts.iter().rposition(|start| mirror.starts.contains(start)) else { return false };
        let Some(next) = self.starts.get(at + 1).filter(|_| is_cut || at + 2 == self.starts.len()) else {
            return false;
        };
        let is_common = |start: &&Start| self.starts.contains(start);
        // A start that began with less than the map had is another branch.
        let branch = mirror.starts.iter().skip_while(|start| !is_common(start)).find(|start| !is_common(start));
        let version = mirror.present.0.saturating_add(mirror.decisions);
        version >= next.version && branch.is_none_or(|first| first.version >= next.version)
    }
}

/// Adds a start, and forgets the first of too many.
pub(super) fn add(starts: &mut Vec<Start>, start: Start) {
    starts.push(start);
    let surplus = starts.len().saturating_sub(STARTS_MAX);
    starts.drain(..surplus);
}

#[cfg(test)]
#[path = "tests/history.rs"]
mod tests;
