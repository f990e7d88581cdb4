//! Bios, requests and flushes.

use flashmob_results::trace::{Layer, Role};

use super::builder::{Events, WORKER, spans, surroundings};

#[test]
fn bios_that_merge_are_one_command_and_each_is_counted() {
    let mut events = Events::default();
    for (at, sector) in (0..).zip([100, 102, 104]) {
        events.block(10 + at, WORKER, "block_bio_queue", (sector, 2), "W");
        if at > 0 {
            events.block(10 + at, WORKER, "block_bio_backmerge", (sector, 2), "W");
        }
    }
    events.block(20, WORKER, "block_rq_insert", (100, 6), "W").block(30, WORKER, "block_rq_issue", (100, 6), "W");
    // Completed in two parts.
    events.block(40, 0, "block_rq_complete", (100, 2), "W").block(50, 0, "block_rq_complete", (102, 4), "W");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let bios = spans(&timeline, Layer::Block, "bio");
    assert_eq!(
        bios.iter().map(|s| (s.begin_ns, s.end_ns, s.bytes)).collect::<Vec<_>>(),
        [(10, 30, 1024), (11, 30, 1024), (12, 30, 1024)]
    );
    let [elevator] = spans(&timeline, Layer::Block, "elevator")[..] else { panic!() };
    assert_eq!((elevator.begin_ns, elevator.end_ns), (20, 30));
    let [command] = spans(&timeline, Layer::Driver, "write")[..] else { panic!() };
    assert_eq!((command.begin_ns, command.end_ns, command.bytes, command.address_bytes), (30, 50, 3072, Some(51_200)));
    assert_eq!(command.operation, Some(0));
}

#[test]
fn a_bio_that_is_split_is_counted_once_and_comes_back_requeued() {
    let mut events = Events::default();
    events
        .block(10, WORKER, "block_bio_queue", (0, 16), "R")
        .block(20, WORKER, "block_rq_issue", (0, 8), "R")
        .block(21, WORKER, "block_rq_issue", (8, 8), "R")
        .block(22, WORKER, "block_rq_requeue", (8, 8), "R")
        .block(30, 0, "block_rq_complete", (0, 8), "R")
        .block(40, WORKER, "block_rq_issue", (8, 8), "R")
        .block(50, 0, "block_rq_complete", (8, 8), "R");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    assert_eq!(spans(&timeline, Layer::Block, "bio").len(), 1);
    let commands: Vec<_> = spans(&timeline, Layer::Driver, "read").iter().map(|s| (s.begin_ns, s.end_ns)).collect();
    assert_eq!(commands, [(20, 30), (40, 50)], "what came back unserved was not served");
}

#[test]
fn flushes_are_commands_of_whoever_asked_for_them() {
    let mut events = Events::default();
    // A write with a flush before and after it, like a journal's commit block.
    events
        .block(10, WORKER, "block_bio_queue", (98, 2), "FWFSM")
        .block(20, 54, "block_rq_issue", (0, 0), "FF")
        .block(30, 22, "block_rq_complete", (u64::MAX, 0), "FF")
        .block(40, 54, "block_rq_insert", (98, 2), "WSM")
        .block(50, 54, "block_rq_issue", (98, 2), "WSM")
        .block(60, 22, "block_rq_complete", (98, 2), "WSM")
        .block(70, 54, "block_rq_issue", (0, 0), "FF")
        .block(80, 22, "block_rq_complete", (u64::MAX, 0), "FF")
        .block(81, 22, "block_rq_complete", (98, 0), "WSM")
        // An empty flush.
        .block(100, WORKER, "block_bio_queue", (0, 0), "FWS")
        .block(110, 54, "block_rq_issue", (0, 0), "FF")
        .block(120, 22, "block_rq_complete", (u64::MAX, 0), "FF")
        .block(121, 22, "block_rq_complete", (0, 0), "WS");
    let timeline = events.join(&surroundings(&[(0, 200)]));
    let flushes = spans(&timeline, Layer::Driver, "flush");
    assert_eq!(
        flushes.iter().map(|s| (s.begin_ns, s.end_ns, s.operation)).collect::<Vec<_>>(),
        [(20, 30, Some(0)), (70, 80, Some(0)), (110, 120, Some(0))]
    );
    assert!(flushes.iter().all(|span| timeline.files[span.file.unwrap() as usize].role == Role::Flush));
    assert_eq!(spans(&timeline, Layer::Driver, "write").len(), 1);
    assert_eq!(spans(&timeline, Layer::Block, "flush done").len(), 2);
    let bios: Vec<_> = spans(&timeline, Layer::Block, "bio").iter().map(|s| (s.begin_ns, s.end_ns)).collect();
    assert_eq!(bios, [(10, 50), (100, 110)]);
}

#[test]
fn a_flush_that_a_device_without_cache_never_does_is_no_command() {
    let mut events = Events::default();
    events.block(10, WORKER, "block_bio_queue", (0, 0), "FWS").block(20, WORKER, "block_bio_queue", (0, 0), "FWS");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    assert!(spans(&timeline, Layer::Driver, "flush").is_empty());
}

#[test]
fn commands_that_were_issued_before_the_capture_are_left_out() {
    let mut events = Events::default();
    events.block(10, 0, "block_rq_complete", (8, 8), "R").block(20, 0, "block_rq_complete", (u64::MAX, 0), "FF");
    events.block(30, WORKER, "block_rq_issue", (64, 8), "W");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    assert!(timeline.spans.iter().all(|span| span.layer != Layer::Driver), "{:?}", timeline.spans);
}

#[test]
fn what_came_back_from_the_driver_is_still_whose_it_was() {
    let mut events = Events::default();
    events
        .block(10, WORKER, "block_bio_queue", (8, 8), "R")
        .block(20, WORKER, "block_rq_issue", (8, 8), "R")
        .block(22, WORKER, "block_rq_requeue", (8, 8), "R")
        .block(40, 77, "block_rq_issue", (8, 8), "R")
        .block(50, 0, "block_rq_complete", (8, 8), "R")
        // And a flush.
        .block(60, WORKER, "block_bio_queue", (0, 0), "FWS")
        .block(70, 54, "block_rq_issue", (0, 0), "FF")
        .block(71, 54, "block_rq_requeue", (0, 0), "FF")
        .block(80, 54, "block_rq_issue", (0, 0), "FF")
        .block(90, 22, "block_rq_complete", (u64::MAX, 0), "FF");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let of = |name: &str| -> Vec<_> {
        spans(&timeline, Layer::Driver, name).iter().map(|s| (s.begin_ns, s.end_ns, s.operation)).collect()
    };
    assert_eq!(of("read"), [(40, 50, Some(0))]);
    assert_eq!(of("flush"), [(80, 90, Some(0))]);
    assert_eq!(spans(&timeline, Layer::Block, "bio").len(), 2, "counted once");
}

#[test]
fn a_request_that_became_part_of_another_was_not_in_the_scheduler_until_its_place_is_written_again() {
    let mut events = Events::default();
    events
        .block(10, WORKER, "block_bio_queue", (8, 8), "W")
        .block(11, WORKER, "block_rq_insert", (8, 8), "W")
        .block(20, WORKER, "block_bio_queue", (0, 8), "W")
        .block(21, WORKER, "block_rq_insert", (0, 8), "W")
        .block(30, WORKER, "block_rq_issue", (0, 16), "W")
        .block(40, 0, "block_rq_complete", (0, 16), "W")
        // Issued directly, without an insert.
        .block(90, WORKER, "block_bio_queue", (8, 8), "W")
        .block(91, WORKER, "block_rq_issue", (8, 8), "W")
        .block(95, 0, "block_rq_complete", (8, 8), "W");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let elevators: Vec<_> = spans(&timeline, Layer::Block, "elevator").iter().map(|s| (s.begin_ns, s.end_ns)).collect();
    assert_eq!(elevators, [(21, 30)]);
}

#[test]
fn what_a_ring_submits_is_its_calls() {
    let mut events = Events::default();
    events
        .enter(10, "io_uring_enter", 3)
        .block(20, WORKER, "block_bio_queue", (8, 8), "R")
        .block(30, WORKER, "block_rq_issue", (8, 8), "R")
        .block(40, 0, "block_rq_complete", (8, 8), "R")
        .exit(50, "io_uring_enter", 1);
    let mut known = surroundings(&[]);
    known.operations.clear();
    let timeline = events.join(&known);
    assert_eq!(timeline.operations.len(), 1);
    assert_eq!(spans(&timeline, Layer::Driver, "read")[0].operation, Some(0));
}
