//! Digests, on every engine.

use super::*;
use flashmob_core::wire::digest::{DIGEST_BLOCK_BYTES, answer_bytes, digest_of, digests};

const BLOCK: usize = DIGEST_BLOCK_BYTES as usize;
/// More than what is read at a time.
const SIZE_BYTES: u64 = 1 << 20;

fn asked(offset_bytes: u64, len_bytes: usize) -> StoreOp {
    let data = vec![9; answer_bytes(len_bytes as u32) as usize];
    StoreOp { data, ..bare(Op::Digest, offset_bytes, len_bytes as u32) }
}

/// The hashes of a range.
fn digest(rig: &mut Rig, offset_bytes: u64, len_bytes: usize) -> Vec<u64> {
    let done = rig.one(asked(offset_bytes, len_bytes));
    assert_eq!(done.result, Ok(()));
    digests(&done.data).collect()
}

#[test]
fn each_block_has_the_hash_of_its_bytes() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, variant));
        let zeros = digest_of(&[0; BLOCK]);
        assert_eq!(digest(&mut rig, 0, 256 << 10), [zeros; 64], "{variant:?}: a hole");
        // Not at blocks: the first and the last hold zeros as well.
        let (at, len) = (3 * BLOCK + 100, 300 << 10);
        rig.result(write(1, at as u64, pattern(1, len))).unwrap();
        let mut content = vec![0; SIZE_BYTES as usize];
        content[at..at + len].copy_from_slice(&pattern(1, len));
        for (offset, len) in
            [(0, 256 << 10), (3 * BLOCK, BLOCK), (BLOCK, 200 << 10), (SIZE_BYTES as usize - BLOCK, BLOCK)]
        {
            let expected: Vec<u64> = content[offset..offset + len].chunks(BLOCK).map(digest_of).collect();
            assert_eq!(digest(&mut rig, offset as u64, len), expected, "{variant:?}: {offset}+{len}");
        }
        let many = (0..64).map(|id| StoreOp { id, ..asked(id * BLOCK as u64, BLOCK) }).collect();
        for (id, done) in rig.run(many) {
            let block = &content[id as usize * BLOCK..][..BLOCK];
            assert_eq!(digests(&done.data).collect::<Vec<_>>(), [digest_of(block)], "{variant:?}: block {id}");
        }
        rig.result(bare(Op::WriteZeroes, 0, SIZE_BYTES as u32)).unwrap();
        assert_eq!(digest(&mut rig, 0, 256 << 10), [zeros; 64], "{variant:?}");
    }
}

#[test]
fn a_digest_that_does_not_fit_is_refused() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, variant));
        for op in [
            asked(SIZE_BYTES, BLOCK),
            asked(SIZE_BYTES - BLOCK as u64, 2 * BLOCK),
            asked(u64::MAX - BLOCK as u64 + 1, BLOCK),
            asked(1, BLOCK),
            asked(0, BLOCK - 1),
            StoreOp { data: vec![0; 7], ..asked(0, BLOCK) },
            StoreOp { data: vec![0; 16], ..asked(0, BLOCK) },
        ] {
            assert_eq!(rig.result(op.clone()), Err(Failure::Invalid), "{variant:?} {op:?}");
        }
        assert_eq!(digest(&mut rig, SIZE_BYTES - BLOCK as u64, BLOCK).len(), 1);
    }
}

#[test]
fn a_truncated_file_has_no_digest() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut rig = Rig::open(config(&path, SIZE_BYTES, variant));
        File::options().write(true).open(&path).unwrap().set_len(SIZE_BYTES / 2).unwrap();
        assert_eq!(rig.result(asked(0, BLOCK)), Err(Failure::Io), "{variant:?}");
        assert!(rig.store.is_damaged());
    }
}

#[test]
fn without_io_all_is_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let mut rig = Rig::open(StoreConfig { no_io: true, ..config(&path, SIZE_BYTES, (Engine::Threads, false)) });
    rig.result(write(1, 0, vec![1; BLOCK])).unwrap();
    assert_eq!(digest(&mut rig, 0, 2 * BLOCK), [digest_of(&[0; BLOCK]); 2], "as a read would say");
}
