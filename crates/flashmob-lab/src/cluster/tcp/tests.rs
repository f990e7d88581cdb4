//! A connection over a lossy line with delay: all written bytes arrive, at the expected times.

use super::*;
use crate::random::Random;

/// One-way delay.
const DELAY: Duration = Duration::from_millis(5);

struct Line {
    connection: Connection,
    now: Time,
    /// By arrival time, then by order of sending.
    under_way: BTreeMap<(Time, u64), Segment>,
    sent: u64,
    random: Random,
    loss_percent: u64,
    /// Packets with data, without data, and retransmitted ones.
    counts: (u64, u64, u64),
    read: [Vec<u8>; 2],
}

impl Line {
    fn new(loss_percent: u64, seed: u64) -> Line {
        Line::with(Acks::Linux, loss_percent, seed)
    }

    fn with(acks: Acks, loss_percent: u64, seed: u64) -> Line {
        Line {
            connection: Connection::new(acks),
            now: Time::default(),
            under_way: BTreeMap::new(),
            sent: 0,
            random: Random::new(seed),
            loss_percent,
            counts: (0, 0, 0),
            read: [Vec::new(), Vec::new()],
        }
    }

    fn send(&mut self) {
        for side in [Side::Gateway, Side::Node] {
            while let Some(segment) = self.connection.take_segment(self.now, side) {
                self.counts.0 += u64::from(segment.data_bytes() > 0);
                self.counts.1 += u64::from(segment.data_bytes() == 0);
                self.counts.2 += u64::from(segment.is_repeated);
                self.sent += 1;
                if self.random.next() % 100 >= self.loss_percent {
                    self.under_way.insert((self.now + DELAY, self.sent), segment);
                }
            }
        }
    }

    /// Runs until nothing is left to do, or for this long.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.send();
            let arrival = self.under_way.keys().next().map(|(at, _)| *at);
            let timers = [Side::Gateway, Side::Node].into_iter().filter_map(|side| self.connection.deadline(side));
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= end) else { return };
            assert!(next >= self.now, "time ran backwards");
            self.now = next;
            while let Some(segment) = self.under_way.first_entry().filter(|e| e.key().0 <= next).map(|e| e.remove()) {
                self.connection.arrived(next, &segment);
            }
            for side in [Side::Gateway, Side::Node] {
                self.connection.handle_timeout(next, side);
                let read = &mut self.read[side as usize];
                self.connection.read(side, |bytes| read.extend_from_slice(bytes));
            }
        }
    }
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn whatever_is_lost_everything_arrives_once_and_in_order() {
    for (loss_percent, seed) in (0..60).map(|n| (n % 6 * 10, n)) {
        let mut line = Line::new(loss_percent, seed);
        let (there, back) = (text(200_000), text(30_000));
        line.connection.write(Side::Gateway, &there);
        line.connection.write(Side::Node, &back);
        line.run(Duration::from_secs(100_000));
        assert!(line.read[Side::Node as usize] == there, "{loss_percent} %, seed {seed}");
        assert!(line.read[Side::Gateway as usize] == back, "{loss_percent} %, seed {seed}");
        assert_eq!(line.connection.deadline(Side::Gateway), None, "{loss_percent} %, seed {seed}");
        assert_eq!(line.connection.deadline(Side::Node), None, "{loss_percent} %, seed {seed}");
    }
}

#[test]
fn the_window_opens_twice_as_far_with_each_round() {
    let mut line = Line::new(0, 1);
    line.connection.write(Side::Gateway, &text(10 * 1448 + 20 * 1448 + 40 * 1448));
    line.run(Duration::from_secs(10));
    // 10, 20, and 40 segments: the third round begins after two round trips.
    assert_eq!(line.counts.0, 70);
    assert_eq!(line.counts.2, 0);
    assert_eq!(line.read[1].len(), 70 * 1448);
    assert!(line.now < Time::default() + 6 * DELAY + ACK_DELAY, "{:?}", line.now);
}

#[test]
fn a_small_packet_alone_is_acknowledged_after_40_ms_and_a_second_full_one_at_once() {
    let mut line = Line::new(0, 1);
    line.connection.write(Side::Gateway, &text(44));
    line.run(Duration::from_secs(10));
    assert_eq!((line.counts, line.now), ((1, 1, 0), Time::default() + 2 * DELAY + ACK_DELAY));
    let mut line = Line::new(0, 1);
    line.connection.write(Side::Gateway, &text(2 * 1448));
    line.run(Duration::from_secs(10));
    assert_eq!((line.counts, line.now), ((2, 1, 0), Time::default() + 2 * DELAY));
}

#[test]
fn acknowledgements_are_as_rare_as_is_asked_for() {
    for (acks, count) in [(Acks::Linux, 50), (Acks::Segments(4), 20), (Acks::Segments(8), 12), (Acks::Late, 4)] {
        let mut line = Line::with(acks, 0, 1);
        // One after the other, so that each arrives alone.
        for _ in 0..100 {
            line.connection.write(Side::Gateway, &text(1448));
            line.run(Duration::from_millis(1));
            line.now = line.now + Duration::from_millis(1);
        }
        line.run(Duration::from_secs(10));
        assert_eq!((line.counts, line.read[1].len()), ((100, count, 0), 100 * 1448), "{acks:?}");
    }
    // What is lost is told at once, as ever.
    for acks in [Acks::Segments(8), Acks::Late] {
        let mut line = Line::with(acks, 20, 3);
        line.connection.write(Side::Gateway, &text(200_000));
        line.run(Duration::from_secs(100_000));
        assert!(line.read[1] == text(200_000), "{acks:?}");
    }
}

#[test]
fn after_a_timeout_the_window_opens_again() {
    let mut line = Line::new(0, 1);
    line.connection.write(Side::Gateway, &text(100 * 1448));
    line.run(4 * DELAY);
    // All packets in flight are lost, in both directions.
    line.under_way.clear();
    let begun = line.now;
    line.run(Duration::from_secs(100));
    assert_eq!(line.read[1].len(), 100 * 1448);
    assert!(line.counts.2 >= 20, "{:?}", line.counts);
    // The timeout and a few rounds: one timeout per segment would take 40 of them.
    assert!(line.now.nanos_since(begun) < 500_000_000, "{}", line.now.nanos_since(begun));
}
