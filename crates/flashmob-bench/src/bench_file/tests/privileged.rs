//! Full, read-only and foreign file systems, and block devices; all tests need root.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use flashmob_host::place::locate;

use super::super::{BenchFileError, make, make_with, open_for_reading, open_for_writing};
use super::{again, child_path};

/// A loop device, until it is dropped.
struct Loop(PathBuf);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn a_block_device_is_read_and_never_written() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let device = Loop(String::from_utf8(made.stdout).unwrap().trim().into());
    let opened = open_for_reading(&device.0).unwrap();
    assert_eq!((opened.size_bytes, opened.header, opened.is_block_device), (16 << 20, None, true));
    for allow in [false, true] {
        assert!(matches!(open_for_writing(&device.0, allow), Err(BenchFileError::IsDevice { .. })));
    }
}

/// Runs in its own mount namespace, so that no mount remains after a failure.
fn mounted(mount: &str, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("{mount} \"$FLASHMOB_TEST_CHILD_PATH\"; exec \"$@\"");
    let output = again(&["unshare", "-m", "sh", "-ec", &script, "sh"], name, dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "needs root to mount a small file system"]
fn full_and_read_only_file_systems_are_named() {
    mounted("mount -t tmpfs -o size=8m none", "privileged::child_on_a_small_file_system");
    mounted("mount -t tmpfs -o ro none", "privileged::child_on_a_read_only_file_system");
}

#[test]
#[ignore = "started by full_and_read_only_file_systems_are_named"]
fn child_on_a_small_file_system() {
    let Some(dir) = child_path() else { return };
    let (path, other) = (dir.join("file"), dir.join("other"));
    let cancel = AtomicBool::new(false);
    let error = make(&path, 9 << 20, 1, |_| {}, &cancel).unwrap_err();
    assert!(error.to_string().contains("lacks 1 MiB for a file of 9 MiB: 8 MiB are free"), "{error}");
    for may_be_nameless in [true, false] {
        // Other programs fill the file system meanwhile.
        let fill = |_: &crate::progress::Progress| {
            let _ = std::fs::write(&other, vec![1; 6 << 20]);
        };
        let made = make_with(&path, 6 << 20, 1, fill, &cancel, may_be_nameless);
        let error = made.unwrap_err();
        assert!(matches!(error, BenchFileError::NoSpace { .. }), "{error}");
        std::fs::remove_file(&other).unwrap();
        assert_eq!(dir.read_dir().unwrap().count(), 0, "nothing stays");
    }
    make(&path, 7 << 20, 1, |_| {}, &cancel).unwrap();
    let located = locate(&path);
    assert_eq!((located.place.filesystem.as_deref(), located.disk), (Some("tmpfs"), None));
}

#[test]
#[ignore = "started by full_and_read_only_file_systems_are_named"]
fn child_on_a_read_only_file_system() {
    let Some(dir) = child_path() else { return };
    let error = make(&dir.join("file"), 1 << 20, 1, |_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, BenchFileError::ReadOnly { .. }), "{error}");
}

#[test]
#[ignore = "needs root to become someone else"]
fn who_may_not_write_there_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), readable).unwrap();
    let before = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"];
    let output = again(&before, "privileged::child_without_rights", dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "started by who_may_not_write_there_is_told_so"]
fn child_without_rights() {
    let Some(dir) = child_path() else { return };
    let made = make(&dir.join("new"), 1 << 20, 1, |_| {}, &AtomicBool::new(false));
    assert!(matches!(made, Err(BenchFileError::Io { .. })), "{made:?}");
}
