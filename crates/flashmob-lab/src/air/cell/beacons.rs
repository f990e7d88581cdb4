//! Beacons: the access point sends them periodically, with priority and without backoff. While no station has frames,
//! they are only counted.

use super::super::Counters;
use super::super::profile::Dcf;

#[derive(Clone, Debug)]
pub(super) struct Beacons {
    /// When the next beacon is due.
    pub(super) next_ns: u64,
    every_ns: u64,
    takes_ns: u64,
}

impl Beacons {
    pub(super) fn new(dcf: &Dcf) -> Beacons {
        Beacons { next_ns: dcf.beacon_every_ns, every_ns: dcf.beacon_every_ns, takes_ns: dcf.beacon_ns() }
    }

    /// Sends a beacon at `begins_ns`; returns its end. Beacons that were due in a long busy time are omitted.
    pub(super) fn send(&mut self, begins_ns: u64, counters: &mut Counters) -> u64 {
        self.next_ns = (begins_ns / self.every_ns + 1) * self.every_ns;
        counters.busy_ns += self.takes_ns;
        begins_ns + self.takes_ns
    }

    /// Counts all but the last that is due until `now_ns`: they do not affect any station.
    pub(super) fn skip(&mut self, now_ns: u64, counters: &mut Counters) {
        let skipped = now_ns.saturating_sub(self.next_ns) / self.every_ns;
        self.next_ns += skipped * self.every_ns;
        counters.busy_ns += skipped * self.takes_ns;
    }
}
