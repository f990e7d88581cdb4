//! Maps of a cluster with keys: signed, and refused if somebody else has written what is there.

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::keys::{Folder, GatewayKeys};

/// A cluster with keys, in a folder where the gateway's files are, too.
struct Keyed {
    cluster: Cluster,
    dir: TempDir,
}

fn map_keys(keys: &GatewayKeys) -> MapKeys {
    let (sign, verify) = (keys.mirror_signer(), Box::new(keys.mirror_verifier()));
    MapKeys { sign, generation: keys.granted.generation, verify }
}

impl Keyed {
    fn new() -> Keyed {
        let dir = tempfile::tempdir().unwrap();
        let keyed = Keyed { cluster: Cluster::new(), dir };
        keyed.folder().create().unwrap();
        keyed
    }

    fn folder(&self) -> Folder {
        Folder::at(&self.dir.path().join("keys"))
    }

    fn keys(&self) -> MapKeys {
        map_keys(&self.folder().load().unwrap())
    }

    /// With the gateway's file in this folder.
    fn trust_in(&self, dir: &Path, keys: MapKeys) -> Option<Trust> {
        Some(Trust::open(keys, "pool", dir.join("pool.signed")).unwrap())
    }

    fn trust(&self) -> Option<Trust> {
        self.trust_in(self.dir.path(), self.keys())
    }

    fn create(&self, image: &MapImage) -> EtcdMap {
        EtcdMap::create(self.cluster.follow("first"), self.cluster.keys.clone(), self.trust(), image).unwrap()
    }

    fn open_with(&self, trust: Option<Trust>, accepts_unsigned: bool) -> Result<(EtcdMap, MapImage), String> {
        let Cluster { keys, .. } = &self.cluster;
        let opened = EtcdMap::open(self.cluster.follow("next"), keys.clone(), trust, accepts_unsigned);
        opened.map(|opened| opened.expect("there is a map")).map_err(|error| format!("{error:#}"))
    }

    fn open(&self) -> Result<(EtcdMap, MapImage), String> {
        self.open_with(self.trust(), false)
    }

    fn refusal(&self) -> String {
        self.open().map(drop).expect_err("it is refused")
    }

    /// All that is there.
    fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let model = &self.cluster.model;
        let keys = model.keys().into_iter().map(String::into_bytes);
        keys.map(|key| (key.clone(), model.get(&key).unwrap().value)).collect()
    }

    /// Puts the map there that was there before.
    fn restore(&self, all: &[(Vec<u8>, Vec<u8>)]) {
        let model = &self.cluster.model;
        let is_of_map = |key: &[u8]| String::from_utf8_lossy(key).contains("/map/");
        model.keys().iter().filter(|key| is_of_map(key.as_bytes())).for_each(|key| model.remove(key.as_bytes()));
        all.iter().filter(|(key, _)| is_of_map(key)).for_each(|(key, value)| model.set(key, value));
    }
}

/// The batch of the attack: the copy that is behind becomes the current one.
fn forged(image: &MapImage) -> Vec<u8> {
    let marks = Marks { behind: 1, ..Marks::default() };
    let mut batch = Vec::new();
    encode_batch(&mut batch, image.version() + 1, &[Record::Marks { first_chunk: 0, count: 1, marks }]).unwrap();
    batch
}

/// A map with three batches.
fn with_batches(keyed: &Keyed) -> (EtcdMap, MapImage) {
    let mut image = new_image(FEW);
    let mut map = keyed.create(&image);
    (0..3).for_each(|_| append(&mut map, &mut image, 2).unwrap());
    (map, image)
}

#[test]
fn a_signed_map_is_kept() {
    let keyed = Keyed::new();
    let mut image = new_image(MANY);
    let mut map = keyed.create(&image);
    for turn in 0..3 {
        append(&mut map, &mut image, 2).unwrap();
        append(&mut map, &mut image, 3).unwrap();
        if turn == 1 {
            map.rewrite(&encode_snapshot(&image)).unwrap();
            append(&mut map, &mut image, 1).unwrap();
        }
        let (opened, read) = keyed.open().unwrap();
        assert!(read == image && opened.end == map.end && !opened.is_spent);
        assert_eq!((opened.bytes, opened.snapshot_bytes), (map.bytes, map.snapshot_bytes));
        map = opened;
    }
    for kept in keyed.all().iter().filter(|(key, _)| String::from_utf8_lossy(key).contains("/batch/")) {
        assert!(kept.1.starts_with(b"FMch"), "{kept:?}");
    }
}

#[test]
fn changes_whose_answer_is_lost_or_that_find_no_room_break_no_chain() {
    let keyed = Keyed::new();
    let (mut map, mut image) = with_batches(&keyed);
    keyed.cluster.model.set_fates(&[Fate::LosesAnswer, Fate::Lost]);
    append(&mut map, &mut image, 1).unwrap();
    append(&mut map, &mut image, 1).unwrap();
    keyed.cluster.model.set_room(Some(0));
    append(&mut map, &mut image, 1).unwrap_err();
    keyed.cluster.model.set_room(None);
    append(&mut map, &mut image, 1).unwrap_err();
    map.rewrite(&encode_snapshot(&image)).unwrap();
    append(&mut map, &mut image, 1).unwrap();
    assert_eq!(keyed.open().unwrap().1, image);
}

#[test]
fn a_forged_batch_is_refused_with_its_key() {
    let keyed = Keyed::new();
    let (map, image) = with_batches(&keyed);
    let next = keyed.cluster.keys.batch(&map.snapshot, image.version() + 1);
    keyed.cluster.model.set(&next, &forged(&image));
    let refusal = keyed.refusal();
    let key = String::from_utf8(next.clone()).unwrap();
    assert!(refusal.contains(&key) && refusal.contains("not signed") && refusal.contains("recover"), "{refusal}");
    keyed.cluster.model.remove(&next);
    assert_eq!(keyed.open().unwrap().1, image);
}

#[test]
fn no_change_of_what_is_there_is_believed() {
    let keyed = Keyed::new();
    let (map, image) = with_batches(&keyed);
    let (model, keys) = (&keyed.cluster.model, &keyed.cluster.keys);
    let all = keyed.all();
    let batch = |number| keys.batch(&map.snapshot, number);
    let value = |key: &[u8]| model.get(key).unwrap().value;
    // A byte of each part, one after another.
    for key in [keys.part(&map.snapshot, 0), batch(1), batch(3)] {
        let good = value(&key);
        for byte in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[byte] ^= 0x40;
            model.set(&key, &bad);
            let refusal = keyed.refusal();
            assert!(refusal.contains(&*String::from_utf8_lossy(&key)), "byte {byte}: {refusal}");
        }
        model.set(&key, &good);
    }
    let (first, second) = (value(&batch(1)), value(&batch(2)));
    for (why, change) in [
        ("is missing", Box::new(|| model.remove(&batch(2))) as Box<dyn Fn()>),
        ("is missing", Box::new(|| model.set(&batch(2), &first))),
        ("is missing", Box::new(|| (model.set(&batch(1), &second), model.set(&batch(2), &first)).0)),
        ("is missing", Box::new(|| model.set(&batch(4), &first))),
        (
            "not signed",
            Box::new(|| {
                let (plain, snapshot) = (encode_snapshot(&image), map.snapshot.clone());
                model.set(&keys.part(&snapshot, 0), &plain);
                let head = Head { snapshot, parts: 1, bytes: plain.len() as u64 };
                model.set(&keys.head(), &serde_json::to_vec(&head).unwrap());
            }),
        ),
        ("is damaged", Box::new(|| model.set(&keys.head(), br#"{"snapshot":"\u001b[2J","parts":0,"bytes":1}"#))),
    ] {
        change();
        let refusal = keyed.refusal();
        assert!(refusal.contains(why) && !refusal.contains(char::is_control), "{why}: {refusal:?}");
        keyed.restore(&all);
    }
    assert_eq!(keyed.open().unwrap().1, image);
}

#[test]
fn the_maps_of_other_volumes_and_clusters_are_refused() {
    let keyed = Keyed::new();
    let (_, image) = with_batches(&keyed);
    let all = keyed.all();
    let other = Trust::open(keyed.keys(), "spare", keyed.dir.path().join("spare.signed")).unwrap();
    let stranger = Keyed::new();
    for (why, trust) in [("another volume", Some(other)), ("not what a gateway of this cluster", stranger.trust())] {
        keyed.restore(&[]);
        EtcdMap::create(keyed.cluster.follow("other"), keyed.cluster.keys.clone(), trust, &image).unwrap();
        let refusal = keyed.refusal();
        assert!(refusal.contains(why) && refusal.contains("/part/"), "{refusal}");
    }
    keyed.restore(&all);
    assert_eq!(keyed.open().unwrap().1, image);
}

#[test]
fn another_key_signs_the_map_anew_and_the_one_before_signs_nothing_more() {
    let keyed = Keyed::new();
    let (mut map, mut image) = with_batches(&keyed);
    let (stolen, before) = (keyed.keys(), keyed.all());
    keyed.folder().rotate_gateway(None, None).unwrap();
    // A second look at the same keys changes nothing.
    let snapshot = map.snapshot.clone();
    map.sign_with(keyed.keys()).unwrap();
    assert_ne!(map.snapshot, snapshot);
    let snapshot = map.snapshot.clone();
    map.sign_with(keyed.keys()).unwrap();
    assert_eq!(map.snapshot, snapshot);
    append(&mut map, &mut image, 1).unwrap();
    assert_eq!(keyed.open().unwrap().1, image);

    // The thief shows what was there, or goes on with it, or begins anew.
    let now = keyed.all();
    keyed.restore(&before);
    assert!(keyed.refusal().contains("generation 1, which was replaced: generation 2"), "{}", keyed.refusal());
    keyed.restore(&[]);
    let thief = tempfile::tempdir().unwrap();
    let trust = keyed.trust_in(thief.path(), stolen);
    EtcdMap::create(keyed.cluster.follow("thief"), keyed.cluster.keys.clone(), trust, &image).unwrap();
    assert!(keyed.refusal().contains("generation 1, which was replaced"));
    // Another gateway, which has never written the map, does not believe it either.
    let second = tempfile::tempdir().unwrap();
    let refused = keyed.open_with(keyed.trust_in(second.path(), keyed.keys()), false).map(drop).unwrap_err();
    assert!(refused.contains("generation 1, which was replaced"), "{refused}");
    keyed.restore(&now);
    assert_eq!(keyed.open_with(keyed.trust_in(second.path(), keyed.keys()), false).unwrap().1, image);
}

#[test]
fn a_key_that_was_replaced_while_no_gateway_ran_signs_the_map_at_the_next_start() {
    let keyed = Keyed::new();
    let (map, mut image) = with_batches(&keyed);
    let before = keyed.keys();
    drop(map);
    keyed.folder().rotate_gateway(None, None).unwrap();
    // Elsewhere it is not known that generation 1 was the last.
    let second = tempfile::tempdir().unwrap();
    let refused = keyed.open_with(keyed.trust_in(second.path(), keyed.keys()), false).map(drop).unwrap_err();
    assert!(refused.contains("--accept-unsigned"), "{refused}");
    let (mut map, read) = keyed.open().unwrap();
    assert_eq!((read, map.end.unwrap().generation), (image.clone(), 2));
    append(&mut map, &mut image, 1).unwrap();
    // A gateway that has still the former key does not take it over.
    let third = tempfile::tempdir().unwrap();
    let refused = keyed.open_with(keyed.trust_in(third.path(), before), false).map(drop).unwrap_err();
    assert!(refused.contains("generation 2, and this gateway's is of generation 1: copy the folder"), "{refused}");
    assert_eq!(keyed.open().unwrap().1, image);
}

#[test]
fn an_unsigned_map_is_signed_if_that_is_asked_for_and_once() {
    let keyed = Keyed::new();
    let mut image = new_image(FEW);
    let mut map = keyed.cluster.create("without keys", &image);
    append(&mut map, &mut image, 1).unwrap();
    let refusal = keyed.refusal();
    assert!(refusal.contains("not signed") && refusal.contains("--accept-unsigned"), "{refusal}");
    let (mut map, read) = keyed.open_with(keyed.trust(), true).unwrap();
    assert_eq!(read, image);
    append(&mut map, &mut image, 1).unwrap();
    let again = keyed.open_with(keyed.trust(), true).map(drop).unwrap_err();
    assert!(again.contains("start without --accept-unsigned"), "{again}");
    assert_eq!(keyed.open().unwrap().1, image);
    // The other way round.
    let refused = keyed.open_with(None, false).map(drop).unwrap_err();
    assert!(refused.contains("is signed, and this cluster has no keys"), "{refused}");
}

#[test]
fn a_map_that_was_changed_under_a_gateway_is_not_signed_with_its_next_key() {
    let keyed = Keyed::new();
    let (mut map, image) = with_batches(&keyed);
    keyed.cluster.model.set(&keyed.cluster.keys.batch(&map.snapshot, 4), &forged(&image));
    keyed.folder().rotate_gateway(None, None).unwrap();
    let failure = map.sign_with(keyed.keys()).unwrap_err();
    assert!(map.is_spent && failure.text.contains("not signed"), "{failure:?}");
    // An earlier state is none of this gateway's, either.
    let keyed = Keyed::new();
    let (mut map, image) = with_batches(&keyed);
    keyed.cluster.model.remove(&keyed.cluster.keys.batch(&map.snapshot, 3));
    keyed.folder().rotate_gateway(None, None).unwrap();
    let failure = map.sign_with(keyed.keys()).unwrap_err();
    assert!(map.is_spent && failure.text.contains("is not the one that this gateway has written"), "{failure:?}");
    map.rewrite(&encode_snapshot(&image)).unwrap();
    assert_eq!(keyed.open().unwrap().1, image);
}

#[test]
fn a_file_that_tells_no_generation_is_named() {
    let keyed = Keyed::new();
    with_batches(&keyed);
    let path = keyed.dir.path().join("pool.signed");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
    for bad in ["", "1", "one\n", "99999999999999999999999999999999\n"] {
        std::fs::write(&path, bad).unwrap();
        let error = Trust::open(keyed.keys(), "pool", path.clone()).unwrap_err().to_string();
        assert!(error.contains("pool.signed") && error.contains("flashmob key show"), "{bad:?}: {error}");
    }
}
