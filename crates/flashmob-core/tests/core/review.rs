//! Suspicions of a review, each as a test that fails where the suspicion is true.

use std::time::{Duration, Instant};

use crate::testing::{self, GatewayBed, NodeBed, Reads, bytes_of, gateway_config, node_config, volume};
use flashmob_core::gateway::*;
use flashmob_core::layout::LayoutKind;
use flashmob_core::node::NodeConfig;
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::{GIB, MIB};
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::hello::Welcome;

fn bed() -> NodeBed {
    NodeBed::new(NodeConfig { store_depth: 8, ..node_config(MIB) }, Reads::Miss)
}

fn piece(op: Op, offset_bytes: u64, len_bytes: u32) -> WirePiece {
    WirePiece { op, flags: OpFlags::NONE, offset_bytes, len_bytes }
}

fn feed(bed: &mut NodeBed, seq: u32, pieces: &[WirePiece]) {
    bed.decode(bed.link, &bytes_of(|out| encode_batch(out, seq, pieces, |_| ())));
}

/// 4,097 answers of one sequence number and outcome never fit `has_room_for`: `flush_link` turns for ever.
#[test]
fn a_peer_that_uses_a_sequence_number_twice_does_not_stop_the_node() {
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bed = bed();
        let outside = vec![piece(Op::Trim, 2 * MIB, 1); 4096];
        feed(&mut bed, 7, &outside);
        feed(&mut bed, 7, &outside);
        bed.turn();
        sender.send(()).ok();
    });
    assert!(done.recv_timeout(Duration::from_secs(2)).is_ok(), "the node turns for ever, and its queue grows");
}

/// A cold read leaves an empty segment at the front; `front()` is then empty although bytes wait behind it.
/// `Links::carry_local` stops at an empty front.
#[test]
fn the_front_of_a_queue_with_bytes_is_not_empty() {
    let mut bed = bed();
    bed.sent(bed.link);
    feed(&mut bed, 1, &[piece(Op::Read, 0, 128 * 1024)]);
    bed.turn();
    bed.end_one();
    let out = bed.node.out(bed.link).unwrap();
    assert!(out.len() > 128 * 1024);
    assert!(!out.front().is_empty(), "{} bytes wait, the front has none", out.len());
}

/// What is answered without data counts against nothing, and is taken from a peer that never reads.
#[test]
fn a_peer_that_never_reads_is_slowed_down() {
    let mut bed = bed();
    let mut sent = 0;
    let pieces: Vec<WirePiece> = vec![piece(Op::Trim, 2 * MIB, 1)];
    while bed.node.wants_bytes(bed.link) && sent < 2_000_000 {
        feed(&mut bed, sent, &pieces);
        sent += 1;
        bed.turn();
    }
    let held = bed.node.out(bed.link).unwrap().len();
    assert!(
        held < 64 << 20,
        "{held} bytes wait for it, of a budget of 64 MiB; {:?} counted",
        bed.node.status().memory_bytes
    );
}

// ---- gateway ----

fn spec(layout: LayoutKind, sizes: &[Option<u64>]) -> VolumeSpec {
    let extents = sizes.iter().map(|&size_bytes| ExtentSpec { size_bytes, ..ExtentSpec::new("n") });
    VolumeSpec { layout, extents: extents.collect(), ..volume(&[]) }
}

fn fake(layout: LayoutKind, sizes: &[Option<u64>]) -> GatewayBed {
    GatewayBed::new(gateway_config(spec(layout, sizes)))
}

fn welcome(link: usize, size_bytes: u64) -> Welcome {
    Welcome { extent_id: [link as u8; 16], ..testing::welcome(size_bytes) }
}

/// One node, one client, memory full of that client's writes: nobody else needs it, yet a pause of a second fails them.
#[test]
fn a_pause_shorter_than_the_timeout_fails_no_write_of_the_only_client() {
    let mut fake = fake(LayoutKind::Linear, &[Some(GIB)]);
    fake.link(0, &welcome(0, GIB));
    let client = fake.gateway.native_opened(0).unwrap();
    for n in 0..300u64 {
        fake.submit(client, Op::Write, n * MIB, MIB as u32);
    }
    fake.turn();
    fake.now = fake.now + Duration::from_millis(1100);
    fake.gateway.handle_timeout(fake.now);
    fake.turn();
    let failed = fake.gateway.completions().iter().filter(|c| c.result.is_err()).count();
    assert_eq!(failed, 0, "after 1.1 s of a timeout of 10 s");
}

/// The sizes that did not make a layout stay: the repaired node is refused for having another.
#[test]
fn a_node_whose_size_was_repaired_is_taken() {
    let mut fake = fake(LayoutKind::Striped { stripe_bytes: 65536 }, &[Some(MIB), None]);
    fake.link(0, &welcome(0, MIB));
    fake.link(1, &welcome(1, 1000));
    assert!(fake.actions().iter().any(|a| matches!(a, Action::Tell(Event::NodeRefused(..)))));
    fake.gateway.link_closed(fake.now, LinkId(1), "restarted");
    for _ in 0..3 {
        fake.now = fake.now + Duration::from_secs(6);
        fake.link(1, &welcome(1, MIB));
    }
    let refusal = fake.gateway.status().volumes[0].nodes[1].refusal.clone();
    assert!(fake.gateway.layout(0).is_some(), "{refusal:?}");
}

/// Writes that all touch one block: each answer looks at all that wait again.
#[test]
fn writes_of_one_block_take_time_in_proportion_to_their_number() {
    let run = |count: u64| {
        let mut fake = fake(LayoutKind::Linear, &[Some(GIB)]);
        fake.link(0, &welcome(0, GIB));
        let clients: Vec<_> = (0..count.div_ceil(4096)).map(|_| fake.gateway.native_opened(0).unwrap()).collect();
        for n in 0..count {
            fake.submit(clients[(n / 4096) as usize], Op::Write, 0, 1);
        }
        fake.turn();
        // To take them in costs what they are many, of course; the answers are what is judged.
        let begun = Instant::now();
        for _ in 0..500 {
            fake.answer(0);
            fake.turn();
        }
        begun.elapsed()
    };
    // The shortest of several: the machine may be busy, but hardly each time.
    let least = |count| (0..3).map(|_| run(count)).min().unwrap();
    let (few, many) = (least(1000), least(32_000));
    assert!(
        many < 10 * few.max(Duration::from_millis(10)),
        "500 answers: 1,000 waiting {few:?}, 32,000 waiting {many:?}"
    );
}

/// A trim of 4 GiB over stripes of 512 bytes is walked stripe by stripe, inside the loop that serves everybody.
#[test]
fn a_long_trim_holds_up_nobody() {
    let mut fake = fake(LayoutKind::Striped { stripe_bytes: 512 }, &[Some(4 * GIB), Some(4 * GIB)]);
    fake.link(0, &welcome(0, 4 * GIB));
    fake.link(1, &welcome(1, 4 * GIB));
    let client = fake.gateway.native_opened(0).unwrap();
    // The shortest of several: the machine may be busy, but hardly each time.
    let mut trim = || {
        let begun = Instant::now();
        fake.submit(client, Op::Trim, 0, u32::MAX);
        begun.elapsed()
    };
    let took = (0..10).map(|_| trim()).min().unwrap();
    assert!(took < Duration::from_millis(20), "one trim: {took:?}");
}

/// A client that was held back by its own unread refusals, and has read them all, is gone on with.
#[test]
fn a_client_held_back_by_what_it_had_not_read_goes_on_once_it_has() {
    let mut fake = fake(LayoutKind::Linear, &[Some(GIB)]);
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
        fake.turn();
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
    let mut fake = fake(LayoutKind::Linear, &[Some(GIB)]);
    fake.link(0, &welcome(0, GIB));
    let small: Vec<_> = (0..8).map(|_| fake.gateway.native_opened(0).unwrap()).collect();
    let large = fake.gateway.native_opened(0).unwrap();
    let mut cookie = 0;
    let mut submit = |fake: &mut GatewayBed, client, len| {
        cookie += 1;
        fake.submit(client, Op::Read, (cookie % 900) * MIB, len);
    };
    for &client in &small {
        (0..64).for_each(|_| submit(&mut fake, client, MIB as u32));
    }
    submit(&mut fake, large, 32 << 20);
    for turn in 0..2000 {
        fake.turn();
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
    let mut fake = fake(LayoutKind::Linear, &[Some(GIB)]);
    fake.link(0, &welcome(0, GIB));
    let client = fake.gateway.native_opened(0).unwrap();
    for n in 0..3 {
        fake.submit(client, Op::Write, n * MIB, 4096);
    }
    fake.turn();
    assert!(!fake.gateway.link_out(LinkId(0)).take_all().is_empty(), "the writes are sent");
    fake.submit(client, Op::Read, 10 * MIB, 4096);
    fake.turn();
    assert!(fake.gateway.link_out(LinkId(0)).is_empty(), "it waits a moment for company");
    let due = fake.gateway.next_timeout().expect("the gateway wants to be woken for it");
    assert!(due - fake.now <= Duration::from_millis(10), "{:?}", due - fake.now);
    fake.now = due;
    fake.gateway.handle_timeout(fake.now);
    fake.turn();
    assert!(!fake.gateway.link_out(LinkId(0)).is_empty(), "nothing came, so it goes alone");
    let next = fake.gateway.next_timeout().expect("requests are awaited");
    assert!(next > fake.now, "and the loop may sleep");
}

/// What a broken link gives back goes on another one at once: the loop must not go to sleep before.
#[test]
fn what_a_broken_link_had_out_goes_at_once_on_another() {
    let mut fake = GatewayBed::new(GatewayConfig {
        memory_bytes: MIB,
        clients_max: 1,
        extent_ids: vec![Some([0; 16])],
        ..gateway_config(VolumeSpec { links: 2, ..volume(&[GIB]) })
    });
    fake.gateway.handle_timeout(fake.now);
    for link in [LinkId(0), LinkId(1)] {
        testing::welcome_link(&mut fake.gateway, fake.now, link, &welcome(0, GIB));
    }
    let client = fake.gateway.native_opened(0).unwrap();
    fake.submit(client, Op::Read, 0, 4096);
    fake.turn();
    let used = if fake.gateway.link_has_out(LinkId(0)) { LinkId(0) } else { LinkId(1) };
    assert!(!fake.gateway.wants_turn(), "it is sent");
    fake.gateway.link_closed(fake.now, used, "it could not be written to");
    assert!(fake.gateway.wants_turn(), "it can be sent again, and the loop may sleep for 50 ms");
    fake.turn();
    assert!(fake.gateway.link_has_out(LinkId(1 - used.0)) && !fake.gateway.wants_turn());
}
