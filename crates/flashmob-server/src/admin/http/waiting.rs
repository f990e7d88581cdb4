//! Open connections, of which one makes room for a newcomer while it is not being answered. Those that have proven who they are have places of their own.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flashmob_core::strangers::{Unproven, origin, to_replace};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::{ANSWERS_MAX, CONNECTIONS_MAX, SILENCE};

/// How often room is looked for that nobody has told of.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One open connection.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    number: u64,
    of: Arc<Waiting>,
}

#[derive(Debug)]
struct Open {
    from: IpAddr,
    /// When it last came nearer to being known: see [`flashmob_core::strangers`].
    stepped: Instant,
    is_proven: bool,
    answer: Answer,
    task: Option<AbortHandle>,
}

/// The answer of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The request is not complete.
    None,
    /// The request is complete, and its answer is not ready yet.
    BeingMade,
    /// The answer is being sent since then.
    Made(Instant),
}

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    open: Mutex<HashMap<u64, Open>>,
    left: Notify,
}

impl Open {
    /// Whether it may be ended: its request is not being answered, and it does not read its answer.
    fn is_silent(&self) -> bool {
        match self.answer {
            Answer::None => true,
            Answer::BeingMade => false,
            Answer::Made(at) => at.elapsed() >= SILENCE,
        }
    }
}

impl Standing {
    fn change<T: Default>(&self, change: impl FnOnce(&mut Open) -> T) -> T {
        lock(&self.of.open).get_mut(&self.number).map(change).unwrap_or_default()
    }

    /// The task that serves it, which is ended if it has to make room.
    pub fn is_served_by(&self, task: AbortHandle) {
        self.change(|open| open.task = Some(task));
    }

    /// The connection has come nearer to being known.
    pub fn step(&self) {
        self.change(|open| open.stepped = Instant::now());
    }

    /// The peer has proven who it is.
    pub fn prove(&self) {
        self.change(|open| open.is_proven = true);
    }

    /// The request is complete. Returns when there is room for an answer: those who are known have room of their own.
    pub async fn begin_answer(&self) {
        while !self.of.has_room_for_answer(self.number) {
            // Nobody tells of one that does not read its answer.
            let _ = tokio::time::timeout(LOOK_AGAIN, self.of.left.notified()).await;
        }
    }

    /// The answer is ready.
    pub fn end_answer(&self) {
        self.change(|open| open.answer = Answer::Made(Instant::now()));
        self.of.left.notify_waiters();
    }

    /// The connection has ended.
    pub fn remove(&self) {
        lock(&self.of.open).remove(&self.number);
        self.of.left.notify_waiters();
    }
}

impl Waiting {
    /// A newcomer. If there are as many as may be, one that is not being answered is ended for it; there is always one.
    pub fn add(self: &Arc<Waiting>, number: u64, from: IpAddr, was_let_in: impl Fn(IpAddr) -> bool) -> Standing {
        let mut open = lock(&self.open);
        for is_proven in [false, true] {
            let of_them = |open: &&Open| open.is_proven == is_proven;
            if open.values().filter(of_them).count() >= CONNECTIONS_MAX {
                end_one(&mut open, |open| of_them(&open) && open.is_silent(), &was_let_in);
            }
        }
        let (stepped, answer) = (Instant::now(), Answer::None);
        open.insert(number, Open { from, stepped, is_proven: false, answer, task: None });
        Standing { number, of: Arc::clone(self) }
    }

    fn has_room_for_answer(&self, number: u64) -> bool {
        let mut open = lock(&self.open);
        // It was ended meanwhile.
        let Some((is_proven, own)) = open.get(&number).map(|open| (open.is_proven, origin(Some(open.from)))) else {
            return true;
        };
        let of_them = |open: &Open| open.is_proven == is_proven && open.answer != Answer::None;
        let answers: Vec<_> = open.values().filter(|open| of_them(open)).map(|open| origin(Some(open.from))).collect();
        if answers.len() >= ANSWERS_MAX {
            // Another address that has several has no time to read them.
            let is_greedy = |from| from != own && answers.iter().filter(|other| **other == from).count() > 1;
            let may_end = |open: &Open| {
                let is_made = matches!(open.answer, Answer::Made(_));
                of_them(open) && (open.is_silent() || is_made && is_greedy(origin(Some(open.from))))
            };
            if !end_one(&mut open, may_end, &|_| false) {
                return false;
            }
        }
        if let Some(own) = open.get_mut(&number) {
            own.answer = Answer::BeingMade;
        }
        true
    }
}

/// Ends one of these. False if there is none.
fn end_one(
    open: &mut HashMap<u64, Open>,
    may_end: impl Fn(&Open) -> bool,
    was_let_in: &impl Fn(IpAddr) -> bool,
) -> bool {
    let candidates = open.iter().filter(|(_, open)| may_end(open)).map(|(&key, open)| {
        let (from, was_let_in, stepped) = (Some(open.from), was_let_in(open.from), open.stepped);
        Unproven { key, from, was_let_in, stepped }
    });
    let Some(ended) = to_replace(candidates).and_then(|key| open.remove(&key)) else { return false };
    ended.task.iter().for_each(AbortHandle::abort);
    true
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // It is consistent even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
