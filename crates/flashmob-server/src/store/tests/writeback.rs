//! What is written back when, by a file that the kernel really writes.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use flashmob_core::units::GIB;

use super::*;

const AHEAD: u64 = 16 * MIB;

fn writeback(size_bytes: u64) -> (Writeback, Arc<Completions>) {
    let completions = Arc::new(Completions::new(Instant::now(), || ()));
    (Writeback::new(size_bytes, AHEAD, Arc::clone(&completions)), completions)
}

fn file(size_bytes: u64) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(size_bytes).unwrap();
    file
}

fn write(writeback: &Writeback, file: &File, offset_bytes: u64, len_bytes: u64) {
    file.write_all_at(&vec![7; len_bytes as usize], offset_bytes).unwrap();
    writeback.note(offset_bytes, len_bytes);
}

#[test]
fn a_flush_goes_in_parts_from_a_mib_on() {
    for (len_bytes, in_parts) in [(0, false), (MIB - 1, false), (MIB, true), (MIB + 1, true)] {
        let (writeback, completions) = writeback(64 * MIB);
        let file = file(64 * MIB);
        write(&writeback, &file, 5 * MIB, len_bytes);
        assert_eq!(writeback.write_all(&file), Ok(in_parts), "{len_bytes} bytes");
        assert_eq!(completions.take_progress(), in_parts);
        assert!(!completions.take_progress(), "it is told once");
        assert_eq!(writeback.write_all(&file), Ok(false), "nothing is left of it");
    }
}

#[test]
fn many_small_writes_count_as_much_as_a_large_one() {
    let (writeback, completions) = writeback(GIB);
    let file = file(GIB);
    (0..256).for_each(|n| write(&writeback, &file, n * 4 * MIB, 4096));
    assert_eq!(writeback.write_all(&file), Ok(true));
    assert!(completions.take_progress());
}

#[test]
fn regions_are_remembered_where_writes_touch_them() {
    let (writeback, _) = writeback(GIB);
    let region = REGION_BYTES;
    for (offset, len) in [(0, 1), (region - 1, 2), (5 * region, region), (100 * region + 7, 2 * region), (GIB - 1, 1)] {
        writeback.note(offset, len);
    }
    assert_eq!(take_all(&writeback.unsynced), [0, 1, 5, 100, 101, 102, 255]);
    assert!(take_all(&writeback.unsynced).is_empty());
    assert_eq!(
        std::iter::from_fn(|| take_first(&writeback.unstarted)).collect::<Vec<_>>(),
        [0, 1, 5, 100, 101, 102, 255]
    );
    writeback.note(0, 0);
    assert!(take_all(&writeback.unsynced).is_empty(), "nothing was written");
}

#[test]
fn large_extents_have_larger_regions_and_none_reaches_behind_the_end() {
    for (size_bytes, region_bytes) in [
        (1, REGION_BYTES),
        (REGION_BYTES * REGIONS_MAX, REGION_BYTES),
        (REGION_BYTES * REGIONS_MAX + 1, 2 * REGION_BYTES),
        (i64::MAX as u64, (1 << 45)),
    ] {
        let (writeback, _) = writeback(size_bytes);
        assert_eq!(writeback.region_bytes, region_bytes, "{size_bytes}");
        assert!(writeback.unsynced.len() as u64 <= REGIONS_MAX / 64);
        let last = (size_bytes - 1) / region_bytes;
        let parts = (0..PARTS).map(|part| writeback.range_of(last, part, part + 1));
        let covered: u64 = parts.clone().map(|(_, len)| len).sum();
        assert_eq!(covered, size_bytes - last * region_bytes);
        assert!(parts.into_iter().all(|(start, len)| start + len <= size_bytes));
        writeback.note(size_bytes - 1, 1);
        assert_eq!(take_all(&writeback.unsynced), [last]);
    }
}

#[test]
fn writeback_begins_once_so_much_was_written_and_again_after_as_much() {
    let (writeback, completions) = writeback(GIB);
    let file = file(GIB);
    for round in 0..3 {
        let start = round * 64 * MIB;
        write(&writeback, &file, start, AHEAD - 1);
        assert!(!writeback.take_due(), "round {round}");
        write(&writeback, &file, start + AHEAD - 1, 1);
        assert!(writeback.take_due());
        assert!(!writeback.take_due(), "one worker does it");
        let begun = std::iter::from_fn(|| writeback.start_next(&file).unwrap().then_some(())).count();
        assert_eq!(begun as u64, AHEAD / REGION_BYTES);
    }
    assert!(!completions.take_progress(), "nothing waits for that");
    assert_eq!(writeback.write_all(&file), Ok(true), "a flush waits for all of it nevertheless");
}

/// What is counted as possibly dirty, region by region and in all.
fn counted(writeback: &Writeback) -> (u64, i64) {
    let each = writeback.unstarted_bytes.iter().map(|bytes| u64::from(bytes.load(Ordering::Relaxed)));
    (each.sum(), writeback.unstarted_sum_bytes.load(Ordering::Relaxed))
}

#[test]
fn what_is_written_again_and_again_is_dirty_once() {
    let (writeback, _) = writeback(GIB);
    // All but the last region of what begins a writeback, a hundred times.
    let most = AHEAD - REGION_BYTES;
    for _ in 0..100 {
        (0..most / MIB).for_each(|mib| writeback.note(mib * MIB, MIB));
        assert!(!writeback.take_due());
    }
    assert_eq!(counted(&writeback), (most, most as i64));
    writeback.note(most, REGION_BYTES - 1);
    assert!(!writeback.take_due());
    // Over the border of a region, of which the first is full.
    writeback.note(most - 7, 8);
    assert_eq!(counted(&writeback), (AHEAD, AHEAD as i64));
    assert!(writeback.take_due());
}

#[test]
fn what_a_flush_has_written_is_not_begun_again() {
    let (writeback, _) = writeback(GIB);
    let file = file(GIB);
    write(&writeback, &file, 5 * MIB, AHEAD - 1);
    assert_eq!(writeback.write_all(&file), Ok(true));
    assert_eq!((counted(&writeback), writeback.regions_to_begin()), ((0, 0), 0));
    write(&writeback, &file, 5 * MIB, AHEAD - 1);
    assert!(!writeback.take_due(), "it counts from the flush");
    write(&writeback, &file, 100 * MIB, 1);
    assert!(writeback.take_due());
    while writeback.start_next(&file).unwrap() {}
    assert_eq!((counted(&writeback), writeback.regions_to_begin()), ((0, 0), 0));
}

#[test]
fn threads_that_write_while_writeback_begins_leave_no_count_behind() {
    let (writeback, _) = writeback(64 * MIB);
    let file = file(64 * MIB);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|thread| {
                let writeback = &writeback;
                scope.spawn(move || (0..20_000).for_each(|n| writeback.note((n * 7 + thread) % 16 * 4 * MIB, 4096)))
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            while writeback.start_next(&file).unwrap() {}
            writeback.write_all(&file).unwrap();
        }
    });
    let (each, sum) = counted(&writeback);
    assert_eq!(each as i64, sum);
    while writeback.start_next(&file).unwrap() {}
    assert_eq!(counted(&writeback), (0, 0));
}

#[test]
fn where_the_system_cannot_it_is_asked_once() {
    let (writeback, completions) = writeback(GIB);
    // A pipe, which has no ranges: ESPIPE is no word of a flash.
    let (pipe, _other) = std::io::pipe().unwrap();
    let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
    writeback.note(0, 2 * MIB);
    assert_eq!(writeback.write_all(&pipe), Ok(false));
    writeback.note(0, AHEAD);
    assert!(!writeback.take_due() && !completions.take_progress());
}

#[test]
fn the_bound_is_a_part_of_the_devices_memory_or_less() {
    assert!(ahead_bytes() > 0 && ahead_bytes() <= AHEAD_BYTES);
}
