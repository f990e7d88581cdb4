//! The device with its queue: submission, service and completion in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use flashmob_core::device_model::Counters;
use flashmob_core::units::Time;

use super::profile::{Profile, ProfileError};
use super::request::{Completion, Op, Request, RequestError};
use super::scheduler::{Queue, Scheduler, Waiting};
use super::service::Service;

/// Maximum waiting requests; more are refused.
pub const WAITING_MAX: usize = 65_536;
/// Maximum number of times that a nearer request overtakes one in the drive's queue. Chosen.
const PASSED_MAX: u32 = 32;

/// A request in a slot. Ordered by the end of service; then by the begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InService {
    done: Time,
    began: u64,
    id: u64,
    submitted: Time,
    started: Time,
}

/// The begin of service of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The request.
    pub request: Request,
    /// When service began.
    pub started: Time,
    /// When service will end.
    pub done: Time,
    /// Requests in slots at that time, including this one.
    pub in_service: usize,
}

/// A request in the drive's own queue.
#[derive(Clone, Copy, Debug)]
struct Held {
    waiting: Waiting,
    /// Number of nearer requests that have overtaken this one.
    passed: u32,
}

/// A device and its queue.
///
/// The caller submits requests with their times ([`submit`](Self::submit)), asks for the next completion
/// ([`next_event`](Self::next_event)), and collects completions ([`advance`](Self::advance)). Time never runs
/// backwards: a `now` before the latest that the model has seen counts as that one. Between those calls the model
/// processes events in the order of virtual time, so it does not matter how often `advance` is called: a slot takes
/// the next request when it *became* free.
#[derive(Clone, Debug)]
pub struct FlashModel {
    slots: usize,
    drive_queue: usize,
    size_bytes: u64,
    now: Time,
    submitted: u64,
    began: u64,
    queue: Queue,
    drive: VecDeque<Held>,
    in_service: BinaryHeap<Reverse<InService>>,
    done: VecDeque<Completion>,
    service: Service,
    counters: Counters,
    starts: Option<Vec<Start>>,
}

impl FlashModel {
    /// A device of `size_bytes`, without any requests. Service times are drawn from `seed`.
    ///
    /// # Errors
    /// The size is 0 or beyond 8 EiB, or a number of the profile is out of range.
    pub fn new(profile: &Profile, scheduler: Scheduler, size_bytes: u64, seed: u64) -> Result<Self, ProfileError> {
        profile.check()?;
        if size_bytes == 0 || size_bytes > 1 << 63 {
            return Err(ProfileError::Size(size_bytes));
        }
        Ok(FlashModel {
            slots: profile.slots as usize,
            drive_queue: profile.rotation.map_or(0, |rotation| rotation.queue as usize),
            size_bytes,
            now: Time::default(),
            submitted: 0,
            began: 0,
            queue: Queue::new(scheduler),
            drive: VecDeque::new(),
            in_service: BinaryHeap::new(),
            done: VecDeque::new(),
            service: Service::new(*profile, seed),
            counters: Counters::default(),
            starts: None,
        })
    }

    /// Requests waiting for a slot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.drive.len()
    }

    /// Requests in slots.
    #[must_use]
    pub fn in_service(&self) -> usize {
        self.in_service.len()
    }

    /// Submits `request` at `now`.
    ///
    /// # Errors
    /// The request is empty, too long or beyond the device's end, or too many are waiting. The model is unchanged.
    pub fn submit(&mut self, now: Time, request: Request) -> Result<(), RequestError> {
        request.check(self.size_bytes)?;
        self.run_until(now);
        if self.waiting() >= WAITING_MAX {
            return Err(RequestError::TooMany(self.waiting()));
        }
        self.queue.push(Waiting { request, submitted: self.now, number: self.submitted });
        self.submitted += 1;
        self.dispatch();
        Ok(())
    }

    /// The time of the next completion; `None` if no request is in service. Completions that have not been collected
    /// yet are ignored: [`advance`](Self::advance) returns them.
    ///
    /// Each submission may make it earlier.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.in_service.peek().map(|Reverse(next)| next.done)
    }

    /// The time from `now` to the next completion: zero if it is due or not collected yet; `None` if there is none.
    #[must_use]
    pub fn next_event_in(&self, now: Time) -> Option<Duration> {
        if !self.done.is_empty() {
            return Some(Duration::ZERO);
        }
        self.next_event().map(|at| at.since(now))
    }

    /// Processes all events up to and including `now`, and appends completions to `completions`, in the order of time.
    pub fn advance(&mut self, now: Time, completions: &mut Vec<Completion>) {
        self.run_until(now);
        completions.extend(self.done.drain(..));
    }

    /// Enables the recording of begins of service, for [`take_starts`](Self::take_starts). For callers that wait
    /// in real time: once a request is in a slot, its completion time is fixed.
    pub fn record_starts(&mut self) {
        self.starts.get_or_insert_default();
    }

    /// The begins of service since the last call, in order. Empty without
    /// [`record_starts`](Self::record_starts).
    pub fn take_starts(&mut self, starts: &mut Vec<Start>) {
        if let Some(recorded) = &mut self.starts {
            starts.append(recorded);
        }
    }

    /// Counters since the start or the last reset.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Sets all counters to zero. The state of the device is kept.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn run_until(&mut self, now: Time) {
        while let Some(&Reverse(next)) = self.in_service.peek() {
            if next.done > now {
                break;
            }
            self.in_service.pop();
            self.clock_to(next.done, true);
            self.counters.served += 1;
            let InService { id, submitted, started, done, .. } = next;
            self.done.push_back(Completion { id, submitted, started, at: done });
            self.dispatch();
        }
        self.clock_to(now, !self.in_service.is_empty());
    }

    fn clock_to(&mut self, now: Time, busy: bool) {
        if busy {
            self.counters.busy_ns += now.nanos_since(self.now);
        }
        self.now = self.now.max(now);
    }

    fn dispatch(&mut self) {
        while self.in_service.len() < self.slots {
            let Some(Waiting { request, submitted, .. }) = self.next() else { break };
            match request.op {
                Op::Read => self.counters.reads += 1,
                Op::Write => self.counters.writes += 1,
                Op::Flush => self.counters.flushes += 1,
            }
            let started = self.now;
            let takes_ns = self.service.begin(started, &request, &mut self.counters);
            self.counters.service_ns += takes_ns;
            let done = started + Duration::from_nanos(takes_ns);
            if let Some(starts) = &mut self.starts {
                starts.push(Start { request, started, done, in_service: self.in_service.len() + 1 });
            }
            self.in_service.push(Reverse(InService { done, began: self.began, id: request.id, submitted, started }));
            self.began += 1;
        }
    }

    /// The next request for a slot: the nearest in the drive's queue, which is filled from the scheduler.
    fn next(&mut self) -> Option<Waiting> {
        while self.drive.len() <= self.drive_queue {
            let Some(waiting) = self.queue.pop(self.now) else { break };
            self.drive.push_back(Held { waiting, passed: 0 });
        }
        let oldest_waited = self.drive.front().is_some_and(|oldest| oldest.passed >= PASSED_MAX);
        let nearest = if oldest_waited || self.drive_queue == 0 {
            0
        } else {
            (0..self.drive.len())
                .min_by_key(|&i| self.service.reach_ns(self.now, &self.drive[i].waiting.request))
                .unwrap_or(0)
        };
        let taken = self.drive.remove(nearest)?;
        for held in self.drive.iter_mut().take(nearest) {
            held.passed += 1;
        }
        Some(taken.waiting)
    }
}
