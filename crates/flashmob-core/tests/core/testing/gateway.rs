//! A gateway whose nodes are played by the test.

use std::time::Duration;

use super::frames::{answer_with, bytes_of, frames};
use super::spec::NOW;
use flashmob_core::gateway::{Action, ClientId, Gateway, GatewayConfig, LinkId, LinkPhase, NativeCall, NoLocal};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::batch::WirePiece;
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::Welcome;

/// A gateway, the time, and native calls.
#[derive(Debug)]
pub struct GatewayBed {
    /// The gateway.
    pub gateway: Gateway,
    /// The time.
    pub now: Time,
    cookie: u64,
}

impl GatewayBed {
    /// No link is connected yet.
    #[must_use]
    pub fn new(config: GatewayConfig) -> GatewayBed {
        GatewayBed { gateway: Gateway::new(config).expect("a layout"), now: NOW, cookie: 0 }
    }

    /// A link is connected, and its node says this. What the gateway wanted before is forgotten.
    pub fn link(&mut self, link: usize, welcome: &Welcome) {
        self.gateway.handle_timeout(self.now);
        self.actions();
        welcome_link(&mut self.gateway, self.now, LinkId(link), welcome);
    }

    /// What the gateway wants since this was last asked.
    pub fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.gateway.poll_action()).collect()
    }

    /// Where a link of the first volume's first node is in its life.
    #[must_use]
    pub fn phase(&self, link: usize) -> LinkPhase {
        self.gateway.status().volumes[0].nodes[0].links[link].phase
    }

    /// A native client makes a call of one part. Returns the call's cookie.
    pub fn submit(&mut self, client: ClientId, op: Op, offset_bytes: u64, len_bytes: u32) -> u64 {
        self.cookie += 1;
        let call = native_call(self.cookie, op, offset_bytes, len_bytes);
        self.gateway.submit(self.now, client, call, &mut NoLocal);
        self.cookie
    }

    /// One turn of the loop.
    pub fn turn(&mut self) {
        self.gateway.turn(self.now, &mut NoLocal);
    }

    /// Time goes by, as a shell would let it: it calls when it was told to.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for turn in 0.. {
            assert!(turn < 1000, "it spins");
            let due = self.gateway.next_timeout().filter(|due| *due <= end);
            self.now = due.unwrap_or(end).max(self.now);
            self.gateway.handle_timeout(self.now);
            self.turn();
            if due.is_none() {
                return;
            }
        }
    }

    /// Answers all batches that are out on a link with success. Returns how many pieces that were.
    pub fn answer(&mut self, link: usize) -> usize {
        self.answer_with(link, |_| Ok(()))
    }

    /// The same with an outcome for each piece.
    pub fn answer_with(&mut self, link: usize, mut outcome_of: impl FnMut(&WirePiece) -> Result<(), Failure>) -> usize {
        let id = LinkId(link);
        let out = self.gateway.link_out(id).take_all();
        let mut bytes = Vec::new();
        let batches = frames(&out).into_iter().filter(|frame| frame.kind == FrameKind::Batch);
        let count = batches.map(|batch| answer_with(&batch, &mut outcome_of, &mut bytes)).sum();
        self.gateway.link_rx(id).extend(&bytes);
        self.gateway.process_link(self.now, id);
        count
    }

    /// How many calls have ended since this was last asked, all with success.
    pub fn ended(&mut self) -> usize {
        let completions = std::mem::take(self.gateway.completions());
        assert!(completions.iter().all(|completion| completion.result.is_ok()));
        completions.len()
    }
}

/// A link is connected, and its node says this.
pub fn welcome_link(gateway: &mut Gateway, now: Time, link: LinkId, welcome: &Welcome) {
    gateway.link_connected(now, link);
    gateway.link_out(link).take_all();
    gateway.link_rx(link).extend(&bytes_of(|out| welcome.encode(out)));
    gateway.process_link(now, link);
}

/// A native call of one part; what it writes is ones.
#[must_use]
pub fn native_call(cookie: u64, op: Op, offset_bytes: u64, len_bytes: u32) -> NativeCall {
    let payload = if op == Op::Write { vec![1; len_bytes as usize] } else { Vec::new() };
    let spans = if op == Op::Flush { Vec::new() } else { vec![(offset_bytes, len_bytes)] };
    NativeCall { cookie, op, flags: OpFlags::NONE, spans, payload }
}
