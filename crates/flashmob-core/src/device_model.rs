//! The interface between a store and a model of a device, which computes in virtual time when the device would finish each operation.
//!
//! A store with a model answers no sooner than the device would. The models are in another crate, unknown to those that serve.

use std::fmt::Debug;
use std::time::Duration;

use crate::op::Op;
use crate::units::Time;

/// A model of a device.
pub trait DeviceModel: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// What it models.
    fn description(&self) -> &str;

    /// The random seed of its service times.
    fn seed(&self) -> u64;

    /// The queue depth that keeps it busy.
    fn depth(&self) -> usize;

    /// A running model of a device of `size_bytes`.
    ///
    /// # Errors
    /// Why the size or a parameter is invalid.
    fn start(&self, size_bytes: u64) -> Result<Box<dyn RunningModel>, String>;
}

/// A running model. Times never decrease.
pub trait RunningModel: Debug + Send {
    /// Submits an operation at `now`. False, without any effect, if it is empty or reaches beyond the end.
    fn submit(&mut self, now: Time, id: u64, op: Op, offset_bytes: u64, len_bytes: u64) -> bool;

    /// Advances to `now`, inclusive, and appends the finished operations in the order of time.
    fn advance(&mut self, now: Time, done: &mut Vec<Done>);

    /// How long after `now` the next operation will finish: zero if it is due, `None` if there is none.
    fn next_event_in(&self, now: Time) -> Option<Duration>;

    /// The counters.
    fn counters(&self) -> Counters;
}

/// A finished operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The caller's number for it.
    pub id: u64,
    /// When its service began.
    pub started: Time,
    /// When it finished.
    pub at: Time,
}

/// Counts since the start or the last reset. Reads, writes and steps count when their service begins, `served` when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests finished.
    pub served: u64,
    /// Reads begun.
    pub reads: u64,
    /// Writes begun.
    pub writes: u64,
    /// Flushes begun.
    pub flushes: u64,
    /// Requests whose first block lies above the one after the last request's.
    pub upward: u64,
    /// Requests whose first block lies below that; repeated reads included.
    pub downward: u64,
    /// Requests that begin where the last one ended.
    pub sequential: u64,
    /// Time in which at least one slot was busy, in nanoseconds, up to the last event.
    pub busy_ns: u64,
    /// Service times of all slots added up, in nanoseconds, counted when service begins.
    pub service_ns: u64,
}

impl Counters {
    /// Fraction of steps that went upward or were sequential: 0 to 1; 0 without steps.
    #[must_use]
    pub fn upward_fraction(&self) -> f64 {
        let up = self.upward + self.sequential;
        let steps = up + self.downward;
        if steps == 0 { 0.0 } else { up as f64 / steps as f64 }
    }
}
