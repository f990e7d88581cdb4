//! The device with its queue: what is submitted, served and done, in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use flashmob_core::device_model::Counters;
use flashmob_core::units::Time;

use super::profile::{Profile, ProfileError};
use super::request::{Completion, Op, Request, RequestError};
use super::scheduler::{Queue, Scheduler, Waiting};
use super::service::Service;

/// How many requests may wait; more are refused.
pub const WAITING_MAX: usize = 65_536;
/// How often the drive may take a nearer request before one that it already holds. Chosen.
const PASSED_MAX: u32 = 32;

/// In a slot. Ordered by the end of service; those that end together by the order in which they began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InService {
    done: Time,
    began: u64,
    id: u64,
    submitted: Time,
    started: Time,
}

/// A request that a slot began to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The request.
    pub request: Request,
    /// When the slot began.
    pub started: Time,
    /// When it will be done.
    pub done: Time,
    /// Requests in slots then, this one included.
    pub in_service: usize,
}

/// In the drive's own queue.
#[derive(Clone, Copy, Debug)]
struct Held {
    waiting: Waiting,
    /// How often a nearer one was taken first.
    passed: u32,
}

/// A device and its queue.
///
/// The caller says what comes in and when ([`submit`](Self::submit)), asks when something will be done
/// ([`next_event`](Self::next_event)), and fetches what is done ([`advance`](Self::advance)). Time never runs
/// backwards: a `now` before the latest that the model has seen counts as that one. Between those calls the model
/// does everything in the order of virtual time, so it does not matter how often `advance` is called: a slot takes
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
    /// A device of `size_bytes` that has served nothing yet. Service times are drawn from `seed`.
    ///
    /// # Errors
    /// A size of 0 or beyond 8 EiB, or a profile with numbers out of range.
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

    /// How many requests wait for a slot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.drive.len()
    }

    /// How many requests are in a slot.
    #[must_use]
    pub fn in_service(&self) -> usize {
        self.in_service.len()
    }

    /// Hands in `request` at `now`.
    ///
    /// # Errors
    /// It reaches beyond the device, is empty or too long, or too many wait already. It has left no trace then.
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

    /// When the next request will be done; none if nothing is in service. What is done already and was not fetched
    /// yet does not count: [`advance`](Self::advance) has it.
    ///
    /// It may become sooner with each request that is submitted.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.in_service.peek().map(|Reverse(next)| next.done)
    }

    /// How long after `now` the next request will be done: zero if it is due, or done already; none if there is none.
    #[must_use]
    pub fn next_event_in(&self, now: Time) -> Option<Duration> {
        if !self.done.is_empty() {
            return Some(Duration::ZERO);
        }
        self.next_event().map(|at| at.since(now))
    }

    /// Does everything up to and including `now`, and appends what is done to `completions`, in the order of time.
    pub fn advance(&mut self, now: Time, completions: &mut Vec<Completion>) {
        self.run_until(now);
        completions.extend(self.done.drain(..));
    }

    /// From now on remember what a slot begins to serve, for [`take_starts`](Self::take_starts). For those who wait
    /// in real time: once a request is in a slot, the time of its end is fixed.
    pub fn record_starts(&mut self) {
        self.starts.get_or_insert_default();
    }

    /// The requests that slots began to serve since the last call, in that order. Empty without
    /// [`record_starts`](Self::record_starts).
    pub fn take_starts(&mut self, starts: &mut Vec<Start>) {
        if let Some(recorded) = &mut self.starts {
            starts.append(recorded);
        }
    }

    /// Counts since the start or the last reset.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Sets all counters to zero. The device stays where it is.
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

    /// The next for a slot: of the scheduler, or the nearest of those that the drive holds.
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
