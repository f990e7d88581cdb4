//! The file of checksums of an extent: any bytes are refused, or give a header and changes that are sound and survive being written.

use flashmob_core::checksum::checksum;
use flashmob_server::store::sums::format::{
    Change, HEADER_BYTES, Header, SLOT_BLOCKS_MAX, SLOT_BYTES, Shape, UNIT_BLOCKS,
};

/// Where the checksum of a header lies (docs/sums-format.md).
const HEADER_SUM_AT: usize = 56;

/// The first byte says whether checksums are made right, so that fields are reached; the next eight are the extent's size. The rest is
/// a header, or one slot after the other.
pub fn run(data: &[u8]) {
    let Some((&[control, ref size @ ..], rest)) = data.split_first_chunk::<9>() else { return };
    let (is_sealed, is_header) = (control & 1 != 0, control & 2 != 0);
    let shape = Shape::new(u64::from_le_bytes(*size));
    assert!(shape.file_bytes() >= shape.sum_at(shape.blocks()) && shape.file_bytes().is_multiple_of(4096));
    if is_header {
        let mut bytes = rest.to_vec();
        // A fuzzer need not find out that most of a header is zeros.
        bytes.resize(HEADER_BYTES, 0);
        if is_sealed {
            let sum = checksum(&bytes[..HEADER_SUM_AT]);
            bytes[HEADER_SUM_AT..HEADER_SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        }
        header(&bytes);
        header(rest);
        return;
    }
    for slot in rest.chunks(SLOT_BYTES) {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..slot.len()].copy_from_slice(slot);
        if is_sealed {
            let sum = checksum(&bytes[4..]);
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
        }
        change(&bytes, shape);
        assert!(slot.len() == SLOT_BYTES || Change::decode(slot, shape).is_none());
    }
}

fn header(bytes: &[u8]) {
    match Header::decode(bytes) {
        Ok(header) => {
            assert!((1..=i64::MAX as u64).contains(&header.size_bytes));
            let end = HEADER_SUM_AT + 4;
            assert_eq!(header.encode()[..end], bytes[..end], "there is one way to write it");
        }
        Err(error) => assert!(error.to_string().len() < 100),
    }
}

fn change(bytes: &[u8], shape: Shape) {
    let Some(change) = Change::decode(bytes, shape) else { return };
    assert_eq!(Change::decode(&change.encode(), shape).as_ref(), Some(&change));
    let blocks: Vec<(u64, u32)> = change.blocks().collect();
    let blocks_max = if matches!(change, Change::Sums { .. }) { SLOT_BLOCKS_MAX } else { UNIT_BLOCKS as usize };
    assert!((1..=blocks_max).contains(&blocks.len()));
    assert!(blocks.iter().all(|&(block, _)| block < shape.blocks()));
}

/// A header, whole and damaged, and changes of both kinds.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let size_bytes = 1u64 << 30;
    let header =
        Header { extent_id: [4; 16], size_bytes, nonce: [5; 16], before: Some([6; 16]), age: Some((7, 8)) }.encode();
    let with = |control: u8, bytes: &[u8]| [&[control][..], &size_bytes.to_le_bytes(), bytes].concat();
    let sums = Change::Sums { first: 7, sums: (0..SLOT_BLOCKS_MAX as u32).collect() }.encode();
    let zeros = Change::Zeros { first: 1 << 17, count: 1024 }.encode();
    vec![
        ("header", with(2, &header)),
        ("header_sealed", with(3, &header[..56])),
        ("changes", with(0, &[sums, [0; SLOT_BYTES], zeros].concat())),
        ("changes_sealed", with(1, &[zeros, sums].concat()[..300])),
    ]
}
