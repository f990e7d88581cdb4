//! What operations do to the bytes, on every engine.

use super::*;
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};

const SIZE_BYTES: u64 = 1 << 20;

#[test]
fn bytes_come_back_at_any_alignment() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut rig = Rig::open(config(&path, SIZE_BYTES, variant));
        let mut model = vec![0; SIZE_BYTES as usize];
        let places: [(u64, usize); 12] = [
            (0, 1),
            (0, SIZE_BYTES as usize),
            (SIZE_BYTES - 1, 1),
            (1, 4096),
            (511, 2),
            (4095, 2),
            (4096, 4096),
            (8191, 4098),
            (12_288, 512),
            (100_000, 300_001),
            (131_072, 131_072),
            (131_071, 131_074),
        ];
        for (i, (offset, len)) in places.into_iter().enumerate() {
            let flags = if i % 2 == 0 { OpFlags::FUA } else { OpFlags::NONE };
            let data = pattern(i as u64 * 1000, len);
            model[offset as usize..offset as usize + len].copy_from_slice(&data);
            let done = rig.one(with(flags, write(9, offset, data.clone())));
            assert_eq!((done.result, done.data), (Ok(()), data), "{variant:?} {offset} {len}");
            assert_eq!(rig.read(offset, len).unwrap(), model[offset as usize..offset as usize + len], "{variant:?}");
        }
        assert_eq!(rig.read(0, model.len()).unwrap(), model, "{variant:?}");
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        drop(rig);
        assert_eq!(std::fs::read(&path).unwrap(), model, "{variant:?}: the file is the bare bytes");
    }
}

#[test]
fn the_cache_answers_what_it_has_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let mut rig = Rig::open(config(&path, SIZE_BYTES, (Engine::Threads, false)));
    let data = pattern(5, 100_000);
    rig.result(with(OpFlags::FUA, write(1, 0, data.clone()))).unwrap();
    let mut buf = vec![0; 50_001];
    if is_left_out("nowait") {
        assert_eq!(rig.store.try_read(777, &mut buf), TryRead::Miss);
        return;
    }
    assert_eq!(rig.store.try_read(777, &mut buf), TryRead::Hit);
    assert_eq!(buf, data[777..50_778]);
    let (mut a, mut b) = ([0; 10], [0; 1000]);
    let mut slices = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    assert_eq!(rig.store.try_read_vectored(99, &mut slices), TryRead::Hit);
    assert_eq!([&a[..], &b[..]].concat(), data[99..1109]);
    assert_eq!(rig.store.try_read(SIZE_BYTES - 1, &mut [0; 2]), TryRead::Failed(Failure::Invalid));
    assert_eq!(rig.store.try_read(u64::MAX, &mut [0; 2]), TryRead::Failed(Failure::Invalid));
    assert_eq!(rig.store.try_read(0, &mut []), TryRead::Hit);
    let mut bytes = [0; 1025];
    let mut many: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
    assert_eq!(rig.store.try_read_vectored(0, &mut many[..1024]), TryRead::Hit, "at the kernel's limit");
    assert_eq!(rig.store.try_read_vectored(0, &mut many), TryRead::Miss, "above it");

    evict(&path, || rig.store.try_read(0, &mut buf) == TryRead::Miss);
    assert_eq!(rig.read(0, 50_001).unwrap(), data[..50_001]);
    assert_eq!(rig.store.try_read(0, &mut buf), TryRead::Hit, "read in again");
}

#[test]
fn a_direct_store_never_answers_from_the_cache() {
    if is_left_out("direct") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, (Engine::Threads, true)));
    rig.result(write(1, 0, pattern(1, 8192))).unwrap();
    assert_eq!(rig.store.try_read(0, &mut [0; 4096]), TryRead::Miss);
    let align = rig.store.alignment_bytes();
    assert!(align.is_power_of_two() && align >= 512, "{align}");
}

#[test]
fn zeroes_and_trims_change_their_range_only() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut rig = Rig::open(config(&path, SIZE_BYTES, variant));
        let mut model = pattern(3, SIZE_BYTES as usize);
        rig.result(write(1, 0, model.clone())).unwrap();
        let ranges = [(0, 1), (10_000, 50_000), (65_536, 65_536), (200_001, 3), (300_000, 131_073), (1 << 19, 1 << 19)];
        let flags = [OpFlags::NONE, OpFlags::NO_HOLE, OpFlags::FUA, OpFlags::FUA.with(OpFlags::NO_HOLE)];
        for (i, (offset, len)) in ranges.into_iter().enumerate() {
            let op = with(flags[i % 4], bare(Op::WriteZeroes, offset, len));
            assert_eq!(rig.result(op), Ok(()), "{variant:?} {offset} {len}");
            model[offset as usize..(offset + u64::from(len)) as usize].fill(0);
            assert_eq!(rig.read(0, model.len()).unwrap(), model, "{variant:?} {offset} {len}");
        }
        rig.result(write(1, 0, pattern(4, 100_000))).unwrap();
        assert_eq!(rig.result(with(OpFlags::FUA, bare(Op::Trim, 5000, 50_000))), Ok(()));
        let (before, now) = (pattern(4, 100_000), rig.read(0, 100_000).unwrap());
        for (i, (&was, &is)) in before.iter().zip(&now).enumerate() {
            assert!(is == was || (is == 0 && (5000..55_000).contains(&i)), "{variant:?}: byte {i}");
        }
    }
}

#[test]
fn holes_give_space_back_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let mut rig = Rig::open(config(&path, SIZE_BYTES, (Engine::Threads, false)));
    let allocated = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let len = SIZE_BYTES as u32;
    rig.result(with(OpFlags::FUA, write(1, 0, pattern(0, SIZE_BYTES as usize)))).unwrap();
    assert!(allocated() >= SIZE_BYTES);
    rig.result(with(OpFlags::NO_HOLE, bare(Op::WriteZeroes, 0, len))).unwrap();
    assert!(allocated() >= SIZE_BYTES, "kept");
    rig.result(bare(Op::WriteZeroes, 0, len)).unwrap();
    assert!(allocated() < SIZE_BYTES / 2, "given back by write zeroes");
    rig.result(with(OpFlags::FUA, write(1, 0, pattern(0, SIZE_BYTES as usize)))).unwrap();
    rig.result(bare(Op::Trim, 0, len)).unwrap();
    assert!(allocated() < SIZE_BYTES / 2, "given back by trim");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE_BYTES);
}

#[test]
fn four_gibibytes_of_trim_and_zeroes_are_one_operation() {
    let dir = tempfile::tempdir().unwrap();
    let size = u64::from(u32::MAX) + 4097;
    let size = size.next_multiple_of(4096);
    for variant in variants() {
        let mut rig = Rig::open(config(&dir.path().join("data"), size, variant));
        rig.result(write(1, 4097, vec![9; 10])).unwrap();
        rig.result(write(1, size - 10, vec![9; 10])).unwrap();
        assert_eq!(rig.result(bare(Op::WriteZeroes, 1, u32::MAX)), Ok(()));
        assert_eq!(rig.result(bare(Op::Trim, 1, u32::MAX)), Ok(()));
        assert_eq!(rig.read(4090, 100).unwrap(), vec![0; 100]);
        assert_eq!(rig.read(size - 10, 10).unwrap(), vec![9; 10]);
    }
}

#[test]
fn operations_that_do_not_fit_are_refused_and_change_nothing() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut rig = Rig::open(config(&path, SIZE_BYTES, variant));
        for op in [
            write(1, SIZE_BYTES, vec![1]),
            write(1, SIZE_BYTES - 1, vec![1; 2]),
            write(1, u64::MAX, vec![1]),
            read(1, SIZE_BYTES, 1),
            bare(Op::Trim, SIZE_BYTES - 5, 6),
            bare(Op::WriteZeroes, u64::MAX, u32::MAX),
            StoreOp { len_bytes: 3, ..write(1, 0, vec![1; 4]) },
            StoreOp { len_bytes: 5, ..read(1, 0, 4) },
        ] {
            assert_eq!(rig.result(op.clone()), Err(Failure::Invalid), "{variant:?} {op:?}");
        }
        for op in [read(1, SIZE_BYTES, 0), write(1, 0, vec![]), bare(Op::Trim, 9, 0), bare(Op::WriteZeroes, 9, 0)] {
            assert_eq!(rig.result(op.clone()), Ok(()), "{variant:?} {op:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; SIZE_BYTES as usize]);
    }
}

#[test]
fn a_thousand_at_once_are_all_answered_also_when_many_are_refused() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, variant));
        let refused = (0..500).map(|id| read(id, SIZE_BYTES, 1));
        assert_eq!(rig.run(refused.collect()).len(), 500, "{variant:?}: nothing but refusals");
        let mixed = (0..1000).map(|id| match id % 3 {
            0 => write(id, id * 1024, vec![id as u8; 1024]),
            1 => read(id, u64::MAX, 1),
            _ => StoreOp { id, ..bare(Op::Flush, 0, 0) },
        });
        for (id, done) in rig.run(mixed.collect()) {
            assert_eq!(done.result.is_ok(), id % 3 != 1, "{variant:?} {id}");
        }
        assert_eq!(rig.read(999 * 1024, 1024).unwrap(), vec![(999 % 256) as u8; 1024], "{variant:?}");
    }
}

#[test]
fn a_store_that_is_dropped_finishes_its_writes() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut rig = Rig::open(config(&path, SIZE_BYTES, variant));
        let mut ops: Vec<_> = (0..256).map(|i| write(i, i * 4096, pattern(i, 4096))).collect();
        ops.insert(7, read(1000, 0, 10));
        rig.store.submit(&mut ops);
        drop(rig);
        let expected: Vec<u8> = (0..256).flat_map(|i| pattern(i, 4096)).collect();
        assert_eq!(std::fs::read(&path).unwrap(), expected, "{variant:?}");
    }
}

#[test]
fn a_flush_of_much_makes_progress_that_is_seen() {
    for (engine, direct) in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut rig = Rig::open(config(&path, 32 << 20, (engine, direct)));
        for (len_bytes, is_seen) in [(512 << 10, false), (8 << 20, !direct)] {
            (0..len_bytes >> 18).for_each(|i| rig.result(write(1, i << 18, pattern(i, 1 << 18))).unwrap());
            assert!(!rig.store.take_progress());
            rig.result(bare(Op::Flush, 0, 0)).unwrap();
            assert_eq!(rig.store.take_progress(), is_seen, "{engine:?} {direct} {len_bytes}");
        }
        (0..32).for_each(|i| assert!(rig.read(i << 18, 1 << 18).unwrap() == pattern(i, 1 << 18), "{engine:?}"));
    }
}

#[test]
fn completions_that_nobody_collects_wake_once() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        let wake = move || {
            counter.fetch_add(1, Ordering::SeqCst);
        };
        let mut store =
            Store::open(config(&dir.path().join("data"), SIZE_BYTES, variant), Instant::now(), wake).unwrap();
        store.submit(&mut (0..50).map(|i| write(i, i * 4096, vec![1; 4096])).collect());
        drop(store);
        assert_eq!(wakes.load(Ordering::SeqCst), 1, "{variant:?}");
    }
}

#[test]
fn without_io_everything_succeeds_and_nothing_happens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let mut rig = Rig::open(StoreConfig { no_io: true, ..config(&path, SIZE_BYTES, (Engine::Threads, false)) });
    assert_eq!(rig.result(write(1, 0, vec![7; 100])), Ok(()));
    assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
    assert_eq!(rig.read(0, 100).unwrap(), vec![0; 100]);
    let mut buf = [7; 100];
    assert_eq!((rig.store.try_read(0, &mut buf), buf), (TryRead::Hit, [0; 100]));
    assert_eq!(std::fs::read(&path).unwrap(), vec![0; SIZE_BYTES as usize]);
}

#[test]
fn the_depth_follows_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    for (engine, direct) in variants() {
        let path = dir.path().join("data");
        let rig = Rig::open(StoreConfig { threads: 3, ..config(&path, SIZE_BYTES, (engine, direct)) });
        assert_eq!(rig.store.depth(), if engine == Engine::Threads { 6 } else { 64 });
        assert_eq!(rig.store.alignment_bytes() > 1, direct);
        assert_eq!(rig.store.size_bytes(), SIZE_BYTES);
    }
}

const MODEL_BYTES: u64 = 256 * 1024;

/// One operation of a generated batch: kind, flags, offset, length.
fn any_op() -> impl Strategy<Value = (u8, u8, u64, u32)> {
    let len = prop_oneof![1u32..600, 3000u32..9000, Just(4096u32), 1u32..60_000];
    (0u8..10, 0u8..4, 0..MODEL_BYTES, len)
}

/// Batches of operations that are under way together give what they would give one after the other, as long as those
/// that overlap are kept apart.
fn equals_model(variant: Variant, batches: &[Vec<(u8, u8, u64, u32)>]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(config(&dir.path().join("data"), MODEL_BYTES, variant));
    let align = rig.store.alignment_bytes();
    let mut model = vec![0u8; MODEL_BYTES as usize];
    for (b, batch) in batches.iter().enumerate() {
        let (mut ops, mut expected, mut trimmed, mut taken) = (vec![], BTreeMap::new(), vec![], vec![]);
        for (i, &(kind, flags, offset, len)) in batch.iter().enumerate() {
            let len = len.min((MODEL_BYTES - offset) as u32);
            let (start, end) = (offset / align * align, (offset + u64::from(len)).next_multiple_of(align));
            let mutates = (4..=8).contains(&kind);
            if kind != 9 && taken.iter().any(|&(s, e, m)| start < e && s < end && (m || mutates)) {
                continue;
            }
            taken.push((start, end, mutates));
            let (id, range) = (i as u64, offset as usize..offset as usize + len as usize);
            let op = match kind {
                0..=3 => {
                    expected.insert(id, model[range].to_vec());
                    read(id, offset, len as usize)
                }
                4..=6 => {
                    let data = pattern((b * 100 + i) as u64, len as usize);
                    model[range].copy_from_slice(&data);
                    write(id, offset, data)
                }
                7 => {
                    model[range].fill(0);
                    StoreOp { id, ..bare(Op::WriteZeroes, offset, len) }
                }
                8 => {
                    trimmed.push(range);
                    StoreOp { id, ..bare(Op::Trim, offset, len) }
                }
                _ => StoreOp { id, ..bare(Op::Flush, 0, 0) },
            };
            ops.push(with(OpFlags(flags), op));
        }
        for (id, done) in rig.run(ops) {
            prop_assert_eq!(done.result, Ok(()));
            if let Some(bytes) = expected.remove(&id) {
                prop_assert!(done.data == bytes, "{:?}: read {} of batch {}", variant, id, b);
            }
        }
        prop_assert!(expected.is_empty());
        for range in trimmed {
            let now = rig.read(range.start as u64, range.len()).unwrap();
            for (was, is) in model[range].iter_mut().zip(now) {
                prop_assert!(is == 0 || is == *was);
                *was = is;
            }
        }
    }
    prop_assert!(rig.read(0, model.len()).unwrap() == model, "{:?}: the whole", variant);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn concurrent_operations_equal_a_model(batches in prop::collection::vec(prop::collection::vec(any_op(), 1..40), 1..6)) {
        for variant in variants() {
            equals_model(variant, &batches)?;
        }
    }
}
