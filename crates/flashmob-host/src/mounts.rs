//! `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A device number, major and minor.
pub(super) type Dev = (u32, u32);

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub dev: Dev,
    pub point: PathBuf,
    /// Options of the mount and of the file system, each once.
    pub options: String,
    pub filesystem: String,
    pub source: PathBuf,
}

/// All mounts; malformed lines are left out.
pub(super) fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ');
    let (major, minor) = before.nth(2)?.split_once(':')?;
    let point = before.nth(1)?;
    let of_mount = before.next()?;
    let mut after = after.split(' ');
    let filesystem = after.next().filter(|text| !text.is_empty())?;
    let source = after.next().unwrap_or_default();
    let mut options: Vec<&str> = of_mount.split(',').collect();
    // A read-only mount is read-only, whatever the file system's own options.
    for option in after.next().unwrap_or_default().split(',') {
        if !option.is_empty() && option != "rw" && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        dev: (major.parse().ok()?, minor.parse().ok()?),
        point: unescape(point),
        options: options.join(","),
        filesystem: filesystem.to_string(),
        source: unescape(source),
    })
}

/// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    loop {
        rest = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
            [] => return OsString::from_vec(out).into(),
        };
    }
}

/// The mount of `path` (absolute, without links), given its device number from `stat`.
///
/// btrfs gives every subvolume a number that no mount has; then the longest mount point that is a prefix of `path` decides.
pub(super) fn of_file<'a>(mounts: &'a [Mount], path: &Path, dev: Dev) -> Option<&'a Mount> {
    let leads = |mount: &&Mount| path.starts_with(&mount.point);
    // Of several mounts on one point the last one is on top, and `max_by_key` returns the last.
    let depth = |mount: &&Mount| mount.point.as_os_str().as_bytes().len();
    let same = || mounts.iter().filter(|mount| mount.dev == dev);
    same()
        .filter(leads)
        .max_by_key(depth)
        // After a chroot the path may differ from the kernel's: the file system is still the right one.
        .or_else(|| same().next_back())
        .or_else(|| mounts.iter().filter(leads).max_by_key(depth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INFO: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
        28 27 0:30 /@home /home rw,noatime shared:1 master:2 - btrfs /dev/nvme0n1p2 rw,ssd,subvol=/@home\n\
        30 27 8:1 /a /mnt/with\\040space\\134x ro - vfat /dev/sda1 rw,errors=remount-ro\n\
        31 27 8:1 / /mnt rw - vfat /dev/sda1 rw\n\
        32 27 0:40 / /mnt rw - tmpfs tmpfs rw\n\
        damaged\n33 27 x:1 / / rw - a b c\n";

    #[test]
    fn mounts_are_found_by_device_and_by_path() {
        let mounts = parse(INFO);
        assert_eq!(mounts.len(), 5);
        assert_eq!(mounts[0].options, "rw,relatime,discard");
        assert_eq!(mounts[2].point, Path::new("/mnt/with space\\x"));
        assert_eq!(mounts[2].options, "ro,errors=remount-ro");
        let of = |path: &str, dev| of_file(&mounts, Path::new(path), dev).map(|mount| mount.point.to_str().unwrap());
        assert_eq!(of("/home/me/f", (0, 99)), Some("/home"), "a subvolume's number is nobody's");
        assert_eq!(of("/mnt/with space\\x/f", (8, 1)), Some("/mnt/with space\\x"), "the longest");
        assert_eq!(of("/mnt/f", (8, 1)), Some("/mnt"));
        assert_eq!(of_file(&mounts, Path::new("/mnt/f"), (0, 40)).unwrap().filesystem, "tmpfs", "what is on top");
        assert_eq!(of_file(&mounts, Path::new("/mnt/f"), (0, 77)).unwrap().filesystem, "tmpfs", "the last of equals");
        assert_eq!(of("/homes", (0, 99)), Some("/"), "whole names, not their beginnings");
        assert_eq!(of("/elsewhere", (0, 40)), Some("/mnt"));
        assert_eq!(of_file(&[], Path::new("/"), (1, 1)), None);
    }

    proptest! {
        #[test]
        fn anything_at_all_is_read_without_a_panic(text in "([0-9:/a\\\\ ,\n-]|\\\\[0-7]{3}| - |\\PC){0,120}") {
            for mount in parse(&text) {
                prop_assert!(!mount.filesystem.is_empty());
                of_file(std::slice::from_ref(&mount), Path::new("/"), mount.dev).unwrap();
            }
        }

        #[test]
        fn any_name_survives_the_kernels_escapes(name in "[a \t\\\\0-9é\n]{1,20}") {
            let escaped: String = name.chars().map(|c| match c {
                ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", c as u32),
                c => c.to_string(),
            }).collect();
            let line = format!("1 2 3:4 / /{escaped} rw - ext4 /dev/x rw");
            prop_assert_eq!(parse(&line)[0].point.clone(), PathBuf::from(format!("/{name}")));
        }
    }
}
