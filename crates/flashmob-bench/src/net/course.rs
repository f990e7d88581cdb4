//! What ends the time in which data goes: what was agreed on, and what came to pass.

use std::time::Duration;

/// When it ends, and what is told meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Before anything counts.
    pub omit: Duration,
    /// What counts.
    pub time: Option<Duration>,
    /// Bytes each way.
    pub bytes: Option<u64>,
    /// Who sends here stops when that many bytes went, and not only when it is over.
    pub stops_at_bytes: bool,
    /// How often it is told how it goes; never, if there is none.
    pub interval: Option<Duration>,
    /// Nothing moved for so long: the other end is gone.
    pub silence: Duration,
    /// It never takes longer than that in all.
    pub limit: Option<Duration>,
    /// It is this end that ends it.
    pub is_leading: bool,
}

impl Course {
    /// Bytes that may be sent here each way.
    pub fn limit_bytes(&self) -> i64 {
        let bytes = self.bytes.filter(|_| self.stops_at_bytes);
        bytes.map_or(i64::MAX, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

/// Why it ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// It took its time, or moved its bytes.
    Over,
    /// The other end said a byte.
    Said(u8),
    /// The other end closed the control connection.
    Closed,
    /// Nothing moved for too long.
    Silent,
    /// All data connections ended before their time.
    Dead,
    /// It took longer than it may.
    Late,
    /// The user stopped it.
    Cancelled,
}
