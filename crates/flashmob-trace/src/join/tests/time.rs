//! Every moment of an operation is attributed to one layer, or unattributed.

use flashmob_results::trace::{Cause, Layer};

use super::builder::{Events, JOURNAL, WORKER, file, spans, surroundings, time_of};

/// One INSERT that syncs its database: its thread writes a page and waits for the device.
fn one_sync() -> Events {
    let mut events = Events::default();
    events
        .enter(1_000, "fdatasync", 3)
        .inode(1_100, WORKER, "ext4:ext4_sync_file_enter", 12)
        .inode(1_200, WORKER, "ext4:ext4_writepages", 12)
        .block(1_300, WORKER, "block_bio_queue", (64, 8), "WS")
        .block(1_350, WORKER, "block_rq_insert", (64, 8), "WS")
        .block(1_400, WORKER, "block_rq_issue", (64, 8), "WS")
        .inode(1_500, WORKER, "ext4:ext4_writepages_result", 12)
        .switch(1_600, WORKER, 2, 0)
        .block(2_600, 14, "block_rq_complete", (64, 8), "WS")
        .wake(2_650, 14, WORKER)
        .switch(2_700, 0, 0, WORKER)
        .inode(2_800, WORKER, "ext4:ext4_sync_file_exit", 12)
        .exit(2_900, "fdatasync", 0);
    events
}

#[test]
fn each_moment_of_a_sync_belongs_to_the_lowest_layer_at_work() {
    let timeline = one_sync().join(&surroundings(&[(900, 3_000)]));
    let [operation] = &timeline.operations[..] else { panic!("{:?}", timeline.operations) };
    let of = |layer| time_of(operation, layer);
    assert_eq!(of(Layer::Application), 200);
    assert_eq!(of(Layer::SystemCall), 200);
    // The sync itself: 100 before writeback, 100 after it, and 100 when it runs again.
    assert_eq!(of(Layer::FileSystem), 300);
    assert_eq!(of(Layer::PageCache), 200);
    // In the queue: 100; and from the completion until the thread is woken.
    assert_eq!(of(Layer::Block), 150);
    assert_eq!(of(Layer::Driver), 1_000);
    assert_eq!(of(Layer::Processor), 50);
    assert_eq!(operation.unattributed_ns, 0);
    let [command] = spans(&timeline, Layer::Driver, "write")[..] else { panic!() };
    assert_eq!((command.operation, command.begin_ns, command.end_ns, command.bytes), (Some(0), 1_400, 2_600, 4096));
    assert_eq!(file(&timeline, command), "/mnt/db", "by what its thread had in hand");
    assert_eq!(file(&timeline, spans(&timeline, Layer::SystemCall, "fdatasync")[0]), "/mnt/db");
}

#[test]
fn whoever_waits_for_a_thread_that_worked_for_it_knows_why() {
    let mut events = Events::default();
    events
        .enter(1_000, "fsync", 3)
        .inode(1_000, WORKER, "ext4:ext4_sync_file_enter", 12)
        .switch(1_100, WORKER, 2, JOURNAL)
        .at(1_200, JOURNAL, "jbd2:jbd2_start_commit", &[("dev", super::builder::DEVICE.into())])
        .block(1_300, JOURNAL, "block_bio_queue", (800, 8), "WSM")
        .block(1_400, JOURNAL, "block_rq_issue", (800, 8), "WSM")
        .block(2_000, 14, "block_rq_complete", (800, 8), "WSM")
        .at(2_100, JOURNAL, "jbd2:jbd2_end_commit", &[("dev", super::builder::DEVICE.into())])
        .wake(2_150, JOURNAL, WORKER)
        .switch(2_200, JOURNAL, 1, WORKER)
        .inode(2_300, WORKER, "ext4:ext4_sync_file_exit", 12)
        .exit(2_300, "fsync", 0);
    let timeline = events.join(&surroundings(&[(1_000, 2_300)]));
    let operation = &timeline.operations[0];
    assert_eq!(operation.unattributed_ns, 0);
    assert_eq!(time_of(operation, Layer::Driver), 600);
    assert_eq!(time_of(operation, Layer::Block), 100);
    assert_eq!(time_of(operation, Layer::Processor), 50);
    assert_eq!(time_of(operation, Layer::FileSystem), 1_300 - 750);
    let commit = spans(&timeline, Layer::FileSystem, "journal commit")[0];
    assert_eq!((commit.operation, commit.cause), (Some(0), Cause::Waited));
    let command = spans(&timeline, Layer::Driver, "write")[0];
    assert_eq!((command.operation, command.cause), (Some(0), Cause::Waited));
    assert_eq!(file(&timeline, command), "file system journal of loop0");
    assert_eq!(spans(&timeline, Layer::FileSystem, "wait for jbd2/loop0-8").len(), 1);
}

#[test]
fn a_wait_that_nobody_explains_belongs_to_nobody() {
    let mut events = Events::default();
    events
        .enter(1_000, "fsync", 3)
        .inode(1_000, WORKER, "ext4:ext4_sync_file_enter", 12)
        .switch(1_100, WORKER, 1, 0)
        // Woken by a thread without recorded work.
        .wake(1_900, 333, WORKER)
        .switch(2_000, 0, 0, WORKER)
        .exit(2_300, "fsync", 0);
    let timeline = events.join(&surroundings(&[(1_000, 2_300)]));
    assert_eq!(timeline.operations[0].unattributed_ns, 800);
    assert_eq!(time_of(&timeline.operations[0], Layer::Processor), 100);
}

#[test]
fn work_of_the_journal_that_nobody_waited_for_is_nobodys() {
    let mut events = one_sync();
    let device = super::builder::DEVICE;
    events
        .at(4_000, JOURNAL, "jbd2:jbd2_start_commit", &[("dev", device.into())])
        .block(4_100, JOURNAL, "block_bio_queue", (800, 8), "WM")
        .block(4_200, JOURNAL, "block_rq_issue", (800, 8), "WM")
        .block(4_300, 14, "block_rq_complete", (800, 8), "WM")
        .at(4_400, JOURNAL, "jbd2:jbd2_end_commit", &[("dev", device.into())]);
    // The operation continues, but its thread runs and waits for nothing.
    let timeline = events.join(&surroundings(&[(900, 5_000)]));
    for (layer, name) in [(Layer::FileSystem, "journal commit"), (Layer::Block, "bio")] {
        let last = *spans(&timeline, layer, name).last().unwrap();
        assert_eq!((last.operation, last.cause), (None, Cause::Unknown), "{name}");
    }
    assert_eq!(time_of(&timeline.operations[0], Layer::Application), 100 + 2_100);
}

#[test]
fn without_the_schedulers_events_the_lowest_layer_in_hand_counts() {
    let mut events = Events::default();
    events
        .enter(1_000, "fdatasync", 3)
        .inode(1_100, WORKER, "ext4:ext4_sync_file_enter", 12)
        .block(1_300, WORKER, "block_bio_queue", (64, 8), "WS")
        .block(1_400, WORKER, "block_rq_issue", (64, 8), "WS")
        .block(2_600, 14, "block_rq_complete", (64, 8), "WS")
        .inode(2_800, WORKER, "ext4:ext4_sync_file_exit", 12)
        .exit(2_900, "fdatasync", 0);
    let timeline = events.join(&surroundings(&[(900, 3_000)]));
    let operation = &timeline.operations[0];
    assert_eq!(time_of(operation, Layer::Driver), 1_200);
    assert_eq!(time_of(operation, Layer::FileSystem), 400);
    assert_eq!(operation.unattributed_ns, 0);
}

#[test]
fn an_operation_without_any_event_is_the_applications() {
    let timeline = Events::default().join(&surroundings(&[(10, 20), (30, 50)]));
    assert_eq!(timeline.operations.iter().map(|o| time_of(o, Layer::Application)).sum::<u64>(), 30);
}

#[test]
fn whoever_was_interrupted_while_a_timer_woke_somebody_did_not_work_for_that_one() {
    let woken = |flags: u64| {
        let device = super::builder::DEVICE;
        let mut events = Events::default();
        events
            .enter(1_000, "fdatasync", 3)
            .switch(1_100, WORKER, 1, JOURNAL)
            .at(1_200, JOURNAL, "jbd2:jbd2_start_commit", &[("dev", device.into())])
            .at(
                1_500,
                JOURNAL,
                "sched:sched_waking",
                &[("pid", u64::from(WORKER).into()), ("common_flags", flags.into())],
            )
            .at(1_600, JOURNAL, "jbd2:jbd2_end_commit", &[("dev", device.into())])
            .switch(1_700, JOURNAL, 1, WORKER)
            .exit(1_900, "fdatasync", 0);
        let timeline = events.join(&surroundings(&[(900, 2_000)]));
        let commit = spans(&timeline, Layer::FileSystem, "journal commit")[0];
        (commit.operation, timeline.operations[0].unattributed_ns)
    };
    assert_eq!(woken(0), (Some(0), 0));
    assert_eq!(woken(0x10), (None, 400));
}
