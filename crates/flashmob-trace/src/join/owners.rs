//! Attribution of work to operations.

use std::collections::HashMap;

use flashmob_results::trace::{Cause, Layer};

use crate::surroundings::AppOperation;

use super::requests::Requests;
use super::schedule::{Pause, Schedule};
use super::work::{Book, Source, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its number, in the order of begins.
    pub operation: usize,
    pub cause: Cause,
}

#[derive(Debug, Default)]
pub struct Owners {
    pub of: Vec<Option<Owner>>,
    waits: Vec<Wait>,
}

/// An interval in which an operation's thread waited for a thread or device that worked for it.
#[derive(Clone, Debug)]
struct Wait {
    operation: usize,
    thread: u32,
    begin_ns: u64,
    end_ns: u64,
    /// The thread that it waited for; `None` for the device.
    on: Option<u32>,
}

/// Unattributed work of a thread.
#[derive(Debug, Default)]
struct Foreign {
    /// In the order of begins.
    ats: Vec<usize>,
    /// The longest duration: work that began earlier than this before a time has ended by then.
    longest_ns: u64,
}

/// Operations of each thread, sorted by begin.
struct ByThread(HashMap<u32, Vec<(u64, u64, usize)>>);

impl ByThread {
    fn new(operations: &[AppOperation]) -> ByThread {
        let mut map: HashMap<u32, Vec<(u64, u64, usize)>> = HashMap::new();
        for (number, operation) in operations.iter().enumerate() {
            map.entry(operation.thread).or_default().push((operation.begin_ns, operation.end_ns, number));
        }
        ByThread(map)
    }

    /// The operation that a thread was in at that time.
    fn at(&self, thread: u32, time_ns: u64) -> Option<usize> {
        let list = self.0.get(&thread)?;
        let after = list.partition_point(|(begin, ..)| *begin <= time_ns);
        let &(_, end, number) = list.get(after.checked_sub(1)?)?;
        (time_ns <= end).then_some(number)
    }
}

/// Attributes each piece of work. `works` are sorted by begin.
pub fn find(works: &[Work], operations: &[AppOperation], requests: &Requests, schedule: &Schedule) -> Owners {
    let by_thread = ByThread::new(operations);
    let request_of = |index: u32| requests.list.get(index as usize).copied();
    let direct = |thread: u32, at_ns: u64| by_thread.at(thread, at_ns);

    // First: work of the operations' own threads, and their own requests.
    let mut of: Vec<Option<Owner>> = Vec::with_capacity(works.len());
    for work in works {
        let (thread, at_ns, is_own) = match work.source {
            Source::Thread => (work.thread, work.begin_ns, true),
            Source::Request(index) => {
                let request = request_of(index);
                let (by, at_ns) = request.map_or((0, 0), |request| (request.by, request.at_ns));
                (by, at_ns, by == work.thread)
            }
        };
        let cause = if is_own { Cause::Direct } else { Cause::Waited };
        of.push(direct(thread, at_ns).map(|operation| Owner { operation, cause }));
    }

    // Second: unattributed work of threads that woke them, by thread, sorted by begin.
    let mut foreign: HashMap<u32, Foreign> = HashMap::new();
    for (at, work) in works.iter().enumerate() {
        let is_storage = matches!(work.layer, Layer::FileSystem | Layer::PageCache | Layer::Block);
        if of[at].is_none() && is_storage {
            let list = foreign.entry(work.thread).or_default();
            list.ats.push(at);
            list.longest_ns = list.longest_ns.max(work.end_ns.saturating_sub(work.begin_ns));
        }
    }
    let mut waits = Vec::new();
    for (number, operation) in operations.iter().enumerate() {
        for pause in schedule.pauses_in(operation.thread, operation.begin_ns, operation.end_ns) {
            waits.extend(wait(number, operation, pause, works, &foreign, &direct, requests, &mut of));
        }
    }

    // Third: requests of those threads, submitted within work that is attributed by now.
    let owned: HashMap<u32, Vec<(u64, u64, usize)>> = owned_by_thread(works, &of);
    for (at, work) in works.iter().enumerate() {
        let Source::Request(index) = work.source else { continue };
        let Some(request) = request_of(index).filter(|_| of[at].is_none()) else { continue };
        let within = owned.get(&request.by).and_then(|list| {
            let after = list.partition_point(|(begin, ..)| *begin <= request.at_ns);
            list[..after].iter().rev().take(8).find(|(_, end, _)| request.at_ns <= *end)
        });
        if let Some(&(_, _, operation)) = within {
            of[at] = Some(Owner { operation, cause: Cause::Waited });
        }
    }
    Owners { of, waits }
}

fn owned_by_thread(works: &[Work], of: &[Option<Owner>]) -> HashMap<u32, Vec<(u64, u64, usize)>> {
    let mut owned: HashMap<u32, Vec<(u64, u64, usize)>> = HashMap::new();
    for (work, owner) in works.iter().zip(of) {
        if let Some(owner) = owner.filter(|owner| owner.cause == Cause::Waited && work.end_ns > work.begin_ns) {
            owned.entry(work.thread).or_default().push((work.begin_ns, work.end_ns, owner.operation));
        }
    }
    owned
}

#[expect(clippy::too_many_arguments, reason = "one step of a loop, apart for its length")]
fn wait(
    number: usize,
    operation: &AppOperation,
    pause: &Pause,
    works: &[Work],
    foreign: &HashMap<u32, Foreign>,
    direct: &impl Fn(u32, u64) -> Option<usize>,
    requests: &Requests,
    of: &mut [Option<Owner>],
) -> Option<Wait> {
    let waker = pause.waker.filter(|_| pause.is_waiting)?;
    let (begin_ns, end_ns) = (pause.begin_ns.max(operation.begin_ns), waker.at_ns.min(operation.end_ns));
    if begin_ns >= end_ns {
        return None;
    }
    let wait = |on| Some(Wait { operation: number, thread: operation.thread, begin_ns, end_ns, on });
    if let Some(request) = waker.request.and_then(|index| requests.list.get(index as usize)) {
        // Woken by a completion: counts as a wait unless the request belongs to another operation.
        return match direct(request.by, request.at_ns) {
            Some(other) if other != number => None,
            _ => wait(None),
        };
    }
    let by = waker.thread?;
    let list = foreign.get(&by)?;
    let mut has_worked = false;
    let first = list.ats.partition_point(|&at| works[at].begin_ns < begin_ns.saturating_sub(list.longest_ns));
    for &at in &list.ats[first..] {
        let work = &works[at];
        if work.begin_ns > end_ns {
            break;
        }
        if work.end_ns >= begin_ns {
            has_worked = true;
            if of[at].is_none() {
                of[at] = Some(Owner { operation: number, cause: Cause::Waited });
            }
        }
    }
    if has_worked { wait(Some(by)) } else { None }
}

impl Owners {
    /// Adds the waits themselves as work of the layer that waits.
    pub fn add_waits(&mut self, book: &mut Book) {
        for wait in std::mem::take(&mut self.waits) {
            let (layer, name) = match wait.on {
                Some(thread) => (Layer::FileSystem, format!("wait for {}", named(book, thread))),
                None => (Layer::Block, "wait for the device".to_string()),
            };
            book.add(&name, Work::new(layer, wait.thread, wait.begin_ns, wait.end_ns));
            self.of.push(Some(Owner { operation: wait.operation, cause: Cause::Waited }));
        }
    }
}

/// A thread's name; a kworker's without its number, which has no meaning.
fn named(book: &Book, thread: u32) -> String {
    match book.comm(thread) {
        "" => format!("thread {thread}"),
        comm if comm.starts_with("kworker/") => "kworker".to_string(),
        comm => comm.to_string(),
    }
}
