//! Measuring a node while clients go on.

use std::time::Duration;

use crate::testing::{CopiesBed, GatewayBed, bytes_of, frames, gateway_config, volume, welcome};
use flashmob_core::copies::Marks;
use flashmob_core::gateway::{Aspect, LinkId, MeasureError, Measurement};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::wire::batch::decode_batch;
use flashmob_core::wire::digest::put_digest_of_zeros;
use flashmob_core::wire::frame::{FrameKind, encode_frame};
use flashmob_core::wire::replies::RepliesEncoder;

const EXTENT_BYTES: u64 = 1 << 20;
const STEP: Duration = Duration::from_millis(2);

fn bed() -> GatewayBed {
    let mut spec = volume(&[EXTENT_BYTES; 2]);
    (spec.links, spec.timeout) = (1, Duration::from_secs(60));
    let mut bed = GatewayBed::new(gateway_config(spec));
    (0..2).for_each(|link| bed.link(link, &welcome(EXTENT_BYTES)));
    bed.pass(Duration::ZERO);
    bed
}

fn measurement(bed: &GatewayBed) -> Measurement {
    bed.gateway.measurement(bed.now).expect("one")
}

/// The node answers each batch [`STEP`] after it was sent, until the measurement has ended.
fn run(bed: &mut GatewayBed, link: usize) -> Measurement {
    for _ in 0..20_000 {
        bed.pass(STEP);
        bed.answer(link);
        bed.pass(Duration::ZERO);
        let measurement = measurement(bed);
        if measurement.left.is_none() {
            return measurement;
        }
    }
    panic!("it does not end");
}

#[test]
fn the_way_is_measured_by_reads_of_what_is_in_the_page_cache() {
    let mut bed = bed();
    assert_eq!(bed.gateway.measure_node(bed.now, 0, 1, Aspect::Way), Ok(()));
    let begun = measurement(&bed);
    assert_eq!((begun.node, begun.left), (1, Some(Duration::from_secs(5))));
    let way = run(&mut bed, 1);
    assert_eq!((way.trouble.clone(), way.steps.len(), way.empty_blocks), (None, 2, 0), "{way:?}");
    let (one, many) = (way.steps[0], way.steps[1]);
    assert_eq!((one.outstanding, one.request_bytes, many.outstanding, many.request_bytes), (1, 1, 8, 65_536));
    // One in each step of the time, and then eight.
    assert!((990..=1000).contains(&one.answers), "{one:?}");
    assert!((11_900..=12_000).contains(&many.answers), "{many:?}");
    assert_eq!((one.p50, one.p99), (STEP, STEP));
    let per_second = one.answers as f64 / one.took.as_secs_f64();
    assert!((495.0..505.0).contains(&per_second), "{per_second}");
    assert_eq!(bed.gateway.memory_used_bytes(), 0, "all that it took is free again");
    assert!(bed.gateway.is_idle());
}

#[test]
fn the_flash_is_measured_by_digests_of_blocks_all_over_the_extent() {
    let mut bed = bed();
    bed.gateway.measure_node(bed.now, 0, 0, Aspect::Flash).unwrap();
    let mut offsets = Vec::new();
    for _ in 0..600 {
        bed.pass(STEP);
        bed.answer_with(0, |piece| {
            assert_eq!((piece.op, piece.flags, piece.len_bytes), (Op::Digest, OpFlags::FROM_FLASH, 4096));
            offsets.push(piece.offset_bytes);
            Ok(())
        });
        bed.pass(Duration::ZERO);
    }
    assert!(offsets.iter().all(|offset| offset % 4096 == 0 && *offset < EXTENT_BYTES));
    offsets.sort_unstable();
    offsets.dedup();
    assert!(offsets.len() > 200, "{} of 256 blocks", offsets.len());
    let flash = run(&mut bed, 0);
    assert_eq!((flash.trouble, flash.steps[1].outstanding), (None, 16));
}

#[test]
fn blocks_of_zeros_are_no_flash() {
    let mut bed = bed();
    bed.gateway.measure_node(bed.now, 0, 0, Aspect::Flash).unwrap();
    let mut zeros = [0; 8];
    put_digest_of_zeros(&mut zeros);
    for _ in 0..3000 {
        bed.pass(STEP);
        let out = bed.gateway.link_out(LinkId(0)).take_all();
        let mut bytes = Vec::new();
        for batch in frames(&out).iter().filter(|frame| frame.kind == FrameKind::Batch) {
            let mut pieces = Vec::new();
            let seq = decode_batch(&batch.meta, batch.payload.len(), &mut pieces).unwrap();
            let mut replies = RepliesEncoder::default();
            replies.clear();
            (0..pieces.len()).for_each(|index| replies.push(seq, &[index as u16], Ok(()), 0));
            let put = |meta: &mut Vec<u8>| meta.extend_from_slice(replies.finish());
            let data = |data: &mut Vec<u8>| pieces.iter().for_each(|_| data.extend_from_slice(&zeros));
            bytes.extend(bytes_of(|to| encode_frame(to, FrameKind::Replies, put, data)));
        }
        bed.gateway.link_rx(LinkId(0)).extend(&bytes);
        bed.gateway.process_link(bed.now, LinkId(0));
        bed.pass(Duration::ZERO);
    }
    let flash = measurement(&bed);
    assert_eq!((flash.left, flash.steps[0].answers), (None, 0));
    assert!(flash.empty_blocks > 1000 && flash.trouble.unwrap().contains("too little is written"));
}

#[test]
fn a_node_that_does_not_answer_ends_its_measurement() {
    let mut bed = bed();
    bed.gateway.measure_node(bed.now, 0, 1, Aspect::Flash).unwrap();
    bed.pass(Duration::from_millis(6_900));
    assert!(measurement(&bed).left.is_some());
    bed.pass(Duration::from_millis(200));
    let ended = measurement(&bed);
    assert_eq!((ended.left, ended.trouble.as_deref()), (None, Some("the node did not answer in time")));
    assert!(bed.gateway.is_idle() && bed.gateway.memory_used_bytes() == 0);
    // What it answers later is nobody's.
    bed.answer(1);
    bed.pass(Duration::from_secs(1));
    assert_eq!(measurement(&bed).steps[0].answers, 0);
    assert_eq!(bed.gateway.measure_node(bed.now, 0, 1, Aspect::Way), Ok(()), "another may begin");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let mut bed = bed();
    let begin = |bed: &mut GatewayBed, number| bed.gateway.measure_node(bed.now, 0, number, Aspect::Way);
    assert_eq!(begin(&mut bed, 2), Err(MeasureError::NoNode { number: 2, count: 2 }));
    assert_eq!(begin(&mut bed, 0), Ok(()));
    assert!(matches!(begin(&mut bed, 1), Err(MeasureError::Busy(_))));
    run(&mut bed, 0);
    bed.gateway.link_closed(bed.now, LinkId(0), "gone");
    assert_eq!(begin(&mut bed, 0), Err(MeasureError::NotLinked));
    assert_eq!(begin(&mut bed, 1), Ok(()));
    bed.gateway.drain();
    assert!(bed.gateway.is_idle(), "a gateway that ends does not wait for it");
    assert_eq!(measurement(&bed).trouble.as_deref(), Some("the gateway is exiting"));
    assert_eq!(begin(&mut bed, 1), Err(MeasureError::Draining));
}

#[test]
fn a_client_goes_on_beside_it_and_links_may_break() {
    let mut copies = CopiesBed::with(4, Marks::default(), |_| ());
    let bed = &mut copies.bed;
    bed.gateway.measure_node(bed.now, 0, 1, Aspect::Way).unwrap();
    bed.pass(STEP);
    bed.gateway.link_closed(bed.now, LinkId(1), "gone");
    copies.pass(Duration::from_secs(1));
    let id = [2; 16];
    let size_bytes = 4 * CopiesBed::CHUNK_BYTES;
    let again = flashmob_core::wire::hello::Welcome { extent_id: id, boot_id: id, ..welcome(size_bytes) };
    copies.bed.link(1, &again);
    copies.pass(Duration::ZERO);
    copies.bed.submit(copies.client, Op::Write, 0, 512);
    let mut ended = 0;
    for _ in 0..4000 {
        copies.pass(STEP);
        (0..2).for_each(|link| {
            copies.bed.answer(link);
        });
        ended += copies.bed.ended();
    }
    assert_eq!(ended, 1);
    let way = measurement(&copies.bed);
    assert!(way.left.is_none() && way.trouble.is_none() && way.steps[1].answers > 1000, "{way:?}");
}
