//! Data of a direction that the capture lost: acknowledged, and never captured.
//!
//! Data may be captured up to [`DISORDER_NS`] after their acknowledgement, where packets come from several queues.

use crate::clock::DISORDER_NS;
use crate::premise::Broken;
use crate::sequence::Seen;

/// Maximum window (RFC 7323, section 2.3): no more can be in flight.
const WINDOW_BYTES_MAX: i64 = 1 << 30;

#[derive(Clone, Copy, Debug)]
struct Pending {
    acknowledged: i64,
    since_ns: i64,
    number: u64,
}

/// Finds lost data by acknowledgements.
#[derive(Clone, Debug, Default)]
pub struct Lacking {
    /// An acknowledgement beyond the captured data was seen, or data before it may still come.
    pending: Option<Pending>,
    last: i64,
    last_number: u64,
    fin: Option<i64>,
    /// From here on, all data were sent while the capture ran.
    is_begun: bool,
    bytes: u64,
    /// The acknowledgements that showed it.
    pub broken: Broken,
}

impl Lacking {
    /// The handshake was captured.
    pub fn opened(&mut self) {
        self.is_begun = true;
    }

    /// A FIN has this number.
    pub fn ended(&mut self, at: i64) {
        self.fin = Some(at);
    }

    /// Adds an acknowledgement, packet `number` of the capture.
    pub fn acknowledged(&mut self, seen: &mut Seen, acknowledged: i64, now_ns: i64, number: u64) {
        // A number beyond all windows is no acknowledgement of this direction's data.
        if !seen.is_open() || acknowledged - seen.whole_to() > WINDOW_BYTES_MAX {
            return;
        }
        // A FIN takes a number.
        let acknowledged =
            if self.fin.is_some_and(|fin| acknowledged == fin + 1) { acknowledged - 1 } else { acknowledged };
        if !self.is_begun {
            // Data in flight when the capture began were not captured either.
            if acknowledged > seen.whole_to() {
                seen.fill(acknowledged);
            } else {
                self.is_begun = true;
            }
            return;
        }
        if let Some(pending) = self.pending.filter(|pending| now_ns - pending.since_ns > DISORDER_NS) {
            self.settle(seen, pending);
        }
        if acknowledged > self.last {
            (self.last, self.last_number) = (acknowledged, number);
        }
        if self.pending.is_none() && acknowledged > seen.whole_to() {
            self.pending = Some(Pending { acknowledged, since_ns: now_ns, number });
        }
    }

    /// The lost bytes of the whole direction.
    pub fn finish(&mut self, seen: &mut Seen) -> u64 {
        if let Some(pending) = self.pending {
            self.settle(seen, pending);
        }
        let last = Pending { acknowledged: self.last, since_ns: 0, number: self.last_number };
        self.settle(seen, last);
        self.bytes
    }

    fn settle(&mut self, seen: &mut Seen, pending: Pending) {
        self.pending = None;
        let bytes = seen.fill(pending.acknowledged);
        if bytes > 0 {
            self.bytes += bytes;
            self.broken.by(pending.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Data from 0 to 100, then an acknowledgement of 200 at 10 ms, and the data up to there at this time.
    fn lost(data_ns: Option<i64>, is_opened: bool) -> (u64, u64) {
        let (mut seen, mut lacking) = (Seen::default(), Lacking::default());
        if is_opened {
            seen.open(0);
            lacking.opened();
        }
        seen.add(0, 100, 0, 8);
        lacking.acknowledged(&mut seen, 200, 10 * MS, 7);
        if let Some(data_ns) = data_ns {
            // An acknowledgement in between tells that time went on.
            lacking.acknowledged(&mut seen, 200, data_ns, 8);
            seen.add(100, 200, data_ns, 8);
        }
        (lacking.finish(&mut seen), lacking.broken.first.unwrap_or(0))
    }

    #[test]
    fn what_is_acknowledged_and_not_captured_is_lost() {
        assert_eq!(lost(None, true), (100, 7));
        for (after_ns, found) in [(DISORDER_NS - 1, (0, 0)), (DISORDER_NS, (0, 0)), (DISORDER_NS + 1, (100, 7))] {
            assert_eq!(lost(Some(10 * MS + after_ns), true), found, "{after_ns}");
        }
    }

    #[test]
    fn what_was_under_way_when_the_capture_began_is_not_lost() {
        assert_eq!(lost(None, false), (0, 0));
    }

    #[test]
    fn a_number_beyond_all_windows_is_no_acknowledgement() {
        for (beyond, found) in [(0, WINDOW_BYTES_MAX), (1, 0)] {
            let (mut seen, mut lacking) = (Seen::default(), Lacking::default());
            seen.open(0);
            lacking.opened();
            lacking.acknowledged(&mut seen, WINDOW_BYTES_MAX + beyond, 0, 1);
            assert_eq!(lacking.finish(&mut seen).cast_signed(), found, "{beyond}");
        }
    }

    #[test]
    fn a_fin_is_no_data() {
        let (mut seen, mut lacking) = (Seen::default(), Lacking::default());
        seen.open(0);
        lacking.opened();
        seen.add(0, 100, 0, 8);
        lacking.ended(100);
        lacking.acknowledged(&mut seen, 101, 1, 3);
        assert_eq!(lacking.finish(&mut seen), 0);
    }
}
