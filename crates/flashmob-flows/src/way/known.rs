//! The acknowledgement and the window that the sender of a direction knew when it sent a packet.
//!
//! Near the sender these are the last captured ones. Near the receiver they are not: captured acknowledgements are still on
//! their way to the sender. There the sender's timestamps show which of them it had received (each of its packets echoes the last that it
//! received, RFC 7323); without timestamps the minimum round trip from the place of capture to the sender is used, as the handshake showed it.

use std::collections::VecDeque;

/// Tolerance of the round trip to the sender: a packet may follow its acknowledgement faster than the fastest measured one.
const SLACK_NS: i64 = 200_000;

/// An acknowledgement that has not reached the sender.
#[derive(Clone, Copy, Debug)]
struct OnItsWay {
    seen_ns: i64,
    stamp: Option<u32>,
    acknowledged: i64,
    edge: Option<i64>,
    window_bytes: i64,
}

/// The state that the sender knows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The receiver has all data before this number.
    pub acknowledged: i64,
    /// When the sender learnt it.
    pub acknowledged_ns: i64,
    /// End of the window; `None` if windows are unknown.
    pub edge: Option<i64>,
    /// When the sender learnt it.
    pub edge_ns: i64,
    /// The previous end of the window.
    pub edge_before: Option<i64>,
    /// The window that ends at `edge`.
    pub window_bytes: i64,
    /// When the sender last learnt anything.
    pub changed_ns: i64,
}

/// Tracks acknowledgements to the sender.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    on_their_way: VecDeque<OnItsWay>,
    last: Option<(i64, Option<i64>)>,
    known: Option<Known>,
    /// The last echoed timestamp, and when its acknowledgement was captured.
    stamp: Option<(u32, i64)>,
    /// Minimum round trip from here to the sender.
    distance_ns: Option<i64>,
    echoed: Option<u32>,
}

impl Knowledge {
    /// Adds the round trip to the sender that the handshake showed.
    pub fn opening(&mut self, distance_ns: i64) {
        self.shorten(distance_ns);
    }

    /// Minimum round trip from the place of capture to the sender; `None` if unknown.
    pub fn distance_ns(&self) -> Option<i64> {
        self.distance_ns
    }

    /// Adds an acknowledgement with its window; at most `limit` are kept.
    pub fn told(
        &mut self,
        now_ns: i64,
        stamp: Option<u32>,
        acknowledged: i64,
        window_bytes: Option<i64>,
        limit: usize,
    ) {
        let edge = window_bytes.map(|bytes| acknowledged + bytes);
        if self.last == Some((acknowledged, edge)) {
            return;
        }
        self.last = Some((acknowledged, edge));
        if self.on_their_way.len() >= limit.max(1)
            && let Some(oldest) = self.on_their_way.pop_front()
        {
            self.learn(oldest);
        }
        let window_bytes = window_bytes.unwrap_or(0);
        self.on_their_way.push_back(OnItsWay { seen_ns: now_ns, stamp, acknowledged, edge, window_bytes });
    }

    /// For a data packet with its echoed timestamp: the state that the sender knew, and the round trip to the sender if this packet shows it.
    pub fn at(&mut self, now_ns: i64, echo: Option<u32>) -> (Option<Known>, Option<i64>) {
        let latest_ns = now_ns.saturating_sub((self.distance_ns.unwrap_or(0) - SLACK_NS).max(0));
        while let Some(front) = self.on_their_way.front().copied() {
            let has_it = match (front.stamp, echo) {
                (Some(stamp), Some(echo)) => echo.wrapping_sub(stamp).cast_signed() >= 0,
                _ => true,
            };
            if !has_it || front.seen_ns > latest_ns {
                break;
            }
            self.on_their_way.pop_front();
            self.learn(front);
        }
        let measured = match (self.stamp, echo) {
            (Some((stamp, seen_ns)), Some(echo)) if stamp == echo && self.echoed != Some(echo) => {
                Some(now_ns - seen_ns)
            }
            _ => None,
        };
        self.echoed = echo;
        if let Some(measured) = measured {
            self.shorten(measured);
        }
        (self.known, measured)
    }

    /// Forgets when acknowledgements were captured: the clock stepped.
    pub fn forget_times(&mut self) {
        self.stamp = None;
    }

    fn shorten(&mut self, distance_ns: i64) {
        let distance_ns = distance_ns.max(0);
        self.distance_ns = Some(self.distance_ns.map_or(distance_ns, |least| least.min(distance_ns)));
    }

    fn learn(&mut self, told: OnItsWay) {
        if let Some(stamp) = told.stamp.filter(|stamp| self.stamp.is_none_or(|(last, _)| last != *stamp)) {
            self.stamp = Some((stamp, told.seen_ns));
        }
        let learnt_ns = told.seen_ns + self.distance_ns.unwrap_or(0);
        let known = self.known.get_or_insert(Known {
            acknowledged: told.acknowledged,
            acknowledged_ns: learnt_ns,
            edge: told.edge,
            edge_ns: learnt_ns,
            edge_before: None,
            window_bytes: told.window_bytes,
            changed_ns: learnt_ns,
        });
        known.changed_ns = learnt_ns;
        if told.acknowledged > known.acknowledged {
            (known.acknowledged, known.acknowledged_ns) = (told.acknowledged, learnt_ns);
        }
        if told.edge > known.edge {
            (known.edge_before, known.edge, known.edge_ns) = (known.edge, told.edge, learnt_ns);
        }
        known.window_bytes = told.window_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn near_the_sender_all_that_passed_is_known() {
        let mut knowledge = Knowledge::default();
        knowledge.opening(20_000);
        knowledge.told(10 * MS, Some(5), 1000, Some(500), 8);
        let (known, distance) = knowledge.at(10 * MS + 50_000, Some(5));
        let known = known.unwrap();
        assert_eq!((known.acknowledged, known.edge, distance), (1000, Some(1500), Some(50_000)));
        assert_eq!(knowledge.distance_ns(), Some(20_000));
    }

    #[test]
    fn near_the_receiver_echoes_say_what_is_known() {
        let mut knowledge = Knowledge::default();
        for at in 0..4 {
            knowledge.told(i64::from(at) * MS, Some(at), 1000 + i64::from(at), None, 8);
        }
        assert_eq!(knowledge.at(16 * MS, Some(1)).0.unwrap().acknowledged, 1001);
        assert_eq!(knowledge.at(17 * MS, Some(2)).0.unwrap().acknowledged, 1002);
        assert_eq!(knowledge.distance_ns(), Some(15 * MS));
    }

    #[test]
    fn without_stamps_the_opening_says_how_far_the_sender_is() {
        let mut knowledge = Knowledge::default();
        knowledge.opening(16 * MS);
        for at in 0..40 {
            knowledge.told(at * MS, None, 1000 + at, None, 64);
        }
        assert_eq!(knowledge.at(30 * MS, None).0.unwrap().acknowledged, 1014);
    }

    #[test]
    fn of_too_many_the_oldest_counts_as_known() {
        for (limit, known) in [(2, Some(1001)), (3, Some(1000)), (4, None)] {
            let mut knowledge = Knowledge::default();
            for at in 0..4_u32 {
                knowledge.told(0, Some(100 + at), 1000 + i64::from(at), None, limit);
            }
            assert_eq!(knowledge.at(MS, Some(0)).0.map(|k| k.acknowledged), known, "{limit}");
        }
    }
}
