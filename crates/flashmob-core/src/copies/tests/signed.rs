use super::super::testing::ToyKey;
use super::super::{
    Found, MapImage, Member, Record, RecoverError, Terms, encode_batch, encode_snapshot, mirror_state, recover,
};
use super::*;
use crate::wire::generation::first_of;

fn key() -> ToyKey {
    ToyKey::new(7, 3)
}

fn member(n: u8) -> Member {
    Member { extent_id: [n + 1; 16], boot_id: None, seen: None, size_bytes: 8 << 20, domain: format!("d{n}") }
}

/// The map of a start of a gateway.
fn image(epoch: u64, nonce: u64) -> MapImage {
    let mut image = MapImage::new([9; 16], 4 << 20, 2, (0..3).map(member).collect()).unwrap();
    image.apply(&Record::Epoch { epoch, nonce }).unwrap();
    image
}

/// A node with a mirror.
fn of(number: u8, mirror: &[u8]) -> Found<'_> {
    Found { extent_id: [number; 16], charge: None, mirror }
}

fn writer(image: &MapImage) -> Writer {
    Writer { map_id: image.map_id(), epoch: image.epoch(), nonce: image.nonce() }
}

/// The parts of a mirror: its snapshot, and batches with a record each.
fn parts(sign: &dyn Sign, image: &mut MapImage, batches: usize) -> Vec<Vec<u8>> {
    let mut parts = vec![sign_part(sign, &writer(image), None, image.version(), &encode_snapshot(image))];
    for boot in 0..batches {
        let record = Record::Boot { member: 0, boot_id: [boot as u8; 16] };
        let (mut batch, after) = (Vec::new(), image.version());
        encode_batch(&mut batch, after + 1, std::slice::from_ref(&record)).unwrap();
        image.apply(&record).unwrap();
        parts.push(sign_part(sign, &writer(image), Some(after), image.version(), &batch));
    }
    parts
}

fn open(mirror: &[u8]) -> Result<MapImage, Unreadable> {
    super::super::recover::image_of(&of(1, mirror), &Terms { keys: Some(&key()), ..Terms::default() })
}

#[test]
fn a_signed_mirror_tells_how_much_it_has_and_is_believed_if_the_cluster_has_signed_it() {
    let mut image = image(4, 5);
    let mirror = parts(&key(), &mut image, 3).concat();
    let state = MirrorState { epoch: 4, nonce: 5, version: image.version(), len_bytes: mirror.len() as u64 };
    assert_eq!(mirror_state(&mirror), Some(([9; 16], state)));
    assert_eq!(open(&mirror), Ok(image));
    let found = [of(1, &mirror)];
    let (other, later) = (ToyKey::new(8, 3), ToyKey::new(7, 4));
    let with = |keys| recover(&found, &Terms { keys, ..Terms::default() }).map(|recovered| recovered.from);
    assert_eq!(with(Some(&other)), Err(RecoverError::NoneUsable(u128::from_be_bytes([1; 16]), Unreadable::Unsigned)));
    assert_eq!((with(Some(&later)), with(None)), (Ok(Some(0)), Ok(Some(0))), "who asks for no signature gets it");
}

#[test]
fn no_changed_byte_and_no_other_order_is_believed() {
    let mut whole = image(4, 5);
    let parts = parts(&key(), &mut whole, 3);
    let mirror = parts.concat();
    let last = parts[..3].concat();
    for at in 0..mirror.len() {
        let mut bad = mirror.clone();
        bad[at] ^= 1;
        // By accident, or by somebody who gives it the checksum that it needs.
        for is_mended in [false, true] {
            if is_mended {
                mend(&mut bad);
            }
            // Of the last one nobody can tell that it is not torn.
            let is_earlier = at >= last.len() && open(&bad) == open(&last);
            assert!(bad == mirror || is_earlier || open(&bad).is_err(), "byte {at}, {is_mended}");
        }
    }
    for (order, is_good) in [
        (vec![0], true),
        (vec![0, 1, 2], true),
        (vec![], false),
        (vec![1], false),
        (vec![0, 2], false),
        (vec![0, 2, 1], false),
        (vec![0, 1, 1], false),
        (vec![0, 1, 2, 3, 0], false),
        (vec![0, 0], false),
    ] {
        let other: Vec<u8> = order.iter().flat_map(|&part| parts[part].clone()).collect();
        assert_eq!(open(&other).is_ok(), is_good, "{order:?}");
    }
}

/// Gives each part whose header can be read the checksum of what it has.
fn mend(mirror: &mut [u8]) {
    let mut at = 0;
    while let Some(part) = mirror.get(at..).and_then(SignedPart::parse) {
        let (sum, len_bytes) = (checksum_of_two(part.header, part.body), part.len_bytes());
        mirror[at + CHECKSUM_AT..at + HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        at += len_bytes;
    }
}

#[test]
fn parts_of_two_starts_make_no_map() {
    // Both have the same numbers: one of them was started with an older state of the map.
    let (mut first, mut second) = (image(4, 5), image(4, 6));
    let [a, b] = [&mut first, &mut second].map(|image| parts(&key(), image, 2));
    assert!(open(&[&a[0][..], &a[1], &a[2]].concat()).is_ok());
    assert_eq!(open(&[&a[0][..], &b[1]].concat()), Err(Unreadable::Damaged));
    assert_eq!(open(&[&a[0][..], &a[1], &b[2]].concat()), Err(Unreadable::Damaged));
}

#[test]
fn what_was_not_written_whole_is_cut_off_and_nothing_else() {
    let mut image = image(4, 5);
    let parts = parts(&key(), &mut image, 3);
    let mirror = parts.concat();
    let shorter = parts[..3].concat();
    for len_bytes in 0..mirror.len() {
        let torn = &mirror[..len_bytes];
        let whole = parts.iter().scan(0, |at, part| {
            *at += part.len();
            Some(*at)
        });
        let whole = whole.filter(|end| *end <= len_bytes).last();
        assert_eq!(mirror_state(torn).map(|(_, state)| state.len_bytes as usize), whole);
        assert_eq!(open(torn).is_ok(), whole.is_some());
    }
    // Damage that whole parts follow is no torn end.
    let mut damaged = mirror.clone();
    damaged[parts[0].len() + 40] ^= 1;
    assert_eq!((mirror_state(&damaged), open(&damaged)), (None, Err(Unreadable::Damaged)));
    let long = [&shorter[..], &vec![1; BATCH_BYTES_MAX + HEADER_BYTES + SIGNATURE_BYTES + 1]].concat();
    assert_eq!(mirror_state(&long), None);
    assert!(mirror_state(&long[..long.len() - 1]).is_some());
}

#[test]
fn mirrors_that_are_not_signed_are_believed_without_keys_alone() {
    let mut image = image(4, 5);
    let plain: &[u8] = &encode_snapshot(&image);
    let signed: &[u8] = &parts(&key(), &mut image, 0).concat();
    let with = |mirrors: [&[u8]; 2], keys| {
        recover(&[of(1, mirrors[0]), of(2, mirrors[1])], &Terms { keys, ..Terms::default() })
    };
    let key = key();
    let recovered = with([plain, signed], Some(&key)).unwrap();
    assert_eq!((recovered.from, recovered.without_mirror), (Some(1), vec![0]));
    assert_eq!(recovered.mirrors[0], Err(Unreadable::Unsigned));
    let error = with([&[], plain], Some(&key)).err();
    assert_eq!(error, Some(RecoverError::NoneUsable(u128::from_be_bytes([2; 16]), Unreadable::Unsigned)));
    assert_eq!(with([plain, &[]], None).map(|found| found.from), Ok(Some(0)));
    assert_eq!(with([&[], &[]], Some(&key)).err(), Some(RecoverError::NoMirror));
}

#[test]
fn those_that_are_signed_come_first_where_others_are_accepted() {
    let (mut ours, mut other) = (image(4, 5), image(4, 6));
    let signed: &[u8] = &parts(&key(), &mut ours, 1).concat();
    // It has more.
    let foreign: &[u8] = &parts(&ToyKey::new(8, 9), &mut other, 5).concat();
    let key = key();
    let terms = Terms { keys: Some(&key), accepts_unsigned: true, ..Terms::default() };
    let recovered = recover(&[of(1, foreign), of(2, signed)], &terms).unwrap();
    assert_eq!((recovered.from, recovered.unsigned, recovered.branches), (Some(1), vec![], vec![]));
    assert_eq!(recovered.mirrors[0], Err(Unreadable::Unsigned), "others count only where there is none");
    let alone = recover(&[of(1, foreign), of(2, &[])], &terms).unwrap();
    assert_eq!((alone.from, alone.unsigned), (Some(0), vec![0]));
    let without_keys = recover(&[of(1, foreign)], &Terms { keys: None, ..terms }).unwrap();
    assert_eq!((without_keys.from, without_keys.unsigned), (Some(0), vec![]));
}

#[test]
fn a_key_signs_no_later_numbers_than_its_own_and_no_other_map() {
    for (generation, is_good) in [(2, true), (3, true), (4, false)] {
        let mut image = image(first_of(generation).unwrap(), 5);
        assert_eq!(open(&parts(&key(), &mut image, 1).concat()).is_ok(), is_good, "{generation}");
    }
    let image = image(4, 5);
    let other = Writer { map_id: [8; 16], ..writer(&image) };
    let mirror = sign_part(&key(), &other, None, image.version(), &encode_snapshot(&image));
    assert_eq!(open(&mirror), Err(Unreadable::Damaged));
}

#[test]
fn a_mirror_of_another_map_ends_the_recovery_unless_an_earlier_key_has_signed_it() {
    let mut ours = image(4, 5);
    let mut other = MapImage::new([8; 16], 4 << 20, 2, (0..3).map(member).collect()).unwrap();
    other.apply(&Record::Epoch { epoch: 4, nonce: 5 }).unwrap();
    let ours = parts(&key(), &mut ours, 1).concat();
    let key = key();
    let terms = Terms { keys: Some(&key), ..Terms::default() };
    for (generation, is_refused) in [(2, false), (3, true), (4, false)] {
        let others = parts(&ToyKey::new(7, generation), &mut other, 1).concat();
        let recovered = recover(&[of(1, &others), of(2, &ours)], &terms);
        assert_eq!(matches!(recovered, Err(RecoverError::OtherMap(..))), is_refused, "{generation}");
        if let Ok(recovered) = recovered {
            let (latest, earlier) = if generation == 2 { (1, 0) } else { (0, 1) };
            assert_eq!((recovered.from, recovered.mirrors[earlier]), (Some(latest), Err(Unreadable::Beyond)));
        }
    }
}

#[test]
fn a_mirror_that_is_signed_with_a_later_key_comes_first() {
    let (mut of_thief, mut ours) = (image(4, 5), image(4, 6));
    // The one with the earlier key has more.
    let earlier = parts(&ToyKey::new(7, 2), &mut of_thief, 5).concat();
    let later = parts(&key(), &mut ours, 1).concat();
    let key = key();
    let terms = Terms { keys: Some(&key), ..Terms::default() };
    let recovered = recover(&[of(1, &earlier), of(2, &later)], &terms).unwrap();
    assert_eq!((recovered.from, recovered.branches), (Some(1), vec![0]));
    // Nor does it matter that both are of one start.
    let mut of_thief = image(4, 6);
    let earlier = parts(&ToyKey::new(7, 2), &mut of_thief, 5).concat();
    let recovered = recover(&[of(1, &earlier), of(2, &later)], &terms).unwrap();
    assert_eq!((recovered.from, recovered.branches), (Some(1), vec![0]));
    let before = encode_snapshot(&image(4, 6));
    let recovered = recover(&[of(1, &earlier), of(2, &later)], &Terms { map: Some(&before), ..terms }).unwrap();
    assert_eq!((recovered.from, recovered.branches), (None, vec![0, 1]), "both have more than the given one");
}

proptest::proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), cut in 0..HEADER_BYTES) {
        let mut image = image(4, 5);
        let part = parts(&key(), &mut image, 0).concat();
        for mirror in [[&MAGIC[..], &bytes].concat(), [&part[..cut], &bytes].concat(), [&part[..], &bytes].concat()] {
            let _ = (mirror_state(&mirror), open(&mirror));
        }
    }
}

/// The largest generation that there is, told by one node, would be the last.
#[test]
fn a_charge_that_nothing_signed_shows_is_named_and_not_followed() {
    use crate::wire::generation::GENERATION_MAX;
    use crate::wire::hello::Charge;
    let mut image = image(4, 5);
    let mirror = parts(&key(), &mut image, 3).concat();
    let own = Charge { map_id: image.map_id(), epoch: 4, nonce: 5, version: image.version() };
    for (generation, is_claim) in [(3, false), (4, true), (GENERATION_MAX, true)] {
        let number = first_of(generation).unwrap();
        let told = Charge { map_id: image.map_id(), epoch: number, nonce: 1, version: number };
        let found = [
            Found { charge: Some(own), ..of(1, &mirror) },
            Found { charge: Some(told), ..of(2, &[]) },
            Found { charge: Some(own), ..of(3, &mirror) },
        ];
        let key = key();
        let terms = Terms { keys: Some(&key), generation: 3, moment: 1000, ..Terms::default() };
        let recovered = recover(&found, &terms).unwrap();
        assert_eq!(recovered.generation, 3, "of the key, whatever one node says");
        assert_eq!(recovered.claims, if is_claim { vec![(1, generation)] } else { vec![] });
        assert_eq!(recovered.largest, (!is_claim).then_some(1));
        assert_eq!(recovered.without_mirror, [1]);
        // Without keys each is believed, as ever.
        let plain = recover(&found, &Terms { keys: None, ..terms }).unwrap();
        assert_eq!((plain.generation, plain.claims), (generation, vec![]));
    }
}
