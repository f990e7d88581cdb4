//! Somebody makes the volume smaller, to what holds nothing behind its end, or whatever that holds.
//!
//! For the oracle what is cut off is zeros from then on: that is what clients find there when the volume grows again. Where nothing was to be given
//! up, it has to be zeros before.

use std::time::Duration;

use flashmob_core::op::Op;
use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;

use super::World;
use super::fault::Fault;
use super::oracle::{Stamp, WriteId};
use super::scenario::{Scenario, pick};

/// Draws when the volume is made smaller, where it may grow as well.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    if scenario.growth() == 0 || rng.random_ratio(1, 3) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..8) {
        let mut at = Duration::from_micros(rng.random_range(0..span_us));
        let (chunks, gives_up) = (*pick(rng, &[1, 1, 2, 4]), rng.random_bool(0.5));
        scenario.faults.push((at, Fault::Shrink(chunks, gives_up)));
        if rng.random_ratio(1, 2) {
            // In the middle of it.
            let longest_us = *pick(rng, &[2_000, 10_000, 100_000]);
            let soon = at + Duration::from_micros(rng.random_range(0..longest_us));
            let lasts = Duration::from_micros(rng.random_range(100..50_000));
            scenario.faults.push((soon, Fault::GatewayRestart(lasts)));
        } else if rng.random_ratio(2, 3) {
            // What it has then is empty, until clients write there.
            for fault in [Fault::Grow(chunks), Fault::Shrink(chunks, false)] {
                at += Duration::from_micros(rng.random_range(1_000..100_000));
                scenario.faults.push((at, fault));
            }
        }
    }
}

/// The volume was to be made smaller.
#[derive(Debug)]
pub(super) struct Attempt {
    /// By which start of the gateway.
    session: u64,
    to_bytes: u64,
    gives_up: bool,
    /// The zeros behind its end, once it has that.
    zeros: Option<(Stamp, WriteId)>,
    /// The number with which it is on record.
    number: Option<u64>,
    ended: Option<Time>,
}

impl World {
    /// So many chunks are to be cut off, if there are more.
    pub(super) fn shrink(&mut self, chunks: u32, gives_up: bool) {
        let (now, session) = (self.ctx.now, self.gateway.session);
        let Some(core) = &mut self.gateway.core else { return };
        let Some(image) = core.map(0).filter(|image| image.chunks() > chunks) else { return };
        let to_bytes = u64::from(image.chunks() - chunks) * image.chunk_bytes();
        if core.shrink(now, 0, to_bytes, gives_up, false).is_ok() {
            self.shrinks.push(Attempt { session, to_bytes, gives_up, zeros: None, number: None, ended: None });
            self.wake_gateway();
        }
    }

    /// Whether that is under way.
    pub(super) fn is_shrinking(&self) -> bool {
        self.shrinks.last().is_some_and(|attempt| attempt.ended.is_none())
    }

    /// The volume may have shrunk for those who use it: `size_bytes` is what it has.
    pub(super) fn note_shrunk(&mut self, size_bytes: u64) {
        let (now, session, from_bytes) = (self.ctx.now, self.gateway.session, self.size_bytes);
        let attempt = self.shrinks.last_mut().filter(|attempt| attempt.ended.is_none());
        let Some(attempt) = attempt else {
            if size_bytes < from_bytes {
                self.ctx.fail(format!("the volume had {from_bytes} bytes, and has {size_bytes}"));
            }
            return;
        };
        if size_bytes < from_bytes {
            let is_it = attempt.to_bytes == size_bytes && attempt.session == session && attempt.zeros.is_none();
            if !is_it {
                let text = format!("the volume had {from_bytes} bytes, and has {size_bytes}: {attempt:?}");
                return self.ctx.fail(text);
            }
            if !attempt.gives_up {
                let asked = self.oracle.asked();
                let zeros = vec![0; (from_bytes - size_bytes) as usize];
                if let Err(text) = self.oracle.read_ended(asked, size_bytes, &zeros) {
                    return self.ctx.fail(format!("it was not to be given up: {text}"));
                }
            }
            let asked = self.oracle.asked();
            let id = self.oracle.zeros_asked(asked, (size_bytes, from_bytes));
            attempt.zeros = Some((asked, id));
        }
        if attempt.session != session {
            // What it had decided may be on record, and in no mirror.
            attempt.ended = Some(now);
            return self.end_attempt(false);
        }
        let core = self.gateway.core.as_mut().filter(|_| !self.gateway.is_former);
        let Some(core) = core else { return };
        match core.take_shrunk(0) {
            Some(Ok(resized)) => attempt.number = Some(resized.number),
            Some(Err(_)) => {
                attempt.ended = Some(now);
                return self.end_attempt(false);
            }
            None => {}
        }
        if attempt.number.is_some_and(|number| core.is_recorded(0, number)) {
            attempt.ended = Some(now);
            self.ctx.totals.shrunk += 1;
            self.end_attempt(true);
        }
    }

    /// Whether a gateway that is not in charge any more, and does not know that, may tell its clients this size.
    pub(super) fn is_for_clients_of_former(&self, size_bytes: u64) -> bool {
        let is_of_former = |attempt: &Attempt| attempt.session != self.gateway.session;
        self.shrinks.iter().any(|attempt| is_of_former(attempt) && attempt.to_bytes == size_bytes)
    }

    fn end_attempt(&mut self, has_shrunk: bool) {
        let Some((asked, id)) = self.shrinks.last_mut().and_then(|attempt| attempt.zeros.take()) else { return };
        if has_shrunk {
            // A chunk that is there again is a new one, whatever its slots held: no loss of power brings that back.
            self.oracle.write_ended(id, true, true);
        } else {
            self.oracle.abandoned(asked, Some(id), false);
        }
    }

    /// Whether a request may be refused for what it is for: that lies behind the end, or was to.
    pub(super) fn is_behind_end(&self, op: Op, spans: &[(u64, u32)], asked: Time) -> bool {
        let end = spans.iter().map(|&(at, len)| at + u64::from(len)).max().unwrap_or(0);
        let was_to_end = |attempt: &Attempt| {
            op.mutates() && end > attempt.to_bytes && attempt.ended.is_none_or(|ended| ended >= asked)
        };
        // It may be larger again by now.
        let before = self.sizes.iter().rposition(|&(since, _)| since <= asked).unwrap_or(0);
        let is_behind = || self.sizes[before..].iter().any(|&(_, size_bytes)| end > size_bytes);
        !self.shrinks.is_empty() && (is_behind() || self.shrinks.iter().any(was_to_end))
    }
}
