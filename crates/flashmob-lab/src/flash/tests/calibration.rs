//! The papers' findings are reproduced. Bounds follow the papers' figures where available; otherwise
//! only the order of speeds is asserted, by a margin that exceeds jitter.

use super::*;
use crate::flash::{Lookup, PageCache};

fn near(measured: f64, expected: f64) -> bool {
    (measured / expected - 1.0).abs() <= 0.10
}

#[test]
fn c2_c3_a_tablets_reads_grow_to_four_threads_and_bytes_cost_as_much_as_blocks() {
    let nexus = profile("nexus7-emmc");
    // CFQ was the tablet's scheduler; it does not sort across threads, which makes it equivalent to none here.
    for scheduler in [Scheduler::None, Scheduler::Bfq] {
        for len_bytes in [1, 512, 4096] {
            for (threads, expected) in [(1, 525.0), (2, 1050.0), (4, 2100.0), (8, 2100.0), (16, 2100.0), (32, 2100.0)] {
                let got = random_loop(&nexus, scheduler, 10 * GIB, threads, len_bytes).per_second;
                assert!(near(got, expected), "{scheduler}, {threads} threads of {len_bytes} B: {got:.0}/s");
            }
        }
    }
}

#[test]
fn c3_above_the_block_larger_reads_cost_more() {
    let nexus = profile("nexus7-emmc");
    let small = random_loop(&nexus, Scheduler::None, 10 * GIB, 4, 4096).per_second;
    let large = random_loop(&nexus, Scheduler::None, 10 * GIB, 4, 16384).per_second;
    assert!(large < 0.95 * small, "{large:.0}/s against {small:.0}/s");
}

#[test]
fn c1_the_disk_is_far_slower_than_the_tablet_and_a_queue_helps_it_a_little() {
    let hdd = profile("hdd");
    let alone = random_loop(&hdd, Scheduler::MqDeadline, 10 * GIB, 1, 4096).per_second;
    let many = random_loop(&hdd, Scheduler::MqDeadline, 10 * GIB, 32, 4096).per_second;
    let tablet = random_loop(&profile("nexus7-emmc"), Scheduler::Bfq, 10 * GIB, 32, 4096).per_second;
    assert!((80.0..=120.0).contains(&alone), "{alone:.0}/s");
    assert!(many > 1.1 * alone && many < 2.0 * alone, "{many:.0}/s against {alone:.0}/s");
    assert!(tablet > 8.0 * many, "{tablet:.0}/s against {many:.0}/s");
}

#[test]
fn c11_sorted_heads_of_mebibytes_are_read_faster_than_shuffled_ones() {
    for name in ["nexus7-emmc", "emmc", "ufs", "sdcard", "hdd"] {
        let device = profile(name);
        let mut shuffled: Vec<u64> = (0..1024).map(|i| i * MIB).collect();
        let mut random = Random::new(3);
        for i in (1..shuffled.len()).rev() {
            shuffled.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        let per_second = |place: &mut dyn FnMut(u64) -> u64| {
            let mut model = FlashModel::new(&device, Scheduler::Bfq, GIB, 5).unwrap();
            closed_loop(&mut model, 1, 1000, 1, place).per_second
        };
        let sort = per_second(&mut |i| i * MIB);
        let shuffle = per_second(&mut |i| shuffled[i as usize]);
        let rand = per_second(&mut |_| random.next() % GIB);
        assert!(sort > 1.05 * shuffle, "{name}: sort {sort:.0}/s, shuffle {shuffle:.0}/s");
        assert!(near(rand, shuffle), "{name}: rand {rand:.0}/s, shuffle {shuffle:.0}/s");
    }
}

#[test]
fn c12_c13_deadline_beats_none_and_cfq_because_more_of_its_steps_go_up() {
    let nexus = profile("nexus7-emmc");
    let [none, deadline, bfq] = Scheduler::ALL.map(|s| random_loop(&nexus, s, 128 * MIB, 16, 1));
    for other in [&none, &bfq] {
        assert!(
            deadline.per_second > 1.05 * other.per_second,
            "{:.0}/s, {:.0}/s",
            deadline.per_second,
            other.per_second
        );
        let (up, down) = (deadline.counters.upward_fraction(), other.counters.upward_fraction());
        assert!(up > 0.75 && (0.4..0.6).contains(&down), "upward: {up:.2}, {down:.2}");
    }
}

#[test]
fn c13_a_step_down_takes_longer_than_one_up_and_the_more_the_further_to_a_limit() {
    let mut model = FlashModel::new(&plain(1), Scheduler::None, 8 * GIB, 0).unwrap();
    let mut took_us = |from: u64, to: u64| {
        let now = Time(u64::MAX / 2);
        let start = model.counters().service_ns;
        model.submit(now, read(0, 0, from, 4096)).unwrap();
        finish(&mut model);
        let between = model.counters().service_ns;
        model.submit(now, read(1, 0, to, 4096)).unwrap();
        finish(&mut model);
        assert!(between > start);
        (model.counters().service_ns - between) / 1000
    };
    assert_eq!(took_us(0, GIB), 1000, "up");
    assert_eq!(took_us(0, 4096), 100, "on");
    assert_eq!(took_us(GIB / 2 - 4096, 0), 1500, "half a GiB down");
    assert_eq!(took_us(GIB - 4096, 0), 2000, "a GiB down");
    assert_eq!(took_us(4 * GIB, 0), 2000, "further costs no more");
}

#[test]
fn c10_sequential_reads_through_the_cache_are_far_faster_than_random_ones() {
    for name in ["nexus7-emmc", "sdcard", "hdd"] {
        let mut random = Random::new(9);
        let mut per_second = |sequential: bool| {
            let mut model = FlashModel::new(&profile(name), Scheduler::Bfq, GIB, 5).unwrap();
            let (mut cache, mut now) = (PageCache::new(GIB), Time::default());
            for i in 0..1000 {
                let place = if sequential { i * 4096 } else { random.next() % (GIB / 4096) * 4096 };
                if let Lookup::Fetch { offset_bytes, len_bytes } = cache.lookup(0, place, 4096) {
                    model.submit(now, read(i, 0, offset_bytes, len_bytes)).unwrap();
                    now = finish(&mut model)[0].at;
                    cache.fetched(offset_bytes, len_bytes);
                }
            }
            1e12 / now.as_nanos() as f64
        };
        let (sequential, random) = (per_second(true), per_second(false));
        assert!(sequential > 5.0 * random, "{name}: {sequential:.0}/s against {random:.0}/s");
    }
}

#[test]
fn each_device_does_what_its_description_says() {
    for (name, alone, many) in [
        ("emmc", 3_000.0, 12_000.0),
        ("ufs", 7_500.0, 60_000.0),
        ("sdcard", 1_500.0, 1_500.0),
        ("nvme", 12_000.0, 400_000.0),
    ] {
        let one = random_loop(&profile(name), Scheduler::None, 10 * GIB, 1, 4096).per_second;
        let full = random_loop(&profile(name), Scheduler::None, 10 * GIB, 64, 4096).per_second;
        assert!(near(one, alone) && near(full, many), "{name}: {one:.0}/s, {full:.0}/s");
    }
}
