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

/// The gateway's keys are others: what its loop does then.
fn sign_anew(map: &mut EtcdMap, image: &MapImage, keys: MapKeys) {
    if map.sign_with(keys) {
        map.rewrite(&encode_snapshot(image)).unwrap();
    }
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
    sign_anew(&mut map, &image, keyed.keys());
    assert_ne!(map.snapshot, snapshot);
    let snapshot = map.snapshot.clone();
    sign_anew(&mut map, &image, keyed.keys());
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
    // The one that has not left it believes nothing that the former key has signed.
    let second = tempfile::tempdir().unwrap();
    let refused = keyed.open_with(keyed.trust_in(second.path(), keyed.keys()), false).map(drop).unwrap_err();
    assert!(refused.contains("start the gateway first that has ended last"), "{refused}");
    assert!(refused.contains("/part/") && !refused.contains("--accept-unsigned"), "{refused}");
    let (mut map, read) = keyed.open().unwrap();
    assert_eq!((read, map.end.unwrap().generation), (image.clone(), 2));
    append(&mut map, &mut image, 1).unwrap();
    // A gateway that has still the former key does not take it over.
    let third = tempfile::tempdir().unwrap();
    let refused = keyed.open_with(keyed.trust_in(third.path(), before), false).map(drop).unwrap_err();
    assert!(refused.contains("generation 2, and this gateway's is of generation 1: copy the folder"), "{refused}");
    assert_eq!(keyed.open().unwrap().1, image);
}

/// Two gateways that take turns, each with a file of its own, and a copy of the folder of keys.
struct Two {
    keyed: Keyed,
    dirs: [TempDir; 2],
    image: MapImage,
    /// The gateway's key that somebody has stolen.
    stolen: GatewayKeys,
}

const A: usize = 0;
const B: usize = 1;

impl Two {
    /// Both were in charge, first B, then A, and have ended.
    fn new() -> Two {
        let keyed = Keyed::new();
        let stolen = keyed.folder().load().unwrap();
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut two = Two { keyed, dirs, image: new_image(FEW), stolen };
        let trust = two.trust(B);
        let map = EtcdMap::create(two.keyed.cluster.follow("B"), two.keyed.cluster.keys.clone(), trust, &two.image);
        drop(map.unwrap());
        for which in [B, A, B, A] {
            two.serve(which).unwrap();
        }
        two
    }

    fn trust(&self, which: usize) -> Option<Trust> {
        self.keyed.trust_in(self.dirs[which].path(), self.keyed.keys())
    }

    fn rotate(&self) {
        self.keyed.folder().rotate_gateway(None, None).unwrap();
    }

    /// A gateway starts, decides something, and ends in order.
    fn serve(&mut self, which: usize) -> Result<(), String> {
        let (mut map, read) = self.keyed.open_with(self.trust(which), false)?;
        assert_eq!(read, self.image, "the map that was there last");
        append(&mut map, &mut self.image, 1).unwrap();
        Ok(())
    }

    fn refusal(&mut self, which: usize) -> String {
        self.serve(which).expect_err("it is refused")
    }

    /// Somebody begins a map with the stolen key, in which another copy is current.
    fn forge(&self) {
        let thief = tempfile::tempdir().unwrap();
        let keys = self.keyed.cluster.keys.clone();
        let trust = self.keyed.trust_in(thief.path(), map_keys(&self.stolen));
        let tenure = self.keyed.cluster.follow("thief");
        let mut image = self.image.clone();
        image
            .apply(&Record::Marks { first_chunk: 0, count: 1, marks: Marks { behind: 1, ..Marks::default() } })
            .unwrap();
        self.keyed.restore(&[]);
        drop(EtcdMap::create(tenure, keys, trust, &image).unwrap());
    }
}

#[test]
fn a_stolen_key_that_was_replaced_signs_nothing_for_either_of_two_gateways() {
    // The gateway that has ended last is the first to start; then the other one.
    let mut two = Two::new();
    let before = two.keyed.all();
    two.rotate();
    for which in [A, B] {
        two.forge();
        assert!(two.refusal(which).contains("generation 1, which was replaced: generation 2"), "{which}");
    }
    two.keyed.restore(&before);
    assert!(two.refusal(B).contains("start the gateway first that has ended last"));
    two.serve(A).unwrap();
    let now = two.keyed.all();
    for which in [B, A] {
        two.forge();
        assert!(two.refusal(which).contains("generation 1, which was replaced"), "{which}");
        two.keyed.restore(&before);
        assert!(two.refusal(which).contains("generation 1, which was replaced"), "{which}: an earlier state");
    }
    two.keyed.restore(&now);
    for which in [B, A, B] {
        two.serve(which).unwrap();
    }
}

#[test]
fn a_rotation_while_one_of_two_gateways_runs_leaves_no_use_of_the_former_key_to_the_other() {
    let mut two = Two::new();
    let (mut map, _) = two.keyed.open_with(two.trust(A), false).unwrap();
    append(&mut map, &mut two.image, 1).unwrap();
    let before = two.keyed.all();
    two.rotate();
    sign_anew(&mut map, &two.image, two.keyed.keys());
    let now = two.keyed.all();
    // It is killed, or stopped; the other one knows generation 1 alone.
    std::mem::forget(map);
    for which in [B, A] {
        two.forge();
        assert!(two.refusal(which).contains("generation 1, which was replaced: generation 2"), "{which}");
        two.keyed.restore(&before);
        assert!(two.refusal(which).contains("generation 1, which was replaced: generation 2"), "{which}");
    }
    two.keyed.restore(&now);
    for which in [B, A, B] {
        two.serve(which).unwrap();
    }
}

#[test]
fn a_gateway_that_was_killed_or_followed_leaves_no_state_that_a_replaced_key_counts_for() {
    let mut two = Two::new();
    let (map, _) = two.keyed.open_with(two.trust(A), false).unwrap();
    std::mem::forget(map);
    two.rotate();
    assert!(two.refusal(A).contains("start the gateway first that has ended last"));
    // A person who has looked at it says that it counts. It has to be this cluster's all the same.
    let all = two.keyed.all();
    let (key, value) = all.iter().find(|(key, _)| String::from_utf8_lossy(key).contains("/part/")).unwrap();
    let mut bad = value.clone();
    bad[300] ^= 1;
    two.keyed.cluster.model.set(key, &bad);
    let refused = two.keyed.open_with(two.trust(A), true).map(drop).unwrap_err();
    assert!(refused.contains("not what a gateway") && !refused.contains("--accept-unsigned"), "{refused}");
    two.keyed.restore(&all);
    assert_eq!(two.keyed.open_with(two.trust(A), true).unwrap().1, two.image);
    two.serve(B).unwrap();

    // Another one has taken charge before it has ended.
    let (mut map, _) = two.keyed.open_with(two.trust(A), false).unwrap();
    two.serve(B).unwrap();
    append(&mut map, &mut two.image.clone(), 1).unwrap_err();
    drop(map);
    let file = |which: usize| std::fs::read_to_string(two.dirs[which].path().join("pool.signed")).unwrap();
    assert_eq!(file(A), "2\n");
    assert!(file(B).len() > 128, "{}", file(B));
}

#[test]
fn a_cluster_whose_key_was_replaced_while_no_gateway_ran_has_its_map() {
    let mut two = Two::new();
    let before = two.keyed.all();
    two.keyed.folder().rotate_cluster().unwrap();
    two.keyed.folder().end_rotation(None).unwrap().unwrap();
    two.forge();
    for which in [A, B] {
        assert!(two.refusal(which).contains("not what a gateway of this cluster"), "{which}");
    }
    two.keyed.restore(&before);
    assert!(two.refusal(B).contains("not what a gateway of this cluster"));
    for which in [A, B] {
        two.serve(which).unwrap();
    }
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
    // Another volume of the gateway may need it still.
    drop(map);
    let (map, read) = keyed.open_with(keyed.trust(), true).unwrap();
    assert_eq!(read, image);
    drop(map);
    assert_eq!(keyed.open().unwrap().1, image);
    // The other way round.
    let refused = keyed.open_with(None, false).map(drop).unwrap_err();
    assert!(refused.contains("is signed, and this cluster has no keys"), "{refused}");
}

#[test]
fn what_was_changed_under_a_gateway_is_replaced_by_its_own_map_when_the_key_is_rotated() {
    type Change = fn(&Keyed, &EtcdMap, &MapImage);
    let changes: [Change; 6] = [
        |keyed, map, image| keyed.cluster.model.set(&keyed.cluster.keys.batch(&map.snapshot, 4), &forged(image)),
        |keyed, map, _| keyed.cluster.model.remove(&keyed.cluster.keys.batch(&map.snapshot, 3)),
        |keyed, _, _| keyed.restore(&[]),
        |keyed, _, _| keyed.cluster.model.set(&keyed.cluster.keys.head(), b"no JSON"),
        |keyed, _, _| {
            keyed.cluster.model.set(&keyed.cluster.keys.head(), br#"{"snapshot":"7f-9","parts":1,"bytes":9}"#)
        },
        |keyed, _, image| {
            let stranger = Keyed::new();
            stranger.create(image);
            keyed.restore(&stranger.all());
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let keyed = Keyed::new();
        let (mut map, mut image) = with_batches(&keyed);
        change(&keyed, &map, &image);
        keyed.folder().rotate_gateway(None, None).unwrap();
        assert!(map.sign_with(keyed.keys()));
        // The loop tries again, and status says so meanwhile.
        let tries = (1..4).find(|_| map.rewrite(&encode_snapshot(&image)).is_ok());
        assert!(tries.is_some_and(|tries| tries < 3), "{number}: {tries:?}");
        append(&mut map, &mut image, 1).unwrap();
        let (map, read) = keyed.open().unwrap();
        assert_eq!((read, map.end.unwrap().generation), (image, 2), "{number}");
    }
}

#[test]
fn changes_before_the_map_is_signed_anew_have_the_former_key() {
    let keyed = Keyed::new();
    let (mut map, mut image) = with_batches(&keyed);
    keyed.folder().rotate_gateway(None, None).unwrap();
    assert!(map.sign_with(keyed.keys()));
    append(&mut map, &mut image, 1).unwrap();
    drop(map);
    let (map, read) = keyed.open().unwrap();
    assert_eq!((read, map.end.unwrap().generation), (image, 2));
}

#[test]
fn a_rotation_without_room_is_made_up_for_at_the_next_start() {
    let keyed = Keyed::new();
    let (mut map, image) = with_batches(&keyed);
    keyed.folder().rotate_gateway(None, None).unwrap();
    assert!(map.sign_with(keyed.keys()));
    for room in [0, 1] {
        keyed.cluster.model.set_room(Some(room));
        map.rewrite(&encode_snapshot(&image)).unwrap_err();
    }
    drop(map);
    // There is room to take charge, and for no snapshot.
    keyed.cluster.model.set_room(Some(2));
    let refusal = keyed.refusal();
    assert!(refusal.contains("is full"), "{refusal}");
    keyed.cluster.model.set_room(None);
    let (map, read) = keyed.open().unwrap();
    assert_eq!((read, map.end.unwrap().generation), (image, 2));
}

#[test]
fn a_map_that_is_missing_though_it_was_signed_is_not_begun_anew() {
    let keyed = Keyed::new();
    let (map, image) = with_batches(&keyed);
    drop(map);
    let Cluster { model, keys, .. } = &keyed.cluster;
    model.remove(&keys.head());
    let before = keyed.all();
    let open = || EtcdMap::open(keyed.cluster.follow("next"), keys.clone(), keyed.trust(), false);
    assert!(open().unwrap().is_none());
    let create = |of: fn(Tenure, Keys, Option<Trust>, &MapImage) -> anyhow::Result<EtcdMap>| {
        of(keyed.cluster.follow("next"), keys.clone(), keyed.trust(), &image)
    };
    let refused = create(EtcdMap::create_first).unwrap_err().to_string();
    let told =
        ["/flashmob/pool/map/head is missing", "pool.signed", "etcdctl del --prefix /flashmob/pool/", "volume recover"];
    assert!(told.iter().all(|told| refused.contains(told)), "{refused}");
    let of_map = |all: &[(Vec<u8>, Vec<u8>)]| {
        all.iter().filter(|(key, _)| String::from_utf8_lossy(key).contains("/map/")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_map(&keyed.all()), of_map(&before));
    // One that was recovered into a file is put there.
    drop(create(EtcdMap::create).unwrap());
    assert_eq!(keyed.open().unwrap().1, image);
    // A new volume has nothing to be missed.
    std::fs::remove_file(keyed.dir.path().join("pool.signed")).unwrap();
    keyed.restore(&[]);
    assert!(create(EtcdMap::create_first).is_ok());
}

#[test]
fn a_file_that_cannot_be_written_is_told_and_written_later() {
    let keyed = Keyed::new();
    let folder = keyed.dir.path().join("gone");
    let mut image = new_image(FEW);
    let trust = keyed.trust_in(&folder, keyed.keys());
    let mut map = EtcdMap::create(keyed.cluster.follow("first"), keyed.cluster.keys.clone(), trust, &image).unwrap();
    for _ in 0..2 {
        let told = map.look().expect("it cannot be written");
        assert!(told.contains("pool.signed") && told.contains("make room"), "{told}");
        append(&mut map, &mut image, 1).unwrap();
    }
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(map.look(), None);
    assert_eq!(std::fs::read_to_string(folder.join("pool.signed")).unwrap(), "1\n");
}

#[test]
fn a_file_that_tells_no_generation_is_named() {
    let keyed = Keyed::new();
    let (map, _) = with_batches(&keyed);
    let path = keyed.dir.path().join("pool.signed");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
    drop(map);
    let left = std::fs::read_to_string(&path).unwrap();
    assert!(left.starts_with("1 ") && left.len() == 2 + 2 * 64 + 1, "{left:?}");
    for bad in ["", "1", "one\n", "99999999999999999999999999999999\n", &left[..100], &format!("{left}{left}")] {
        std::fs::write(&path, bad).unwrap();
        let error = Trust::open(keyed.keys(), "pool", path.clone()).unwrap_err().to_string();
        assert!(error.contains("pool.signed") && error.contains("flashmob key show"), "{bad:?}: {error}");
    }
}
