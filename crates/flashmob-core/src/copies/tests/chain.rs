use proptest::prelude::*;

use super::super::testing::{ToyKey, image as new_image};
use super::super::{CHAIN_MEMORY_BYTES_MAX, ChainMemory, ChainTrust, Marks, Record, encode_batch, encode_snapshot};
use super::*;
use crate::wire::generation::first_of;

const VOLUME: &str = "pool";
const CLUSTER: u8 = 7;

fn image() -> MapImage {
    let mut image = new_image(2, 3, 8);
    image.apply(&Record::Epoch { epoch: 4, nonce: 5 }).unwrap();
    image
}

/// Writes chains.
#[derive(Clone)]
struct Gateway {
    key: ToyKey,
    generation: u64,
    volume: &'static str,
    image: MapImage,
    parts: Vec<Vec<u8>>,
    end: ChainEnd,
}

impl Gateway {
    fn new((cluster, generation): (u8, u64), volume: &'static str, image: MapImage) -> Gateway {
        let key = ToyKey::new(cluster, generation);
        let of_chain = ChainKey { sign: &key, generation, volume };
        let (part, end) = begin_chain(&of_chain, &encode_snapshot(&image)).unwrap();
        Gateway { key, generation, volume, image, parts: vec![part], end }
    }

    fn change(&mut self, record: Record) {
        let mut batch = Vec::new();
        encode_batch(&mut batch, self.image.version() + 1, std::slice::from_ref(&record)).unwrap();
        self.image.apply(&record).unwrap();
        self.put(&batch);
    }

    fn put(&mut self, batch: &[u8]) {
        let key = ChainKey { sign: &self.key, generation: self.generation, volume: self.volume };
        let (part, end) = continue_chain(&key, &self.end, self.image.version(), batch);
        self.parts.push(part);
        self.end = end;
    }
}

fn open_chunk(chunk: u32) -> Record {
    Record::Marks { first_chunk: chunk, count: 1, marks: Marks { is_open: true, ..Marks::default() } }
}

fn behind(chunk: u32) -> Record {
    Record::Marks { first_chunk: chunk, count: 1, marks: Marks { behind: 1, ..Marks::default() } }
}

/// A chain of a snapshot and three batches.
fn chain() -> Gateway {
    let mut gateway = Gateway::new((CLUSTER, 2), VOLUME, image());
    gateway.change(open_chunk(0));
    gateway.change(open_chunk(1));
    gateway.change(behind(2));
    gateway
}

type Read = Result<(MapImage, ChainEnd), ChainError>;

fn read_signed<P: AsRef<[u8]>>(parts: &[P]) -> Result<(MapImage, ChainEnd, Vec<u8>), ChainError> {
    let keys = ToyKey::new(CLUSTER, 9);
    let mut reader = ChainReader::new(Some(&keys), VOLUME);
    parts.iter().try_for_each(|part| reader.take(part.as_ref()))?;
    let signed_by = reader.signed_by().to_vec();
    reader.finish().map(|(image, end)| (image, end, signed_by))
}

fn read<P: AsRef<[u8]>>(parts: &[P]) -> Read {
    read_signed(parts).map(|(image, end, _)| (image, end))
}

/// The map that a gateway of the cluster believes whose key is of that generation.
fn believed<P: AsRef<[u8]>>(generation: u64, memory: Option<ChainMemory>, parts: &[P]) -> Read {
    let keys = ToyKey::new(CLUSTER, 9);
    let (image, end, signed_by) = read_signed(parts)?;
    ChainTrust { keys: &keys, generation, memory }.judge(&signed_by, &end)?;
    Ok((image, end))
}

/// By a gateway that has signed the map last with a key of that generation, or whose own is of it.
fn read_since<P: AsRef<[u8]>>(generation_least: u64, parts: &[P]) -> Read {
    let own = believed(generation_least.max(2), None, parts);
    let kept = believed(9, Some(ChainMemory::of_writer(generation_least)), parts);
    assert_eq!(kept.err(), Some(ChainError::Replaced { found: 2, least: 9 }), "its own key is a later one");
    let restored = believed(2, Some(ChainMemory::of_writer(generation_least)), parts);
    assert_eq!(restored, own, "a folder of keys was restored");
    own
}

#[test]
fn a_chain_is_read_as_it_was_written_and_goes_on_from_its_end() {
    let gateway = chain();
    let (image, end) = read(&gateway.parts).unwrap();
    assert_eq!((&image, end), (&gateway.image, gateway.end));
    assert_eq!((end.number, end.generation, end.version), (3, 2, image.version()));
    let mut next = Gateway { end, image, ..gateway };
    next.change(open_chunk(3));
    assert_eq!(read(&next.parts).unwrap().0, next.image);
}

#[test]
fn each_beginning_of_a_chain_is_an_earlier_state_of_it() {
    let gateway = chain();
    for count in 1..gateway.parts.len() {
        let (image, end) = read(&gateway.parts[..count]).unwrap();
        assert!(end.number == count as u64 - 1 && image.version() <= gateway.image.version());
    }
    assert_eq!(read::<Vec<u8>>(&[]), Err(ChainError::Empty));
}

#[test]
fn no_changed_byte_and_no_other_length_is_believed() {
    let gateway = chain();
    for (at, part) in gateway.parts.iter().enumerate() {
        let with = |bad: Vec<u8>| {
            let mut parts = gateway.parts.clone();
            parts[at] = bad;
            read(&parts)
        };
        for byte in 0..part.len() {
            let mut bad = part.clone();
            bad[byte] ^= 1;
            let found = with(bad).unwrap_err();
            let is_place = matches!(found, ChainError::Order { .. } | ChainError::Branch);
            let is_told = is_place || matches!(found, ChainError::Forged | ChainError::Damaged | ChainError::Unsigned);
            assert!(is_told, "part {at}, byte {byte}: {found:?}");
            assert!(with(part[..byte].to_vec()).is_err(), "part {at} has {byte} bytes");
        }
        assert_eq!(with([part.as_slice(), &[0]].concat()).unwrap_err(), ChainError::Damaged);
    }
}

#[test]
fn what_a_map_in_a_file_has_is_not_signed() {
    let gateway = chain();
    let plain = encode_snapshot(&gateway.image);
    assert_eq!(read(&[&plain]), Err(ChainError::Unsigned));
    // The attack: a batch with the right number and checksum, in which the other copy is the current one.
    let mut batch = Vec::new();
    encode_batch(&mut batch, gateway.image.version() + 1, &[behind(0)]).unwrap();
    let mut parts = gateway.parts;
    parts.push(batch);
    assert_eq!(read(&parts), Err(ChainError::Unsigned));
}

#[test]
fn who_is_not_of_the_cluster_signs_nothing() {
    let mut other = Gateway::new((CLUSTER + 1, 9), VOLUME, image());
    assert_eq!(read(&other.parts), Err(ChainError::Forged));
    let gateway = chain();
    (other.end, other.image) = (gateway.end, gateway.image.clone());
    other.change(behind(0));
    let parts = [&gateway.parts[..], &other.parts[1..]].concat();
    assert_eq!(read(&parts), Err(ChainError::Forged));
}

#[test]
fn parts_of_other_volumes_maps_and_branches_are_refused() {
    let (gateway, other) = (chain(), Gateway::new((CLUSTER, 2), "spare", image()));
    assert_eq!(read(&other.parts), Err(ChainError::OtherVolume));
    let mut other = Gateway { end: gateway.end, image: gateway.image.clone(), ..other };
    other.change(behind(0));
    assert_eq!(read(&[&gateway.parts[..], &other.parts[1..]].concat()), Err(ChainError::OtherVolume));

    // A gateway with an older state of the map, or one that was followed by another, has signed changes with the same numbers.
    let mut branch = Gateway::new((CLUSTER, 2), VOLUME, image());
    branch.change(behind(0));
    branch.change(behind(1));
    let [first, second] =
        [&gateway.parts, &branch.parts].map(|parts| parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert!(read(&[first[0], second[1], second[2]]).is_ok(), "they begin with the same state");
    assert_eq!(read(&[first[0], first[1], second[2]]), Err(ChainError::Branch));
    let anew = Gateway::new((CLUSTER, 2), VOLUME, gateway.image.clone());
    assert_eq!(read(&[anew.parts[0].as_slice(), first[3]]), Err(ChainError::Order { expected: 1, found: 3 }));
    let mut later = Gateway::new((CLUSTER, 2), VOLUME, branch.image.clone());
    later.change(behind(2));
    assert_eq!(read(&[second[0], &later.parts[1]]), Err(ChainError::Branch));
}

#[test]
fn a_key_that_was_replaced_adds_nothing_and_begins_nothing() {
    let gateway = chain();
    for generation in [1, 3] {
        let mut other = Gateway { key: ToyKey::new(CLUSTER, generation), generation, ..gateway.clone() };
        other.change(behind(0));
        assert_eq!(read(&other.parts), Err(ChainError::Forged), "one key signs all of a chain");
    }
    for generation_least in 0..5 {
        let refused = (generation_least > 2).then_some(ChainError::Replaced { found: 2, least: generation_least });
        assert_eq!(read_since(generation_least, &gateway.parts).err(), refused);
    }
}

#[test]
fn who_asks_for_no_signature_believes_any_but_no_other_order() {
    let read = |parts: &[Vec<u8>]| {
        let mut reader = ChainReader::new(None, VOLUME);
        parts.iter().try_for_each(|part| reader.take(part))?;
        reader.finish()
    };
    let mut other = Gateway::new((CLUSTER + 1, 1), VOLUME, image());
    other.change(behind(0));
    assert_eq!(read(&other.parts).unwrap().0, other.image);
    let gateway = chain();
    assert_eq!(
        read(&[&gateway.parts[..2], &gateway.parts[3..]].concat()),
        Err(ChainError::Order { expected: 2, found: 3 })
    );
}

#[test]
fn a_key_signs_no_later_numbers_than_its_own_and_no_other_map() {
    let mut later = image();
    later.apply(&Record::Epoch { epoch: first_of(3).unwrap(), nonce: 1 }).unwrap();
    let read_of = |generation| read(&Gateway::new((CLUSTER, generation), VOLUME, later.clone()).parts);
    assert_eq!(read_of(2).map(drop), Err(ChainError::Numbers { needed: 3, found: 2 }));
    assert!(read_of(3).is_ok());
    let mut gateway = chain();
    gateway.end.map_id = [1; 16];
    gateway.change(open_chunk(4));
    assert_eq!(read(&gateway.parts), Err(ChainError::Branch));
    let mut gateway = chain();
    let mut batch = Vec::new();
    encode_batch(&mut batch, gateway.image.version() + 5, &[open_chunk(4)]).unwrap();
    gateway.put(&batch);
    assert!(matches!(read(&gateway.parts), Err(ChainError::Map(ReplayError::Gap { .. }))));
    let mut gateway = chain();
    gateway.put(b"FMap");
    assert_eq!(read(&gateway.parts), Err(ChainError::OtherMap));
    let key = ChainKey { sign: &gateway.key, generation: 2, volume: VOLUME };
    for bad in [&[][..], b"FMap", &batch] {
        assert_eq!(begin_chain(&key, bad), None);
    }
}

/// The map with the first part in pieces of so many bytes, read by somebody who verifies and keeps nothing, and then again.
fn in_pieces(parts: &[Vec<u8>], piece_bytes: usize) -> Read {
    let keys = ToyKey::new(CLUSTER, 9);
    let feed = |reader: &mut ChainReader<'_>| {
        if let Some((first, rest)) = parts.split_first() {
            let mut pieces = first.chunks(piece_bytes).map(<[u8]>::to_vec);
            reader.take_pieces(|| Ok::<_, ChainError>(pieces.next()))?;
            rest.iter().try_for_each(|part| reader.take(part))?;
        }
        Ok(())
    };
    let mut scan = ChainReader::scan(Some(&keys), VOLUME);
    feed(&mut scan)?;
    assert!(scan.map.is_empty(), "nothing is kept");
    let (end, len_bytes) = (scan.end(), scan.len_bytes());
    for (most, is_enough) in [(len_bytes - 1, false), (len_bytes, true), (len_bytes + 1, true)] {
        let mut reader = ChainReader::with_limit(Some(&keys), VOLUME, most);
        assert_eq!(feed(&mut reader), if is_enough { Ok(()) } else { Err(ChainError::Changed) });
        assert!(reader.map.len() as u64 <= most);
    }
    let mut reader = ChainReader::with_limit(Some(&keys), VOLUME, len_bytes);
    feed(&mut reader)?;
    assert_eq!(reader.end(), end);
    reader.finish()
}

#[test]
fn pieces_make_what_the_whole_makes() {
    let gateway = chain();
    let first_bytes = gateway.parts[0].len();
    for piece_bytes in
        [1, 2, 3, 7, 119, 120, 121, 140, first_bytes - 65, first_bytes - 64, first_bytes - 1, first_bytes]
    {
        assert_eq!(in_pieces(&gateway.parts, piece_bytes), Ok((gateway.image.clone(), gateway.end)), "{piece_bytes}");
        for byte in 0..first_bytes {
            let mut parts = gateway.parts.clone();
            parts[0][byte] ^= 1;
            assert!(in_pieces(&parts, piece_bytes).is_err(), "byte {byte} in pieces of {piece_bytes}");
        }
        for length in [0, 3, 119, 140, first_bytes - 64, first_bytes - 1, first_bytes + 1, first_bytes + 200] {
            let mut parts = gateway.parts.clone();
            parts[0].resize(length, 0);
            assert!(in_pieces(&parts, piece_bytes).is_err(), "{length} bytes in pieces of {piece_bytes}");
        }
    }
}

#[test]
fn of_a_key_that_was_replaced_one_state_is_believed_and_by_the_gateway_that_has_left_it() {
    let mut gateway = chain();
    let left = gateway.end;
    let memory = Some(ChainMemory::of_end(&left));
    let replaced = Some(ChainError::Replaced { found: 2, least: 3 });
    for generation in 3..5 {
        assert_eq!(believed(generation, memory, &gateway.parts), Ok((gateway.image.clone(), left)));
        for other in [None, Some(ChainMemory::of_writer(2))] {
            let least = generation;
            assert_eq!(
                believed(generation, other, &gateway.parts).err(),
                Some(ChainError::Replaced { found: 2, least })
            );
        }
    }
    // Who has the former key begins the map anew, cuts it, or goes on with it.
    let anew = Gateway::new((CLUSTER, 2), VOLUME, gateway.image.clone());
    assert_eq!(believed(3, memory, &anew.parts).err(), replaced);
    assert_eq!(believed(3, memory, &gateway.parts[..3]).err(), replaced);
    gateway.change(behind(0));
    assert_eq!(believed(3, memory, &gateway.parts).err(), replaced);
    assert!(
        believed(2, memory, &gateway.parts).is_ok(),
        "while the key was not replaced, another gateway may have gone on"
    );
    // A folder of keys of an earlier generation.
    let restored = Some(ChainError::Later { found: 2, own: 1 });
    assert_eq!(
        (believed(1, memory, &gateway.parts).err(), believed(1, None, &gateway.parts).err()),
        (restored.clone(), restored)
    );
    // Keys of a new cluster, as the former ones are lost: its chain may be taken as one of nobody, and not as one of later keys.
    let new = ToyKey::new(CLUSTER + 1, 1);
    let judged = |generation| {
        ChainTrust { keys: &new, generation, memory: Some(ChainMemory::of_end(&gateway.end)) }.judge(&[], &gateway.end)
    };
    assert_eq!((judged(1), judged(2)), (Err(ChainError::Forged), Ok(())));
}

proptest! {
    #[test]
    fn what_is_remembered_has_one_spelling(generation in any::<u64>(), is_left in any::<bool>(), change in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let memory = if is_left { ChainMemory::of_end(&ChainEnd { generation, ..chain().end }) } else { ChainMemory::of_writer(generation) };
        let line = memory.encode().into_bytes();
        prop_assert!(line.len() <= CHAIN_MEMORY_BYTES_MAX);
        prop_assert_eq!(ChainMemory::parse(&line), Some(memory));
        let mut other = line.clone();
        other[change.index(line.len())] = byte;
        prop_assert!(other == line || ChainMemory::parse(&other) != Some(memory));
        prop_assert_eq!(ChainMemory::parse(&line[..line.len() - 1]), None);
    }

    #[test]
    fn any_bytes_are_what_is_remembered_or_nothing(bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..300), "[0-9a-f +]{0,150}\n".prop_map(String::into_bytes)]) {
        prop_assert!(ChainMemory::parse(&bytes).is_none_or(|memory| memory.encode().into_bytes() == bytes));
    }

    /// Whatever of several chains is put together in whatever order: a reader takes the beginnings of chains, and nothing else.
    #[test]
    fn nothing_but_the_beginning_of_a_chain_is_read(
        picks in prop::collection::vec(0..5usize, 0..7),
        swaps in prop::collection::vec((0..7usize, 0..12usize), 0..3),
    ) {
        let main = chain();
        let mut branch = Gateway::new((CLUSTER, 2), VOLUME, image());
        (0..2).for_each(|chunk| branch.change(behind(chunk)));
        let mut second = Gateway::new((CLUSTER, 2), VOLUME, main.image.clone());
        second.change(open_chunk(5));
        let mut foreign = Gateway::new((CLUSTER + 1, 2), VOLUME, image());
        foreign.change(behind(0));
        let mut spare = Gateway::new((CLUSTER, 2), "spare", image());
        spare.change(behind(0));
        // Both begin with one part: signatures of the same bytes are equal.
        let chains = [&main.parts, &branch.parts, &second.parts];
        let all: Vec<&Vec<u8>> = chains.iter().copied().chain([&foreign.parts, &spare.parts]).flatten().collect();
        // Mostly what is in order, else nothing would be taken.
        let mut parts: Vec<&Vec<u8>> = picks.iter().enumerate().filter_map(|(at, pick)| {
            let chain = chains[picks[0] % 3];
            chain.get(if *pick == 4 { at + 1 } else { at })
        }).collect();
        for (at, other) in swaps {
            if let (Some(part), Some(other)) = (parts.get_mut(at), all.get(other)) {
                *part = other;
            }
        }
        let is_beginning = !parts.is_empty()
            && chains.iter().any(|chain| chain.len() >= parts.len() && parts.iter().zip(*chain).all(|(part, of)| *part == of));
        prop_assert_eq!(read(&parts).is_ok(), is_beginning);
    }

    #[test]
    fn any_bytes_are_refused_or_were_signed(bytes in prop::collection::vec(any::<u8>(), 0..300), is_ours in any::<bool>()) {
        let bytes = if is_ours { [&b"FMch\x01\x00"[..], &bytes].concat() } else { bytes };
        prop_assert!(read(&[bytes]).is_err());
    }
}
