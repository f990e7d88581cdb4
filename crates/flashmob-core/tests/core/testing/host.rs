//! A node's surroundings.

use std::time::Duration;

use flashmob_core::node::{Host, TryRead, accept};
use flashmob_core::units::Time;
use flashmob_core::wire::hello::{Charge, Hello, RefuseReason};

/// What becomes of a read that must not block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// It is not tried: every read goes to the store.
    NotTried,
    /// It would have to wait, and goes to the store.
    Miss,
    /// It is answered at once; each byte is the lowest of its read's offset.
    Hit,
}

/// A host that agrees to everything.
#[derive(Debug, Clone)]
pub struct FakeHost {
    /// The time.
    pub now: Time,
    /// What asking for the time costs.
    pub tick: Duration,
    /// What becomes of reads.
    pub reads: Reads,
    /// The charge that it remembers.
    pub charge: Option<Charge>,
    /// Those that it accepted.
    pub accepted: Vec<(u64, u64)>,
    /// How old its extent is.
    pub age: Option<(u64, u64)>,
    /// It cannot remember another.
    pub is_full: bool,
    /// How many writes it takes without waiting.
    pub takes_writes: usize,
    /// Those that it took: where they begin, and their bytes.
    pub written: Vec<(u64, Vec<u8>)>,
}

impl FakeHost {
    /// A host at a time that stands still.
    #[must_use]
    pub fn new(now: Time, reads: Reads) -> FakeHost {
        FakeHost {
            now,
            tick: Duration::ZERO,
            reads,
            charge: None,
            accepted: Vec::new(),
            age: None,
            is_full: false,
            takes_writes: 0,
            written: Vec::new(),
        }
    }
}

impl Host for FakeHost {
    fn try_read(&mut self, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        if self.reads != Reads::Hit {
            return TryRead::Miss;
        }
        into.fill(offset_bytes as u8);
        TryRead::Hit
    }

    fn try_writes<'a>(&mut self, writes: impl Iterator<Item = (u64, &'a [u8])>) -> usize {
        let before = self.written.len();
        self.written.extend(writes.take(self.takes_writes).map(|(offset_bytes, bytes)| (offset_bytes, bytes.to_vec())));
        let count = self.written.len() - before;
        self.takes_writes -= count;
        count
    }

    fn charge(&self) -> Option<Charge> {
        self.charge
    }

    fn accepted(&self) -> Vec<(u64, u64)> {
        self.accepted.clone()
    }

    fn age(&self) -> Option<(u64, u64)> {
        self.age
    }

    fn adopt(&mut self, hello: &Hello) -> Result<(), (RefuseReason, String)> {
        if self.is_full && self.charge != hello.charge {
            return Err((RefuseReason::Store, "no space".to_string()));
        }
        hello.charge.iter().for_each(|charge| accept(&mut self.accepted, charge));
        self.charge = hello.charge;
        Ok(())
    }

    fn has_fast_reads(&self) -> bool {
        self.reads != Reads::NotTried
    }

    fn now(&mut self) -> Time {
        self.now = self.now + self.tick;
        self.now
    }
}
