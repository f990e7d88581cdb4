//! Loop devices; all tests need root.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::scheduler::wait_for_line;
use super::{again, child_path};
use crate::cache::{drop_range, resident_bytes};
use crate::place::{Disk, locate};
use crate::scheduler::{SchedulerError, SchedulerGuard};

/// A command that must succeed; its output without the newline.
fn shell(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// A loop device of 16 MiB, until it is dropped.
struct Loop(PathBuf);

impl Loop {
    fn new(dir: &Path) -> Loop {
        let file = dir.join("image");
        std::fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
        Loop(shell(&format!("losetup -f --show {}", file.display())).into())
    }

    fn disk(&self) -> Disk {
        locate(&self.0).disk.unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn a_real_disk_gets_its_scheduler_back() {
    let dir = tempfile::tempdir().unwrap();
    let device = Loop::new(dir.path());
    let disk = device.disk();
    assert_eq!(disk.name, device.0.file_name().unwrap().to_str().unwrap());
    let current = || disk.schedulers().0.unwrap();
    let (old, all) = (current(), disk.schedulers().1);
    assert!(all.len() > 1, "{all:?}");
    for other in all.iter().chain(&all) {
        let guard = SchedulerGuard::set(Some(&disk), other).unwrap();
        assert_eq!((&current(), guard.current()), (other, other.as_str()));
        assert_eq!(guard.warning(), None);
        guard.restore().unwrap();
        assert_eq!(current(), old);
        drop(SchedulerGuard::set(Some(&disk), other).unwrap());
        assert_eq!(current(), old);
    }
    let other = all.iter().find(|name| **name != old).unwrap();
    let panicked = std::panic::catch_unwind(|| {
        let _guard = SchedulerGuard::set(Some(&disk), other).unwrap();
        assert_eq!(&current(), other);
        std::panic::resume_unwind(Box::new("no message"));
    });
    assert!(panicked.is_err());
    assert_eq!(current(), old);
    let error = SchedulerGuard::set(Some(&disk), "mq-deadlin").unwrap_err();
    let SchedulerError::Unknown { suggestion, .. } = &error else { panic!("{error}") };
    assert_eq!(suggestion.as_deref(), Some("mq-deadline"), "{error}");
    // The kernel maps this old name to the new one.
    let error = SchedulerGuard::set(Some(&disk), "deadline").unwrap_err();
    assert!(error.to_string().ends_with("did you mean 'mq-deadline'?"), "{error}");
    assert_eq!(current(), old);
}

#[test]
#[ignore = "needs root and a loop device"]
fn a_real_disk_gets_its_scheduler_back_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let device = Loop::new(dir.path());
    let disk = device.disk();
    let (old, all) = disk.schedulers();
    for other in all.iter().filter(|name| Some(*name) != old.as_ref()) {
        for signal in ["KILL", "TERM", "INT"].iter().filter(|signal| **signal != "INT" || !is_interrupt_ignored()) {
            std::fs::write(dir.path().join("wanted"), other).unwrap();
            std::fs::write(dir.path().join("device"), device.0.to_str().unwrap()).unwrap();
            let mut child =
                again(&[], "privileged::child_with_a_guard", dir.path()).stdout(Stdio::piped()).spawn().unwrap();
            wait_for_line(&mut child, "guarded");
            assert_eq!(disk.schedulers().0.as_ref(), Some(other));
            shell(&format!("kill -{signal} {}", child.id()));
            child.wait().unwrap();
            let begun = Instant::now();
            while disk.schedulers().0 != old {
                assert!(begun.elapsed() < Duration::from_secs(60), "{signal}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Children inherit that: a test in the background of a shell cannot interrupt them.
fn is_interrupt_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & (1 << (rustix::process::Signal::INT.as_raw() - 1)) != 0
}

#[test]
#[ignore = "started by a_real_disk_gets_its_scheduler_back_after_a_kill"]
fn child_with_a_guard() {
    let Some(dir) = child_path() else { return };
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let disk = locate(Path::new(&read("device"))).disk;
    let _guard = SchedulerGuard::set(disk.as_ref(), &read("wanted")).unwrap();
    println!("guarded");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "needs root and a loop device"]
fn the_page_cache_of_a_block_device_is_filled_and_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let device = Loop::new(dir.path());
    let file = std::fs::File::open(&device.0).unwrap();
    crate::cache::warm(&file, 0..1 << 20).unwrap();
    assert!(resident_bytes(&file, 0..1 << 20).unwrap().unwrap() > 1 << 19);
    assert_eq!(drop_range(&file, 0..16 << 20).unwrap().resident_after_bytes, Some(0));
}

#[test]
#[ignore = "needs root to become someone else"]
fn who_is_not_root_is_told_so_and_no_lies() {
    let dir = tempfile::tempdir().unwrap();
    let device = Loop::new(dir.path());
    std::fs::write(dir.path().join("device"), device.0.to_str().unwrap()).unwrap();
    std::fs::write(dir.path().join("file"), vec![1; 1 << 20]).unwrap();
    shell(&format!("chmod 755 {0}; chmod 644 {0}/*", dir.path().display()));
    let before = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"];
    let file = std::fs::File::open(dir.path().join("file")).unwrap();
    assert_eq!(drop_range(&file, 0..1 << 20).unwrap().resident_after_bytes, Some(0));
    let output = again(&before, "privileged::child_without_rights", dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "started by who_is_not_root_is_told_so_and_no_lies"]
fn child_without_rights() {
    let Some(dir) = child_path() else { return };
    let disk = locate(Path::new(&std::fs::read_to_string(dir.join("device")).unwrap())).disk.unwrap();
    let (old, all) = disk.schedulers();
    // A loop device keeps the scheduler of its last user; setting the current one again needs no privileges.
    let other = all.iter().find(|name| Some(*name) != old.as_ref()).unwrap();
    let error = SchedulerGuard::set(Some(&disk), other).unwrap_err();
    assert!(matches!(error, SchedulerError::NotPermitted { .. }), "{error}");
    assert_eq!(disk.schedulers().0, old);
    let file = std::fs::File::open(dir.join("file")).unwrap();
    // To other users, mincore reports all pages as resident. The result here must be correct, or `None`.
    let told = resident_bytes(&file, 0..1 << 20).unwrap();
    assert!(matches!(told, None | Some(0)), "{told:?}");
    let lie = crate::cache::by_mincore(&file, &(0..1 << 20)).unwrap();
    println!("cachestat or nothing: {told:?}, mincore: {lie}");
    let dropped = drop_range(&file, 0..1 << 20).unwrap();
    assert_eq!(dropped.remedy.is_some(), dropped.resident_after_bytes != Some(0), "{dropped:?}");
}
