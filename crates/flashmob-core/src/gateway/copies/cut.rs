//! A map whose end was dropped when it was opened, and a map that lacks what a node's mirror has.
//!
//! Damage at the end of a map looks like a batch that was not written whole. But what such a batch said, as that a copy fell behind, may have had effect.
//! The nodes that have the other copies may know it by their mirrors. So nothing is served before they are linked, or a long time is over. If one of them
//! refuses the map, and this start has decided nothing that counts, the owner of the map may take the decisions from the mirror ([`catch_up`]).
//!
//! [`catch_up`]: crate::copies::catch_up

use std::time::Duration;

use super::{Copies, Cx};
use crate::copies::{MapImage, Record};
use crate::gateway::Gateway;
use crate::planted::{self, Bug};
use crate::units::Time;

/// For how many times [`EVICT_AFTER`](super::EVICT_AFTER) they are waited for.
const PATIENCE_FACTOR: u32 = 9;

/// The wait of a map whose end was dropped.
#[derive(Debug)]
pub(super) struct Cut {
    /// Members that may have a mirror of what was dropped.
    awaited: Vec<u16>,
    is_told: bool,
    /// How long they are waited for yet, and when that was looked at. A time in which the gateway did not run counts as [`LOOK_EVERY`] at most.
    left: Option<(Duration, Time)>,
}

/// How often it is looked whether they are linked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Cut {
    /// The wait of a map, if its end was dropped.
    pub fn of(image: &MapImage) -> Option<Cut> {
        if !image.is_cut() {
            return None;
        }
        // Those without copies, too: a mirror of the map is all that it takes.
        let awaited = (0..).take(image.members().len()).filter(|&member| !image.is_gone(member)).collect();
        Some(Cut { awaited, is_told: false, left: None })
    }
}

/// Whether a record is only what a member's welcome, a client or time leads to, so that it comes again if it is forgotten.
fn comes_again(record: &Record) -> bool {
    use Record::{Boot, Cut, Home, Marks, Seen, Told};
    matches!(record, Boot { .. } | Cut { .. } | Home { .. } | Marks { .. } | Seen { .. } | Told { .. })
}

impl Gateway {
    /// Whether nodes refuse the map of a volume, and the decisions that it lacks may be taken from their mirrors: no change was sent in this start, and
    /// nothing was decided that counts.
    #[must_use]
    pub fn may_catch_up(&self, volume: usize) -> bool {
        self.volumes.get(volume).and_then(|volume| volume.copies.as_deref()).is_some_and(|copies| copies.may_catch_up)
    }
}

impl Copies {
    /// Whether nothing is served, as the map's end was dropped.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// How long nodes are waited for after the start that nobody waits for, or that may know what the map lacks.
    pub(super) fn long_patience(&self) -> Duration {
        self.evict_after * PATIENCE_FACTOR
    }

    /// Looks whether they are waited for any longer.
    pub(super) fn watch_cut(&mut self, cx: &mut Cx<'_>) {
        let patience = self.long_patience();
        let Some(cut) = &mut self.cut else { return };
        let was_told = std::mem::replace(&mut cut.is_told, true);
        let (left, looked) = cut.left.unwrap_or((patience, cx.now));
        let left = left.saturating_sub((cx.now - looked).min(LOOK_EVERY));
        cut.left = Some((left, cx.now));
        let Some(cut) = &self.cut else { return };
        let away: Vec<u16> =
            cut.awaited.iter().copied().filter(|&member| !self.is_known(member) || !cx.is_linked(member)).collect();
        if !away.is_empty() && !left.is_zero() {
            if !was_told {
                let text = format!(
                    "nothing is served before these nodes are linked, or {} s are over, as they may know decisions that the map lacks: {}",
                    patience.as_secs_f64(),
                    cx.names(&away)
                );
                cx.tell_of_volume(text);
            }
            return self.look_at(cx.now + left.min(LOOK_EVERY));
        }
        if !away.is_empty() {
            let text = format!(
                "it is served without nodes that may know decisions that its map lacks: {}. If one of them has acknowledged changes that others \
                 lack, old bytes may be read",
                cx.names(&away)
            );
            cx.tell_of_volume(text);
        }
        self.cut = None;
        self.decide(Record::Cut { is_cut: false });
        self.serve_held(cx);
    }

    /// Why nothing is served, while that is so.
    pub(super) fn cut_status(&self, now: Time) -> Option<Duration> {
        let cut = self.cut.as_ref()?;
        Some(
            cut.left.map_or(self.long_patience(), |(left, looked)| left.saturating_sub((now - looked).min(LOOK_EVERY))),
        )
    }

    /// Something is decided. If it counts, what this start has decided must not be forgotten for what a mirror has, by no later start either.
    pub(super) fn note_counts(&mut self, record: &Record) {
        if !comes_again(record) {
            self.count_start();
        }
    }

    /// Makes the decisions of this start count from now on.
    pub(super) fn count_start(&mut self) {
        if !std::mem::replace(&mut self.counts, true) && self.image.is_cut() {
            self.decide(Record::Cut { is_cut: false });
        }
    }

    /// The decisions that it lacks cannot be taken. False if that was known.
    pub(super) fn stay_deposed(&mut self) -> bool {
        std::mem::take(&mut self.may_catch_up)
    }

    /// Nodes refuse the map: whether the decisions that it lacks may be taken.
    pub(super) fn may_take_decisions(&self) -> bool {
        !self.counts && !self.is_leased() && !planted::is(Bug::LaterMirrorRefused)
    }
}
