//! A signed map in a store that others may write to: any parts make the map that was signed, or none.
//!
//! The first byte says whether parts are made right where the key allows; then come parts, each with its length before it in two bytes.

use flashmob_core::copies::{
    CHUNK_BYTES_MIN, ChainEnd, ChainError, ChainKey, ChainMemory, ChainReader, MapImage, Marks, Member, Record, Verify,
    begin_chain, continue_chain, encode_batch, encode_snapshot,
};

use crate::mirror::Key;

const VOLUME: &str = "pool";
/// That of the key.
const GENERATION: u64 = 1;

/// Reads the parts, with their signatures verified and without.
pub fn run(data: &[u8]) {
    check_memory(data);
    let Some((&control, mut rest)) = data.split_first() else { return };
    let mut parts: Vec<Vec<u8>> = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (part, next) = behind.split_at(usize::from(u16::from_le_bytes(*length)).min(behind.len()));
        parts.push(part.to_vec());
        rest = next;
    }
    if control & 1 != 0 {
        parts = signed(&parts);
    }
    for keys in [None, Some(&Key as &dyn Verify)] {
        let mut reader = ChainReader::new(keys, VOLUME);
        let taken = parts.iter().try_for_each(|part| reader.take(part));
        check_scan(keys, &parts, taken.is_ok().then(|| (reader.end(), reader.len_bytes())));
        match taken.and_then(|()| reader.finish()) {
            Ok((image, end)) => {
                assert_eq!((image.map_id(), image.version()), (end.map_id, end.version));
                assert_eq!(end.number + 1, parts.len() as u64, "each part has its place");
                assert_eq!(end.generation, keys.map_or(0, |_| GENERATION));
            }
            Err(error) => {
                let message = error.to_string();
                assert!(!message.contains(char::is_control) && message.len() < 400, "{message:?}");
            }
        }
    }
}

/// Reads the parts again, the first in pieces, and keeps nothing: it takes what the other reader has taken.
fn check_scan(keys: Option<&dyn Verify>, parts: &[Vec<u8>], taken: Option<(Option<ChainEnd>, u64)>) {
    let Some((first, rest)) = parts.split_first() else { return };
    let mut scan = ChainReader::scan(keys, VOLUME);
    let mut pieces = first.chunks(1 + first.len() / 3).map(<[u8]>::to_vec);
    let scanned = scan.take_pieces(|| Ok::<_, ChainError>(pieces.next()));
    let scanned = scanned.and_then(|()| rest.iter().try_for_each(|part| scan.take(part)));
    assert_eq!(scanned.is_ok().then(|| (scan.end(), scan.len_bytes())), taken);
}

/// A gateway's memory: one spelling, or nothing.
fn check_memory(data: &[u8]) {
    if let Some(memory) = ChainMemory::parse(data) {
        assert_eq!(memory.encode().as_bytes(), data);
    }
}

/// Parts with these contents, as the gateway writes them.
fn signed(contents: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let key = ChainKey { sign: &Key, generation: GENERATION, volume: VOLUME };
    let Some((first, mut end)) = contents.first().and_then(|snapshot| begin_chain(&key, snapshot)) else {
        return contents.to_vec();
    };
    let mut parts = vec![first];
    for content in &contents[1..] {
        // One record in each, as in the seeds.
        let (part, next) = continue_chain(&key, &end, end.version.saturating_add(1), content);
        parts.push(part);
        end = next;
    }
    parts
}

/// A chain whole, cut, reordered, forged, and the map of a file.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let member = |number: u8| Member {
        extent_id: [number; 16],
        boot_id: None,
        seen: None,
        size_bytes: 2 * CHUNK_BYTES_MIN,
        domain: format!("d{number}"),
    };
    let members = (1..4).map(member).collect();
    let mut image = MapImage::new([7; 16], CHUNK_BYTES_MIN, 2, members).expect("there is room for two copies");
    image.apply(&Record::Epoch { epoch: 3, nonce: 4 }).expect("the first start");
    let mut contents = vec![encode_snapshot(&image)];
    for chunk in 0..2 {
        let marks = Marks { behind: 1, ..Marks::default() };
        let record = Record::Marks { first_chunk: chunk, count: 1, marks };
        let mut batch = Vec::new();
        encode_batch(&mut batch, image.version() + 1, std::slice::from_ref(&record)).expect("one record fits");
        image.apply(&record).expect("a chunk that there is");
        contents.push(batch);
    }
    let chain = signed(&contents);
    let with = |control: u8, parts: &[&[u8]]| {
        let mut bytes = vec![control];
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u16).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    };
    let forged = [&chain[2][..150], &[1], &chain[2][151..]].concat();
    vec![
        ("signed", with(0, &[&chain[0], &chain[1], &chain[2]])),
        ("contents", with(1, &[&contents[0], &contents[1], &contents[2]])),
        ("cut", with(0, &[&chain[0], &chain[1], &chain[2][..40]])),
        ("reordered", with(0, &[&chain[0], &chain[2], &chain[1]])),
        ("forged", with(0, &[&chain[0], &chain[1], &forged])),
        ("unsigned", with(0, &[&contents[0], &contents[1]])),
    ]
}
