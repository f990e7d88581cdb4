//! What a gateway records of its nodes each second, and what nodes tell it for that.

use std::time::Duration;

use crate::testing::{GatewayBed, NOW, NodeBed, Reads, bytes_of, gateway_config, hello, node_config, volume, welcome};
use flashmob_core::buckets::{Buckets, bucket_of};
use flashmob_core::gateway::{Cause, ClientId, GatewayConfig, LinkPhase, NodeSlot};
use flashmob_core::node::{LinkId, SERVICE_EVERY};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::Hello;
use flashmob_core::wire::service::{Service, decode_service, put_service};

const SECOND: Duration = Duration::from_secs(1);

fn listening() -> Hello {
    Hello { hears_service: true, ..hello() }
}

/// A batch of one read of 512 bytes.
fn read(bed: &mut NodeBed, link: LinkId, seq: u32) {
    let piece = WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: 0, len_bytes: 512 };
    bed.receive(link, &bytes_of(|out| encode_batch(out, seq, &[piece], |_| ())));
}

/// The reports that a link was sent since this was last asked.
fn reports(bed: &mut NodeBed, link: LinkId) -> Vec<Service> {
    let frames = bed.sent(link).into_iter().filter(|frame| frame.kind == FrameKind::Service);
    frames.map(|frame| decode_service(&frame.meta).unwrap()).collect()
}

#[test]
fn a_node_reports_a_second_after_its_first_work_and_is_silent_without_work() {
    let mut bed = NodeBed::greeted(node_config(4096), Reads::Hit, &listening());
    let link = bed.link;
    assert_eq!(bed.node.next_timeout(), None, "nothing to tell");
    for seq in 1..=3 {
        read(&mut bed, link, seq);
    }
    assert_eq!(bed.node.next_timeout(), Some(NOW + SERVICE_EVERY));
    bed.now = NOW + Duration::from_nanos(999_999_999);
    bed.turn();
    assert_eq!(reports(&mut bed, link), []);
    bed.now = NOW + SERVICE_EVERY;
    bed.turn();
    let [report] = reports(&mut bed, link)[..] else { panic!("no report") };
    assert_eq!((report.period_ms, report.at_once, report.store_operations, report.flash.total()), (1000, 3, 0, 3));
    assert_eq!((report.running_permille, report.starved_permille), (None, None), "the host does not know");
    assert_eq!(bed.node.next_timeout(), None);
    bed.now = bed.now + Duration::from_secs(3600);
    bed.turn();
    assert_eq!(reports(&mut bed, link), []);
    read(&mut bed, link, 4);
    bed.now = bed.now + SERVICE_EVERY;
    bed.turn();
    let [report] = reports(&mut bed, link)[..] else { panic!("no report") };
    assert_eq!((report.period_ms, report.at_once), (1000, 1), "not since the last report");
}

#[test]
fn the_time_of_the_store_is_reported() {
    let mut bed = NodeBed::greeted(node_config(4096), Reads::Miss, &listening());
    let link = bed.link;
    read(&mut bed, link, 1);
    let op = bed.ops.remove(0);
    let (started, finished) = (bed.now, bed.now + Duration::from_millis(7));
    let done = flashmob_core::node::StoreDone { id: op.id, result: Ok(()), data: op.data, started, finished };
    bed.node.store_done(done);
    bed.now = bed.now + SECOND;
    bed.turn();
    let [report] = reports(&mut bed, link)[..] else { panic!("no report") };
    assert_eq!((report.at_once, report.store_operations), (0, 1));
    assert_eq!((report.flash.total(), report.flash.0[bucket_of(7_000_000)]), (1, 1));
}

#[test]
fn each_gateway_that_asks_hears_it_once_and_no_other() {
    let mut bed = NodeBed::greeted(node_config(4096), Reads::Hit, &hello());
    let deaf = bed.link;
    let [one, same, other] = [
        Hello { gateway_id: [5; 16], ..listening() },
        Hello { gateway_id: [5; 16], link: 1, ..listening() },
        Hello { gateway_id: [6; 16], ..listening() },
    ]
    .map(|hello| bed.open_link(&hello));
    read(&mut bed, deaf, 1);
    bed.now = bed.now + SECOND;
    bed.turn();
    let counts = [deaf, one, same, other].map(|link| reports(&mut bed, link).len());
    assert_eq!(counts, [0, 1, 0, 1]);
    // When nobody is left who asks, nothing wakes the node.
    [one, same, other].into_iter().for_each(|link| bed.node.link_closed(link));
    read(&mut bed, deaf, 2);
    bed.now = bed.now + SECOND;
    bed.turn();
    read(&mut bed, deaf, 3);
    assert_eq!(bed.node.next_timeout(), None);
}

/// A gateway that records, of a volume with two nodes of 4 KiB, both linked, and a client.
fn recording() -> (GatewayBed, ClientId) {
    let config = GatewayConfig { keeps_live: true, ..gateway_config(volume(&[4096, 4096])) };
    let mut bed = GatewayBed::new(config);
    bed.link(0, &welcome(4096));
    bed.link(1, &flashmob_core::wire::hello::Welcome { extent_id: [7; 16], ..welcome(4096) });
    let client = bed.gateway.native_opened(0).expect("a client");
    (bed, client)
}

fn total(node: &NodeSlot, cause: Cause) -> u64 {
    node.causes[cause as usize].total()
}

#[test]
fn a_gateway_records_where_the_time_of_each_nodes_pieces_went() {
    let (mut bed, client) = recording();
    bed.submit(client, Op::Read, 0, 512);
    bed.now = bed.now + Duration::from_millis(3);
    bed.turn();
    bed.now = bed.now + Duration::from_millis(40);
    bed.answer(0);
    assert_eq!(bed.ended(), 1);
    let mut flash = Buckets::default();
    flash.record_n(500_000, 1);
    let id = flashmob_core::gateway::LinkId(0);
    let report = Service { period_ms: 1000, store_operations: 1, flash, ..Service::default() };
    bed.gateway.link_rx(id).extend(&bytes_of(|out| put_service(out, &report)));
    bed.gateway.process_link(bed.now, id);
    assert_eq!(bed.phase(0), LinkPhase::Ready);
    let live = bed.gateway.live_since(bed.now, 0).expect("recorded");
    assert_eq!((live.slots(100).len(), live.next_second()), (0, 0), "the second is not over");
    let live = bed.gateway.live_since(NOW + SECOND, 0).expect("recorded");
    assert_eq!((live.length_s, live.next_second()), (1, 1));
    let [slot] = &live.slots(100)[..] else { panic!("{live:?}") };
    let [(0, node)] = &slot.nodes[..] else { panic!("{slot:?}") };
    assert_eq!(node.causes[Cause::Queue as usize].0[bucket_of(3_000_000)], 1);
    assert_eq!(node.causes[Cause::Way as usize].0[bucket_of(40_000_000)], 1);
    assert_eq!(node.causes[Cause::Flash as usize].0[bucket_of(500_000)], 1);
    assert_eq!((total(node, Cause::Node), node.answered(), node.store_operations), (1, 1, 1));
    assert_eq!((node.counts.batches, node.counts.pieces, node.counts.reply_frames), (1, 1, 1));
    // 43 ms are in (40, 63] ms.
    assert_eq!(node.p50, Some(Duration::from_millis(63)));
}

#[test]
fn an_idle_time_is_not_part_of_the_second_before_it() {
    let (mut bed, client) = recording();
    bed.submit(client, Op::Read, 0, 512);
    bed.turn();
    bed.now = bed.now + Duration::from_secs(7);
    bed.answer(0);
    let live = bed.gateway.live_since(bed.now + SECOND, 0).expect("recorded");
    let slots = live.slots(100);
    let seen = slots.iter().map(|slot| (slot.first_second, slot.nodes[0].1.counts.pieces, slot.nodes[0].1.answered()));
    assert_eq!(seen.collect::<Vec<_>>(), [(0, 1, 0), (7, 0, 1)]);
    assert_eq!(slots[1].nodes[0].1.counts.reply_frames, 1);
}

#[test]
fn failures_and_resent_pieces_count_where_they_happened() {
    let (mut bed, client) = recording();
    bed.submit(client, Op::Read, 4096, 512);
    bed.turn();
    bed.answer_with(1, |_| Err(flashmob_core::op::Failure::Io));
    let live = bed.gateway.live_since(NOW + SECOND, 0).expect("recorded");
    let [(1, node)] = &live.slots(100)[0].nodes[..] else { panic!("{live:?}") };
    assert_eq!((node.counts.failures, node.answered()), (1, 1));
}

#[test]
fn a_gateway_that_does_not_record_asks_for_nothing_and_takes_no_reports() {
    for keeps_live in [false, true] {
        let config = GatewayConfig { keeps_live, ..gateway_config(volume(&[4096])) };
        let memory_bytes = config.memory_bytes;
        let mut bed = GatewayBed::new(config);
        bed.gateway.handle_timeout(bed.now);
        let id = flashmob_core::gateway::LinkId(0);
        bed.gateway.link_connected(bed.now, id);
        let sent = crate::testing::frames(&bed.gateway.link_out(id).take_all());
        assert_eq!(Hello::decode(&sent[0].meta).unwrap().hears_service, keeps_live);
        bed.gateway.link_rx(id).extend(&bytes_of(|out| welcome(4096).encode(out)));
        bed.gateway.process_link(bed.now, id);
        assert_eq!(bed.phase(0), LinkPhase::Ready);
        bed.gateway.link_rx(id).extend(&bytes_of(|out| put_service(out, &Service::default())));
        bed.gateway.process_link(bed.now, id);
        assert_eq!(bed.phase(0) == LinkPhase::Ready, keeps_live, "it was not asked for");
        assert_eq!(bed.gateway.live_since(bed.now, 0).is_some(), keeps_live);
        let (_, _, limit_bytes) = bed.gateway.status().memory_bytes;
        let taken_bytes = memory_bytes - limit_bytes;
        assert_eq!((taken_bytes > 100_000, taken_bytes < 200_000), (keeps_live, true), "{taken_bytes}");
    }
}

#[test]
fn pieces_of_a_batch_are_as_old_as_their_own_requests() {
    let (mut bed, client) = recording();
    bed.submit(client, Op::Read, 0, 512);
    bed.now = bed.now + Duration::from_millis(200);
    bed.submit(client, Op::Read, 512, 512);
    bed.submit(client, Op::Read, 1024, 512);
    bed.turn();
    bed.now = bed.now + Duration::from_millis(10);
    assert_eq!(bed.answer(0), 3);
    let live = bed.gateway.live_since(NOW + SECOND, 0).expect("recorded");
    let [(0, node)] = &live.slots(100)[0].nodes[..] else { panic!("{live:?}") };
    // Two of them took 10 ms, one 210.
    assert!(node.p50.unwrap() <= Duration::from_millis(10), "{node:?}");
    assert!(node.p99.unwrap() > Duration::from_millis(160), "{node:?}");
}

#[test]
fn a_report_makes_what_is_out_on_the_link_no_younger() {
    let (mut bed, client) = recording();
    bed.submit(client, Op::Read, 0, 512);
    bed.turn();
    let id = flashmob_core::gateway::LinkId(0);
    let report = bytes_of(|out| put_service(out, &Service::default()));
    // A link is given up at half of the timeout of 10 s, whatever its node does for others.
    for _ in 0..6 {
        bed.pass(SECOND);
        if bed.phase(0) == LinkPhase::Ready {
            bed.gateway.link_rx(id).extend(&report);
            bed.gateway.process_link(bed.now, id);
        }
    }
    assert_ne!(bed.phase(0), LinkPhase::Ready);
    // A part of an answer is a sign of life, also behind a report.
    let (mut bed, client) = recording();
    bed.submit(client, Op::Read, 0, 512);
    bed.turn();
    bed.pass(Duration::from_secs(4));
    bed.gateway.link_rx(id).extend(&[&report[..], &report[..5]].concat());
    bed.gateway.process_link(bed.now, id);
    bed.pass(Duration::from_secs(3));
    assert_eq!(bed.phase(0), LinkPhase::Ready);
}
