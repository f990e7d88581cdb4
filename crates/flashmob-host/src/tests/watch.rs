//! Throttling and other processes' I/O, on a made-up board.

use std::time::Duration;

use flashmob_results::warning::Code;
use proptest::prelude::*;

use super::trees;
use crate::place::Disk;
use crate::watch::{Moved, Observed, Watch, parse_io, parse_stat};

fn card(tree: &trees::Tree) -> Option<Disk> {
    Some(Disk { name: "mmcblk0".into(), sysfs: tree.path("sys/devices/mmc0/mmcblk0") })
}

fn io(read: u64, written: u64) -> String {
    format!("read_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 0\n")
}

#[test]
fn a_quiet_measurement_has_no_warnings() {
    let tree = trees::raspberry_pi();
    let watch = Watch::begin_at(tree.root(), &card(&tree));
    let mut sum = 0u64;
    // Its own processor time, which other threads on the same processor do not affect.
    let used = || Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime)).unwrap();
    let begun = used();
    while used() - begun < Duration::from_millis(30) {
        sum = std::hint::black_box(sum.wrapping_mul(3).wrapping_add(1));
    }
    tree.file("proc/self/io", &io(4096 + 10_000_000, 4096));
    tree.file("sys/devices/mmc0/mmcblk0/stat", &format!("0 0 {} 0 0 0 50 0 0 0 0 1 1 1 1", 80 + 10_000_000 / 512));
    let seen = watch.end();
    assert_eq!((seen.fetched_bytes, seen.stored_bytes), (Some(10_000_000), Some(0)));
    assert_eq!((seen.foreign_bytes, seen.throttled.as_ref()), (Some(10 * 512), None));
    assert!(seen.cpu_user + seen.cpu_system > Duration::from_millis(5), "{seen:?}");
    assert_eq!(seen.warnings(), []);
}

#[test]
fn heat_is_reported_with_its_source() {
    let tree = trees::raspberry_pi();
    let mut watch = Watch::begin_at(tree.root(), &None);
    tree.file("sys/class/thermal/thermal_zone0/temp", "81000\n");
    tree.file("sys/class/thermal/cooling_device0/cur_state", "2\n");
    tree.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "600000\n");
    watch.sample();
    tree.file("sys/class/thermal/thermal_zone0/temp", "50000\n");
    tree.file("sys/class/thermal/cooling_device0/cur_state", "3\n");
    tree.file("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "9\n");
    tree.file("sys/devices/platform/soc/soc:firmware/get_throttled", "10000\n");
    let seen = watch.end();
    let text = seen.throttled.clone().unwrap();
    for part in [
        "cpu-thermal (thermal_zone0) was at 81 °C, where it slows down from 80 °C",
        "cpufreq-cpu0 (cooling_device0) cooled by slowing down, step 3",
        "the frequency of cpu0 was cut to 600 of 1500 MHz",
        "cpu0 core_throttle_count rose by 2",
        "the supply voltage was too low",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("fan") && !text.contains("step 2"), "{text}");
    assert_eq!(seen.foreign_bytes, None);
    assert_eq!(seen.warnings()[0].code, Code::Throttled);
}

#[test]
fn others_io_counts_from_a_megabyte_and_from_a_twentieth() {
    let observe = |foreign: u64, own: u64| {
        let tree = trees::raspberry_pi();
        let watch = Watch::begin_at(tree.root(), &card(&tree));
        tree.file("proc/self/io", &io(4096 + own, 4096));
        tree.file("sys/devices/mmc0/mmcblk0/stat", &format!("0 0 {} 0 0 0 40 0", 80 + (own + foreign) / 512));
        watch.end()
    };
    let mib = 1 << 20;
    assert_eq!(observe(mib, 0).warnings(), []);
    assert_eq!(observe(2 * mib, 40 * mib).warnings(), []);
    let warnings = observe(3 * mib, 40 * mib).warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].code, Code::OtherIo);
    assert!(warnings[0].message.starts_with("others read 3 MiB from mmcblk0 and wrote 0 B to it"), "{warnings:?}");
    assert!(warnings[0].message.contains("own 40 MiB (8 %)"), "{warnings:?}");
}

#[test]
fn writes_still_to_come_neither_hide_reads_nor_make_them_negative() {
    let tree = trees::raspberry_pi();
    let watch = Watch::begin_at(tree.root(), &card(&tree));
    tree.file("proc/self/io", &io(4096, 1 << 30));
    tree.file("sys/devices/mmc0/mmcblk0/stat", "0 0 8080 0 0 0 40 0");
    assert_eq!(watch.end().foreign_bytes, Some(8000 * 512));
}

#[test]
fn without_counters_nothing_is_known() {
    let tree = trees::Tree::new(&[]);
    let watch = Watch::begin_at(tree.root(), &card(&tree));
    let seen = watch.end();
    assert_eq!((seen.throttled, seen.foreign_bytes, seen.fetched_bytes), (None, None, None));
    assert_eq!(Observed::default().warnings(), []);
}

proptest! {
    #[test]
    fn counters_of_any_form_are_read_without_a_panic(text in "([0-9]{1,20}[ \n]+){0,9}\\PC{0,5}|[a-z_]{0,9}: [0-9]{0,22}") {
        let _ = (parse_stat(&text), parse_io(&text));
    }

    #[test]
    fn what_the_kernel_writes_is_understood(numbers in prop::collection::vec(0u64..1 << 40, 7..20)) {
        let text = numbers.iter().map(|n| format!("{n:8} ")).collect::<String>();
        let moved = Moved { read_bytes: numbers[2] * 512, written_bytes: numbers[6] * 512 };
        prop_assert_eq!(parse_stat(&text), Some(moved));
    }
}
