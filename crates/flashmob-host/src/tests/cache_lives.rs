//! Page caches of made-up and of real files: which of them are told apart.

use std::path::Path;

use flashmob_core::node::CacheLife::{self, Instance, Kernel, Unknown};

use super::trees::Tree;
use crate::cache_life;
use crate::cache_life::cache_life_at;

const MOUNTS: &str = "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
    28 27 8:2 / /x rw - xfs /dev/sda2 rw\n\
    29 27 8:3 / /f rw - f2fs /dev/sda3 rw\n\
    30 27 0:30 /home /b rw - btrfs /dev/sda4 rw\n\
    31 27 8:5 / /two rw - ext2 /dev/sda5 rw\n\
    32 27 0:40 / /tmp rw - tmpfs tmpfs rw\n\
    33 27 0:41 / /nfs rw - nfs4 server:/x rw\n\
    34 27 0:42 / /fuse rw - fuse.sshfs me@x: rw\n\
    35 27 8:6 / /vfat rw - vfat /dev/sda6 rw\n\
    36 27 8:17 / /card rw - ext4 /dev/sdb1 rw\n\
    37 27 0:43 / /over rw - overlay overlay rw\n\
    38 27 8:7 / /data rw - f2fs /dev/sda7 rw\n";

fn machine(release: &str) -> Tree {
    let tree = Tree::new(&[("proc/self/mountinfo", MOUNTS), ("proc/sys/kernel/osrelease", release)]);
    tree.device("ata/sda", "8:0", &[("diskseq", "1\n"), ("removable", "0\n")]);
    for part in 1..8 {
        tree.device(&format!("ata/sda/sda{part}"), &format!("8:{part}"), &[("partition", "1\n")]);
        tree.file(&format!("dev/sda{part}"), "");
    }
    tree.device("usb/sdb", "8:16", &[("removable", "1\n")]);
    tree.device("usb/sdb/sdb1", "8:17", &[("partition", "1\n")]);
    for folder in ["ext4/sda1", "xfs/sda2", "f2fs/sda3", "ext4/sda5", "ext4/sdb1", "f2fs/other", "f2fs/x"] {
        tree.file(&format!("sys/fs/{folder}/x"), "");
    }
    tree.file("sys/fs/btrfs/features/x", "");
    tree.file("sys/fs/btrfs/0a0b/devices/sda4", "");
    tree
}

fn life(tree: &Tree, path: &str, dev: (u32, u32)) -> CacheLife {
    cache_life_at(tree.root(), Path::new(path), dev, false)
}

#[test]
fn file_systems_with_a_superblock_in_sysfs_are_told_apart_and_others_are_not() {
    let tree = machine("5.4.0\n");
    let mut seen = Vec::new();
    for (path, dev) in [("/a", (8, 1)), ("/x/a", (8, 2)), ("/f/a", (8, 3)), ("/b/a", (0, 99)), ("/two/a", (8, 5))] {
        let found = life(&tree, path, dev);
        assert!(matches!(found, Instance(_)) && !seen.contains(&found), "{path}: {found:?}");
        assert_eq!(found, life(&tree, path, dev), "{path}: it stays while nothing happens");
        seen.push(found);
    }
    for (path, dev, wanted) in [
        ("/tmp/a", (0, 40), Kernel),
        ("/nfs/a", (0, 41), Unknown),
        ("/fuse/a", (0, 42), Unknown),
        ("/vfat/a", (8, 6), Unknown),
        ("/over/a", (0, 43), Unknown),
        ("/data/a", (8, 7), Unknown),
    ] {
        assert_eq!(life(&tree, path, dev), wanted, "{path}");
    }
}

#[test]
fn a_file_system_that_was_mounted_again_is_another() {
    let tree = machine("5.4.0\n");
    let before = life(&tree, "/a", (8, 1));
    // The old folder stays, so that its inode is not used again.
    std::fs::rename(tree.path("sys/fs/ext4/sda1"), tree.path("sys/fs/ext4/gone")).unwrap();
    assert_eq!(life(&tree, "/a", (8, 1)), Unknown);
    tree.file("sys/fs/ext4/sda1/x", "");
    assert_ne!(life(&tree, "/a", (8, 1)), before);
}

#[test]
fn what_may_change_unseen_is_no_proof() {
    for (release, is_told) in [("4.13.0-x\n", false), ("3.1.10-g05\n", false), ("4.14.1\n", true), ("6.1.0\n", true)] {
        let told = matches!(life(&machine(release), "/a", (8, 1)), Instance(_));
        assert_eq!(told, is_told, "kernfs draws numbers from a counter since 4.14: {release}");
    }
    let tree = machine("5.4.0\n");
    assert_eq!(life(&tree, "/card/a", (8, 17)), Unknown, "a medium that can be exchanged");
    tree.file("sys/devices/usb/sdb/diskseq", "7\n");
    assert!(matches!(life(&tree, "/card/a", (8, 17)), Instance(_)), "the number of the medium tells");
}

#[test]
fn a_block_device_has_the_life_of_its_medium() {
    let tree = machine("5.15.0\n");
    let device = |dev| cache_life_at(tree.root(), Path::new("/dev/x"), dev, true);
    assert_eq!(device((8, 1)), Instance(1));
    assert_eq!(device((8, 17)), Unknown);
}

#[test]
fn android_does_not_unmount_its_data() {
    let tree = machine("4.9.0\n");
    tree.file("system/build.prop", "");
    assert_eq!(life(&tree, "/data/data/com.termux/a", (8, 7)), Kernel);
    assert_eq!(life(&tree, "/card/a", (8, 17)), Unknown);
}

#[test]
fn a_real_file_has_the_same_life_in_every_look() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(cache_life(file.path()), cache_life(file.path()));
    assert_eq!(cache_life(Path::new("/proc/version")), Unknown);
    assert_eq!(cache_life(&file.path().join("missing")), Unknown);
}
