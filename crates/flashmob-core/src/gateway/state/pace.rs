//! How many pieces may be under way to a node while a modest client is beside a greedy one, where frames are expensive.
//!
//! Answers wait for each other in the air and in the sockets before it. Without a modest client that does no harm. Beside one, the way of
//! answers is kept near the shortest that was seen lately, by the number of pieces under way: congestion control by delay, as in TCP Vegas and
//! LEDBAT (RFC 6817). The time at the node is not part of the way: there urgent reads pass the others.

use std::time::Duration;

use crate::units::Time;

/// The limits of the window, in pieces. With the second a node has one at work while another is on its way.
const WINDOW_MAX: u32 = 1024;
const WINDOW_MIN: u32 = 2;
/// The way may take so much longer than twice the shortest: with several nodes that have something to send, each of them waits for some
/// transmissions of others.
const SLACK: Duration = Duration::from_millis(20);
/// What is under way shrinks to no less than this part of it at once.
const SHRINK_MAX: u32 = 8;

/// How long the shortest way counts: much longer than for batches, as it does not show while much is under way.
const SHORTEST_FOR: Duration = Duration::from_secs(60);

/// The shortest time of the current and the previous period.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shortest {
    current: Option<Duration>,
    before: Option<Duration>,
    since: Time,
}

impl Shortest {
    pub fn note(&mut self, now: Time, took: Duration, period: Duration) {
        if now - self.since >= period {
            (self.current, self.before, self.since) = (None, self.current, now);
        }
        self.current = Some(self.current.map_or(took, |shortest| shortest.min(took)));
    }

    /// Zero if none is known.
    pub fn get(&self) -> Duration {
        self.current.into_iter().chain(self.before).min().unwrap_or_default()
    }
}

/// The window of one node.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// In sixteenths of a piece.
    window_16: u32,
    /// What answers have added to it, in sixteenths of a sixteenth for each piece of the window, until it is one more.
    grown: u32,
    /// Answers to what was sent before say nothing about the present window.
    cut: Time,
    shortest: Shortest,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { window_16: 16 * WINDOW_MAX, grown: 0, cut: Time::default(), shortest: Shortest::default() }
    }
}

impl Pace {
    /// An urgent answer came, whose way took `way`: it is no part of the window.
    pub fn note_urgent(&mut self, now: Time, way: Duration) {
        self.shortest.note(now, way, SHORTEST_FOR);
    }

    /// An answer came while nothing is limited.
    pub fn note_free(&mut self, now: Time, way: Duration) {
        self.shortest.note(now, way, SHORTEST_FOR);
        self.window_16 = 16 * WINDOW_MAX;
    }

    /// `count` pieces, sent at `sent`, are answered at `now`, `way` of that without the time at the node; `out` others are under way.
    pub fn note(&mut self, now: Time, (sent, count, out): (Time, usize, usize), way: Duration) {
        self.shortest.note(now, way, SHORTEST_FOR);
        let target = 2 * self.shortest.get() + SLACK;
        let [count, out] = [count, out].map(|pieces| pieces.min(WINDOW_MAX as usize) as u32);
        if way <= target {
            // One piece more for each window that is answered in time, if it is used.
            if 16 * (count + out) >= self.window_16 / 2 {
                self.grown += 16 * 16 * count;
                let more = self.grown / self.window_16;
                self.grown -= more * self.window_16;
                self.window_16 = (self.window_16 + more).min(16 * WINDOW_MAX);
            }
        } else if sent >= self.cut {
            (self.cut, self.grown) = (now, 0);
            let window_16 = self.window_16.min(16 * (out + count));
            let fits = u128::from(window_16) * target.as_nanos() / way.as_nanos();
            self.window_16 = (fits as u32).max(window_16 / SHRINK_MAX).max(16 * WINDOW_MIN);
        }
    }

    /// How many of `waiting` pieces may be sent, with `out` under way: none rather than a small part of the window.
    pub fn room(&self, waiting: usize, out: usize) -> usize {
        let room = self.window().saturating_sub(out);
        let least = waiting.min(self.window() / 4).max(1);
        if out > 0 && room < least { 0 } else { room }
    }

    /// Pieces that may be under way.
    fn window(&self) -> usize {
        self.window_16 as usize / 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::testing::at;

    /// The longest way that is not too long.
    const GOOD: Duration = Duration::from_millis(24);

    /// One of a node whose shortest way is 2 ms.
    fn pace() -> Pace {
        let mut pace = Pace::default();
        pace.note_free(at(0), Duration::from_millis(2));
        pace
    }

    #[test]
    fn the_window_grows_by_one_for_each_window_and_has_limits() {
        let mut pace = pace();
        pace.note(at(1), (at(0), 1, 1023), GOOD);
        assert_eq!(pace.window(), 1024, "no more than that");
        pace.note(at(2), (at(1), 8, 8), GOOD * 4);
        assert_eq!(pace.window(), 4, "of the 16 that were out, as the way took four times as long");
        (0..4).for_each(|n| pace.note(at(3 + n), (at(2), 1, 3), GOOD));
        assert_eq!(pace.window(), 4, "a little less than one more");
        pace.note(at(7), (at(2), 1, 3), GOOD);
        assert_eq!(pace.window(), 5);
        pace.note(at(8), (at(7), 1, 0), GOOD * 100);
        assert_eq!(pace.window(), 2, "no less than that");
    }

    #[test]
    fn it_shrinks_once_for_what_was_sent_before() {
        let mut pace = pace();
        pace.note(at(50), (at(0), 10, 790), GOOD * 2);
        assert_eq!(pace.window(), 400);
        pace.note(at(60), (at(49), 10, 780), GOOD * 2);
        assert_eq!(pace.window(), 400, "it was sent with the larger window");
        pace.note(at(70), (at(50), 100, 300), GOOD + Duration::from_nanos(1));
        assert_eq!(pace.window(), 399);
        pace.note(at(90), (at(80), 100, 300), Duration::MAX);
        assert_eq!(pace.window(), 49, "by no more than this at once");
    }

    #[test]
    fn it_does_not_grow_while_it_is_not_used() {
        let mut pace = pace();
        pace.note(at(1), (at(0), 16, 48), GOOD * 2);
        assert_eq!(pace.window(), 32);
        (0..99).for_each(|_| pace.note(at(2), (at(1), 8, 7), GOOD));
        assert_eq!(pace.window(), 32);
        (0..4).for_each(|_| pace.note(at(2), (at(1), 8, 9), GOOD));
        assert_eq!(pace.window(), 32);
        pace.note(at(2), (at(1), 8, 9), GOOD);
        assert_eq!(pace.window(), 33);
    }

    #[test]
    fn a_batch_is_not_a_small_part_of_the_window() {
        let mut pace = pace();
        pace.note(at(1), (at(0), 16, 48), GOOD * 2);
        assert_eq!([24, 25, 31, 32, 99].map(|out| pace.room(100, out)), [8, 0, 0, 0, 0]);
        assert_eq!([25, 30, 31].map(|out| pace.room(2, out)), [7, 2, 0], "all that waits");
        assert_eq!(pace.room(100, 0), 32);
        pace.note(at(2), (at(1), 1, 1), GOOD * 99);
        assert_eq!([0, 1, 2].map(|out| pace.room(100, out)), [2, 1, 0], "the smallest window");
    }

    #[test]
    fn the_shortest_way_is_remembered_for_a_minute() {
        let mut pace = pace();
        let congested = Duration::from_millis(500);
        (1..119).for_each(|second| pace.note(at(1000 * second), (at(1000 * second - 1), 1, 8), congested));
        assert_eq!(pace.window(), 2);
        pace.note(at(120_000), (at(119_999), 1, 8), congested);
        assert_eq!(pace.window(), 2);
        (0..40).for_each(|n| pace.note(at(121_000 + n), (at(120_999), 1, 8), congested));
        assert!(pace.window() > 2, "the way has become longer");
    }

    #[test]
    fn a_large_window_grows_by_answers_that_come_one_by_one() {
        let mut pace = pace();
        pace.note(at(1), (at(0), 16, 112), GOOD * 2);
        assert_eq!(pace.window(), 64);
        (0..64).for_each(|_| pace.note(at(2), (at(1), 1, 63), GOOD));
        assert_eq!(pace.window(), 64, "a little less than one more");
        (0..2).for_each(|_| pace.note(at(2), (at(1), 1, 63), GOOD));
        assert_eq!(pace.window(), 65);
        pace.note_urgent(at(3), GOOD * 99);
        assert_eq!(pace.window(), 65, "urgent ones say nothing about it");
    }
}
