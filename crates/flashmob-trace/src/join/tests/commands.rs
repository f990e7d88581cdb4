//! Commands reported by drivers.

use flashmob_results::trace::{Layer, Span};

use super::builder::{Events, WORKER, file, spans, surroundings};

/// A kernel thread that serves the card.
const KWORKER: u32 = 54;

/// Commands as reported by mmc: with an address, or without if they transfer no data.
fn start(events: &mut Events, time_ns: u64, (mrq, host, opcode): (u64, &str, u64), (sector, sectors): (u64, u64)) {
    let fields = [
        ("cmd_opcode", opcode.into()),
        ("blocks", sectors.into()),
        ("blk_addr", sector.into()),
        ("mrq", mrq.into()),
        ("name", host.into()),
    ];
    events.at(time_ns, KWORKER, "mmc:mmc_request_start", &fields);
}

fn done(events: &mut Events, time_ns: u64, mrq: u64) {
    events.at(time_ns, 0, "mmc:mmc_request_done", &[("mrq", mrq.into())]);
}

fn told(span: &Span) -> (u64, u64, Option<u64>, u64, Option<u64>) {
    (span.begin_ns, span.end_ns, span.address_bytes, span.bytes, span.operation)
}

#[test]
fn a_card_is_asked_after_each_write_whether_it_is_done_and_both_commands_serve_the_request() {
    let mut events = Events::default();
    events.inode(5, WORKER, "ext4:ext4_sync_file_enter", 12).block(10, WORKER, "block_bio_queue", (96, 8), "WS").block(
        20,
        KWORKER,
        "block_rq_issue",
        (96, 8),
        "WS",
    );
    start(&mut events, 21, (1, "mmc0", 25), (96, 8));
    done(&mut events, 30, 1);
    start(&mut events, 31, (2, "mmc0", 13), (0, 0));
    done(&mut events, 35, 2);
    events.block(40, KWORKER, "block_rq_complete", (96, 8), "WS");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let [write] = spans(&timeline, Layer::Driver, "mmc CMD25")[..] else { panic!() };
    assert_eq!(told(write), (21, 30, Some(49_152), 0, Some(0)), "the bytes are told with the request");
    let [status] = spans(&timeline, Layer::Driver, "mmc CMD13")[..] else { panic!() };
    assert_eq!(told(status), (31, 35, None, 0, Some(0)));
    let [request] = spans(&timeline, Layer::Driver, "write")[..] else { panic!() };
    for span in [write, status, request] {
        assert_eq!(file(&timeline, span), "/mnt/db");
    }
}

#[test]
fn a_command_without_a_place_goes_with_the_last_of_its_host_though_the_next_is_issued() {
    let mut events = Events::default();
    events.block(10, WORKER, "block_bio_queue", (96, 8), "W").block(11, WORKER, "block_rq_issue", (96, 8), "W");
    start(&mut events, 12, (1, "mmc0", 25), (96, 8));
    done(&mut events, 20, 1);
    // Another thread's write is issued, and waits until the card is done.
    events.block(21, 300, "block_bio_queue", (500, 8), "W").block(22, 300, "block_rq_issue", (500, 8), "W");
    start(&mut events, 23, (2, "mmc0", 13), (0, 0));
    // A card that is otherwise unknown.
    start(&mut events, 24, (3, "mmc1", 13), (0, 0));
    done(&mut events, 25, 2);
    done(&mut events, 26, 3);
    events.block(30, 300, "block_rq_complete", (96, 8), "W").block(40, 300, "block_rq_complete", (500, 8), "W");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let asked = spans(&timeline, Layer::Driver, "mmc CMD13");
    assert_eq!(asked.iter().map(|span| span.operation).collect::<Vec<_>>(), [Some(0), None], "never guessed");
}

#[test]
fn a_place_that_two_devices_are_busy_at_tells_nothing() {
    let mut events = Events::default();
    events.block(10, WORKER, "block_bio_queue", (96, 8), "W").block(11, WORKER, "block_rq_issue", (96, 8), "W");
    let other: Vec<(&str, super::builder::Value)> =
        vec![("dev", 1.into()), ("sector", 96.into()), ("nr_sector", 8.into()), ("rwbs", "W".into())];
    events.at(12, WORKER, "block:block_rq_issue", &other);
    start(&mut events, 13, (1, "mmc0", 25), (96, 8));
    done(&mut events, 20, 1);
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let [write] = spans(&timeline, Layer::Driver, "mmc CMD25")[..] else { panic!() };
    assert_eq!(told(write), (13, 20, None, 0, None));
}

#[test]
fn a_command_of_scsi_serves_what_its_thread_has_just_issued() {
    let mut events = Events::default();
    let tag = |tag: u64| {
        [("host_no", 0.into()), ("channel", 0.into()), ("id", 0.into()), ("lun", 0.into()), ("driver_tag", tag.into())]
    };
    events
        .block(10, WORKER, "block_bio_queue", (96, 8), "W")
        .block(20, WORKER, "block_rq_issue", (96, 8), "W")
        .at(21, WORKER, "scsi:scsi_dispatch_cmd_start", &tag(7))
        .at(29, 0, "scsi:scsi_dispatch_cmd_done", &tag(7))
        .block(30, 0, "block_rq_complete", (96, 8), "W")
        // A device without a block layer.
        .at(40, 9, "scsi:scsi_dispatch_cmd_start", &tag(8))
        .at(41, 0, "scsi:scsi_dispatch_cmd_done", &tag(8));
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let commands: Vec<_> =
        spans(&timeline, Layer::Driver, "scsi command").iter().map(|span| (span.begin_ns, span.operation)).collect();
    assert_eq!(commands, [(21, Some(0)), (40, None)]);
}

#[test]
fn a_command_of_nvme_serves_what_its_thread_issues_next() {
    let mut events = Events::default();
    let id = |cid: u64| [("ctrl_id", 0.into()), ("qid", 1.into()), ("cid", cid.into())];
    events.block(10, WORKER, "block_bio_queue", (96, 8), "W").block(11, 300, "block_bio_queue", (500, 8), "W");
    events
        .at(20, WORKER, "nvme:nvme_setup_cmd", &id(7))
        .block(21, WORKER, "block_rq_issue", (96, 8), "W")
        .at(22, 300, "nvme:nvme_setup_cmd", &id(8))
        .block(23, 300, "block_rq_issue", (500, 8), "W")
        .at(30, 0, "nvme:nvme_complete_rq", &id(8))
        .block(31, 0, "block_rq_complete", (500, 8), "W")
        .at(32, 0, "nvme:nvme_complete_rq", &id(7))
        .block(33, 0, "block_rq_complete", (96, 8), "W");
    let timeline = events.join(&surroundings(&[(0, 100)]));
    let commands = spans(&timeline, Layer::Driver, "nvme command");
    let commands: Vec<_> = commands.iter().map(|span| (span.begin_ns, span.end_ns, span.operation)).collect();
    assert_eq!(commands, [(20, 32, Some(0)), (22, 30, None)]);
}
