use super::*;

#[test]
fn a_file_system_that_this_kernel_lacks_is_named() {
    let has = std::fs::read_to_string("/proc/filesystems").unwrap().contains("f2fs");
    let checked = make::check_kernel(Kind::F2fs);
    if !has && let Err(error) = checked {
        let message = error.to_string();
        assert!(message.contains("has no f2fs") && message.contains("choose another"), "{message}");
    }
    if has {
        make::check_kernel(Kind::F2fs).unwrap();
    }
}

#[test]
fn an_image_has_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let image = device::image(folder.path(), 1 << 20).unwrap();
    assert_eq!(image.metadata().unwrap().len(), 1 << 20);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

mod privileged {
    use super::*;

    /// The kernel delays the last use of a mount for a moment; a device that is never released stays attached.
    fn wait_until_free(images: &Path) {
        let begun = std::time::Instant::now();
        while !device::attached_from(images).is_empty() {
            assert!(begun.elapsed().as_secs() < 60, "{:?} still in use", device::attached_from(images));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    #[ignore = "needs root: loop devices"]
    fn one_is_made_seen_by_its_thread_alone_and_gone_afterwards() {
        for kind in [Kind::Ext4, Kind::Ext4NoJournal] {
            let images = tempfile::tempdir().unwrap();
            let folder = images.path().to_path_buf();
            let made = std::thread::spawn(move || {
                let made = LoopFs::make_in(&folder, kind, 32 << 20, Some("mq-deadline")).unwrap();
                std::fs::write(made.folder().join("file"), "x").unwrap();
                assert_eq!(device::attached_from(&folder), [Path::new("/sys/block").join(&made.disk.name)]);
                let text = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
                let line =
                    text.lines().find(|line| line.contains(&format!("/{} ", made.disk.name))).unwrap().to_string();
                assert!(line.contains(" - ext4 "), "{line}");
                assert_eq!(made.disk.schedulers().0.as_deref(), Some("mq-deadline"));
                let others = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
                assert!(!others.contains(&format!("/{} ", made.disk.name)), "the process's first thread sees it");
            });
            made.join().unwrap();
            wait_until_free(images.path());
        }
    }

    #[test]
    #[ignore = "needs root: loop devices"]
    fn a_scheduler_that_there_is_not_leaves_nothing() {
        let images = tempfile::tempdir().unwrap();
        let folder = images.path().to_path_buf();
        let failed = std::thread::spawn(move || {
            LoopFs::make_in(&folder, Kind::Ext4, 32 << 20, Some("mq-deadlin")).unwrap_err().to_string()
        });
        let message = failed.join().unwrap();
        assert!(message.contains("did you mean 'mq-deadline'"), "{message}");
        wait_until_free(images.path());
    }
}
