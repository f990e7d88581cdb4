//! The charge in the sidecar: which gateway was last in charge of a volume with copies.

use crate::store::identity::*;
use crate::store::{ExtentId, PublicKey, SumsStamp};
use flashmob_core::checksum::checksum;
use flashmob_core::wire::hello::{CHARGE_NUMBER_MAX, Charge, FromLinear, Hello, RefuseReason};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SIZE_BYTES: u64 = 1 << 30;
const FIRST: Charge = Charge { map_id: [0xa5; 16], epoch: 5, nonce: u64::MAX, version: 9 };

fn load(path: &Path) -> Identity {
    Identity::load_or_create(path, SIZE_BYTES, false).unwrap()
}

fn adopt(identity: &mut Identity, charge: Option<Charge>) -> Result<Adoption, AdoptError> {
    identity.adopt("photos", 3, 4096, "mapped:4194304", charge.as_ref())
}

/// An extent of a volume with copies, and its sidecar.
fn member() -> (tempfile::TempDir, PathBuf, Identity) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.flashmob");
    let mut identity = load(&path);
    assert_eq!(adopt(&mut identity, Some(FIRST)).unwrap(), Adoption::New);
    let kept = load(&path);
    assert_eq!((kept.charge(), kept.place()), (identity.charge(), identity.place()));
    (dir, path, kept)
}

#[test]
fn a_charge_is_kept_and_replaced_by_a_later_one() {
    let (dir, path, mut identity) = member();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("version = 2") && text.contains("nonce = \"ffffffffffffffff\""), "{text}");
    assert_eq!(load(&path), identity);
    assert_eq!(adopt(&mut identity, Some(FIRST)).unwrap(), Adoption::Same);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    for next in [
        Charge { version: 10, ..FIRST },
        Charge { epoch: 6, nonce: 0, version: 10, ..FIRST },
        Charge { epoch: CHARGE_NUMBER_MAX, nonce: 1, version: CHARGE_NUMBER_MAX, ..FIRST },
    ] {
        assert_eq!(adopt(&mut identity, Some(next)).unwrap(), Adoption::Charged);
        assert_eq!((load(&path).charge(), identity.charge()), (Some(next), Some(next)));
    }
    assert_eq!(load(&path).place(), identity.place());
    identity.forget().unwrap();
    assert_eq!((load(&path).charge(), load(&path).place()), (None, None));
    assert!(fs::read_to_string(&path).unwrap().contains("version = 1"), "a free extent is as it always was");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_volume_without_copies_has_the_first_version_that_old_programs_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.flashmob");
    let mut identity = load(&path);
    assert!(fs::read_to_string(&path).unwrap().contains("version = 1"));
    identity.adopt("photos", 2, 8, "linear", None).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("version = 1") && !text.contains("charge"), "{text}");
}

#[test]
fn who_is_not_in_charge_is_refused_and_nothing_is_written() {
    let (_dir, path, mut identity) = member();
    let text = fs::read_to_string(&path).unwrap();
    for (offered, expected, says) in [
        (Some(Charge { epoch: 4, ..FIRST }), RefuseReason::Deposed, "epoch 5, this one has 4"),
        (Some(Charge { nonce: 1, ..FIRST }), RefuseReason::Deposed, "the same epoch, 5"),
        (Some(Charge { epoch: 6, version: 8, ..FIRST }), RefuseReason::Deposed, "version 8, version 9 is known"),
        (Some(Charge { version: 8, ..FIRST }), RefuseReason::Superseded, "a later hello came first"),
        (Some(Charge { map_id: [1; 16], ..FIRST }), RefuseReason::Identity, "a5a5a5a5"),
        (None, RefuseReason::Identity, "belongs to a volume with copies"),
    ] {
        match adopt(&mut identity, offered) {
            Err(AdoptError::NotInCharge(reason, why)) => assert!(reason == expected && why.contains(says), "{why}"),
            other => panic!("{offered:?}: {other:?}"),
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    // Another place is refused with a charge that is right, and the charge is not taken.
    let later = Charge { epoch: 6, ..FIRST };
    for (volume, index, count, layout, says) in [
        ("music", 3, 4096, "mapped:4194304", "belongs to volume 'photos'"),
        ("photos", 4, 4096, "mapped:4194304", "number 3 of volume 'photos', not number 4"),
        ("photos", 3, 4096, "mapped:1048576", "had the layout 'mapped:4194304'"),
    ] {
        let why = identity.adopt(volume, index, count, layout, Some(&later)).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
    assert_eq!((load(&path).charge(), identity.charge()), (Some(FIRST), Some(FIRST)));
}

#[test]
fn an_extent_of_a_volume_without_copies_takes_no_charge() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.flashmob");
    let mut identity = load(&path);
    identity.adopt("photos", 2, 8, "linear", None).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let why = identity.adopt("photos", 2, 8, "linear", Some(&FIRST)).unwrap_err().to_string();
    assert!(why.contains("had no copies when it adopted this extent"), "{why}");
    let why = identity.adopt("music", 2, 8, "linear", Some(&FIRST)).unwrap_err().to_string();
    assert!(why.contains("belongs to volume 'photos', not to 'music'"), "{why}");
    assert_eq!((fs::read_to_string(&path).unwrap(), identity.charge()), (text, None));
}

/// What the gateway of a volume says that was made of a linear one with eight extents.
fn converting(identity: &Identity) -> Hello {
    Hello {
        gateway_id: [1; 16],
        session: 1,
        attempt: 1,
        volume_id: "photos".to_string(),
        extent: 3,
        extents: 4096,
        layout: "mapped:4194304".to_string(),
        charge: Some(FIRST),
        from_linear: Some(FromLinear { extent_id: identity.extent_id().0, extents: 8 }),
        ..Hello::default()
    }
}

#[test]
fn an_extent_of_a_linear_volume_is_converted_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.flashmob");
    let mut identity = load(&path);
    let hello = converting(&identity);
    identity.convert(&hello).unwrap();
    assert_eq!(identity.place(), None, "it is free, and is adopted");
    identity.adopt("photos", 3, 8, "linear", None).unwrap();
    assert_eq!(identity.layout_without_copies(), Some(("linear".to_string(), 8)));
    let text = fs::read_to_string(&path).unwrap();
    let from = hello.from_linear.unwrap();
    for (wrong, what) in [
        (Hello { volume_id: "music".to_string(), ..hello.clone() }, "another volume"),
        (Hello { extent: 2, ..hello.clone() }, "another place"),
        (Hello { from_linear: Some(FromLinear { extent_id: [1; 16], ..from }), ..hello.clone() }, "another extent"),
        (Hello { from_linear: Some(FromLinear { extents: 7, ..from }), ..hello.clone() }, "a part of the volume"),
        (Hello { from_linear: None, ..hello.clone() }, "nobody asked"),
        (Hello { charge: None, ..hello.clone() }, "no copies"),
        (Hello { extents: 3, ..hello.clone() }, "no such place"),
    ] {
        identity.convert(&wrong).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{what}");
    }
    assert!(adopt(&mut identity, Some(FIRST)).is_err());
    identity.convert(&hello).unwrap();
    assert_eq!((identity.charge(), identity.layout_without_copies()), (Some(FIRST), None));
    assert_eq!(identity.accepted(), [(FIRST.epoch, FIRST.version)]);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(identity.to_text().unwrap(), text, "on the flash");
    assert_eq!(adopt(&mut identity, Some(FIRST)).unwrap(), Adoption::Same);
    identity.convert(&Hello { charge: Some(Charge { epoch: 6, ..FIRST }), ..hello }).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "once");
}

#[test]
fn an_extent_of_a_striped_volume_is_not_converted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.flashmob");
    let mut identity = load(&path);
    identity.adopt("photos", 3, 8, "striped:65536", None).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    identity.convert(&converting(&identity)).unwrap();
    let why = adopt(&mut identity, Some(FIRST)).unwrap_err().to_string();
    assert!(why.contains("flashmob volume convert"), "{why}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_charge_that_cannot_be_written_was_not_taken() {
    let (_dir, path, mut identity) = member();
    let blocked = path.with_extension("flashmob.new");
    fs::remove_file(&blocked).unwrap();
    fs::create_dir(&blocked).unwrap();
    let later = Charge { epoch: 6, ..FIRST };
    assert!(matches!(adopt(&mut identity, Some(later)), Err(AdoptError::Identity(IdentityError::Io { .. }))));
    assert_eq!((load(&path).charge(), identity.charge()), (Some(FIRST), Some(FIRST)));
    fs::remove_dir(&blocked).unwrap();
    assert_eq!(adopt(&mut identity, Some(later)).unwrap(), Adoption::Charged);
}

#[test]
fn what_a_crash_left_half_written_is_ignored_and_replaced() {
    let (dir, path, identity) = member();
    let whole = identity.to_text().unwrap();
    let left = path.with_extension("flashmob.new");
    for cut in [0, 1, whole.len() / 2, whole.len()] {
        fs::write(&left, &whole.as_bytes()[..cut]).unwrap();
        let mut again = load(&path);
        assert_eq!(again, identity);
        assert_eq!(adopt(&mut again, Some(FIRST)).unwrap(), Adoption::Same);
    }
    let later = Charge { epoch: 6, ..FIRST };
    assert_eq!(adopt(&mut load(&path), Some(later)).unwrap(), Adoption::Charged);
    assert_eq!(load(&path).charge(), Some(later));
    assert!(left.is_file() && fs::read_dir(dir.path()).unwrap().count() == 2, "the sidecar, and its spare");
}

/// The inodes of a sidecar and of its spare, in their order.
fn inodes(path: &Path) -> [u64; 2] {
    let mut inodes =
        [path.to_path_buf(), path.with_extension("flashmob.new")].map(|path| fs::metadata(path).unwrap().ino());
    inodes.sort_unstable();
    inodes
}

#[test]
fn no_change_of_a_member_needs_new_room() {
    let (dir, path, mut identity) = member();
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    let (files, len_bytes) = (inodes(&path), size(&path));
    assert_eq!(len_bytes % 4096, 0);
    let nonce = ExtentId([0xff; 16]);
    for epoch in 6..40 {
        let number = CHARGE_NUMBER_MAX - 40 + epoch;
        let charge = Charge { epoch: number, nonce: u64::MAX, version: number, ..FIRST };
        assert_eq!(adopt(&mut identity, Some(charge)).unwrap(), Adoption::Charged);
        identity.stamp_sums(SumsStamp { nonce, before: Some(nonce) }).unwrap();
        identity.pin_cluster(ClusterPin { key: PublicKey::of([0xff; 32]).unwrap(), generation: number }).unwrap();
        assert_eq!((inodes(&path), size(&path)), (files, len_bytes), "{epoch}");
        identity = load(&path);
        assert_eq!((inodes(&path), size(&path)), (files, len_bytes), "a start as well");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_sidecar_of_an_earlier_program_gets_its_room_when_the_node_starts() {
    let (_dir, path, identity) = member();
    let text = identity.to_text().unwrap();
    let (before, _) = text.split_once("# Room").unwrap();
    fs::write(&path, checked(before)).unwrap();
    let spare = path.with_extension("flashmob.new");
    fs::remove_file(&spare).unwrap();
    // No room: it is served all the same.
    fs::create_dir(&spare).unwrap();
    assert_eq!((load(&path), fs::read(&path).unwrap()), (identity.clone(), checked(before)));
    fs::remove_dir(&spare).unwrap();
    assert_eq!(load(&path), identity);
    assert_eq!((fs::read_to_string(&path).unwrap(), fs::metadata(&spare).unwrap().len()), (text, 4096));
    fs::remove_file(&spare).unwrap();
    assert_eq!(load(&path), identity);
    assert_eq!(fs::metadata(&spare).unwrap().len(), 4096, "one that was lost is made anew");
}

#[test]
fn a_sidecar_with_room_is_refused_if_any_bit_of_it_flips_or_it_is_cut() {
    let (_dir, path, identity) = member();
    let whole = identity.to_text().unwrap().into_bytes();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(Identity::parse(&path, &bytes).is_err(), "{at}");
        assert!(Identity::parse(&path, &whole[..at]).is_err(), "{at}");
    }
}

/// The bytes of a sidecar with that text, and a checksum that is right.
fn checked(body: &str) -> Vec<u8> {
    format!("{body}# crc32 {:08x}\n", checksum(body.as_bytes())).into_bytes()
}

#[test]
fn charges_that_cannot_be_are_refused() {
    let (_dir, path, identity) = member();
    let text = identity.to_text().unwrap();
    let body = text.rsplit_once("# crc32").unwrap().0;
    assert_eq!(Identity::parse(&path, &checked(body)).unwrap(), identity);
    let (without_charge, charge) = body.split_at(body.find("[charge]").unwrap());
    for wrong in [
        body.replace("version = 2", "version = 1"),
        without_charge.to_string(),
        format!("{}{charge}", &body[..body.find("[adopted]").unwrap()]),
        body.replace("epoch = 5", "epoch = -1"),
        body.replace("epoch = 5", "epoch = 9223372036854775808"),
        body.replace("epoch = 5\n", ""),
        body.replace("ffffffffffffffff", "fffffffffffffff"),
        body.replace("ffffffffffffffff", "+fffffffffffffff"),
        body.replace("a5a5a5a5", "a5a5a5"),
        format!("{body}more = 1\n"),
    ] {
        assert_ne!(wrong, body);
        assert!(matches!(Identity::parse(&path, &checked(&wrong)), Err(IdentityError::Corrupt { .. })), "{wrong}");
    }
    let newer = checked(&body.replace("version = 2\n", "version = 5\n"));
    let why = Identity::parse(&path, &newer).unwrap_err().to_string();
    assert!(why.contains("has format version 5, and this program reads up to 4; use a newer flashmob"), "{why}");
}

#[test]
fn the_stamp_of_checksums_stays_with_the_charge_and_goes_with_it() {
    let (_dir, path, mut identity) = member();
    let stamp = SumsStamp { nonce: ExtentId([1; 16]), before: Some(ExtentId([2; 16])) };
    assert_eq!(identity.sums(), None);
    identity.stamp_sums(stamp).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("version = 3") && text.contains("before = \"0202"), "{text}");
    assert_eq!((load(&path).sums(), load(&path).charge()), (Some(stamp), Some(FIRST)));
    assert_eq!(stamp.nonces(), [ExtentId([1; 16]), ExtentId([2; 16])]);
    let later = Charge { epoch: 6, ..FIRST };
    assert_eq!(adopt(&mut identity, Some(later)).unwrap(), Adoption::Charged);
    assert_eq!((load(&path).sums(), load(&path).charge()), (Some(stamp), Some(later)));
    let body = text.rsplit_once("# crc32").unwrap().0;
    for wrong in [
        body.replace("version = 3", "version = 2"),
        body.replace("[sums]", "[stamp]"),
        body.replace("nonce = \"01", "nonce = \"1"),
        body.split_at(body.find("[charge]").unwrap()).0.to_string() + body.split_at(body.find("[sums]").unwrap()).1,
    ] {
        assert_ne!(wrong, body);
        assert!(matches!(Identity::parse(&path, &checked(&wrong)), Err(IdentityError::Corrupt { .. })), "{wrong}");
    }
    identity.forget().unwrap();
    assert_eq!((load(&path).sums(), load(&path).charge()), (None, None));
    assert_eq!(identity.sums_path(), path.with_file_name("data.sums"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn sidecars_round_trip(
        volume in "\\PC{1,40}",
        layout in "\\PC{0,40}",
        map_id: [u8; 16],
        epoch in 0..=CHARGE_NUMBER_MAX,
        nonce: u64,
        version in 0..=CHARGE_NUMBER_MAX,
        has_charge: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.flashmob");
        let mut identity = load(&path);
        let charge = has_charge.then_some(Charge { map_id, epoch, nonce, version });
        identity.adopt(&volume, 3, 4096, &layout, charge.as_ref()).unwrap();
        prop_assert_eq!(&load(&path).charge(), &charge);
        let again = Identity::parse(&path, identity.to_text().unwrap().as_bytes()).unwrap();
        prop_assert_eq!(again.place(), identity.place());
    }

    #[test]
    fn garbage_is_refused_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), body in "\\PC{0,200}") {
        let path = Path::new("x.flashmob");
        prop_assert!(Identity::parse(path, &bytes).is_err());
        prop_assert!(Identity::parse(path, &checked(&body)).is_err());
    }
}
