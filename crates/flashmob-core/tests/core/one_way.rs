//! Where frames are dear all links of a node count as one; but a link that says nothing holds up nobody for long.

use std::time::Duration;

use crate::testing::{GatewayBed, gateway_config, volume, welcome};
use flashmob_core::gateway::{ClientId, LinkId, VolumeSpec};
use flashmob_core::op::Op;

const SIZE_BYTES: u64 = 1 << 30;
/// There and back: longer than where frames are cheap.
const WAY: Duration = Duration::from_millis(2);

struct Bed {
    bed: GatewayBed,
    client: ClientId,
    reads: u64,
}

impl Bed {
    fn new(links: u16) -> Bed {
        let timeout = Duration::from_secs(30);
        let mut bed = GatewayBed::new(gateway_config(VolumeSpec { links, timeout, ..volume(&[SIZE_BYTES]) }));
        (0..usize::from(links)).for_each(|link| bed.link(link, &welcome(SIZE_BYTES)));
        let client = bed.gateway.native_opened(0).unwrap();
        let mut bed = Bed { bed, client, reads: 0 };
        // The first answer tells how long the way is.
        bed.read();
        bed.answer(0);
        assert_eq!(bed.bed.ended(), 1);
        bed
    }

    fn read(&mut self) {
        self.reads += 1;
        self.bed.submit(self.client, Op::Read, self.reads * 4096, 1);
        self.bed.turn();
    }

    fn has_out(&self, link: usize) -> bool {
        self.bed.gateway.link_has_out(LinkId(link))
    }

    /// Answers all batches on a link, as far away as it is.
    fn answer(&mut self, link: usize) {
        self.bed.pass(WAY);
        self.bed.answer(link);
        self.bed.turn();
    }
}

#[test]
fn the_first_link_carries_everything_within_one_window() {
    let mut bed = Bed::new(3);
    for _ in 0..4 {
        (0..5).for_each(|_| bed.read());
        assert!(bed.has_out(0) && !bed.has_out(1) && !bed.has_out(2));
        for _ in 0..3 {
            bed.answer(0);
        }
        assert_eq!(bed.bed.ended(), 5);
    }
}

#[test]
fn behind_a_link_that_says_nothing_others_go_on_after_two_seconds() {
    let mut bed = Bed::new(2);
    (0..5).for_each(|_| bed.read());
    bed.bed.pass(Duration::from_millis(1_999));
    assert!(bed.has_out(0) && !bed.has_out(1), "the window is full");
    bed.bed.pass(Duration::from_millis(1));
    assert!(bed.has_out(1), "what waits goes another way");
    bed.answer(1);
    assert_eq!(bed.bed.ended(), 3);
    // More goes there too, for as long as it lasts.
    bed.read();
    bed.answer(1);
    assert_eq!(bed.bed.ended(), 1);
    // It is heard again: what it had out is answered, once, and it is the first again.
    bed.answer(0);
    assert_eq!(bed.bed.ended(), 2);
    bed.read();
    assert!(bed.has_out(0) && !bed.has_out(1));
    bed.answer(0);
    assert_eq!(bed.bed.ended(), 1);
}

#[test]
fn where_no_link_is_heard_the_first_is_as_good_as_any_and_nothing_spins() {
    for links in [1, 2] {
        let mut bed = Bed::new(links);
        (0..9).for_each(|_| bed.read());
        bed.bed.pass(Duration::from_secs(10));
        for _ in 0..5 {
            (0..links).for_each(|link| bed.answer(usize::from(link)));
        }
        assert_eq!(bed.bed.ended(), 9);
    }
}
