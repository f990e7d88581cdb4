//! Pages that cannot be had: files that are cut short under the mapping.

use super::*;
use std::sync::atomic::AtomicBool;

#[test]
fn a_truncated_file_is_an_error_and_never_zeros_whatever_the_cut() {
    let size = 2 * REGION_BYTES;
    for cut in [0, 1, 4096, 4097, 500_001, REGION_BYTES, REGION_BYTES + 1, size - 4096, size - 1] {
        let mut scene = Scene::new(size);
        scene.warm(0);
        scene.warm(REGION_BYTES);
        let reads =
            [(cut, 1), (cut.saturating_sub(10), 11), (cut, 4096), (cut / 4096 * 4096, 4096), (size - 9000, 512)];
        truncate(&scene.path, cut);
        for (offset, len) in reads {
            if offset + len as u64 <= cut || offset + len as u64 > size {
                continue;
            }
            assert_ne!(scene.rig.store.try_read(offset, &mut vec![0; len]), TryRead::Hit, "{cut} {offset} {len}");
            assert_eq!(scene.rig.read(offset, len), Err(Failure::Io), "{cut} {offset} {len}");
        }
        assert!(scene.rig.store.is_damaged(), "{cut}");
        assert_eq!(scene.rig.store.try_read(0, &mut [0; 16]), TryRead::Failed(Failure::Io), "{cut}");
        assert!(scene.rig.store.mapped_status().unwrap().is_given_up, "{cut}");
    }
}

#[test]
fn a_cut_is_noticed_by_a_mapped_read_of_bytes_before_it() {
    let scene = Scene::new(REGION_BYTES);
    scene.warm(0);
    truncate(&scene.path, REGION_BYTES / 2);
    assert_ne!(scene.rig.store.try_read(0, &mut [0; 16]), TryRead::Hit);
    assert!(scene.rig.store.is_damaged());
}

#[test]
fn a_cut_in_the_middle_of_a_page_never_lets_its_zeros_out_however_it_falls() {
    // No byte of the pattern is zero, so one zero in a hit is a wrong byte.
    let cuts = [5 * 4096 + 100, 7 * 4096 + 4000, 11 * 4096 + 1];
    for round in 0..90u64 {
        let cut = cuts[round as usize % cuts.len()];
        let scene = Scene::new(REGION_BYTES / 2);
        scene.warm(0);
        let begun = AtomicBool::new(false);
        let mut hits = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                (0..round * 50).for_each(|_| std::hint::spin_loop());
                truncate(&scene.path, cut);
            });
            let mut buf = [0; 4096];
            begun.store(true, Ordering::Release);
            // The whole page at the cut, again and again while it happens.
            while scene.rig.store.try_read(cut / 4096 * 4096, &mut buf) == TryRead::Hit {
                assert!(buf.iter().all(|&byte| byte != 0), "round {round}: zeros after {hits} hits");
                hits += 1;
            }
        });
        assert!(scene.rig.store.is_damaged() || scene.rig.store.mapped_status().unwrap().is_given_up);
    }
}

#[test]
fn a_store_that_is_opened_again_after_the_file_was_restored_is_mapped_again() {
    let mut scene = Scene::new(REGION_BYTES);
    scene.warm(0);
    truncate(&scene.path, 4096);
    assert_ne!(scene.rig.store.try_read(0, &mut [0]), TryRead::Hit);
    let (path, bytes) = (scene.path.clone(), scene.bytes.clone());
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(scene.rig.store.try_read(0, &mut [0]), TryRead::Failed(Failure::Io), "not before");
    // The lock is given back only when the old one is gone.
    let placeholder = tempfile::tempdir().unwrap();
    let other = placeholder.path().join("other");
    std::fs::write(&other, [1; 100]).unwrap();
    scene.rig = Rig::open(StoreConfig::new(&other));
    scene.rig = Rig::open(StoreConfig::new(&path));
    scene.pass_ms(10);
    scene.warm(0);
}

#[test]
fn many_mappings_are_told_apart_when_one_is_struck() {
    let scenes: Vec<Scene> = (0..8).map(|_| Scene::new(REGION_BYTES)).collect();
    scenes.iter().for_each(|scene| scene.warm(0));
    truncate(&scenes[3].path, 0);
    for (i, scene) in scenes.iter().enumerate() {
        if i == 3 {
            assert_ne!(scene.rig.store.try_read(77, &mut [0; 100]), TryRead::Hit);
        } else {
            assert!(scene.read(77, 100), "{i}");
        }
    }
}

#[test]
fn what_a_pool_thread_forgets_may_strike_there_as_well() {
    let mut scene = Scene::new(REGION_BYTES);
    scene.warm(0);
    truncate(&scene.path, 8192);
    assert_eq!(scene.rig.result(bare(Op::Trim, 0, 4096)), Err(Failure::Io));
    scene.mapped().forget(0, 4096);
    assert!(scene.rig.store.mapped_status().unwrap().is_given_up);
}
