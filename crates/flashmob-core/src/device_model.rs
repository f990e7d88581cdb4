//! A modelled device as a store sees it: when would the device be done with what it is given? In virtual time, without I/O.
//!
//! A store that is given one answers no sooner than the device would. The models themselves are elsewhere; whoever serves
//! knows none of them.

use std::fmt::Debug;
use std::time::Duration;

use crate::op::Op;
use crate::units::Time;

/// A device that can be modelled.
pub trait DeviceModel: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// What it stands for.
    fn description(&self) -> &str;

    /// The random seed of its service times.
    fn seed(&self) -> u64;

    /// How many operations keep it busy.
    fn depth(&self) -> usize;

    /// One of `size_bytes` that has served nothing yet.
    ///
    /// # Errors
    /// A size or numbers that it cannot have; the text says which.
    fn start(&self, size_bytes: u64) -> Result<Box<dyn RunningModel>, String>;
}

/// A modelled device at work. Times never go back.
pub trait RunningModel: Debug + Send {
    /// Hands in an operation at `now`. False if no device would see it, for it is empty or reaches beyond the end: nothing has happened then.
    fn submit(&mut self, now: Time, id: u64, op: Op, offset_bytes: u64, len_bytes: u64) -> bool;

    /// Does everything up to and including `now`, and appends what is done, in the order of time.
    fn advance(&mut self, now: Time, done: &mut Vec<Done>);

    /// How long after `now` the next operation will be done: zero if it is due, or done already; `None` if there is none.
    fn next_event_in(&self, now: Time) -> Option<Duration>;

    /// What happened so far.
    fn counters(&self) -> Counters;
}

/// An operation that the model is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The caller's name for it.
    pub id: u64,
    /// When the device began to serve it.
    pub started: Time,
    /// When it was done.
    pub at: Time,
}

/// What happened since the start, or since the counters were reset.
///
/// Reads, writes and steps count when a slot begins to serve; `served` when it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that are done.
    pub served: u64,
    /// Reads begun.
    pub reads: u64,
    /// Writes begun.
    pub writes: u64,
    /// Flushes begun.
    pub flushes: u64,
    /// Requests whose first block lies above the one after the last request's.
    pub upward: u64,
    /// Requests whose first block lies below that: also where the last one is read again.
    pub downward: u64,
    /// Requests that begin where the last one ended.
    pub sequential: u64,
    /// How long at least one slot was busy, in nanoseconds, up to the last event.
    pub busy_ns: u64,
    /// How long all slots were busy, added up, counted when a slot begins.
    pub service_ns: u64,
}

impl Counters {
    /// Steps that did not go down, of all steps: 0 to 1; 0 where there was none.
    #[must_use]
    pub fn upward_fraction(&self) -> f64 {
        let up = self.upward + self.sequential;
        let steps = up + self.downward;
        if steps == 0 { 0.0 } else { up as f64 / steps as f64 }
    }
}
