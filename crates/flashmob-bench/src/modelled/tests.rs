//! Runs in real time on machines that may be busy: checks lower bounds of times, completeness and termination.
//! Upper bounds of times are not checked.

use std::thread;

use super::*;

const GIB: u64 = 1 << 30;

fn disk(name: &str, scheduler: Scheduler) -> ModelledDisk {
    ModelledDisk::new(&Profile::named(name).unwrap(), scheduler, GIB, 1).unwrap()
}

/// Places all over the disk, another sequence for each thread.
fn place(thread: u32, i: u64) -> u64 {
    (u64::from(thread) * 7_919 + i * 104_729) % (GIB / 4096) * 4096
}

/// Each thread reads `count` blocks, one after the other.
fn read_all(disk: &ModelledDisk, threads: u32, count: u64) -> Duration {
    let began = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for i in 0..count {
                    disk.read(thread, place(thread, i), 4096, true).unwrap();
                }
            });
        }
    });
    began.elapsed()
}

#[test]
fn a_read_never_returns_before_the_model_is_done() {
    let disk = disk("nexus7-emmc", Scheduler::None);
    for i in 0..30 {
        let began = Instant::now();
        let served = disk.read(0, place(0, i), 4096, true).unwrap();
        let took = began.elapsed();
        assert!(took >= served.modelled, "{took:?} for {:?}", served.modelled);
        assert!(served.modelled > Duration::from_millis(1) && !served.cached);
    }
    assert_eq!(disk.counters().served, 30);
    assert_eq!(disk.lateness_ns().len(), 30);
}

#[test]
fn many_threads_all_get_their_answers_and_no_more_than_the_slots_are_served_at_once() {
    for scheduler in Scheduler::ALL {
        let disk = disk("nexus7-emmc", scheduler);
        let took = read_all(&disk, 16, 20);
        let counters = disk.counters();
        assert_eq!((counters.served, counters.reads), (320, 320));
        assert_eq!(disk.lateness_ns().len(), 320);
        // At most four at once: this takes at least a quarter of all service times.
        assert!(took >= Duration::from_nanos(counters.service_ns / 4), "{scheduler}: {took:?}");
    }
}

#[test]
fn a_disk_that_is_faster_than_threads_can_be_woken_still_answers_all() {
    let disk = disk("nvme", Scheduler::MqDeadline);
    read_all(&disk, 16, 300);
    assert_eq!(disk.counters().served, 4800);
    assert_eq!(disk.lateness_ns().len(), 4800);
}

#[test]
fn whoever_looks_late_learns_the_times_at_which_slots_became_free() {
    let profile = Profile { jitter_percent: 0, ..Profile::named("sdcard").unwrap() };
    let model = FlashModel::new(&profile, Scheduler::None, GIB, 1).unwrap();
    let mut waiting = Waiting::new(model);
    let read = |block: u64| Request { id: 0, submitter: 0, op: Op::Read, offset_bytes: block * 8192, len_bytes: 1 };
    let tickets: Vec<_> = (0..3).map(|i| waiting.submit(Time(0), read(i)).unwrap()).collect();
    let each_ns = profile.read.access_ns;
    assert_eq!(tickets[0].done_at(), Some(Time(each_ns)));
    assert_eq!((tickets[1].done_at(), tickets[2].done_at()), (None, None));
    waiting.advance(Time(each_ns + 300_000));
    assert_eq!((tickets[1].done_at(), tickets[2].done_at()), (Some(Time(2 * each_ns)), None));
    // The state was not advanced for a second: the third is complete.
    waiting.advance(Time(1_000_000_000));
    assert_eq!(tickets[2].done_at(), Some(Time(3 * each_ns)));
    assert_eq!(waiting.counters().served, 3);
}

#[test]
fn a_single_slot_answers_many_waiting_threads() {
    let disk = disk("sdcard", Scheduler::None);
    let took = read_all(&disk, 32, 10);
    let counters = disk.counters();
    assert_eq!(counters.served, 320);
    assert!(took >= Duration::from_nanos(counters.service_ns), "{took:?}");
}

#[test]
fn what_was_read_is_cached_until_it_is_dropped_and_direct_reads_pass_it_by() {
    let disk = disk("ufs", Scheduler::None);
    assert!(!disk.read(0, 4096 * 10, 1, false).unwrap().cached);
    assert!(disk.read(0, 4096 * 10 + 100, 1, false).unwrap().cached);
    assert!(!disk.read(0, 4096 * 10, 4096, true).unwrap().cached);
    assert_eq!((disk.cached_bytes(), disk.counters().reads), (4096, 2));
    disk.drop_cache();
    assert_eq!(disk.cached_bytes(), 0);
    assert!(!disk.read(0, 4096 * 10, 1, false).unwrap().cached);
}

#[test]
fn reading_on_needs_few_requests() {
    let disk = disk("ufs", Scheduler::None);
    for i in 0..256 {
        disk.read(0, i * 4096, 4096, false).unwrap();
    }
    assert_eq!(disk.counters().reads, 12);
    assert_eq!(disk.upward_fraction(), 1.0);
    disk.reset_counters();
    assert_eq!((disk.counters().reads, disk.lateness_ns().len()), (0, 0));
}

#[test]
fn writes_and_flushes_are_counted_as_such() {
    let disk = disk("ufs", Scheduler::Bfq);
    disk.write(0, 0, 4096).unwrap();
    disk.flush(0).unwrap();
    let counters = disk.counters();
    assert_eq!((counters.reads, counters.writes, counters.flushes), (0, 1, 1));
    assert_eq!(disk.cached_bytes(), 0);
}

#[test]
fn a_read_of_the_largest_size_works_where_whole_blocks_make_it_larger() {
    let disk = disk("nvme", Scheduler::None);
    disk.read(0, 1, REQUEST_BYTES_MAX, false).unwrap();
    assert_eq!(disk.cached_bytes(), REQUEST_BYTES_MAX + 4096);
    assert_eq!(disk.counters().reads, 2);
}

#[test]
fn what_does_not_fit_is_refused_at_once() {
    let disk = disk("hdd", Scheduler::None);
    for direct in [false, true] {
        assert!(matches!(disk.read(0, GIB, 1, direct), Err(RequestError::BeyondEnd { .. })));
        assert!(matches!(disk.read(0, u64::MAX, 1, direct), Err(RequestError::BeyondEnd { .. })));
        assert_eq!(disk.read(0, 0, 0, direct), Err(RequestError::Empty));
    }
    assert!(matches!(disk.write(0, GIB - 1, 2), Err(RequestError::BeyondEnd { .. })));
    assert_eq!(disk.lateness_ns().len(), 0);
    assert!(ModelledDisk::new(&Profile::ALL[0], Scheduler::None, 0, 0).is_err());
}
