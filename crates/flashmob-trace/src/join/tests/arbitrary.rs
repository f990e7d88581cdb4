//! Arbitrary events in any order: no panic, valid indices, and fully divided times of operations (the builder asserts the last two).

use proptest::prelude::*;

use super::builder::{Events, surroundings};

fn event(events: &mut Events, time: u64, thread: u32, kind: u8, a: u64, b: u64) {
    let calls = ["pwrite64", "fsync", "close", "openat", "fcntl"];
    let call = calls[(a % 5) as usize];
    let letters = ["R", "W", "WS", "WSM", "FWS", "FWFSM", "FF", "D", ""];
    let block = [
        "block_bio_queue",
        "block_bio_backmerge",
        "block_rq_insert",
        "block_rq_issue",
        "block_rq_complete",
        "block_rq_requeue",
    ];
    let number = |n: u64| n.into();
    match kind % 10 {
        0 => {
            events.at(time, thread, &format!("syscalls:sys_enter_{call}"), &[("fd", number(b % 4)), ("pos", number(b))])
        }
        1 => events.at(time, thread, &format!("syscalls:sys_exit_{call}"), &[("ret", number(b % 6))]),
        2 => events.inode(time, thread, "ext4:ext4_sync_file_enter", a % 4),
        3 => events.inode(time, thread, "ext4:ext4_sync_file_exit", a % 4),
        4 | 5 => events.block(time, thread, block[(a % 6) as usize], (b % 32, a % 9), letters[(b % 9) as usize]),
        6 => events.switch(time, thread, a % 3, (b % 5) as u32 + 98),
        7 => events.wake(time, thread, (b % 5) as u32 + 98),
        8 => events.inode(
            time,
            thread,
            ["jbd2:jbd2_start_commit", "jbd2:jbd2_end_commit", "xfs:xfs_file_fsync"][(a % 3) as usize],
            b % 4,
        ),
        _ => events.at(time, thread, "task:task_newtask", &[("pid", number(b % 5 + 98)), ("clone_flags", number(a))]),
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_breaks(
        rows in prop::collection::vec((0u64..40, 0u32..6, any::<u8>(), any::<u64>(), any::<u64>(), 0u32..2), 0..120),
        operations in prop::collection::vec((0u64..1_500, 0u64..400), 0..6),
    ) {
        let (mut events, mut time) = (Events::default(), 0);
        for (step, thread, kind, a, b, cpu) in rows {
            time += step;
            event(events.on(cpu), time, 98 + thread, kind, a, b);
        }
        let operations: Vec<(u64, u64)> = operations.into_iter().map(|(begin, length)| (begin, begin + length)).collect();
        events.join(&surroundings(&operations));
    }

    #[test]
    fn numbers_may_be_as_large_as_they_like(rows in prop::collection::vec((any::<u64>(), any::<u8>(), any::<u64>(), any::<u64>()), 0..60)) {
        let mut events = Events::default();
        for (time, kind, sector, sectors) in rows {
            let step = ["block_bio_queue", "block_rq_insert", "block_rq_issue", "block_rq_complete"][usize::from(kind % 4)];
            events.block(time, 100, step, (sector, sectors), ["R", "FWS", "FF", "WM"][usize::from(kind / 64)]);
        }
        events.join(&surroundings(&[(0, u64::MAX)]));
    }
}
