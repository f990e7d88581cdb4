//! Files beside an extent of which one is lost alone, or put back alone.

use super::*;

/// An extent of a volume with copies: with data, checksums, and a mirror.
fn used(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut bed = open(data, false);
    let link = bed.link(&later(1));
    bed.write(link, 0, b"kept");
    bed.put_mirror(link, 5, true);
    drop(bed);
    let folder = data.parent().expect("a folder");
    back_up(folder, &["data", "data.flashmob", "data.sums", "data.map"])
}

#[test]
fn an_extent_whose_identity_was_lost_is_not_taken_for_a_new_one_and_nothing_is_changed() {
    for lost in [
        &["data.flashmob"][..],
        &["data.flashmob", "data.map"],
        &["data.flashmob", "data.sums"],
        &["data.flashmob", "data"],
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let files = used(&data);
        let is_lost = |path: &Path| lost.iter().any(|name| path.ends_with(name));
        files.iter().filter(|(path, _)| is_lost(path)).for_each(|(path, _)| std::fs::remove_file(path).expect("lost"));
        let error = try_open(&data, false).expect_err("refused").to_string();
        for part in ["data.flashmob is missing", "from a backup", "--forget", "only copy"] {
            assert!(error.contains(part), "{lost:?}: {error}");
        }
        for (path, bytes) in &files {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            assert_eq!(
                error.contains(&format!("/{name}")) || name == "data",
                !is_lost(path) || name == "data.flashmob" || name == "data",
                "{error}"
            );
            assert_eq!(std::fs::read(path).ok(), (!is_lost(path)).then(|| bytes.clone()), "{name}");
        }
        // What was lost is put back, and all is as it was.
        put_back(&files);
        let mut bed = open(&data, false);
        let link = bed.link(&later(2));
        assert_eq!(bed.read(link, 0, 4), Ok(b"kept".to_vec()));
        drop(bed);
        // Who gives it up gets a new extent.
        let is_there = |name: &str| dir.path().join(name).exists();
        lost.iter().for_each(|name| std::fs::remove_file(dir.path().join(name)).unwrap_or_default());
        let mut bed = open(&data, true);
        assert!(!is_there("data.sums") && !is_there("data.map"));
        bed.link(&Hello { volume_id: "other".to_string(), ..later(1) });
        assert!(is_there("data.sums") && !is_there("data.sums.new"));
    }
}

#[test]
fn checksums_that_the_identity_does_not_know_are_never_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, sidecar) = (dir.path().join("data"), dir.path().join("data.flashmob"));
    drop(open(&data, false));
    let before = std::fs::read(&sidecar).expect("an identity");
    let files = used(&data);
    let [sums, map] = [2, 3].map(|index| files[index].clone());
    // As from before it was adopted, and as an earlier build made one beside what was there.
    let mut other = before.clone();
    std::fs::remove_file(&sidecar).expect("removed");
    other.clone_from(
        &Identity::load_or_create(&sidecar, SIZE_BYTES, false)
            .expect("an identity")
            .to_text()
            .expect("a text")
            .into_bytes(),
    );
    for identity in [&before, &other] {
        for left in [&[&sums, &map][..], &[&sums], &[&map]] {
            [&sums, &map].into_iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap_or_default());
            left.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).expect("put back"));
            std::fs::write(&sidecar, identity).expect("an identity");
            let mut bed = open(&data, false);
            assert!(bed.extent.sums_trouble().is_some_and(
                |trouble| trouble.contains("is not known to the identity") && trouble.contains("--forget")
            ));
            let (_, answer) = bed.greet(&later(3));
            assert!(
                matches!(&answer, Answer::Refused(RefuseReason::Identity, text) if text.contains("from a backup")),
                "{answer:?}"
            );
            drop(bed);
            left.iter().for_each(|(path, bytes)| {
                assert!(std::fs::read(path).is_ok_and(|found| found == *bytes), "{}", path.display())
            });
            assert_eq!(std::fs::read(&sidecar).ok().as_ref(), Some(identity), "not adopted");
        }
    }
    put_back(&files);
    open(&data, false).link(&later(2));
    std::fs::write(&sidecar, &before).expect("an identity");
    open(&data, true).link(&later(4));
}

#[test]
fn a_node_that_is_killed_while_checksums_are_made_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let made = || dir.path().join("data.sums.new");
    // Before the identity has their number: they are made anew.
    let mut bed = open(&data, false);
    std::fs::write(made(), b"half of them").expect("a file");
    bed.link(&hello(1));
    assert!(sums_of(&data).exists() && !made().exists());
    drop(bed);
    // Behind that: they get their name at the next start.
    std::fs::rename(sums_of(&data), made()).expect("renamed");
    open(&data, false).link(&hello(2));
    assert!(sums_of(&data).exists() && !made().exists());
    // They had been in use since: then what has that name is none of them.
    std::fs::rename(sums_of(&data), made()).expect("renamed");
    refused(&mut open(&data, false), 3);
}

#[test]
fn an_extent_whose_data_is_lost_or_of_another_size_or_whose_identity_is_damaged_can_be_given_up() {
    let sidecar_of = |data: &Path| data.with_extension("flashmob");
    type Spoil = fn(&Path);
    let spoil: [(&str, Spoil); 4] = [
        ("missing or empty", |data| std::fs::remove_file(data).expect("lost")),
        ("missing or empty", |data| std::fs::write(data, b"").expect("lost")),
        ("is damaged", |data| std::fs::write(data.with_extension("flashmob"), b"x").expect("damaged")),
        ("according to", |data| {
            std::fs::remove_file(data.with_extension("flashmob")).expect("removed");
            let mut identity =
                Identity::load_or_create(&data.with_extension("flashmob"), SIZE_BYTES / 2, false).expect("an identity");
            identity.adopt("photos", 3, 4096, "mapped:4194304", charge(1).as_ref()).expect("adopted");
        }),
    ];
    for (says, spoil) in spoil {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        used(&data);
        spoil(&data);
        let before = std::fs::read(sidecar_of(&data)).expect("an identity");
        let error = try_open(&data, false).expect_err("refused").to_string();
        assert!(error.contains(says) && error.contains("once with --forget"), "{error}");
        assert_eq!(std::fs::read(sidecar_of(&data)).ok(), Some(before));
        let mut bed = open(&data, true);
        assert!(bed.extent.identity().place().is_none());
        bed.link(&Hello { volume_id: "other".to_string(), ..later(1) });
        drop(bed);
        open(&data, false).link(&Hello { volume_id: "other".to_string(), ..later(2) });
    }
}
