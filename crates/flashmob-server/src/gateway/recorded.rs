//! Decisions that somebody waits for: they are answered once the map has them durably.

use std::fmt;
use std::sync::mpsc::SyncSender;

use super::server::GatewayServer;
use crate::status::replace::Refusal;

/// A decision that the map does not have durably yet.
pub(super) struct Unrecorded {
    volume: usize,
    /// The number of its record, and the size that the volume has to have as well.
    number: u64,
    size_bytes: u64,
    /// Tells whoever waits.
    tell: Box<dyn FnOnce(Result<(), Refusal>) + Send>,
}

impl fmt::Debug for Unrecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unrecorded").field("volume", &self.volume).field("number", &self.number).finish_non_exhaustive()
    }
}

impl GatewayServer {
    /// Answers once a decision is on record: `decided` has the answer, and the volume with the number of the record. A refusal is told at once.
    pub(super) fn answer_recorded<A: Send + 'static>(
        &mut self,
        decided: Result<(A, (usize, u64)), Refusal>,
        to: SyncSender<Result<A, Refusal>>,
    ) {
        self.answer_with_size(decided, 0, to);
    }

    /// The same once the volume has a size as well.
    pub(super) fn answer_with_size<A: Send + 'static>(
        &mut self,
        decided: Result<(A, (usize, u64)), Refusal>,
        size_bytes: u64,
        to: SyncSender<Result<A, Refusal>>,
    ) {
        match decided {
            // The receiver may have timed out.
            Err(refusal) => drop(to.try_send(Err(refusal))),
            Ok((answer, (volume, number))) => {
                let tell = Box::new(move |end: Result<(), Refusal>| drop(to.try_send(end.map(|()| answer))));
                self.unrecorded_changes.push(Unrecorded { volume, number, size_bytes, tell });
                self.tell_recorded_changes();
            }
        }
    }

    /// Answers those whose decisions are on record, or never will be.
    pub(super) fn tell_recorded_changes(&mut self) {
        let size_bytes = |volume| self.gateway.layout(volume).map_or(0, |layout| layout.size_bytes());
        let is_recorded = |asked: &mut Unrecorded| {
            self.gateway.is_recorded(asked.volume, asked.number) && size_bytes(asked.volume) >= asked.size_bytes
        };
        for asked in self.unrecorded_changes.extract_if(.., is_recorded) {
            (asked.tell)(Ok(()));
        }
        let now = self.clock.now();
        let is_deposed = |asked: &mut Unrecorded| {
            self.gateway.copies_status(now, asked.volume).is_some_and(|status| status.deposed.is_some())
        };
        for asked in self.unrecorded_changes.extract_if(.., is_deposed) {
            (asked.tell)(Err(Refusal::Conflict("another gateway is in charge of the volume".to_string())));
        }
    }
}
