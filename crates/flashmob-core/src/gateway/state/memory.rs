//! The memory budget, and which client is next for it.

use std::time::Duration;

use super::arrivals::Arrivals;
use super::clients::{ClientId, Clients};
use crate::buffers::{Budget, BufferPool};
use crate::units::{MIB, Time};

/// How long a client that waits for memory keeps others from reserving any.
const FIRST_IN_LINE_FOR: Duration = Duration::from_secs(1);
/// Most bytes of unused buffers for reads of several pieces that are kept.
const JOINED_BYTES_KEPT: usize = 8 * MIB as usize;

/// The memory of a gateway.
#[derive(Debug)]
pub struct Memory {
    pub budget: Budget,
    /// Buffers in which the parts of reads are joined.
    pub buffers: BufferPool,
    /// The memory that large writes hold which have arrived in part.
    pub arrivals: Arrivals,
    /// A client that was held back has read answers, or a large write has arrived.
    pub retry_blocked: bool,
    /// The client that is first for memory, and until when at most.
    first_in_line: Option<(ClientId, Time)>,
    /// Bytes that were reserved when held-back clients were last resumed.
    used_bytes_at_turn: u64,
    /// The slot of the blocked client that came first last time.
    turn_first: usize,
}

impl Memory {
    pub fn new(limit_bytes: u64) -> Memory {
        Memory {
            budget: Budget::new(limit_bytes),
            buffers: BufferPool::new(JOINED_BYTES_KEPT),
            arrivals: Arrivals::default(),
            retry_blocked: false,
            first_in_line: None,
            used_bytes_at_turn: 0,
            turn_first: 0,
        }
    }

    /// The clients that a limit holds back, in the order in which they are resumed.
    ///
    /// It begins behind the client that came first last time. A first client that still finds too little memory keeps its turn for a
    /// while, and no other reserves any: otherwise a large request would wait for ever beside small ones.
    pub fn line_up(&mut self, now: Time, clients: &Clients) -> Vec<ClientId> {
        let mut blocked: Vec<ClientId> = clients.iter().filter(|(_, c)| c.blocked).map(|(id, _)| id).collect();
        let Some(last) = blocked.last() else { return blocked };
        let is_blocked = |id| clients.get(id).is_some_and(|c| c.blocked);
        if self.first_in_line.is_none_or(|(id, until)| now >= until || !is_blocked(id)) {
            let first = if last.index <= self.turn_first { 0 } else { self.turn_first + 1 };
            let split = blocked.partition_point(|id| id.index < first);
            blocked.rotate_left(split);
            self.turn_first = blocked[0].index;
            self.first_in_line = Some((blocked[0], now + FIRST_IN_LINE_FOR));
        } else if let Some(at) = blocked.iter().position(|id| self.first_in_line.is_some_and(|(first, _)| first == *id))
        {
            blocked.swap(0, at);
        }
        blocked
    }

    /// Held-back clients were resumed.
    pub fn end_turn(&mut self) {
        self.used_bytes_at_turn = self.budget.used_bytes();
    }

    /// Whether held-back clients may go on: memory was freed since they were last resumed, or one of them has read answers.
    pub fn may_go_on(&self) -> bool {
        self.retry_blocked || self.budget.used_bytes() < self.used_bytes_at_turn
    }

    /// Whether another client is first in line.
    pub fn is_turn_of_another(&self, id: ClientId, clients: &Clients) -> bool {
        self.first_in_line
            .is_some_and(|(first, _)| first != id && clients.get(first).is_some_and(|c| c.blocked && c.is_short))
    }

    /// The most that one of `clients` may hold: one that does not read its answers must not hold all of the memory.
    pub fn share_bytes(&self, clients: usize) -> u64 {
        self.budget.limit_bytes() / (clients as u64).clamp(2, 16)
    }
}
