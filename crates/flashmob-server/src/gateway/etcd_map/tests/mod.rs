//! Maps in a model of etcd: kept, written anew, without room, damaged.

mod http;
mod late;
mod model;
mod signed;
mod tenure;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flashmob_core::copies::{CHUNK_BYTES_MIN, Marks, Member, Record, encode_batch};

use self::model::{Fate, Model};
use super::*;
use crate::config::{Config, EtcdConfig, VolumeConfig};
use crate::etcd::{Etcd, EtcdError};

/// Nothing here takes that long.
const LONG: Duration = Duration::from_secs(20);
/// More than a page has.
const BATCHES: u32 = 41;
/// Chunks of a map whose snapshot is small.
const FEW: u32 = 300;
/// Chunks of a map whose snapshot has several parts.
const MANY: u32 = 150_000;

/// An etcd, and what gateways that use it have in common.
struct Cluster {
    model: Model,
    config: EtcdConfig,
    volumes: Vec<VolumeConfig>,
    keys: Keys,
    /// Ends waits to take charge.
    stop: Arc<AtomicBool>,
}

impl Cluster {
    fn new() -> Cluster {
        let model = Model::start();
        let mut config = EtcdConfig::at([model.address.as_str()]).unwrap();
        config.lease = Duration::from_secs(1);
        let text = "[[volume]]\nname = 'pool'\nlayout = 'mapped'\ncopies = 2\n\
            [[volume.node]]\naddress = 'a:1'\nsize = '8MiB'\n[[volume.node]]\naddress = 'b:1'\nsize = '8MiB'\n";
        let volumes = Config::parse(text, "cluster.toml", std::path::Path::new("/")).unwrap().volumes;
        let keys = Keys::new(&config.prefix, &volumes[0].id);
        Cluster { model, config, volumes, keys, stop: Arc::default() }
    }

    fn begin(&self, name: &str, stands_by: bool) -> anyhow::Result<Option<Tenure>> {
        let Cluster { config, volumes, stop, .. } = self;
        Tenure::begin(&Terms { config, volumes, name, stands_by, stop })
    }

    /// A gateway takes charge, once the lease of the one before has ended.
    fn follow(&self, name: &str) -> Tenure {
        self.model.end_leases();
        self.begin(name, false).unwrap().expect("nobody stopped it")
    }

    fn create(&self, name: &str, image: &MapImage) -> EtcdMap {
        EtcdMap::create(self.follow(name), self.keys.clone(), None, image).unwrap()
    }

    fn open(&self, name: &str) -> anyhow::Result<(EtcdMap, MapImage)> {
        Ok(EtcdMap::open(self.follow(name), self.keys.clone(), None, false)?.expect("there is a map"))
    }

    /// The map without taking charge, and how many bytes it has.
    fn look(&self) -> (MapImage, u64) {
        let etcd = Etcd::new(&self.config.endpoints, None).unwrap();
        let opened = read(&etcd, &self.keys, "etcd", Believes::default()).unwrap().expect("there is a map");
        (opened.image, opened.bytes)
    }

    /// The first key of a part or batch with this number.
    fn key(&self, kind: &str, number: u64) -> Vec<u8> {
        let end = format!("/{kind}/{number:020}");
        self.model.keys().into_iter().find(|key| key.ends_with(&end)).expect("there is one").into_bytes()
    }

    /// What is below `map/`, by the numbers of the snapshots, without their terms.
    fn map_keys(&self) -> Vec<String> {
        let number = |text: &str| {
            let text = text.split_once('-').map_or(text, |(_, number)| number);
            text.parse().map_or_else(|_| text.to_string(), |number: u64| number.to_string())
        };
        let names = self.model.keys();
        let below = names.iter().filter_map(|key| key.strip_prefix("/flashmob/pool/map/"));
        below
            .map(|key| key.trim_start_matches("snapshot/").split('/').map(number).collect::<Vec<_>>().join("/"))
            .collect()
    }
}

fn new_image(chunks: u32) -> MapImage {
    let member = |number: u8| Member {
        extent_id: [number; 16],
        boot_id: None,
        seen: None,
        size_bytes: u64::from(chunks) * CHUNK_BYTES_MIN,
        domain: format!("node {number}"),
    };
    MapImage::with_chunks([9; 16], CHUNK_BYTES_MIN, 2, (0..3).map(member).collect(), chunks).unwrap()
}

/// Changes so many chunks in one batch.
fn change(image: &mut MapImage, chunks: u32) -> Vec<u8> {
    let record = |chunk: u32| {
        let marks = Marks { is_open: !image.marks(chunk).is_open, ..Marks::default() };
        Record::Marks { first_chunk: chunk, count: 1, marks }
    };
    let records: Vec<_> = (0..chunks).map(record).collect();
    let mut batch = Vec::new();
    encode_batch(&mut batch, image.version() + 1, &records).unwrap();
    records.iter().for_each(|record| image.apply(record).unwrap());
    batch
}

fn append(map: &mut EtcdMap, image: &mut MapImage, chunks: u32) -> Result<(), MapFailure> {
    let batch = change(image, chunks);
    map.append(image.version(), &batch)
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "it does not come about: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_map_is_kept() {
    let cluster = Cluster::new();
    assert!(EtcdMap::open(cluster.follow("first"), cluster.keys.clone(), None, false).unwrap().is_none());
    let mut image = new_image(FEW);
    let mut map = cluster.create("second", &image);
    for name in ["third", "fourth", "fifth"] {
        let before = cluster.map_keys().len() as u32;
        for number in 0..BATCHES {
            append(&mut map, &mut image, 1 + number % 3).unwrap();
        }
        assert_eq!(cluster.map_keys().len() as u32, before + BATCHES);
        let (opened, read) = cluster.open(name).unwrap();
        assert_eq!((&read, cluster.look()), (&image, (image.clone(), map.bytes)));
        assert_eq!((opened.bytes, opened.snapshot_bytes), (map.bytes, map.snapshot_bytes));
        map = opened;
    }
    assert!(image.version() > 100, "numbers of one, two and three digits");
}

#[test]
fn a_snapshot_has_several_parts() {
    let cluster = Cluster::new();
    let mut image = new_image(MANY);
    let mut map = cluster.create("first", &image);
    append(&mut map, &mut image, 2).unwrap();
    let keys = cluster.map_keys();
    assert!(keys.starts_with(&["head", "0/batch/2", "0/part/0", "0/part/1"].map(str::to_string)), "{keys:?}");
    assert_eq!(cluster.open("second").unwrap().1, image);
}

#[test]
fn a_read_that_fails_is_no_damage() {
    let cluster = Cluster::new();
    let mut image = new_image(MANY);
    let mut map = cluster.create("first", &image);
    append(&mut map, &mut image, 2).unwrap();
    let mut failed = 0;
    for after in 0..20 {
        let tenure = cluster.follow("second");
        cluster.model.set_denied(Some(after));
        let opened = EtcdMap::open(tenure, cluster.keys.clone(), None, false);
        cluster.model.set_denied(None);
        let Err(error) = opened else { break };
        assert!(error.is::<EtcdError>(), "after {after} reads: {error:#}");
        failed += 1;
    }
    assert!(failed >= 4, "the head, two pages of the snapshot and one of batches: {failed}");
}

#[test]
fn a_map_written_anew_replaces_the_old_one() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    let mut appended = 0;
    while !map.wants_compaction() {
        append(&mut map, &mut image, FEW).unwrap();
        appended += 1;
    }
    assert_eq!(cluster.map_keys().len(), appended + 2);
    map.rewrite(&encode_snapshot(&image)).unwrap();
    assert_eq!(cluster.map_keys(), ["head", "1/part/0"]);
    assert!(!map.wants_compaction() && !map.is_spent);
    append(&mut map, &mut image, 1).unwrap();
    let (map, read) = cluster.open("second").unwrap();
    assert!(read == image && map.snapshot.ends_with("-1"));
}

#[test]
fn an_attempt_without_room_leaves_the_old_map() {
    let cluster = Cluster::new();
    let mut image = new_image(MANY);
    let mut map = cluster.create("first", &image);
    append(&mut map, &mut image, 1).unwrap();
    let before = image.clone();
    for room in [1, 0] {
        cluster.model.set_room(Some(room));
        let failure = map.rewrite(&encode_snapshot(&image)).unwrap_err();
        assert!(failure.failure == Failure::NoSpace && failure.text.contains("is full"), "{failure:?}");
        assert!(map.is_spent && cluster.look().0 == before);
        let refused = append(&mut map, &mut image, 1).unwrap_err();
        assert!(refused.text.contains("has to be written anew"), "{refused:?}");
    }
    assert!(cluster.map_keys().contains(&"1/part/0".to_string()), "the beginning of an attempt");
    cluster.model.set_room(None);
    map.rewrite(&encode_snapshot(&image)).unwrap();
    assert!(!map.is_spent);
    let keys = cluster.map_keys();
    assert!(keys.iter().all(|key| key == "head" || key.starts_with("3/part/")), "{keys:?}");
    append(&mut map, &mut image, 1).unwrap();
    assert_eq!(cluster.open("second").unwrap().1, image);
}

#[test]
fn what_another_gateway_has_left_of_an_attempt_goes() {
    let cluster = Cluster::new();
    let mut image = new_image(MANY);
    let mut map = cluster.create("first", &image);
    cluster.model.set_room(Some(3));
    map.rewrite(&encode_snapshot(&image)).unwrap_err();
    cluster.model.set_room(None);
    let (mut map, _) = cluster.open("second").unwrap();
    image = new_image(FEW);
    map.rewrite(&encode_snapshot(&image)).unwrap();
    assert_eq!(cluster.map_keys(), ["head", "0/part/0"]);
    assert_eq!(cluster.open("third").unwrap().1, image);
}

#[test]
fn a_batch_without_room_is_not_there() {
    let cluster = Cluster::new();
    let mut image = new_image(FEW);
    let mut map = cluster.create("first", &image);
    let before = image.clone();
    cluster.model.set_room(Some(0));
    assert_eq!(append(&mut map, &mut image, 1).unwrap_err().failure, Failure::NoSpace);
    cluster.model.set_room(None);
    assert!(append(&mut map, &mut image, 1).is_err() && map.is_spent && cluster.look().0 == before);
}

type Damage = fn(&Cluster);

/// What etcd's data may have become, and the words about it.
fn damages() -> [(Damage, &'static str); 6] {
    [
        (|cluster| cluster.model.set(&cluster.keys.head(), b"no JSON"), "is damaged"),
        (|cluster| cluster.model.set(&cluster.keys.head(), br#"{"snapshot":"1","parts":1,"bytes":9}"#), "is damaged"),
        (|cluster| cluster.model.remove(&cluster.key("part", 0)), "is damaged"),
        (|cluster| cluster.model.remove(&cluster.key("batch", 2)), "cannot be used"),
        (|cluster| cluster.model.set(&cluster.key("batch", 3), b"FMap"), "cannot be used"),
        (
            |cluster| {
                let part = cluster.key("part", 0);
                let len_bytes = cluster.model.get(&part).unwrap().value.len();
                cluster.model.set(&part, &vec![7; len_bytes]);
            },
            "cannot be used",
        ),
    ]
}

fn refusal_after(damage: Damage) -> String {
    let (cluster, mut image) = (Cluster::new(), new_image(FEW));
    let mut map = cluster.create("first", &image);
    (0..3).for_each(|_| append(&mut map, &mut image, 1).unwrap());
    damage(&cluster);
    format!("{:#}", cluster.open("second").map(drop).unwrap_err())
}

#[test]
fn a_damaged_map_is_refused() {
    for (at, (damage, words)) in damages().into_iter().enumerate() {
        let error = refusal_after(damage);
        assert!(error.contains(words), "{at}: {error}");
    }
}

#[test]
fn a_refusal_of_a_damaged_map_names_a_remedy() {
    let errors = damages().map(|(damage, _)| refusal_after(damage));
    let bare: Vec<_> = errors.iter().filter(|error| !error.contains("restore") && !error.contains("recover")).collect();
    assert!(bare.is_empty(), "{bare:#?}");
}
