//! Finds packets that were captured more than once: on several interfaces, on both sides of a bridge, or repeated by a radio.
//!
//! A copy has the IP identification of the original, a retransmission has a new one (RFC 6864 and RFC 791). Where an end does not number
//! its packets, the timestamp of data tells: no sender repeats data within a tick of its clock.

use crate::packet::Segment;

/// Packets of an end among which a copy is looked for.
const RECENT: usize = 8;
/// Copies come this soon: longer than a bridge or an access point holds a packet, shorter than identifications need to come again.
const SOON_NS: i64 = 100_000_000;
/// Copies of data without identification come this soon: shorter than any retransmission timeout (RFC 6298 asks for a second, Linux for 200 ms).
const SOON_STAMPED_NS: i64 = 10_000_000;

/// The last packets of an end.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    recent: [Option<Segment>; RECENT],
    at: usize,
    /// The end's packets have different identifications.
    are_numbered: bool,
}

impl Copies {
    /// Adds a packet of the end; true if it is a copy of one of the last.
    pub fn is_copy(&mut self, segment: &Segment) -> bool {
        let recent = self.recent.iter().flatten();
        let is_copy = recent.clone().any(|one| {
            let since_ns = segment.time_ns - one.time_ns;
            let is_equal =
                Segment { time_ns: one.time_ns, number: one.number, ..*segment } == *one && since_ns <= SOON_NS;
            // No SYN is repeated so soon, whatever its identification.
            if segment.is_syn && since_ns <= SOON_STAMPED_NS {
                return is_equal;
            }
            match segment.identification {
                Some(identification) if identification != 0 => is_equal && self.are_numbered,
                _ => {
                    is_equal
                        && segment.data_bytes > 0
                        && segment.options.timestamps.is_some()
                        && since_ns <= SOON_STAMPED_NS
                }
            }
        });
        if is_copy {
            return true;
        }
        self.are_numbered |= recent.clone().any(|one| one.identification != segment.identification);
        self.recent[self.at] = Some(*segment);
        self.at = (self.at + 1) % RECENT;
        false
    }
}
