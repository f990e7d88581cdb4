//! Scheduling: which threads ran, waited, and woke others.

use std::collections::HashMap;

use crate::record::Record;
use crate::surroundings::AppOperation;

use super::requests::Requests;
use super::rules::{Switch, Waking};
use super::work::Book;

/// Bits of `prev_state` that mean sleeping; the bits above mark a preempted thread.
const WAITING: u64 = 0xff;
/// Flags of an event in a hard interrupt, a softirq or an NMI: the interrupted thread is not the cause.
const INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

/// Pauses of threads, each in the order of time.
#[derive(Debug, Default)]
pub struct Schedule {
    /// By the kernel's number of the thread.
    pub pauses: HashMap<u32, Vec<Pause>>,
    is_off: HashMap<u32, Pause>,
}

/// An interval in which a thread did not run.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// When it left its CPU.
    pub begin_ns: u64,
    /// It sleeps; otherwise it was preempted and stays runnable.
    pub is_waiting: bool,
    /// Its waker, if seen.
    pub waker: Option<Waker>,
    /// When it ran again; `u64::MAX` if that was not seen.
    pub end_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Waker {
    /// The running thread; `None` in an interrupt, where it is unrelated.
    pub thread: Option<u32>,
    pub at_ns: u64,
    /// The request just completed on this CPU; then the device is the waker.
    pub request: Option<u32>,
}

impl Schedule {
    pub fn switched(&mut self, record: &Record<'_>, rule: &Switch<'_>, book: &mut Book) {
        let number = |field: &crate::format::Field| field.number(record.data);
        let (Some(from), Some(state), Some(to)) = (number(rule.from), number(rule.state), number(rule.to)) else {
            return;
        };
        let (from, to) = (u32::try_from(from).unwrap_or(0), u32::try_from(to).unwrap_or(0));
        for (thread, comm) in [(from, rule.from_comm), (to, rule.to_comm)] {
            if thread != 0
                && let Some(comm) = comm.and_then(|field| field.text(record.data))
            {
                book.called(thread, &comm);
            }
        }
        if from != 0 {
            let is_waiting = state & WAITING != 0;
            self.is_off.insert(from, Pause { begin_ns: record.time_ns, is_waiting, waker: None, end_ns: u64::MAX });
        }
        if let Some(mut pause) = self.is_off.remove(&to) {
            pause.end_ns = record.time_ns;
            self.pauses.entry(to).or_default().push(pause);
        }
    }

    pub fn woken(&mut self, record: &Record<'_>, rule: &Waking<'_>, requests: &Requests) {
        let Some(thread) = rule.thread.number(record.data).and_then(|thread| u32::try_from(thread).ok()) else {
            return;
        };
        let Some(pause) = self.is_off.get_mut(&thread) else { return };
        if pause.is_waiting && pause.waker.is_none() {
            let request = requests.just_completed(record.cpu, record.thread, pause.begin_ns);
            let flags = rule.flags.and_then(|field| field.number(record.data)).unwrap_or(0);
            let by = (flags & INTERRUPT == 0).then_some(record.thread);
            pause.waker = Some(Waker { thread: by, at_ns: record.time_ns, request });
        }
    }

    pub fn finish(&mut self, end_ns: u64) {
        for (thread, mut pause) in self.is_off.drain() {
            pause.end_ns = end_ns.max(pause.begin_ns);
            self.pauses.entry(thread).or_default().push(pause);
        }
    }

    /// Whether scheduler events were recorded.
    pub fn is_known(&self) -> bool {
        !self.pauses.is_empty()
    }

    pub fn pauses_in(&self, thread: u32, begin_ns: u64, end_ns: u64) -> &[Pause] {
        let Some(pauses) = self.pauses.get(&thread) else { return &[] };
        let first = pauses.partition_point(|pause| pause.end_ns <= begin_ns);
        let end = pauses.partition_point(|pause| pause.begin_ns < end_ns);
        pauses.get(first..end).unwrap_or(&[])
    }

    /// Calls `each` with operation, thread, begin and end of each time in which an operation's thread was runnable but not running.
    pub fn runnable(&self, operations: &[AppOperation], mut each: impl FnMut(usize, u32, u64, u64)) {
        for (number, operation) in operations.iter().enumerate() {
            for pause in self.pauses_in(operation.thread, operation.begin_ns, operation.end_ns) {
                let begin = pause.ready_ns().max(operation.begin_ns);
                let end = pause.end_ns.min(operation.end_ns);
                if begin < end {
                    each(number, operation.thread, begin, end);
                }
            }
        }
    }
}

impl Pause {
    /// When it became runnable; the end of the pause if no waker was seen.
    pub fn ready_ns(&self) -> u64 {
        match (self.is_waiting, self.waker) {
            (false, _) => self.begin_ns,
            (true, Some(waker)) => waker.at_ns,
            (true, None) => self.end_ns,
        }
    }
}
