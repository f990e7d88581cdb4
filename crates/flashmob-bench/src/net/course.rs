//! The course of a transfer: its agreed end, and the actual one.

use std::time::Duration;

/// The agreed course of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Time before counting begins.
    pub omit: Duration,
    /// Time that counts.
    pub time: Option<Duration>,
    /// Bytes in each direction.
    pub bytes: Option<u64>,
    /// Senders of this end stop after that many bytes, and not only at the end.
    pub stops_at_bytes: bool,
    /// Interval of reports, if any.
    pub interval: Option<Duration>,
    /// Time without progress after which the other end is considered gone.
    pub silence: Duration,
    /// Limit of the total time.
    pub limit: Option<Duration>,
    /// This end ends the transfer.
    pub is_leading: bool,
}

impl Course {
    /// Bytes that this end may send in each direction.
    pub fn limit_bytes(&self) -> i64 {
        let bytes = self.bytes.filter(|_| self.stops_at_bytes);
        bytes.map_or(i64::MAX, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

/// Why a transfer ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// Its time is over, or all bytes were transferred.
    Over,
    /// The other end sent a byte.
    Said(u8),
    /// The other end closed the control connection.
    Closed,
    /// No progress for too long.
    Silent,
    /// All data connections ended early.
    Dead,
    /// It exceeded its time limit.
    Late,
    /// The user cancelled it.
    Cancelled,
}
