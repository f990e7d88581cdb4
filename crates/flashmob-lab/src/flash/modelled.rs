//! A modelled flash as a store's device: [`DeviceModel`] over [`FlashModel`].

use std::time::Duration;

use flashmob_core::device_model::{Counters, DeviceModel, Done, RunningModel};
use flashmob_core::op;
use flashmob_core::planted::{self, Bug};
use flashmob_core::units::Time;

use super::request::REQUEST_BYTES_MAX;
use super::{BLOCK_BYTES, Completion, FlashModel, Op, Profile, Request, Scheduler};

/// A flash model to be started.
#[derive(Clone, Debug)]
pub struct Model {
    profile: Profile,
    seed: u64,
    description: String,
}

impl Model {
    /// Of a device that is so many times slower than its profile. Service times are drawn from `seed`.
    #[must_use]
    pub fn new(profile: Profile, slower: f64, seed: u64) -> Model {
        let description = match slower {
            1.0 => profile.description.to_string(),
            _ => format!("{}; {slower} times as slow", profile.description),
        };
        Model { profile: profile.slower(slower), seed, description }
    }
}

/// A started model.
#[derive(Debug)]
struct Running {
    model: FlashModel,
    // Reused, to avoid allocations.
    completions: Vec<Completion>,
}

impl DeviceModel for Model {
    fn name(&self) -> &str {
        self.profile.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn depth(&self) -> usize {
        self.profile.store_depth()
    }

    /// Requests reach the device in the order of submission: sorting is the node's part.
    fn start(&self, size_bytes: u64) -> Result<Box<dyn RunningModel>, String> {
        let mut profile = self.profile;
        if planted::is(Bug::ServiceTimeDoubled) {
            profile.read.access_ns *= 2;
        }
        let model = FlashModel::new(&profile, Scheduler::None, size_bytes, self.seed);
        let model = model.map_err(|error| error.to_string())?;
        Ok(Box::new(Running { model, completions: Vec::new() }))
    }
}

impl RunningModel for Running {
    fn submit(&mut self, now: Time, id: u64, op: op::Op, offset_bytes: u64, len_bytes: u64) -> bool {
        let (op, len_bytes) = match op {
            op::Op::Read | op::Op::Digest => (Op::Read, len_bytes),
            op::Op::Write => (Op::Write, len_bytes),
            op::Op::Flush => (Op::Flush, 0),
            // What the file system has to read of its own.
            op::Op::Map => (Op::Read, len_bytes.min(BLOCK_BYTES)),
            // Deallocation of any number of blocks counts as a write of one block.
            op::Op::Trim | op::Op::WriteZeroes => (Op::Write, len_bytes.min(BLOCK_BYTES)),
        };
        let offset_bytes = if op == Op::Flush { 0 } else { offset_bytes };
        let len_bytes = len_bytes.min(REQUEST_BYTES_MAX);
        self.model.submit(now, Request { id, submitter: 0, op, offset_bytes, len_bytes }).is_ok()
    }

    fn advance(&mut self, now: Time, done: &mut Vec<Done>) {
        self.model.advance(now, &mut self.completions);
        done.extend(self.completions.drain(..).map(|Completion { id, started, at, .. }| Done { id, started, at }));
    }

    fn next_event_in(&self, now: Time) -> Option<Duration> {
        self.model.next_event_in(now)
    }

    fn counters(&self) -> Counters {
        self.model.counters()
    }
}
