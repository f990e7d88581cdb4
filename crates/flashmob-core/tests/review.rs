//! Suspicions of a review, each as a test that fails where the suspicion is true.

use std::time::{Duration, Instant};

use flashmob_core::gateway::*;
use flashmob_core::layout::LayoutKind;
use flashmob_core::node::{Host, Node, NodeConfig, StoreDone, TryRead};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::{GIB, MIB, Time};
use flashmob_core::wire::batch::{WirePiece, decode_batch, encode_batch};
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame, encode_frame};
use flashmob_core::wire::hello::{Hello, RefuseReason, Welcome};
use flashmob_core::wire::replies::RepliesEncoder;

struct Misses;
impl Host for Misses {
    fn try_read(&mut self, _: u64, _: &mut [u8]) -> TryRead {
        TryRead::Miss
    }
    fn adopt(&mut self, _: &Hello) -> Result<(), (RefuseReason, String)> {
        Ok(())
    }
    fn has_fast_reads(&self) -> bool {
        true
    }
    fn now(&mut self) -> Time {
        Time(0)
    }
}

fn hello() -> Hello {
    Hello {
        gateway_id: [1; 16],
        session: 1,
        link: 0,
        keeps_alive: true,
        attempt: 1,
        volume_id: "v".into(),
        extent: 0,
        extents: 1,
        layout: "linear".into(),
        size_bytes: 0,
    }
}

fn node() -> (Node, flashmob_core::node::LinkId) {
    let mut node = Node::new(NodeConfig {
        extent_id: [2; 16],
        boot_id: [3; 16],
        size_bytes: MIB,
        no_io: false,
        modelled: false,
        memory_bytes: 64 * MIB,
        links_max: 8,
        align_bytes: 1,
        store_depth: 8,
    });
    let link = node.link_opened();
    let mut bytes = Vec::new();
    hello().encode(&mut bytes);
    node.rx(link).unwrap().extend(&bytes);
    node.process(Time(0), link, &mut Misses);
    node.out(link).unwrap().take_all();
    (node, link)
}

fn piece(op: Op, offset_bytes: u64, len_bytes: u32) -> WirePiece {
    WirePiece { op, flags: OpFlags::NONE, offset_bytes, len_bytes }
}

fn feed(node: &mut Node, link: flashmob_core::node::LinkId, seq: u32, pieces: &[WirePiece]) {
    let mut bytes = Vec::new();
    encode_batch(&mut bytes, seq, pieces, |_| ());
    node.rx(link).unwrap().extend(&bytes);
    node.process(Time(0), link, &mut Misses);
}

/// 4,097 answers of one sequence number and outcome never fit `has_room_for`: `flush_link` turns for ever.
#[test]
fn a_peer_that_uses_a_sequence_number_twice_does_not_stop_the_node() {
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut node, link) = node();
        let outside = vec![piece(Op::Trim, 2 * MIB, 1); 4096];
        feed(&mut node, link, 7, &outside);
        feed(&mut node, link, 7, &outside);
        node.turn(Time(0), &mut Misses);
        sender.send(()).ok();
    });
    assert!(done.recv_timeout(Duration::from_secs(2)).is_ok(), "the node turns for ever, and its queue grows");
}

/// A cold read leaves an empty segment at the front; `front()` is then empty although bytes wait behind it.
/// `Links::carry_local` stops at an empty front.
#[test]
fn the_front_of_a_queue_with_bytes_is_not_empty() {
    let (mut node, link) = node();
    feed(&mut node, link, 1, &[piece(Op::Read, 0, 128 * 1024)]);
    node.turn(Time(0), &mut Misses);
    let ops = std::mem::take(node.store_ops());
    for op in ops {
        node.store_done(StoreDone { id: op.id, result: Ok(()), data: op.data, started: Time(0), finished: Time(0) });
    }
    node.turn(Time(0), &mut Misses);
    let out = node.out(link).unwrap();
    assert!(out.len() > 128 * 1024);
    assert!(!out.front().is_empty(), "{} bytes wait, the front has none", out.len());
}

/// What is answered without data counts against nothing, and is taken from a peer that never reads.
#[test]
fn a_peer_that_never_reads_is_slowed_down() {
    let (mut node, link) = node();
    let mut sent = 0;
    let pieces: Vec<WirePiece> = vec![piece(Op::Trim, 2 * MIB, 1)];
    while node.wants_bytes(link) && sent < 2_000_000 {
        feed(&mut node, link, sent, &pieces);
        sent += 1;
        node.turn(Time(0), &mut Misses);
    }
    let held = node.out(link).unwrap().len();
    assert!(
        held < 64 << 20,
        "{held} bytes wait for it, of a budget of 64 MiB; {:?} counted",
        node.status().memory_bytes
    );
}

// ---- gateway ----

struct Fake {
    gateway: Gateway,
    now: Time,
}

fn spec(layout: LayoutKind, sizes: &[Option<u64>]) -> VolumeSpec {
    VolumeSpec {
        name: "v".into(),
        id: "v".into(),
        description: String::new(),
        read_only: false,
        layout,
        batch: BatchMode::Auto,
        batch_bytes: MIB,
        links: 1,
        outstanding_batches: 2,
        timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(3),
        reconnect_min: Duration::from_millis(50),
        reconnect_max: Duration::from_secs(2),
        keep_awake: None,
        extents: sizes.iter().map(|&size_bytes| ExtentSpec { name: "n".into(), size_bytes, is_local: false }).collect(),
    }
}

impl Fake {
    fn new(layout: LayoutKind, sizes: &[Option<u64>]) -> Fake {
        let gateway = Gateway::new(GatewayConfig {
            id: [9; 16],
            session: 1,
            memory_bytes: 128 * MIB,
            clients_max: 64,
            seed: 1,
            volumes: vec![spec(layout, sizes)],
            extent_ids: Vec::new(),
        })
        .unwrap();
        Fake { gateway, now: Time(1) }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.gateway.poll_action()).collect()
    }

    fn link(&mut self, link: usize, size_bytes: u64) {
        let id = LinkId(link);
        self.gateway.handle_timeout(self.now);
        self.actions();
        self.gateway.link_connected(self.now, id);
        self.gateway.link_out(id).take_all();
        let mut bytes = Vec::new();
        Welcome {
            extent_id: [link as u8; 16],
            boot_id: [1; 16],
            size_bytes,
            no_io: false,
            modelled: false,
            keeps_alive: true,
            hello_received_ns: 0,
            welcome_sent_ns: 0,
        }
        .encode(&mut bytes);
        self.gateway.link_rx(id).extend(&bytes);
        self.gateway.process_link(self.now, id);
    }

    /// Answers everything that is out on a link with success. Returns how many pieces that were.
    fn answer(&mut self, link: usize) -> usize {
        let id = LinkId(link);
        let out = self.gateway.link_out(id).take_all();
        let (mut at, mut count) = (0, 0);
        while let Ok(Decoded::Frame(frame, taken)) = decode_frame(&out[at..]) {
            at += taken;
            let mut pieces = Vec::new();
            let seq = decode_batch(frame.meta, frame.payload.len(), &mut pieces).unwrap();
            let indices: Vec<u16> = (0..pieces.len() as u16).collect();
            let mut encoder = RepliesEncoder::default();
            encoder.clear();
            encoder.push(seq, &indices, Ok(()), 0);
            let payload = vec![0; pieces.iter().map(|p| p.reply_bytes() as usize).sum()];
            let mut bytes = Vec::new();
            let meta = |m: &mut Vec<u8>| m.extend_from_slice(encoder.finish());
            encode_frame(&mut bytes, FrameKind::Replies, meta, |p| p.extend_from_slice(&payload));
            self.gateway.link_rx(id).extend(&bytes);
            count += pieces.len();
        }
        self.gateway.process_link(self.now, id);
        count
    }
}

fn call(cookie: u64, op: Op, offset: u64, len: u32) -> NativeCall {
    let payload = if op == Op::Write { vec![1; len as usize] } else { Vec::new() };
    let spans = if op == Op::Flush { Vec::new() } else { vec![(offset, len)] };
    NativeCall { cookie, op, flags: OpFlags::NONE, spans, payload }
}

/// One node, one client, memory full of that client's writes: nobody else needs it, yet a pause of a second fails them.
#[test]
fn a_pause_shorter_than_the_timeout_fails_no_write_of_the_only_client() {
    let mut fake = Fake::new(LayoutKind::Linear, &[Some(GIB)]);
    fake.link(0, GIB);
    let client = fake.gateway.native_opened(0).unwrap();
    for n in 0..300u64 {
        fake.gateway.submit(fake.now, client, call(n, Op::Write, n * MIB, MIB as u32), &mut NoLocal);
    }
    fake.gateway.turn(fake.now, &mut NoLocal);
    fake.now = fake.now + Duration::from_millis(1100);
    fake.gateway.handle_timeout(fake.now);
    fake.gateway.turn(fake.now, &mut NoLocal);
    let failed = fake.gateway.completions().iter().filter(|c| c.result.is_err()).count();
    assert_eq!(failed, 0, "after 1.1 s of a timeout of 10 s");
}

/// The sizes that did not make a layout stay: the repaired node is refused for having another.
#[test]
fn a_node_whose_size_was_repaired_is_taken() {
    let mut fake = Fake::new(LayoutKind::Striped { stripe_bytes: 65536 }, &[Some(MIB), None]);
    fake.link(0, MIB);
    fake.link(1, 1000);
    assert!(fake.actions().iter().any(|a| matches!(a, Action::Tell(Event::NodeRefused(..)))));
    fake.gateway.link_closed(fake.now, LinkId(1), "restarted");
    for _ in 0..3 {
        fake.now = fake.now + Duration::from_secs(6);
        fake.link(1, MIB);
    }
    let refusal = fake.gateway.status().volumes[0].nodes[1].refusal.clone();
    assert!(fake.gateway.layout(0).is_some(), "{refusal:?}");
}

/// Writes that all touch one block: each answer looks at all that wait again.
#[test]
fn writes_of_one_block_take_time_in_proportion_to_their_number() {
    let run = |count: u64| {
        let mut fake = Fake::new(LayoutKind::Linear, &[Some(GIB)]);
        fake.link(0, GIB);
        let clients: Vec<_> = (0..count.div_ceil(4096)).map(|_| fake.gateway.native_opened(0).unwrap()).collect();
        for n in 0..count {
            fake.gateway.submit(fake.now, clients[(n / 4096) as usize], call(n, Op::Write, 0, 1), &mut NoLocal);
        }
        fake.gateway.turn(fake.now, &mut NoLocal);
        // To take them in costs what they are many, of course; the answers are what is judged.
        let begun = Instant::now();
        for _ in 0..500 {
            fake.answer(0);
            fake.gateway.turn(fake.now, &mut NoLocal);
        }
        begun.elapsed()
    };
    let (few, many) = (run(1000), run(32_000));
    assert!(
        many < 10 * few.max(Duration::from_millis(10)),
        "500 answers: 1,000 waiting {few:?}, 32,000 waiting {many:?}"
    );
}

/// A trim of 4 GiB over stripes of 512 bytes is walked stripe by stripe, inside the loop that serves everybody.
#[test]
fn a_long_trim_holds_up_nobody() {
    let mut fake = Fake::new(LayoutKind::Striped { stripe_bytes: 512 }, &[Some(4 * GIB), Some(4 * GIB)]);
    fake.link(0, 4 * GIB);
    fake.link(1, 4 * GIB);
    let client = fake.gateway.native_opened(0).unwrap();
    // The shortest of several: the machine may be busy, but hardly each time.
    let trim = |tag| {
        let begun = Instant::now();
        fake.gateway.submit(fake.now, client, call(tag, Op::Trim, 0, u32::MAX), &mut NoLocal);
        begun.elapsed()
    };
    let took = (1..=10).map(trim).min().unwrap();
    assert!(took < Duration::from_millis(20), "one trim: {took:?}");
}

/// A client that was held back by its own unread refusals, and has read them all, is gone on with.
#[test]
fn a_client_held_back_by_what_it_had_not_read_goes_on_once_it_has() {
    let mut fake = Fake::new(LayoutKind::Linear, &[Some(GIB)]);
    let id = fake.gateway.client_opened(fake.now).unwrap();
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(b"IHAVEOPT");
    bytes.extend_from_slice(&8u32.to_be_bytes());
    bytes.extend_from_slice(&0u32.to_be_bytes());
    bytes.extend_from_slice(b"IHAVEOPT");
    bytes.extend_from_slice(&7u32.to_be_bytes());
    bytes.extend_from_slice(&6u32.to_be_bytes());
    bytes.extend_from_slice(&[0; 6]);
    for n in 0..60_000u64 {
        bytes.extend_from_slice(&0x2560_9513u32.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 99]);
        bytes.extend_from_slice(&n.to_be_bytes());
        bytes.extend_from_slice(&[0; 12]);
    }
    fake.gateway.client_rx(id).unwrap().extend(&bytes);
    fake.gateway.process_client(fake.now, id, &mut NoLocal);
    // The shell: as long as the gateway wants a turn give it one, then write all that there is.
    let mut turns = 0;
    loop {
        fake.gateway.turn(fake.now, &mut NoLocal);
        let n = fake.gateway.client_out(id).unwrap().len();
        fake.gateway.client_wrote(id, n);
        turns += 1;
        if n == 0 || !fake.gateway.wants_turn() {
            break;
        }
    }
    assert!(
        fake.gateway.client_rx(id).unwrap().is_empty(),
        "after {turns} turns {} bytes wait undecoded and nothing wakes the loop",
        fake.gateway.client_rx(id).unwrap().len()
    );
}

/// Memory that small requests keep nearly full never has 32 MiB free at the moment a large one is looked at.
#[test]
fn a_large_write_gets_its_turn_beside_many_small_ones() {
    let mut fake = Fake::new(LayoutKind::Linear, &[Some(GIB)]);
    fake.link(0, GIB);
    let small: Vec<_> = (0..8).map(|_| fake.gateway.native_opened(0).unwrap()).collect();
    let large = fake.gateway.native_opened(0).unwrap();
    let mut cookie = 0;
    let mut submit = |fake: &mut Fake, client, len| {
        cookie += 1;
        fake.gateway.submit(fake.now, client, call(cookie, Op::Read, (cookie % 900) * MIB, len), &mut NoLocal);
    };
    for &client in &small {
        (0..64).for_each(|_| submit(&mut fake, client, MIB as u32));
    }
    submit(&mut fake, large, 32 << 20);
    for turn in 0..2000 {
        fake.gateway.turn(fake.now, &mut NoLocal);
        fake.answer(0);
        for done in std::mem::take(fake.gateway.completions()) {
            if done.client == large {
                return;
            }
            submit(&mut fake, done.client, MIB as u32);
        }
        fake.now = fake.now + Duration::from_millis(5);
        let _ = turn;
    }
    panic!("not begun after 2,000 turns in which others were served");
}

/// What is slow on a link holds up nothing behind it for long: a lone read goes while earlier writes are still open.
#[test]
fn a_lone_read_passes_a_batch_that_is_not_answered() {
    let mut fake = Fake::new(LayoutKind::Linear, &[Some(GIB)]);
    fake.link(0, GIB);
    let client = fake.gateway.native_opened(0).unwrap();
    for n in 0..3 {
        fake.gateway.submit(fake.now, client, call(n, Op::Write, n * MIB, 4096), &mut NoLocal);
    }
    fake.gateway.turn(fake.now, &mut NoLocal);
    assert!(!fake.gateway.link_out(LinkId(0)).take_all().is_empty(), "the writes are sent");
    fake.gateway.submit(fake.now, client, call(3, Op::Read, 10 * MIB, 4096), &mut NoLocal);
    fake.gateway.turn(fake.now, &mut NoLocal);
    assert!(fake.gateway.link_out(LinkId(0)).is_empty(), "it waits a moment for company");
    let due = fake.gateway.next_timeout().expect("the gateway wants to be woken for it");
    assert!(due - fake.now <= Duration::from_millis(10), "{:?}", due - fake.now);
    fake.now = due;
    fake.gateway.handle_timeout(fake.now);
    fake.gateway.turn(fake.now, &mut NoLocal);
    assert!(!fake.gateway.link_out(LinkId(0)).is_empty(), "nothing came, so it goes alone");
    let next = fake.gateway.next_timeout().expect("requests are awaited");
    assert!(next > fake.now, "and the loop may sleep");
}

/// What a broken link gives back goes on another one at once: the loop must not go to sleep before.
#[test]
fn what_a_broken_link_had_out_goes_at_once_on_another() {
    let mut fake = Fake::new(LayoutKind::Linear, &[Some(GIB)]);
    let volumes = vec![VolumeSpec { links: 2, ..spec(LayoutKind::Linear, &[Some(GIB)]) }];
    let (id, extent_ids) = ([9; 16], vec![Some([0; 16])]);
    let config = GatewayConfig { id, session: 1, memory_bytes: MIB, clients_max: 1, seed: 1, volumes, extent_ids };
    fake.gateway = Gateway::new(config).unwrap();
    fake.gateway.handle_timeout(fake.now);
    for id in [LinkId(0), LinkId(1)] {
        fake.gateway.link_connected(fake.now, id);
        fake.gateway.link_out(id).take_all();
        let mut bytes = Vec::new();
        Welcome {
            extent_id: [0; 16],
            boot_id: [1; 16],
            size_bytes: GIB,
            no_io: false,
            modelled: false,
            keeps_alive: true,
            hello_received_ns: 0,
            welcome_sent_ns: 0,
        }
        .encode(&mut bytes);
        fake.gateway.link_rx(id).extend(&bytes);
        fake.gateway.process_link(fake.now, id);
    }
    let client = fake.gateway.native_opened(0).unwrap();
    fake.gateway.submit(fake.now, client, call(1, Op::Read, 0, 4096), &mut NoLocal);
    fake.gateway.turn(fake.now, &mut NoLocal);
    let used = if fake.gateway.link_has_out(LinkId(0)) { LinkId(0) } else { LinkId(1) };
    assert!(!fake.gateway.wants_turn(), "it is sent");
    fake.gateway.link_closed(fake.now, used, "it could not be written to");
    assert!(fake.gateway.wants_turn(), "it can be sent again, and the loop may sleep for 50 ms");
    fake.gateway.turn(fake.now, &mut NoLocal);
    assert!(fake.gateway.link_has_out(LinkId(1 - used.0)) && !fake.gateway.wants_turn());
}
