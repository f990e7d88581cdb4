//! Volumes with copies: which nodes are put out when some fall silent, or all of them.

use std::time::Duration;

use crate::testing::{GatewayBed, gateway_config, volume, welcome};
use flashmob_core::copies::{MapImage, Member};
use flashmob_core::gateway::{Action, ClientId, CopiesSpec, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::op::Op;
use flashmob_core::wire::hello::Welcome;

const CHUNK_BYTES: u64 = 1 << 20;
const EVICT_AFTER: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(200);

/// A volume of one chunk with a copy on each of two nodes.
struct Bed {
    bed: GatewayBed,
    client: ClientId,
    written: u64,
}

impl Bed {
    fn new() -> Bed {
        let member = |n: u8| Member {
            extent_id: [n; 16],
            boot_id: Some([n; 16]),
            seen: None,
            size_bytes: CHUNK_BYTES,
            domain: format!("node{n}"),
        };
        let map = MapImage::new([9; 16], CHUNK_BYTES, 2, vec![member(1), member(2)]).unwrap();
        let spec = VolumeSpec {
            layout: LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES },
            links: 1,
            timeout: Duration::from_secs(120),
            copies: Some(Box::new(CopiesSpec { evict_after: EVICT_AFTER, ..CopiesSpec::new(map) })),
            ..volume(&[CHUNK_BYTES; 2])
        };
        let mut bed = GatewayBed::new(gateway_config(spec));
        for link in 0..2 {
            let id = [link as u8 + 1; 16];
            // It answers no probes: all that is heard of it are its answers.
            bed.link(link, &Welcome { extent_id: id, boot_id: id, keeps_alive: false, ..welcome(CHUNK_BYTES) });
        }
        let client = bed.gateway.native_opened(0).unwrap();
        Bed { bed, client, written: 0 }
    }

    fn write(&mut self) {
        self.bed.submit(self.client, Op::Write, self.written * 512, 512);
        self.written += 1;
        self.pass(Duration::ZERO);
    }

    /// Time goes by; decisions are durable at once.
    fn pass(&mut self, time: Duration) {
        let end = self.bed.now + time;
        loop {
            self.bed.pass(STEP.min(end - self.bed.now));
            for action in self.bed.actions() {
                if let Action::Commit { volume, number, .. } = action {
                    self.bed.gateway.committed(self.bed.now, volume, number, Ok(()));
                    self.bed.turn();
                }
            }
            if self.bed.now >= end {
                return;
            }
        }
    }

    /// Writes, which the first node alone answers.
    fn first_answers_for(&mut self, time: Duration) {
        let end = self.bed.now + time;
        while self.bed.now < end {
            self.write();
            self.bed.answer(0);
            self.pass(STEP);
        }
    }

    fn evictions(&self) -> u64 {
        self.bed.gateway.copies_status(self.bed.now, 0).unwrap().counters.evictions
    }
}

#[test]
fn a_node_that_is_silent_while_the_other_answers_is_put_out() {
    let mut bed = Bed::new();
    bed.first_answers_for(EVICT_AFTER - STEP);
    assert_eq!(bed.evictions(), 0);
    bed.first_answers_for(STEP * 4);
    assert_eq!(bed.evictions(), 1);
    bed.first_answers_for(STEP);
    assert!(bed.bed.ended() > 0, "writes are acknowledged without it");
}

#[test]
fn when_all_were_silent_the_first_to_answer_has_nobody_put_out_at_once() {
    let mut bed = Bed::new();
    bed.write();
    bed.pass(Duration::from_secs(10));
    assert_eq!(bed.evictions(), 0, "it may be the network");
    bed.first_answers_for(EVICT_AFTER - STEP * 2);
    assert_eq!(bed.evictions(), 0, "the other has just as long as ever, from when the first was heard");
    bed.first_answers_for(STEP * 5);
    assert_eq!(bed.evictions(), 1);
    assert!(bed.bed.ended() > 0);
}
