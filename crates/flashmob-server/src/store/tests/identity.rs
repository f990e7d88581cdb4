//! The sidecar: taken, kept, refused.

use crate::store::PublicKey;
use crate::store::identity::*;
use flashmob_core::checksum::checksum;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const SIZE_BYTES: u64 = 1 << 30;

fn sidecar(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("data.flashmob")
}

fn load(path: &Path) -> Result<Identity, IdentityError> {
    Identity::load_or_create(path, SIZE_BYTES, false)
}

#[test]
fn an_extent_keeps_its_identity_and_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = sidecar(&dir);
    let mut identity = load(&path).unwrap();
    assert!(identity.place().is_none());
    assert_eq!((identity.size_bytes(), identity.path()), (SIZE_BYTES, path.as_path()));
    assert_eq!(load(&path).unwrap().extent_id(), identity.extent_id());
    assert_eq!(identity.adopt("photos", 2, 8, "linear \"x\"\n", None).unwrap(), Adoption::New);
    assert_eq!(identity.adopt("photos", 2, 8, "linear \"x\"\n", None).unwrap(), Adoption::Same);

    let mut again = load(&path).unwrap();
    assert_eq!((again.extent_id(), again.place()), (identity.extent_id(), identity.place()));
    let place = again.place().unwrap();
    assert_eq!((place.volume_id.as_str(), place.extent_index, place.extent_count), ("photos", 2, 8));
    assert!(place.layout == "linear \"x\"\n" && place.adopted_at_unix_s > 1_700_000_000);
    assert_eq!(again.adopt("photos", 2, 8, "linear \"x\"\n", None).unwrap(), Adoption::Same);
    again.forget().unwrap();
    again.forget().unwrap();
    assert!(load(&path).unwrap().place().is_none());
    assert_eq!(again.adopt("music", 0, 1, "", None).unwrap(), Adoption::New);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn two_extents_are_never_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (load(&dir.path().join("a")).unwrap(), load(&dir.path().join("b")).unwrap());
    assert_ne!(a.extent_id(), b.extent_id());
}

#[test]
fn another_place_is_refused_and_the_difference_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut identity = load(&sidecar(&dir)).unwrap();
    identity.adopt("photos", 2, 8, "linear", None).unwrap();
    let cases = [
        ("music", 2, 8, "linear", "belongs to volume 'photos', not to 'music'"),
        ("photos", 3, 8, "linear", "number 2 of volume 'photos', not number 3"),
        ("photos", 2, 9, "linear", "had 8 extents when it adopted this one, not 9"),
        ("photos", 2, 8, "striped", "had the layout 'linear' when it adopted this extent, not 'striped'"),
    ];
    for (volume, index, count, layout, expected) in cases {
        let text = identity.adopt(volume, index, count, layout, None).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(identity.adopt("photos", 2, 8, "linear", None).unwrap(), Adoption::Same);
}

#[test]
fn places_that_cannot_be_are_refused_at_their_limits() {
    let dir = tempfile::tempdir().unwrap();
    let mut identity = load(&sidecar(&dir)).unwrap();
    let (longest, too_long) = ("v".repeat(VOLUME_ID_BYTES_MAX), "v".repeat(VOLUME_ID_BYTES_MAX + 1));
    let (widest, too_wide) = ("\u{1}".repeat(LAYOUT_BYTES_MAX), "l".repeat(LAYOUT_BYTES_MAX + 1));
    for (volume, layout, expected) in [
        ("", "", "a volume's id must have 1 to 256 bytes, not 0"),
        (&too_long, "", "a volume's id must have 1 to 256 bytes, not 257"),
        ("v", &too_wide, "a layout's description must have at most 16384 bytes, not 16385"),
    ] {
        assert_eq!(identity.adopt(volume, 0, 1, layout, None).unwrap_err().to_string(), expected);
    }
    for (index, count) in [(0, 0), (1, 1), (u32::MAX, u32::MAX)] {
        let text = identity.adopt("v", index, count, "", None).unwrap_err().to_string();
        assert_eq!(text, format!("invalid extent number {index} of {count}"));
    }
    assert!(load(identity.path()).unwrap().place().is_none());
    assert_eq!(identity.adopt(&longest, u32::MAX - 1, u32::MAX, &widest, None).unwrap(), Adoption::New);
    assert_eq!(load(identity.path()).unwrap().place(), identity.place());
}

#[test]
fn another_size_is_refused_with_both() {
    let dir = tempfile::tempdir().unwrap();
    load(&sidecar(&dir)).unwrap();
    for size in [SIZE_BYTES - 1, SIZE_BYTES + 1] {
        let text = Identity::load_or_create(&sidecar(&dir), size, false).unwrap_err().to_string();
        assert!(text.contains("1073741824") && text.contains(&size.to_string()), "{text}");
    }
}

#[test]
fn an_extent_grows_if_it_may_and_never_shrinks() {
    let dir = tempfile::tempdir().unwrap();
    let path = sidecar(&dir);
    let first = load(&path).unwrap();
    let grown = |size, grow| Identity::load_or_create(&path, size, grow);
    let text = grown(SIZE_BYTES + 1, false).unwrap_err().to_string();
    assert!(text.contains("start the node once with --grow"), "{text}");
    let text = grown(SIZE_BYTES - 1, true).unwrap_err().to_string();
    assert!(text.contains("restore the data file"), "{text}");
    let larger = grown(SIZE_BYTES + 1, true).unwrap();
    assert_eq!((larger.size_bytes(), larger.extent_id()), (SIZE_BYTES + 1, first.extent_id()));
    assert_eq!(grown(SIZE_BYTES + 1, false).unwrap(), larger, "it has that from now on");
    assert!(grown(SIZE_BYTES, true).is_err());
}

#[test]
fn only_extents_of_volumes_with_copies_grow() {
    let dir = tempfile::tempdir().unwrap();
    let path = sidecar(&dir);
    assert!(Identity::check_growth(&path).is_ok(), "there is none");
    let mut identity = load(&path).unwrap();
    assert!(Identity::check_growth(&path).is_ok(), "it belongs to no volume");
    identity.adopt("photos", 0, 2, "linear", None).unwrap();
    let text = Identity::check_growth(&path).unwrap_err().to_string();
    assert!(text.contains("without copies"), "{text}");
}

#[test]
fn a_sidecar_that_is_cut_short_or_changed_anywhere_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = sidecar(&dir);
    load(&path).unwrap().adopt("photos", 2, 8, "linear", None).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    damaged.extend((0..whole.len()).map(|i| {
        let mut bytes = whole.clone();
        bytes[i] ^= 1;
        bytes
    }));
    damaged.extend([b"\xff\xfe".to_vec(), vec![b'#'; 300 * 1024], [&whole[..], b"x = 1\n"].concat()]);
    for bytes in damaged {
        fs::write(&path, &bytes).unwrap();
        let error = load(&path).expect_err("refused");
        assert!(
            matches!(error, IdentityError::Corrupt { .. }) && error.to_string().contains("data.flashmob"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::write(&path, &whole).unwrap();
    assert!(load(&path).is_ok());
}

/// A sidecar with that text and a checksum that is right.
fn write_checked(path: &Path, body: &str) {
    fs::write(path, format!("{body}# crc32 {:08x}\n", checksum(body.as_bytes()))).unwrap();
}

#[test]
fn a_newer_format_is_refused_by_its_version_whatever_else_it_says() {
    let dir = tempfile::tempdir().unwrap();
    write_checked(&sidecar(&dir), "version = 5\nwonders = true\n");
    let error = load(&sidecar(&dir)).unwrap_err();
    assert!(matches!(error, IdentityError::Newer { found: 5, .. }) && error.to_string().contains("newer"), "{error}");
}

#[test]
fn what_is_whole_but_impossible_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let id = "0123456789abcdef0123456789abcdef";
    let fine = format!("version = 1\nextent_id = \"{id}\"\nsize_bytes = {SIZE_BYTES}\n");
    let place = "[adopted]\nvolume_id = \"v\"\nlayout = \"\"\nadopted_at_unix_s = 1\n";
    write_checked(&sidecar(&dir), &fine);
    assert_eq!(load(&sidecar(&dir)).unwrap().extent_id().to_string(), id);
    for body in [
        String::new(),
        "version = 1\n".into(),
        fine.replace("version = 1", "version = 0"),
        fine.replace("version = 1", "version = -1"),
        fine.replace("cdef\"", "\""),
        fine.replace("cdef\"", "xyz!\""),
        format!("{fine}unknown = 1\n"),
        format!("{fine}{place}"),
        format!("{fine}{place}extent_index = 3\nextent_count = 3\n"),
    ] {
        write_checked(&sidecar(&dir), &body);
        assert!(matches!(load(&sidecar(&dir)), Err(IdentityError::Corrupt { .. })), "{body}");
    }
    write_checked(&sidecar(&dir), &format!("{fine}{place}extent_index = 2\nextent_count = 3\n"));
    assert!(load(&sidecar(&dir)).is_ok());
}

#[test]
fn an_adoption_that_cannot_be_recorded_has_not_happened() {
    let dir = tempfile::tempdir().unwrap();
    let mut identity = load(&sidecar(&dir)).unwrap();
    let whole = fs::read(sidecar(&dir)).unwrap();
    fs::create_dir(dir.path().join("data.flashmob.new")).unwrap();
    let text = identity.adopt("v", 0, 1, "", None).unwrap_err().to_string();
    assert!(text.contains("data.flashmob"), "{text}");
    assert!(identity.place().is_none());
    assert_eq!(fs::read(sidecar(&dir)).unwrap(), whole);
    fs::remove_dir(dir.path().join("data.flashmob.new")).unwrap();
    assert_eq!(identity.adopt("v", 0, 1, "", None).unwrap(), Adoption::New);
    let text = Identity::load_or_create(&dir.path().join("none/x.flashmob"), 1, false).unwrap_err().to_string();
    assert!(text.contains("directory"), "{text}");
}

#[test]
fn the_sidecar_lies_beside_the_real_file() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let (data, link) = (root.join("data.bin"), root.join("link"));
    assert_eq!(sidecar_path(&data, None), root.join("data.bin.flashmob"), "also if there is none yet");
    fs::write(&data, b"x").unwrap();
    symlink(&data, &link).unwrap();
    assert_eq!(sidecar_path(&link, Some(Path::new("/elsewhere"))), root.join("data.bin.flashmob"));
}

#[test]
fn whose_gateways_are_let_in_is_not_read_from_what_others_may_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = sidecar(&dir);
    let mut identity = load(&path).unwrap();
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    // Without keys it may lie where there are no modes.
    set_mode(0o666);
    assert!(load(&path).is_ok());
    identity.pin_cluster(ClusterPin { key: PublicKey::of([0xa5; 32]).unwrap(), generation: 3 }).unwrap();
    for (mode, is_good) in [(0o600, true), (0o644, true), (0o664, false), (0o602, false)] {
        set_mode(mode);
        assert_eq!(load(&path).is_ok(), is_good, "{mode:o}");
    }
    set_mode(0o660);
    let error = load(&path).unwrap_err().to_string();
    assert!(error.contains("others may change") && error.contains("chmod go-w"), "{error}");
}

#[test]
fn the_cluster_that_an_extent_belongs_to_stays_whatever_becomes_of_its_volume() {
    let dir = tempfile::tempdir().unwrap();
    let path = sidecar(&dir);
    let mut identity = load(&path).unwrap();
    assert_eq!(identity.cluster(), None);
    let pin = ClusterPin { key: PublicKey::of([0xa5; 32]).unwrap(), generation: 3 };
    identity.pin_cluster(pin).unwrap();
    assert_eq!(load(&path).unwrap().cluster(), Some(pin));
    identity.adopt("v", 0, 1, "linear", None).unwrap();
    let later = ClusterPin { generation: i64::MAX as u64, ..pin };
    identity.pin_cluster(later).unwrap();
    assert_eq!(load(&path).unwrap().place().map(|place| &place.volume_id[..]), Some("v"));
    identity.forget().unwrap();
    let again = load(&path).unwrap();
    assert_eq!((again.cluster(), again.place()), (Some(later), None));

    let text = fs::read_to_string(&path).unwrap();
    let body = text.rsplit_once("# crc32").unwrap().0;
    for wrong in [
        body.replace("version = 4", "version = 1"),
        body.replace("a5a5a5a5", "a5a5a5"),
        body.replace("a5a5a5a5", "+5a5a5a5"),
        body.replace("generation = ", "generation = -"),
        body.replace("generation", "generations"),
        body[..body.find("[cluster]").unwrap()].to_string(),
    ] {
        assert_ne!(wrong, body);
        write_checked(&path, &wrong);
        assert!(matches!(load(&path), Err(IdentityError::Corrupt { .. })), "{wrong}");
    }
}
