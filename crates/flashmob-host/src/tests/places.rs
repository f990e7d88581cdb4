//! Made-up devices: their descriptions, and the places of their files.

use std::path::Path;

use proptest::prelude::*;

use super::trees::{self, Tree};
use crate::device::{describe, describe_at};
use crate::flushes::Flushes;
use crate::place::{Located, is_accounted, locate, locate_at, medium_seq, medium_seq_at, parse_schedulers};

fn at(tree: &Tree, path: &str, dev: (u32, u32)) -> Located {
    locate_at(tree.root(), Path::new(path), dev, false)
}

#[test]
fn what_another_process_reads_from_the_disk_is_not_called_others() {
    assert!([None, Some("ext4"), Some("f2fs"), Some("sdcardfs")].into_iter().all(is_accounted));
    assert!(["fuse", "fuseblk", "fuse.sshfs", "zfs", "nfs4"].into_iter().all(|name| !is_accounted(Some(name))));
}

#[test]
fn a_medium_that_is_put_in_again_has_another_number() {
    let tree = Tree::new(&[]);
    tree.device("mmc/mmcblk1", "179:0", &[("diskseq", "12\n")]);
    tree.device("mmc/mmcblk1/mmcblk1p1", "179:1", &[("partition", "1\n")]);
    tree.device("virtual/dm-0", "253:0", &[("diskseq", "13\n")]);
    tree.link("sys/devices/virtual/dm-0/slaves/mmcblk1p1", "sys/devices/mmc/mmcblk1/mmcblk1p1");
    tree.device("old/sda", "8:0", &[]);
    tree.device("odd/sdb", "8:16", &[("diskseq", "many\n")]);
    for (dev, seq) in [
        ((179, 0), Some(12)),
        ((179, 1), Some(12)),
        ((253, 0), Some(12)),
        ((8, 0), None),
        ((8, 16), None),
        ((0, 30), None),
        ((9, 9), None),
    ] {
        assert_eq!(medium_seq_at(tree.root(), dev), seq, "{dev:?}");
    }
    tree.file("sys/devices/mmc/mmcblk1/diskseq", "14\n");
    assert_eq!(medium_seq_at(tree.root(), (179, 1)), Some(14));
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(medium_seq(file.path()), medium_seq(file.path()), "it stays while nothing happens");
    assert_eq!(medium_seq(&tree.path("missing")), None);
}

#[test]
fn devices_say_what_they_are() {
    let nexus = describe_at(trees::nexus7().root());
    assert_eq!(nexus.model.as_deref(), Some("Nexus 7"));
    assert_eq!(nexus.system.as_deref(), Some("Android 4.4.2 (API 19)"));
    assert_eq!(nexus.kernel.as_deref(), Some("Linux 3.1.10-g05b777c"));
    assert_eq!(nexus.cpu.as_deref(), Some("grouper, Cortex-A9"));
    assert_eq!(nexus.memory_bytes, Some(999_476 << 10));
    assert!(nexus.cpus > 0);
    let pi = describe_at(trees::raspberry_pi().root());
    assert_eq!(pi.model.as_deref(), Some("Raspberry Pi 4 Model B Rev 1.4"));
    assert_eq!(pi.system.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!(pi.cpu.as_deref(), Some("Cortex-A72"));
    let tree = trees::pc();
    let pc = describe_at(tree.root());
    assert_eq!(pc.model.as_deref(), Some("LENOVO 20HRCTO1WW"));
    assert_eq!(pc.system.as_deref(), Some("Arch"));
    tree.file("sys/class/dmi/id/sys_vendor", "To Be Filled By O.E.M.\n");
    assert_eq!(describe_at(tree.root()).model.as_deref(), Some("20HRCTO1WW"));
}

#[test]
fn what_is_missing_is_not_known() {
    let tree = Tree::new(&[]);
    let device = describe_at(tree.root());
    assert_eq!((device.model, device.system, device.cpu, device.memory_bytes), (None, None, None, None));
    assert_eq!(at(&tree, "/x", (8, 1)), Located::default());
    // Directories in place of files cannot be read either.
    for path in ["proc/cpuinfo/x", "proc/meminfo/x", "etc/os-release/x", "proc/self/mountinfo/x"] {
        tree.file(path, "");
    }
    assert_eq!(describe_at(tree.root()).cpu, None);
    assert_eq!(at(&tree, "/x", (8, 1)), Located::default());
}

#[test]
fn a_tablets_file_lies_on_its_emmc() {
    let tree = trees::nexus7();
    let located = at(&tree, "/data/local/tmp/f", (259, 1));
    let place = &located.place;
    assert_eq!(place.filesystem.as_deref(), Some("ext4"));
    assert_eq!(place.mount_options.as_deref(), Some("rw,nosuid,nodev,noatime,nomblk_io_submit"));
    assert_eq!(place.disk.as_deref(), Some("mmcblk0"));
    assert_eq!(place.disk_model.as_deref(), Some("HBG4e"));
    assert_eq!(place.disk_bytes, Some(61_071_360 * 512));
    assert_eq!(place.rotational, Some(false));
    assert_eq!(place.scheduler.as_deref(), Some("row"));
    assert_eq!(place.schedulers, ["noop", "deadline", "row", "cfq"]);
    assert_eq!(place.readahead_bytes, Some(128 << 10));
    let shared = at(&tree, "/storage/emulated/0/f", (0, 17));
    assert_eq!(shared.place.filesystem.as_deref(), Some("fuse"));
    assert_eq!(shared.disk, located.disk, "shared storage is a layer above /data");
}

#[test]
fn volumes_lead_to_the_disk_below() {
    let tree = trees::pc();
    let root = at(&tree, "/home/f", (0, 99)).place;
    assert_eq!((root.filesystem.as_deref(), root.disk.as_deref()), (Some("btrfs"), Some("nvme0n1")));
    assert_eq!(root.disk_model.as_deref(), Some("Samsung SSD 970 PRO"));
    let usb = at(&tree, "/mnt/usb stick/f", (8, 17)).place;
    assert_eq!((usb.disk.as_deref(), usb.disk_model.as_deref()), (Some("sdb"), Some("SanDisk Ultra")));
    assert_eq!((usb.scheduler, usb.rotational), (None, None), "a stick does not say that it does not turn");
    let ata = at(&tree, "/old/f", (8, 0)).place;
    assert_eq!((ata.disk.as_deref(), ata.rotational), (Some("sda"), Some(true)));
    let raid = at(&tree, "/raid/f", (9, 0)).place;
    assert_eq!((raid.disk.as_deref(), raid.scheduler.as_deref()), (Some("md0"), Some("none")), "two disks are below");
    let on_loop = at(&tree, "/loop/f", (7, 3)).place;
    assert_eq!((on_loop.disk.as_deref(), on_loop.scheduler.as_deref()), (Some("loop3"), Some("mq-deadline")));
    let virtual_disk = at(&tree, "/virtual/f", (254, 0)).place;
    assert_eq!(
        (virtual_disk.disk.as_deref(), virtual_disk.disk_model, virtual_disk.disk_bytes),
        (Some("vda"), None, None)
    );
    for (path, dev, filesystem) in [("/tmp/f", (0, 51), "tmpfs"), ("/var/lib/merged/f", (0, 50), "overlay")] {
        let located = at(&tree, path, dev);
        assert_eq!((located.place.filesystem.as_deref(), located.disk), (Some(filesystem), None));
    }
    let device = locate_at(tree.root(), Path::new("/dev/sdb1"), (8, 17), true).place;
    assert_eq!((device.filesystem, device.disk.as_deref()), (None, Some("sdb")));
}

#[test]
fn a_disk_has_one_id_for_all_that_is_on_it_until_its_system_restarts() {
    let tree = trees::pc();
    let id = |path: &str, dev| at(&tree, path, dev).place.disk_id;
    assert_eq!(id("/home/f", (0, 99)), None, "the boot's number is not known");
    tree.file("proc/sys/kernel/random/boot_id", "4a4a58a1-64d4-4c2c-bd0b-3a8d6d1f5e11\n");
    let home = id("/home/f", (0, 99)).unwrap();
    assert_eq!((home.len(), Some(&home)), (16, id("/x", (259, 3)).as_ref()), "a subvolume, and the partition below it");
    let of_others =
        [((8, 17), "/mnt/usb stick/f"), ((7, 3), "/loop/f"), ((9, 0), "/raid/f")].map(|(dev, path)| id(path, dev));
    assert!(of_others.iter().all(|other| other.as_ref().is_some_and(|other| *other != home)), "{of_others:?}");
    assert_eq!(id("/tmp/f", (0, 51)), None, "memory is no disk");
    tree.file("proc/sys/kernel/random/boot_id", "4a4a58a1-64d4-4c2c-bd0b-3a8d6d1f5e12\n");
    assert_ne!(id("/home/f", (0, 99)), Some(home));
}

#[test]
fn devices_that_lie_on_each_other_in_a_circle_end_somewhere() {
    let tree = trees::pc();
    tree.device("virtual/dm-1", "253:1", &[]);
    tree.device("virtual/dm-2", "253:2", &[]);
    tree.link("sys/devices/virtual/dm-1/slaves/dm-2", "sys/devices/virtual/dm-2");
    tree.link("sys/devices/virtual/dm-2/slaves/dm-1", "sys/devices/virtual/dm-1");
    assert!(at(&tree, "/x", (253, 1)).disk.unwrap().name.starts_with("dm-"));
}

#[test]
fn this_machine_is_described_and_a_future_file_has_a_place() {
    let device = describe();
    assert!(device.kernel.unwrap().starts_with("Linux "));
    assert!(device.memory_bytes.unwrap() > 1 << 20);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let future = locate(&dir.path().join("not/there/yet"));
    std::fs::write(&file, "x").unwrap();
    assert_eq!(locate(&file), future);
    assert!(future.place.filesystem.is_some(), "{future:?}");
    assert_eq!(locate(Path::new("/proc/self/stat")).place.filesystem.as_deref(), Some("proc"));
}

proptest! {
    #[test]
    fn any_list_of_schedulers_is_read_without_a_panic(text in "[\\[\\] a-z]{0,30}|\\PC{0,20}") {
        let (current, all) = parse_schedulers(&text);
        if let Some(current) = current {
            prop_assert!(all.contains(&current));
        }
    }
}

#[test]
fn flushes_that_do_not_reach_the_flash_are_told_by_mount_and_journal() {
    let under = |release: &str, filesystem: &str, options: &str, journal: Option<&str>| {
        let mounts = format!("1 1 254:0 / /data rw,noatime - {filesystem} /dev/mmcblk0p4 {options}\n");
        let tree = Tree::new(&[("proc/self/mountinfo", &mounts)]);
        tree.file("proc/sys/kernel/osrelease", release);
        tree.device("mmcblk0/mmcblk0p4", "254:0", &[]);
        if let Some(task) = journal {
            tree.file("sys/fs/ext4/mmcblk0p4/journal_task", task);
        }
        at(&tree, "/data/x", (254, 0)).flushes
    };
    let of = |filesystem: &str, options: &str, journal: Option<&str>| {
        under("6.1.0-56-amd64\n", filesystem, options, journal)
    };
    for (filesystem, options, journal) in [
        ("ext4", "rw", Some("377\n")),
        ("ext4", "rw,barrier=1", None),
        ("f2fs", "rw,fsync_mode=posix", None),
        ("f2fs", "rw,fsync_mode=strict", Some("<none>\n")),
        ("xfs", "rw", None),
        ("ext4", "rw,nobarriers", Some("377\n")),
    ] {
        assert_eq!(of(filesystem, options, journal), Flushes::Reach, "{filesystem} {options}");
    }
    let needs = |why: &str| Flushes::NeedSyncfs(why.to_string());
    let no_journal = |release: &str| under(release, "ext4", "rw", Some("<none>\n"));
    for (release, expected) in [
        ("6.4.99\n", needs("ext4 has no journal, and Linux is older than 6.5")),
        ("3.1.10-g05b777c\n", needs("ext4 has no journal, and Linux is older than 6.5")),
        ("6.5.0\n", Flushes::Reach),
        ("7.0-rc1\n", Flushes::Reach),
        ("10.1\n", Flushes::Reach),
    ] {
        assert_eq!(no_journal(release), expected, "{release}");
    }
    assert_eq!(of("f2fs", "rw,fsync_mode=nobarrier", None), needs("f2fs is mounted with fsync_mode=nobarrier"));
    let never = |why: &str| Flushes::Never(why.to_string());
    assert_eq!(of("ext4", "rw,nobarrier", Some("<none>\n")), never("ext4 is mounted with nobarrier"));
    assert_eq!(of("ext4", "rw,barrier=0", None), never("ext4 is mounted with barrier=0"));
    assert_eq!(of("f2fs", "rw,nobarrier,fsync_mode=nobarrier", None), never("f2fs is mounted with nobarrier"));
}
