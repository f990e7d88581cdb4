//! Volumes with copies: what a gateway that starts anew knows of a loss of power of all copies.

use std::time::Duration;

use crate::testing::{
    BLOCK, CHUNK_BYTES, FlashBed, GatewayBed, gateway_config, linked_pair, pair_map, volume, welcome,
};
use flashmob_core::copies::{MapImage, Marks, Record};
use flashmob_core::gateway::{Action, CopiesSpec, LinkId, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::hello::Welcome;

/// The map of a volume of two chunks with a copy on each of two nodes, after these records.
fn map(records: &[Record]) -> MapImage {
    let mut map = pair_map();
    records.iter().for_each(|record| map.apply(record).unwrap());
    map
}

/// A gateway that starts with a map.
fn started(map: MapImage) -> GatewayBed {
    let mut bed = linked_pair(CopiesSpec::new(map));
    settle(&mut bed);
    bed
}

/// Decisions become durable, and nodes answer.
fn settle(bed: &mut GatewayBed) {
    for _ in 0..10 {
        commit(bed);
        for link in 0..2 {
            bed.answer(link);
        }
    }
}

/// Decisions become durable.
fn commit(bed: &mut GatewayBed) {
    for _ in 0..3 {
        bed.pass(Duration::from_millis(60));
        for action in bed.actions() {
            if let Action::Commit { volume, number, .. } = action {
                bed.gateway.committed(bed.now, volume, number, Ok(()));
            }
        }
    }
}

/// What flushes of a client that has just connected come to.
fn flushes(bed: &mut GatewayBed, count: usize) -> Vec<Result<Vec<u8>, Failure>> {
    let client = bed.gateway.native_opened(0).unwrap();
    let mut results = Vec::new();
    for _ in 0..count {
        bed.submit(client, Op::Flush, 0, 0);
        settle(bed);
        results.extend(std::mem::take(bed.gateway.completions()).into_iter().map(|completion| completion.result));
    }
    results
}

#[test]
fn a_loss_that_nobody_was_told_of_is_told_by_the_next_gateway() {
    let mut bed = started(map(&[Record::Loss { count: 1 }, Record::Loss { count: 2 }, Record::Told { count: 1 }]));
    assert_eq!(flushes(&mut bed, 2), [Err(Failure::Io), Ok(Vec::new())]);
    assert_eq!(flushes(&mut bed, 1), [Ok(Vec::new())], "it was told before this client came");
    let map = bed.gateway.map(0).unwrap().clone();
    assert_eq!((map.losses(), map.losses_told()), (2, 2));
    assert_eq!(flushes(&mut started(map), 1), [Ok(Vec::new())], "and by an earlier gateway");
}

/// Both devices restart, and are linked again.
fn restart_all(bed: &mut GatewayBed, boot: u8) {
    for link in 0..2 {
        bed.gateway.link_closed(bed.now, LinkId(link), "gone");
    }
    bed.pass(Duration::from_millis(400));
    let remembered = Some((1000, 0));
    for node in 0..2 {
        let boot_id = [boot + node as u8; 16];
        bed.link(node, &Welcome { extent_id: [node as u8 + 1; 16], boot_id, remembered, ..welcome(2 * CHUNK_BYTES) });
        commit(bed);
    }
    settle(bed);
}

#[test]
fn no_loss_is_told_if_all_was_flushed_before_all_copies_lost_power() {
    for is_flushed in [true, false] {
        let mut bed = started(map(&[]));
        let client = bed.gateway.native_opened(0).unwrap();
        let write = |bed: &mut GatewayBed| {
            bed.submit(client, Op::Write, 0, 4096);
            settle(bed);
            assert_eq!(bed.ended(), 1);
        };
        write(&mut bed);
        assert_eq!(flushes(&mut bed, 1), [Ok(Vec::new())]);
        if !is_flushed {
            write(&mut bed);
        }
        assert!(bed.gateway.map(0).unwrap().marks(0).is_open);
        restart_all(&mut bed, 70);
        let told = if is_flushed { Ok(Vec::new()) } else { Err(Failure::Io) };
        assert_eq!(flushes(&mut bed, 1), [told], "{is_flushed}");
        if is_flushed {
            restart_all(&mut bed, 80);
            assert_eq!(flushes(&mut bed, 1), [Ok(Vec::new())], "nothing has changed since");
        }
    }
}

#[test]
fn a_chunk_that_may_be_torn_is_looked_at_though_one_copy_is_left() {
    let marked = |is_torn: bool| Record::Marks {
        first_chunk: 0,
        count: 1,
        marks: Marks { is_open: true, is_torn, behind: 0b10, doubtful: 0 },
    };
    for (is_torn, in_doubt) in [(false, 0), (true, 1)] {
        let spec = CopiesSpec::new(map(&[marked(is_torn)]));
        let volume = VolumeSpec {
            layout: LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES },
            copies: Some(Box::new(spec)),
            ..volume(&[2 * CHUNK_BYTES; 2])
        };
        let bed = GatewayBed::new(gateway_config(volume));
        assert_eq!(bed.gateway.copies_status(bed.now, 0).unwrap().in_doubt, in_doubt);
    }
}

#[test]
fn a_change_that_a_doubtful_copy_has_waits_for_the_copy_that_had_it_before() {
    for (boot_id, result, behind) in
        [([2; 16], Ok(()), 0b01), ([2; 16], Err(Failure::Io), 0b01), ([8; 16], Ok(()), 0b10)]
    {
        let mut bed = started(map(&[]));
        let client = bed.gateway.native_opened(0).unwrap();
        bed.submit(client, Op::Write, 0, 4096);
        commit(&mut bed);
        assert_eq!(bed.answer(1), 1, "one copy has it");
        for link in 0..2 {
            bed.gateway.link_closed(bed.now, LinkId(link), "gone");
        }
        bed.pass(Duration::from_millis(400));
        // It is no backup.
        let remembered = Some((1000, 0));
        bed.link(0, &Welcome { extent_id: [1; 16], boot_id: [7; 16], remembered, ..welcome(2 * CHUNK_BYTES) });
        commit(&mut bed);
        let marks = bed.gateway.map(0).unwrap().marks(0);
        assert_eq!((marks.behind, marks.doubtful), (0, 0b01), "the other copy may have restarted, too");
        bed.answer_with(0, |_| result);
        commit(&mut bed);
        assert_eq!(bed.ended(), 0, "and may have lost it");
        bed.link(1, &Welcome { extent_id: [2; 16], boot_id, remembered, ..welcome(2 * CHUNK_BYTES) });
        commit(&mut bed);
        assert_eq!(bed.ended(), 1);
        assert_eq!(bed.gateway.map(0).unwrap().marks(0).behind, behind, "{boot_id:?} {result:?}");
    }
}

#[test]
fn a_copy_that_failed_a_change_is_no_source_before_it_is_behind() {
    let mut bed = FlashBed::new(3, 3, 1, |_| ());
    let places: Vec<usize> = (0..3).map(|copy| bed.place_of(0, copy)).collect();
    let (fails, has_it, leaves) = (places[0], places[1], places[2]);
    // The second block of one copy is torn, so that a change of its end and of the first block fails there as a whole.
    bed.rot(0, 0, 1);
    bed.bed.submit(bed.client, Op::Write, BLOCK - 100, 200);
    bed.turn();
    (0..3).for_each(|n| bed.unlink(n));
    bed.nodes[leaves].is_silent = true;
    for n in [fails, leaves, has_it] {
        bed.until_connecting(n);
        bed.link_after(n, [0x70 + n as u8; 16]);
        bed.serve();
    }
    let marks = bed.bed.gateway.map(0).unwrap().marks(0);
    assert_eq!((marks.is_torn, marks.behind, marks.doubtful), (true, 0, 0), "all devices have restarted");
    // The device of the copy that has not answered starts once more: it is behind. Work goes on before that is durable.
    bed.unlink(leaves);
    bed.until_connecting(leaves);
    bed.link_after(leaves, [0x7f; 16]);
    for _ in 0..10 {
        bed.bed.gateway.handle_timeout(bed.bed.now);
        bed.bed.turn();
        (0..3).filter(|&n| bed.answer(n)).count();
    }
    bed.nodes[leaves].is_silent = false;
    bed.pass(Duration::from_secs(10));
    assert_eq!(bed.results(), [Ok(vec![])]);
    for copy in 0..3 {
        assert!(bed.block(0, copy, 0).ends_with(&[1; 100]), "copy {copy} has what was acknowledged");
    }
}

#[test]
fn what_a_flash_only_confirmed_is_found_though_the_other_copy_comes_later() {
    for knows in [false, true] {
        let mut bed = FlashBed::new(2, 2, 1, |spec| spec.settle_after = Duration::from_millis(100));
        let before = bed.block(0, 1, 0);
        bed.bed.submit(bed.client, Op::Write, 0, BLOCK as u32);
        bed.pass(Duration::from_secs(1));
        let after = bed.block(0, 0, 0);
        assert!(before != after && !bed.bed.gateway.map(0).unwrap().marks(0).is_open, "it is settled");
        let (honest, lies) = (bed.place_of(0, 0), bed.place_of(0, 1));
        bed.put(0, 1, 0, &before);
        (0..2).for_each(|n| bed.unlink(n));
        bed.until_connecting(lies);
        if knows {
            // It is linked, and that is not on record yet.
            bed.until_connecting(honest);
            bed.link(honest);
            bed.link_after(lies, [0x7f; 16]);
        } else {
            bed.link_after(lies, [0x7f; 16]);
            bed.pass(Duration::from_secs(3));
            assert_eq!(bed.bed.gateway.map(0).unwrap().marks(0), Marks::default(), "reads go on");
            bed.until_connecting(honest);
            bed.link(honest);
        }
        bed.pass(Duration::from_secs(3));
        assert!(bed.block(0, 0, 0) == after && bed.block(0, 1, 0) == after, "known at once: {knows}");
    }
}
