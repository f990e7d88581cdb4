//! No loss is told where nothing can be lost: all changes had ended and were flushed when all copies lost power, and the gateway lived through it.

use flashmob_core::units::Time;

use super::World;
use super::fault::Fault;

/// Changes and flushes of clients.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// When the last change ended.
    changed_at: Time,
    /// When the last flush was asked for that has succeeded.
    flushed_at: Option<Time>,
    /// A change may take effect later, or has been lost; or losses were told.
    is_unsure: bool,
}

impl World {
    /// A change has ended.
    pub(super) fn note_changed(&mut self, is_ok: bool) {
        self.flushed.changed_at = self.ctx.now;
        self.flushed.is_unsure |= !is_ok;
    }

    /// A flush has succeeded that was asked for then.
    pub(super) fn note_flushed(&mut self, asked: Time) {
        self.flushed.flushed_at = self.flushed.flushed_at.max(Some(asked));
    }

    /// Looks whether a loss was decided that cannot be one.
    pub(super) fn check_losses(&mut self) {
        let is_any = self.gateway.core.as_ref().and_then(|core| core.map(0)).is_some_and(|image| image.losses() > 0);
        if !is_any || std::mem::replace(&mut self.flushed.is_unsure, true) {
            return;
        }
        // What the gateway has not seen, or somebody has accepted, it has to take for a loss.
        let is_other =
            |fault: &Fault| matches!(fault, Fault::LastCopy(..) | Fault::Restore(..)) || fault.is_of_other_maps();
        // Nor does it know of a new chunk that its slots have the zeros.
        if self.gateway.session > 1
            || self.scenario.growth() > 0
            || self.scenario.faults.iter().any(|(_, fault)| is_other(fault))
        {
            return;
        }
        let is_under_way = self.clients.iter().any(|client| client.open.values().any(|pending| pending.op.mutates()));
        if !is_under_way && self.flushed.flushed_at.is_some_and(|at| at > self.flushed.changed_at) {
            self.ctx.fail("a loss is told, though all changes were flushed and the gateway knows it".to_string());
        }
    }
}
