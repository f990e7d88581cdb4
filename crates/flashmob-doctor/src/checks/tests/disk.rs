//! Checks of the data's disk and file system.

use std::path::Path;

use flashmob_results::diagnosis::Outcome::{NotApplicable, Severe, Unknown, Well, Wrong};

use super::{Tree, commands, look};
use crate::view::{Data, Space, View};

/// A tree with one disk that holds `/data`.
fn with_disk(name: &str, files: &[(&str, &str)]) -> Tree {
    let tree = Tree::new(&[(
        "proc/self/mountinfo",
        &format!("1 1 7:9 / /data rw,noatime - ext4 /dev/{name} rw\n2 1 0:5 / /memory rw - tmpfs tmpfs rw\n"),
    )]);
    for (path, text) in files {
        tree.file(&format!("sys/class/block/{name}/queue/{path}"), text);
    }
    tree
}

#[test]
fn schedulers_that_wait_are_wrong_on_flash_and_on_disks_that_others_make_up() {
    let of = |name: &str, scheduler: &str, turns: &str| {
        with_disk(name, &[("scheduler", scheduler), ("rotational", turns)]).look_at_data("io-scheduler", "/data/x")
    };
    let emmc = of("mmcblk0", "noop deadline [cfq]", "0");
    assert_eq!(commands(&emmc), ["echo deadline > /sys/block/mmcblk0/queue/scheduler"]);
    let card = of("mmcblk1", "mq-deadline kyber [bfq] none", "1");
    assert_eq!(commands(&card), ["echo mq-deadline > /sys/block/mmcblk1/queue/scheduler"]);
    assert_eq!(of("vda", "[bfq] mq-deadline none", "1").outcome, Wrong);
    assert_eq!(of("sda", "[bfq] mq-deadline none", "0").outcome, Wrong);
    assert_eq!(of("sda", "[bfq] mq-deadline none", "1").outcome, Unknown, "a stick and a USB disk both say so");
    assert_eq!(of("vdax", "[bfq]", "1").outcome, Well, "nothing better is there");
    for well in ["[none] mq-deadline bfq", "none [mq-deadline]", "[kyber] none", "[noop] cfq"] {
        assert_eq!(of("mmcblk0", well, "0").outcome, Well, "{well}");
    }
    assert_eq!(of("mmcblk0", "", "0").outcome, NotApplicable);
    let ata = with_disk("sda", &[("scheduler", "[bfq] none"), ("rotational", "1")]);
    ata.file("sys/class/block/sda/device/vendor", "ATA");
    assert_eq!(ata.look_at_data("io-scheduler", "/data").outcome, Well, "it turns");
}

#[test]
fn readahead_is_wrong_above_1_mib_and_below_64_kib() {
    let of = |kib: &str| with_disk("mmcblk0", &[("read_ahead_kb", kib)]).look_at_data("readahead", "/data");
    for (kib, outcome) in [("0", Wrong), ("63", Wrong), ("64", Well), ("128", Well), ("1024", Well), ("1025", Wrong)] {
        assert_eq!(of(kib).outcome, outcome, "{kib}");
    }
    let virtual_disk =
        |kib: &str| with_disk("vda", &[("read_ahead_kb", kib)]).look_at_data("readahead", "/data").outcome;
    assert_eq!((virtual_disk("16384"), virtual_disk("16385"), virtual_disk("63")), (Well, Wrong, Wrong));
    let raid = |kib: &str| with_disk("md0", &[("read_ahead_kb", kib)]).look_at_data("readahead", "/data").outcome;
    assert_eq!((raid("4096"), raid("16385")), (Well, Wrong), "twice its stripe");
    assert_eq!(commands(&of("8192")), ["echo 128 > /sys/block/mmcblk0/queue/read_ahead_kb"]);
    assert_eq!(of("x").outcome, Unknown);
    let tree = with_disk("mmcblk0", &[("read_ahead_kb", "8192")]);
    assert_eq!(tree.look_at_data("readahead", "/memory/x").outcome, NotApplicable);
    tree.file("proc/self/mountinfo", "1 1 0:44 / /data rw - btrfs /dev/mmcblk0 rw\n");
    assert_eq!(tree.look_at_data("readahead", "/data").outcome, NotApplicable, "btrfs has its own");
}

#[test]
fn places_that_lose_data_or_cost_are_named() {
    let of = |filesystem: &str, options: &str| {
        let line = format!("1 1 0:44 / /place {options} - {filesystem} source rw\n");
        Tree::new(&[("proc/self/mountinfo", line.as_str())]).look_at_data("data-place", "/place/x").outcome
    };
    for (filesystem, options, outcome) in [
        ("ext4", "rw", Well),
        ("f2fs", "rw,noatime", Well),
        ("ext4", "ro,noatime", Severe),
        ("ext4", "rw,errors=remount-ro", Well),
        ("tmpfs", "rw", Severe),
        ("nfs4", "rw", Wrong),
        ("vfat", "rw", Wrong),
        ("fuse", "rw", Well),
    ] {
        assert_eq!(of(filesystem, options), outcome, "{filesystem} {options}");
    }
    let android = Tree::new(&[
        ("system/build.prop", ""),
        ("proc/self/mountinfo", "1 1 0:44 / /storage/emulated rw - fuse /dev/fuse rw\n"),
    ]);
    assert_eq!(android.look_at_data("data-place", "/storage/emulated/0/x").outcome, Wrong);
}

fn with_space_on(filesystem: &str, size: u64, free: u64, inodes: u64, free_inodes: u64, hole_bytes: u64) -> View {
    let mut view = with_space(size, free, inodes, free_inodes, hole_bytes);
    view.data.as_mut().unwrap().located.place.filesystem = Some(filesystem.into());
    view
}

fn with_space(size: u64, free: u64, inodes: u64, free_inodes: u64, hole_bytes: u64) -> View {
    let mut view = View::of_tree(Path::new("/nowhere"));
    let space = Space { size_bytes: size, free_bytes: free, inodes, free_inodes };
    view.data = Some(Data {
        path: "/data".into(),
        located: flashmob_host::place::Located::default(),
        space: Some(space),
        hole_bytes,
    });
    view
}

#[test]
fn room_is_judged_by_part_and_by_bytes() {
    const GIB: u64 = 1 << 30;
    let of = |size, free, holes| look(&with_space_on("ext4", size, free, 0, 0, holes), "free-space").outcome;
    assert_eq!(of(10 * GIB, GIB / 2, 0), Well, "5 % of it");
    assert_eq!(of(10 * GIB, GIB / 2 - 1, 0), Wrong);
    assert_eq!((of(1000 * GIB, GIB, 0), of(1000 * GIB, GIB - 1, 0)), (Well, Wrong), "of a large one 1 GiB is enough");
    assert_eq!((of(1000 * GIB, 16 << 20, 0), of(1000 * GIB, (16 << 20) - 1, 0)), (Wrong, Severe));
    assert_eq!((of(1000, 10, 0), of(1000, 9, 0), of(50, 0, 0)), (Wrong, Severe, Severe));
    assert_eq!((of(10 * GIB, 5 * GIB, 5 * GIB), of(10 * GIB, 5 * GIB, 5 * GIB + 1)), (Well, Severe));
    let compressed = with_space_on("btrfs", 10 * GIB, 5 * GIB, 0, 0, 6 * GIB);
    assert_eq!(look(&compressed, "free-space").outcome, Well);
    assert_eq!(of(0, 0, 0), Unknown);
}

#[test]
fn names_may_run_out_before_bytes_do() {
    let of = |inodes, free| look(&with_space(1, 1, inodes, free, 0), "free-inodes").outcome;
    assert_eq!(of(0, 0), NotApplicable);
    assert_eq!((of(1_000_000, 7), of(1_000_000, 8)), (Severe, Wrong));
    assert_eq!((of(1_000_000, 999), of(1_000_000, 1000)), (Wrong, Well));
    assert_eq!((of(10_000, 99), of(10_000, 100)), (Wrong, Well), "1 % of a small one");
}

#[test]
fn mounts_whose_flushes_do_not_reach_the_flash_are_severe() {
    let of = |filesystem: &str, options: &str| {
        let mounts = format!("1 1 7:9 / /data rw,noatime - {filesystem} /dev/mmcblk0p4 {options}\n");
        Tree::new(&[("proc/self/mountinfo", &mounts)]).look_at_data("flush-barriers", "/data/x")
    };
    for (filesystem, options) in [
        ("ext4", "rw"),
        ("ext4", "rw,barrier=1,data=ordered"),
        ("f2fs", "rw,fsync_mode=posix"),
        ("f2fs", "rw,fsync_mode=strict,background_gc=on"),
        ("xfs", "rw,inode64"),
    ] {
        assert_eq!(of(filesystem, options).outcome, Well, "{filesystem} {options}");
    }
    for (filesystem, options, outcome, remedy) in [
        ("ext4", "rw,nobarrier", Severe, "mount -o remount,barrier=1 /data"),
        ("ext4", "rw,barrier=0,data=ordered", Severe, "mount -o remount,barrier=1 /data"),
        ("f2fs", "rw,lazytime,fsync_mode=nobarrier", Wrong, "mount -o remount,fsync_mode=posix /data"),
        ("f2fs", "rw,nobarrier", Severe, ""),
    ] {
        let finding = of(filesystem, options);
        assert_eq!((finding.outcome, &*finding.command), (outcome, remedy), "{filesystem} {options}");
    }
    assert_eq!(Tree::new(&[]).look("flush-barriers").outcome, NotApplicable, "no data was named");
}
