//! The order in which waiting requests go to the device.
//!
//! Based on the published descriptions of Linux's schedulers, much simplified; only their order is modelled,
//! not their cost, which is zero here.

mod deadline;
mod fair;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

use flashmob_core::units::Time;

use super::request::{Op, Request};
use crate::resembling::{hint, resembling};

/// A scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// First come, first served. NOOP in Linux before it had multiple queues.
    #[default]
    None,
    /// Batches of ascending addresses; expired requests come first. Linux's DEADLINE.
    MqDeadline,
    /// A queue per submitter, served round-robin in slices. It represents CFQ and BFQ with their fairness, but
    /// without weights or idling: it never waits for the next request of a submitter.
    Bfq,
}

/// There is no scheduler with this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no scheduler '{name}' in the model; it knows {}{}", Scheduler::NAMES.join(", "), advice(.name, *.meant))]
pub struct SchedulerError {
    /// The given name.
    pub name: String,
    /// The closest known name.
    pub meant: Option<&'static str>,
}

/// The end of the message: the name that was meant, or why there is none.
fn advice(name: &str, meant: Option<&str>) -> String {
    if is_cfq(name) {
        return "; kernels since 5.0 have no CFQ either, and BFQ is another algorithm".to_string();
    }
    hint(meant)
}

fn is_cfq(name: &str) -> bool {
    name.eq_ignore_ascii_case("cfq")
}

impl Scheduler {
    /// All schedulers.
    pub const ALL: [Scheduler; 3] = [Scheduler::None, Scheduler::MqDeadline, Scheduler::Bfq];
    /// Their names, in the order of [`Scheduler::ALL`].
    pub const NAMES: [&'static str; 3] = ["none", "mq-deadline", "bfq"];

    /// Its name, as Linux writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Scheduler::NAMES[self as usize]
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheduler {
    type Err = SchedulerError;

    /// Also accepts the papers' names of two, `noop` and `deadline`. Not `cfq`: bfq is its successor, and another algorithm.
    fn from_str(text: &str) -> Result<Self, SchedulerError> {
        match text.to_ascii_lowercase().as_str() {
            "none" | "noop" => Ok(Scheduler::None),
            "mq-deadline" | "deadline" => Ok(Scheduler::MqDeadline),
            "bfq" => Ok(Scheduler::Bfq),
            _ => {
                // Only its name is close to that of bfq.
                let meant = if is_cfq(text) { None } else { resembling(text, &Scheduler::NAMES) };
                Err(SchedulerError { name: text.to_string(), meant })
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) submitted: Time,
    /// Sequence number: order of arrival, and distinguishes equal requests.
    pub(super) number: u64,
}

impl Waiting {
    /// Sort key: address, then arrival.
    fn place(&self) -> (u64, u64) {
        (self.request.offset_bytes, self.number)
    }

    fn end_bytes(&self) -> u64 {
        self.request.offset_bytes + self.request.len_bytes
    }
}

/// Waiting requests, by address and by age.
#[derive(Clone, Debug, Default)]
struct Sorted {
    by_place: BTreeMap<(u64, u64), Waiting>,
    by_age: BTreeMap<u64, (u64, u64)>,
}

impl Sorted {
    fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    fn push(&mut self, waiting: Waiting) {
        self.by_age.insert(waiting.number, waiting.place());
        self.by_place.insert(waiting.place(), waiting);
    }

    fn oldest(&self) -> Option<&Waiting> {
        self.by_age.values().next().and_then(|place| self.by_place.get(place))
    }

    /// The key of the first request at or after this address.
    fn ahead(&self, position: u64) -> Option<(u64, u64)> {
        self.by_place.range((position, 0)..).next().map(|(&place, _)| place)
    }

    fn take(&mut self, place: (u64, u64)) -> Option<Waiting> {
        let waiting = self.by_place.remove(&place)?;
        self.by_age.remove(&waiting.number);
        Some(waiting)
    }
}

#[derive(Clone, Debug)]
enum Order {
    Fifo(VecDeque<Waiting>),
    Deadline(deadline::Deadline),
    Fair(fair::Fair),
}

/// The queue before the device. Flushes have no address to sort by: they overtake waiting requests, as in Linux, where
/// a flush only covers writes that were acknowledged before it.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    flushes: VecDeque<Waiting>,
    order: Order,
    len: usize,
}

impl Queue {
    pub(super) fn new(scheduler: Scheduler) -> Self {
        let order = match scheduler {
            Scheduler::None => Order::Fifo(VecDeque::new()),
            Scheduler::MqDeadline => Order::Deadline(deadline::Deadline::default()),
            Scheduler::Bfq => Order::Fair(fair::Fair::default()),
        };
        Queue { flushes: VecDeque::new(), order, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.len += 1;
        match &mut self.order {
            _ if waiting.request.op == Op::Flush => self.flushes.push_back(waiting),
            Order::Fifo(order) => order.push_back(waiting),
            Order::Deadline(order) => order.push(waiting),
            Order::Fair(order) => order.push(waiting),
        }
    }

    /// The next request for the device, at `now`.
    pub(super) fn pop(&mut self, now: Time) -> Option<Waiting> {
        let next = self.flushes.pop_front().or_else(|| match &mut self.order {
            Order::Fifo(order) => order.pop_front(),
            Order::Deadline(order) => order.pop(now),
            Order::Fair(order) => order.pop(),
        });
        self.len -= usize::from(next.is_some());
        next
    }
}
