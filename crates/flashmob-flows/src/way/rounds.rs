//! Divides the time of a direction into rounds, and determines what limited the sender in each.
//!
//! A round is a round trip of the sender: from a packet to the first one sent after its acknowledgement. Anything that a
//! connection waits for shows once per round: a window opens, a loss is repaired, a buffer drains, or there is nothing to send.
//! The decision table is in docs/analyzing-packets.md.

use super::known::Known;
use crate::samples::Samples;

/// Limits of the reaction time, a quarter of the pause, within which a program that waits for buffer space continues.
const PROMPT_NS: (i64, i64) = (500_000, 1_000_000);

/// Times by what limited the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The window was full, or nearly, or closed.
    pub receiver_ns: i64,
    /// A retransmission was in progress.
    pub loss_ns: i64,
    /// There was nothing to send.
    pub application_ns: i64,
    /// None of these, and packets did not follow acknowledgements: either there was nothing to send, or they were paced.
    pub unprompted_ns: i64,
    /// None of these: packets followed acknowledgements (ACK clocking).
    pub clocked_ns: i64,
}

impl Times {
    pub fn total_ns(&self) -> i64 {
        [self.loss_ns, self.application_ns, self.unprompted_ns, self.clocked_ns]
            .into_iter()
            .fold(self.receiver_ns, i64::saturating_add)
    }
}

/// A data packet at its sender.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub now_ns: i64,
    pub begin: i64,
    pub end: i64,
    /// A retransmission.
    pub is_resent: bool,
    pub is_pushed: bool,
    /// Data of a full packet.
    pub full_bytes: i64,
    /// The last packet on the wire is not full: the sender had no more data.
    pub is_short: bool,
    pub known: Option<Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    begin_ns: i64,
    /// The round ends when this is acknowledged.
    mark: i64,
    has_loss: bool,
    is_window_full: bool,
    flight_max: i64,
    /// Time in its longest pauses: after a packet that shows that there was no more to send,
    starved_ns: i64,
    /// ended by an acknowledgement,
    prompt_ns: i64,
    /// and ended by nothing visible.
    late_ns: i64,
    longest_ns: i64,
}

/// The rounds of one way.
#[derive(Clone, Debug)]
pub struct Rounds {
    round: Option<Round>,
    pub times: Times,
    pub count: u64,
    /// Highest sequence number sent.
    sent_end: i64,
    sent_ns: i64,
    was_short: bool,
    /// The loss is repaired when this is acknowledged.
    mended_at: Option<i64>,
    /// Maximum of bytes in flight in each round without another limit, and in each with a full window.
    pub clocked_flight: Samples,
    pub full_flight: Samples,
    /// Waits with nothing in flight.
    pub idle_ms: Samples,
    /// From packet to packet, unless nothing was in flight.
    pub gap_ns: Samples,
}

impl Rounds {
    pub fn new(samples: usize) -> Rounds {
        let samples = samples.min(512);
        Rounds {
            round: None,
            times: Times::default(),
            count: 0,
            sent_end: 0,
            sent_ns: 0,
            was_short: false,
            mended_at: None,
            clocked_flight: Samples::new(samples),
            full_flight: Samples::new(samples),
            idle_ms: Samples::new(samples),
            gap_ns: Samples::new(samples),
        }
    }

    /// Adds a data packet.
    pub fn sent(&mut self, sent: &Sent) {
        let acknowledged = sent.known.map_or(sent.begin, |known| known.acknowledged);
        let Some(mut round) = self.round.take() else {
            (self.sent_end, self.sent_ns) = (sent.end, sent.now_ns);
            self.round = Some(self.packet(Round { begin_ns: sent.now_ns, mark: sent.end, ..Round::default() }, sent));
            return;
        };
        if let Some(known) = sent.known.filter(|known| known.acknowledged >= self.sent_end && !sent.is_resent) {
            self.idle(round, sent, &known);
            round = Round { begin_ns: sent.now_ns, mark: sent.end, ..Round::default() };
        } else {
            self.pause(&mut round, sent);
            if acknowledged >= round.mark {
                self.close(round, sent.now_ns);
                round = Round { begin_ns: sent.now_ns, mark: sent.end.max(self.sent_end), ..Round::default() };
            }
        }
        self.sent_end = self.sent_end.max(sent.end);
        self.sent_ns = sent.now_ns;
        self.round = Some(self.packet(round, sent));
    }

    /// Data before this number were sent, though not captured.
    pub fn reached(&mut self, number: i64) {
        self.sent_end = self.sent_end.max(number);
    }

    /// Ends the last round.
    pub fn end(&mut self, now_ns: i64) {
        if let Some(round) = self.round.take() {
            self.close(round, now_ns.max(round.begin_ns));
        }
    }

    /// Evaluates the wait before a packet with nothing in flight.
    fn idle(&mut self, round: Round, sent: &Sent, known: &Known) {
        // Times may go backwards in captures of several queues.
        let since_ns = known.acknowledged_ns.max(self.sent_ns).min(sent.now_ns);
        let wait_ns = sent.now_ns - since_ns;
        let round_ns = since_ns - round.begin_ns;
        let needed = sent.full_bytes.min(sent.end - sent.begin);
        let was_closed =
            known.edge_before.is_some_and(|edge| edge - self.sent_end < needed) && known.edge_ns > since_ns;
        if was_closed {
            let closed_ns = (known.edge_ns - since_ns).clamp(0, wait_ns);
            add(&mut self.times.receiver_ns, closed_ns);
            add(&mut self.times.application_ns, wait_ns - closed_ns);
            return self.close(round, since_ns);
        }
        self.idle_ms.add(wait_ns as f64 / 1e6);
        add(&mut self.times.application_ns, wait_ns);
        // Acknowledgements in the meantime triggered no packet either: there was nothing to send.
        if wait_ns > (round_ns / 8).max(2_000_000) {
            add(&mut self.times.application_ns, (since_ns - self.sent_ns).max(0));
            self.close(round, self.sent_ns);
        } else {
            self.close(round, since_ns);
        }
    }

    /// Evaluates a pause before a packet: was there something to send? The longest pauses of a round count, by their time.
    fn pause(&mut self, round: &mut Round, sent: &Sent) {
        let gap_ns = (sent.now_ns - self.sent_ns).max(0);
        self.gap_ns.add(gap_ns as f64);
        if gap_ns * 2 < round.longest_ns {
            return;
        }
        if gap_ns > round.longest_ns * 2 {
            (round.starved_ns, round.prompt_ns, round.late_ns) = (0, 0, 0);
        }
        round.longest_ns = round.longest_ns.max(gap_ns);
        // A sender that waits for the network or for buffer space continues right after an acknowledgement; an idle program does not.
        let since_ns = sent.known.map_or(0, |known| (sent.now_ns - known.changed_ns).max(0));
        if self.was_short {
            add(&mut round.starved_ns, gap_ns);
        } else if since_ns <= (gap_ns / 4).clamp(PROMPT_NS.0, PROMPT_NS.1) {
            add(&mut round.prompt_ns, gap_ns);
        } else {
            add(&mut round.late_ns, gap_ns);
        }
    }

    fn packet(&mut self, mut round: Round, sent: &Sent) -> Round {
        round.has_loss |= sent.is_resent;
        let acknowledged = sent.known.map_or(sent.begin, |known| known.acknowledged);
        if sent.is_resent {
            self.mended_at = Some(self.sent_end);
        }
        match self.mended_at {
            Some(end) if acknowledged < end => round.has_loss = true,
            _ => self.mended_at = None,
        }
        round.flight_max = round.flight_max.max(self.sent_end - acknowledged);
        if let Some(known) = sent.known
            && let Some(edge) = known.edge
        {
            // Linux may wait until a third of the window is free, to send larger packets.
            let near = sent.full_bytes.max(known.window_bytes / 3);
            round.is_window_full |= edge - self.sent_end < near;
        }
        self.was_short = sent.is_pushed && sent.is_short;
        round
    }

    fn close(&mut self, round: Round, end_ns: i64) {
        let took_ns = (end_ns - round.begin_ns).max(0);
        self.count += 1;
        let flight = round.flight_max as f64;
        if round.has_loss {
            add(&mut self.times.loss_ns, took_ns);
        } else if round.is_window_full {
            add(&mut self.times.receiver_ns, took_ns);
            self.full_flight.add(flight);
        } else if round.starved_ns > round.prompt_ns.saturating_add(round.late_ns) {
            add(&mut self.times.application_ns, took_ns);
        } else if round.starved_ns.saturating_add(round.late_ns) > round.prompt_ns {
            add(&mut self.times.unprompted_ns, took_ns);
            self.clocked_flight.add(flight);
        } else {
            add(&mut self.times.clocked_ns, took_ns);
            self.clocked_flight.add(flight);
        }
    }
}

/// Saturating: times of a damaged capture may jump by centuries.
fn add(sum_ns: &mut i64, more_ns: i64) {
    *sum_ns = sum_ns.saturating_add(more_ns);
}
