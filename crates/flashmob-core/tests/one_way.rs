//! Where frames are dear all links of a node count as one; but a link that says nothing holds up nobody for long.

use std::time::Duration;

use flashmob_core::gateway::{
    BatchMode, ClientId, ExtentSpec, Gateway, GatewayConfig, LinkId, NativeCall, NoLocal, VolumeSpec,
};
use flashmob_core::layout::LayoutKind;
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::batch::decode_batch;
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame, encode_frame};
use flashmob_core::wire::hello::Welcome;
use flashmob_core::wire::replies::RepliesEncoder;

const SIZE_BYTES: u64 = 1 << 30;
/// There and back: longer than where frames are cheap.
const WAY: Duration = Duration::from_millis(2);

struct Bed {
    gateway: Gateway,
    client: ClientId,
    now: Time,
    cookie: u64,
}

impl Bed {
    fn new(links: u16) -> Bed {
        let volume = VolumeSpec {
            name: "v".into(),
            id: "v".into(),
            description: String::new(),
            read_only: false,
            layout: LayoutKind::Linear,
            batch: BatchMode::Auto,
            batch_bytes: 1 << 20,
            links,
            outstanding_batches: 2,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(3),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(2),
            keep_awake: None,
            extents: vec![ExtentSpec { name: "n".into(), size_bytes: Some(SIZE_BYTES), is_local: false }],
        };
        let config = GatewayConfig {
            id: [9; 16],
            session: 1,
            memory_bytes: 1 << 27,
            clients_max: 4,
            seed: 1,
            volumes: vec![volume],
            extent_ids: Vec::new(),
        };
        let (mut gateway, now) = (Gateway::new(config).unwrap(), Time(1));
        gateway.handle_timeout(now);
        for link in (0..usize::from(links)).map(LinkId) {
            gateway.link_connected(now, link);
            gateway.link_out(link).take_all();
            let mut bytes = Vec::new();
            let (extent_id, boot_id) = ([1; 16], [1; 16]);
            Welcome {
                extent_id,
                boot_id,
                size_bytes: SIZE_BYTES,
                no_io: false,
                modelled: false,
                keeps_alive: true,
                hello_received_ns: 0,
                welcome_sent_ns: 0,
            }
            .encode(&mut bytes);
            gateway.link_rx(link).extend(&bytes);
            gateway.process_link(now, link);
        }
        let client = gateway.native_opened(0).unwrap();
        let mut bed = Bed { gateway, client, now, cookie: 0 };
        // The first answer tells how long the way is.
        bed.read();
        bed.answer(0);
        assert_eq!(bed.ended(), 1);
        bed
    }

    fn read(&mut self) {
        self.cookie += 1;
        let spans = vec![(self.cookie * 4096, 1)];
        let call = NativeCall { cookie: self.cookie, op: Op::Read, flags: OpFlags::NONE, spans, payload: Vec::new() };
        self.gateway.submit(self.now, self.client, call, &mut NoLocal);
        self.gateway.turn(self.now, &mut NoLocal);
    }

    /// Time goes by, as a shell would let it: it calls when it was told to.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for turn in 0.. {
            assert!(turn < 1000, "it spins");
            let due = self.gateway.next_timeout().filter(|due| *due <= end);
            self.now = due.unwrap_or(end).max(self.now);
            self.gateway.handle_timeout(self.now);
            self.gateway.turn(self.now, &mut NoLocal);
            if due.is_none() {
                return;
            }
        }
    }

    fn has_out(&self, link: usize) -> bool {
        self.gateway.link_has_out(LinkId(link))
    }

    /// Answers all batches on a link, as far away as it is.
    fn answer(&mut self, link: usize) {
        self.pass(WAY);
        let out = self.gateway.link_out(LinkId(link)).take_all();
        let mut at = 0;
        while let Ok(Decoded::Frame(frame, taken)) = decode_frame(&out[at..]) {
            at += taken;
            let mut pieces = Vec::new();
            let seq = decode_batch(frame.meta, frame.payload.len(), &mut pieces).unwrap();
            let indices: Vec<u16> = (0..pieces.len() as u16).collect();
            let mut encoder = RepliesEncoder::default();
            encoder.clear();
            encoder.push(seq, &indices, Ok(()), 0);
            let mut bytes = Vec::new();
            let meta = |m: &mut Vec<u8>| m.extend_from_slice(encoder.finish());
            encode_frame(&mut bytes, FrameKind::Replies, meta, |p| p.resize(p.len() + pieces.len(), 0));
            self.gateway.link_rx(LinkId(link)).extend(&bytes);
        }
        self.gateway.process_link(self.now, LinkId(link));
        self.gateway.turn(self.now, &mut NoLocal);
    }

    fn ended(&mut self) -> usize {
        let completions = std::mem::take(self.gateway.completions());
        assert!(completions.iter().all(|c| c.result.is_ok()));
        completions.len()
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
        assert_eq!(bed.ended(), 5);
    }
}

#[test]
fn behind_a_link_that_says_nothing_others_go_on_after_two_seconds() {
    let mut bed = Bed::new(2);
    (0..5).for_each(|_| bed.read());
    bed.pass(Duration::from_millis(1_999));
    assert!(bed.has_out(0) && !bed.has_out(1), "the window is full");
    bed.pass(Duration::from_millis(1));
    assert!(bed.has_out(1), "what waits goes another way");
    bed.answer(1);
    assert_eq!(bed.ended(), 3);
    // More goes there too, for as long as it lasts.
    bed.read();
    bed.answer(1);
    assert_eq!(bed.ended(), 1);
    // It is heard again: what it had out is answered, once, and it is the first again.
    bed.answer(0);
    assert_eq!(bed.ended(), 2);
    bed.read();
    assert!(bed.has_out(0) && !bed.has_out(1));
    bed.answer(0);
    assert_eq!(bed.ended(), 1);
}

#[test]
fn where_no_link_is_heard_the_first_is_as_good_as_any_and_nothing_spins() {
    for links in [1, 2] {
        let mut bed = Bed::new(links);
        (0..9).for_each(|_| bed.read());
        bed.pass(Duration::from_secs(10));
        for _ in 0..5 {
            (0..links).for_each(|link| bed.answer(usize::from(link)));
        }
        assert_eq!(bed.ended(), 9);
    }
}
