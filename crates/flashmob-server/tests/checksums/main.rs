//! A node on a real file that belongs to a volume with copies: its checksums, from one start to the next.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashmob_core::copies::{MapImage, Member, Record, encode_snapshot};
use flashmob_core::elevator::IssueOrder;
use flashmob_core::node::LinkId;
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::MIB;
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::hello::{Charge, Hello, Refuse, RefuseReason, Welcome};
use flashmob_core::wire::mirror::{MirrorPut, MirrorState, PutMirror};
use flashmob_core::wire::replies::RepliesDecoder;
use flashmob_core::wire::{Decoded, FrameKind, decode_frame};
use flashmob_server::net::{Clock, Wake};
use flashmob_server::node::{Extent, ExtentConfig, ExtentError};
use flashmob_server::store::identity::Identity;
use flashmob_server::store::sums::format::Header;
use flashmob_server::store::{ExtentId, StoreConfig, SumsStamp};

mod lost;

const SIZE_BYTES: u64 = 9 * MIB;
const BLOCK: usize = 4096;

#[derive(Debug)]
struct Bed {
    extent: Extent,
    clock: Clock,
    seq: u32,
}

#[derive(Debug)]
enum Answer {
    Welcome(Option<(u64, u64)>),
    Refused(RefuseReason, String),
}

fn open(data: &Path, forget: bool) -> Bed {
    try_open(data, forget).expect("an extent")
}

fn try_open(data: &Path, forget: bool) -> Result<Bed, ExtentError> {
    let config = ExtentConfig {
        store: StoreConfig { size_bytes: Some(SIZE_BYTES), ..StoreConfig::new(data) },
        state_dir: None,
        forget,
        memory_bytes: 16 * MIB,
        links_max: 8,
        cluster: None,
        repin: false,
        new_key: false,
        enroll: None,
        order: IssueOrder::Sorted,
    };
    let clock = Clock::start();
    Ok(Bed { extent: Extent::open(&config, clock, Wake::nobody())?, clock, seq: 0 })
}

fn charge(epoch: u64) -> Option<Charge> {
    Some(Charge { map_id: [7; 16], epoch, nonce: u64::MAX - epoch, version: 1 })
}

fn hello(epoch: u64) -> Hello {
    Hello {
        gateway_id: [epoch as u8; 16],
        session: epoch,
        attempt: 1,
        volume_id: "photos".to_string(),
        extent: 3,
        extents: 4096,
        layout: "mapped:4194304".to_string(),
        charge: charge(epoch),
        ..Hello::default()
    }
}

impl Bed {
    fn greet(&mut self, hello: &Hello) -> (LinkId, Answer) {
        let link = self.extent.node.link_opened();
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        let sent = self.exchange(link, &bytes);
        let Ok(Decoded::Frame(frame, _)) = decode_frame(&sent) else { panic!("no answer") };
        let answer = match frame.kind {
            FrameKind::Welcome => Answer::Welcome(Welcome::decode(frame.meta).expect("a welcome").remembered),
            FrameKind::Refuse => {
                let Refuse { reason, text } = Refuse::decode(frame.meta).expect("a refusal");
                Answer::Refused(reason, text)
            }
            other => panic!("{other:?}"),
        };
        (link, answer)
    }

    /// A link that is welcome.
    fn link(&mut self, hello: &Hello) -> LinkId {
        match self.greet(hello) {
            (link, Answer::Welcome(_)) => link,
            (_, other) => panic!("{other:?}"),
        }
    }

    fn exchange(&mut self, link: LinkId, bytes: &[u8]) -> Vec<u8> {
        self.extent.node.rx(link).expect("a link").extend(bytes);
        self.extent.process(self.clock.now(), link);
        let begun = Instant::now();
        loop {
            self.extent.turn(self.clock.now());
            let sent = self.extent.node.out(link).expect("a link").take_all();
            if !sent.is_empty() || begun.elapsed() > Duration::from_secs(30) {
                return sent;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Carries one operation out.
    fn run(
        &mut self,
        link: LinkId,
        (op, flags): (Op, OpFlags),
        offset_bytes: usize,
        data: &[u8],
        len: usize,
    ) -> Result<Vec<u8>, Failure> {
        self.seq += 1;
        let piece = WirePiece { op, flags, offset_bytes: offset_bytes as u64, len_bytes: len as u32 };
        let mut bytes = Vec::new();
        encode_batch(&mut bytes, self.seq, &[piece], |out| out.extend_from_slice(data));
        let sent = self.exchange(link, &bytes);
        let Ok(Decoded::Frame(frame, _)) = decode_frame(&sent) else { panic!("no answer") };
        let run =
            RepliesDecoder::new(frame.meta).and_then(|mut runs| runs.next_run()).expect("replies").expect("a run");
        run.outcome.map(|()| frame.payload.to_vec())
    }

    fn write(&mut self, link: LinkId, offset_bytes: usize, data: &[u8]) {
        assert_eq!(self.run(link, (Op::Write, OpFlags::FUA), offset_bytes, data, data.len()), Ok(vec![]));
    }

    fn read(&mut self, link: LinkId, offset_bytes: usize, len: usize) -> Result<Vec<u8>, Failure> {
        self.run(link, (Op::Read, OpFlags::NONE), offset_bytes, &[], len)
    }

    /// Gives it a mirror of the map in the epoch of [`later`], with this version.
    fn put_mirror(&mut self, link: LinkId, version: u64, is_durable: bool) {
        let mirror = snapshot(version);
        let len_bytes = mirror.len() as u64;
        let nonce = charge(2).map_or(0, |charge| charge.nonce);
        let state = MirrorState { epoch: 2, nonce, version, len_bytes };
        let put = PutMirror { offset_bytes: 0, is_new: true, is_last: true, is_durable, state };
        let mut bytes = Vec::new();
        put.encode(&mut bytes, &mirror);
        let sent = self.exchange(link, &bytes);
        let Ok(Decoded::Frame(frame, _)) = decode_frame(&sent) else { panic!("no answer") };
        assert!(MirrorPut::decode(frame.meta).expect("an answer").is_kept);
    }
}

fn sums_of(data: &Path) -> PathBuf {
    data.with_extension("sums")
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).expect("copied");
}

fn refused(bed: &mut Bed, epoch: u64) -> String {
    match bed.greet(&hello(epoch)).1 {
        Answer::Refused(RefuseReason::Identity, text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_adopted_extent_has_checksums_and_a_linear_one_never() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, plain) = (dir.path().join("data"), dir.path().join("plain"));
    let mut bed = open(&plain, false);
    bed.link(&Hello { extent: 0, extents: 1, layout: "linear".to_string(), charge: None, ..hello(1) });
    assert!(bed.extent.sums_status().is_none() && !sums_of(&plain).exists());

    let mut bed = open(&data, false);
    assert!(bed.extent.sums_status().is_none());
    let link = bed.link(&hello(1));
    assert_eq!(bed.extent.sums_status().map(|sums| sums.units_without), Some(0));
    bed.write(link, 5 * BLOCK, &[7; 2 * BLOCK]);
    assert_eq!(bed.read(link, 5 * BLOCK + 1, BLOCK), Ok(vec![7; BLOCK]));
    drop(bed);
    File::options()
        .write(true)
        .open(&data)
        .expect("the data")
        .write_all_at(&[6], 6 * BLOCK as u64 + 9)
        .expect("damaged");

    let mut bed = open(&data, false);
    let link = bed.link(&hello(2));
    assert_eq!(bed.read(link, 5 * BLOCK, BLOCK), Ok(vec![7; BLOCK]));
    assert_eq!(bed.read(link, 6 * BLOCK, BLOCK), Err(Failure::Corrupt));
    let taken = bed.run(link, (Op::Read, OpFlags::UNVERIFIED), 6 * BLOCK, &[], 10);
    assert_eq!(taken, Ok(vec![7, 7, 7, 7, 7, 7, 7, 7, 7, 6]));
    assert_eq!(bed.read(link, 6 * BLOCK, 1), Ok(vec![7]));
}

#[test]
fn checksums_that_cannot_be_trusted_are_refused_with_the_remedy_which_helps() {
    type Damage = fn(&Path, &Path);
    let damages: [(&str, Damage); 4] = [
        ("are missing", |sums, _| std::fs::remove_file(sums).expect("removed")),
        ("are damaged", |sums, _| File::options().write(true).open(sums).and_then(|f| f.set_len(5000)).expect("cut")),
        ("older copy", |sums, older| copy(older, sums)),
        ("another extent", |sums, older| copy(&older.with_extension("other"), sums)),
    ];
    for (says, damage) in damages {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, other, older) = (dir.path().join("data"), dir.path().join("other"), dir.path().join("backup"));
        for path in [&data, &other] {
            let mut bed = open(path, false);
            let link = bed.link(&hello(1));
            bed.write(link, 0, b"precious");
        }
        copy(&sums_of(&data), &older);
        copy(&sums_of(&other), &older.with_extension("other"));
        drop(open(&data, false));
        damage(&sums_of(&data), &older);
        let mut bed = open(&data, false);
        assert!(bed.extent.sums_trouble().is_some_and(|text| text.contains(says)), "{says}");
        let text = refused(&mut bed, 2);
        assert!(text.contains(says) && text.contains("data.sums"), "{text}");
        assert!(bed.extent.sums_trouble().is_some_and(|text| text.contains("--forget")));
        drop(bed);
        // A second start does not make it any better.
        refused(&mut open(&data, false), 2);
        let mut bed = open(&data, true);
        assert!(!sums_of(&data).exists(), "a free extent has none");
        let link = bed.link(&hello(2));
        assert_eq!(bed.extent.sums_status().map(|sums| sums.units_without), Some(1), "made as they are needed");
        assert_eq!(bed.read(link, 0, 8), Ok(b"precious".to_vec()));
        assert_eq!(bed.extent.sums_status().map(|sums| sums.units_without), Some(0));
    }
}

#[test]
fn a_start_that_ends_between_the_two_files_is_not_taken_for_a_restored_copy() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    open(&data, false).link(&hello(1));
    let sidecar = dir.path().join("data.flashmob");
    let stamp = || Identity::load_or_create(&sidecar, SIZE_BYTES, false).expect("an identity").sums().expect("a stamp");
    let first = stamp();
    assert_eq!(first.before, None);
    let (new, stray) = (ExtentId([1; 16]), ExtentId([2; 16]));
    let stamped = |nonce, before| {
        let mut identity = Identity::load_or_create(&sidecar, SIZE_BYTES, false).expect("an identity");
        identity.stamp_sums(SumsStamp { nonce, before }).expect("stamped");
    };
    // The identity has the new number, the checksums have the old one.
    stamped(new, Some(first.nonce));
    open(&data, false).link(&hello(1));
    let second = stamp();
    assert!(second.before.is_none() && ![first.nonce, new].contains(&second.nonce), "a number for each start");
    // Both have the new one, and the identity has not given up the old one.
    stamped(second.nonce, Some(first.nonce));
    open(&data, false).link(&hello(1));
    stamped(new, Some(stray));
    refused(&mut open(&data, false), 1);
}

/// Copies what lies there under names that begin like those of an extent, to another folder.
fn back_up(dir: &Path, names: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    names.iter().map(|name| dir.join(name)).map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

fn put_back(files: &[(PathBuf, Vec<u8>)]) {
    files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).expect("put back"));
}

/// A mirror of the map in the epoch of [`later`], with this version.
fn snapshot(version: u64) -> Vec<u8> {
    let size_bytes = SIZE_BYTES;
    let member = Member { extent_id: [1; 16], boot_id: None, seen: None, size_bytes, domain: "one".to_string() };
    let mut image = MapImage::new([7; 16], 4 * MIB, 1, vec![member]).expect("a map");
    let nonce = charge(2).map_or(0, |charge| charge.nonce);
    image.apply(&Record::Epoch { epoch: 2, nonce }).expect("a start");
    for count in image.version()..version {
        image.apply(&Record::Loss { count }).expect("a decision");
    }
    assert_eq!(image.version(), version);
    encode_snapshot(&image)
}

const EXTENT_AND_SUMS: [&str; 2] = ["data", "data.sums"];

fn later(version: u64) -> Hello {
    let charge = charge(2).map(|charge| Charge { version, ..charge });
    Hello { attempt: version as u32, asks_age: true, keeps_mirror: true, charge, ..hello(2) }
}

#[test]
fn extent_and_checksums_from_before_the_last_link_are_refused_when_the_node_starts() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut bed = open(&data, false);
    let link = bed.link(&later(1));
    bed.write(link, 0, b"old");
    let backup = back_up(dir.path(), &EXTENT_AND_SUMS);
    let link = bed.link(&later(2));
    bed.write(link, 0, b"new");
    drop(bed);
    let present = back_up(dir.path(), &EXTENT_AND_SUMS);
    put_back(&backup);
    let mut bed = open(&data, false);
    let (_, answer) = bed.greet(&later(3));
    assert!(
        matches!(&answer, Answer::Refused(_, text) if text.contains("of different starts of the node")),
        "{answer:?}"
    );
    drop(bed);
    put_back(&present);
    let mut bed = open(&data, false);
    let link = bed.link(&later(3));
    assert_eq!(bed.read(link, 0, 3), Ok(b"new".to_vec()));
}

#[test]
fn an_older_extent_under_later_checksums_is_found_block_by_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut bed = open(&data, false);
    let link = bed.link(&later(1));
    bed.write(link, 0, &[1; 3 * BLOCK]);
    let backup = back_up(dir.path(), &["data"]);
    bed.write(link, BLOCK, &[2; BLOCK]);
    drop(bed);
    put_back(&backup);
    let mut bed = open(&data, false);
    let link = bed.link(&later(2));
    assert_eq!(bed.read(link, BLOCK, BLOCK), Err(Failure::Corrupt));
    assert_eq!(bed.read(link, 0, BLOCK), Ok(vec![1; BLOCK]));
    assert_eq!(bed.read(link, 2 * BLOCK, BLOCK), Ok(vec![1; BLOCK]));
}

#[test]
fn an_identity_alone_that_comes_back_is_refused_or_told() {
    for links in [2, 3] {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let mut bed = open(&data, false);
        bed.link(&later(1));
        let backup = back_up(dir.path(), &["data.flashmob"]);
        for version in 2..=links {
            bed.link(&later(version));
        }
        drop(bed);
        put_back(&backup);
        let known = Hello { seen: Some((2, links)), ..later(links + 1) };
        match open(&data, false).greet(&known) {
            // It fits the checksums still, which have the number from before the last link as well.
            (_, Answer::Welcome(remembered)) => assert_eq!((links, remembered), (2, Some((2, 1)))),
            (_, Answer::Refused(reason, text)) => {
                assert_eq!((links, reason), (3, RefuseReason::Identity));
                assert!(text.contains("of different starts of the node"), "{text}");
            }
        }
    }
}

#[test]
fn a_link_without_news_and_one_that_is_refused_leave_a_pair_that_fits() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut bed = open(&data, false);
    bed.link(&later(1));
    let first = back_up(dir.path(), &["data.sums", "data.flashmob"]);
    bed.link(&Hello { attempt: 2, ..later(1) });
    assert_eq!(back_up(dir.path(), &["data.sums", "data.flashmob"]), first, "nothing is written");
    // The checksums get the next number, and the identity does not.
    let (_, answer) = bed.greet(&Hello { attempt: 3, layout: "mapped:8388608".to_string(), ..later(2) });
    assert!(matches!(answer, Answer::Refused(RefuseReason::Identity, _)), "{answer:?}");
    drop(bed);
    let halves = back_up(dir.path(), &["data.sums"]);
    assert_ne!(halves[0], first[0]);
    let mut bed = open(&data, false);
    bed.link(&later(4));
    drop(bed);
    // What was copied between the two is older by now.
    put_back(&halves);
    let (_, answer) = open(&data, false).greet(&later(5));
    assert!(matches!(answer, Answer::Refused(RefuseReason::Identity, _)), "{answer:?}");
}

#[test]
fn an_extent_is_as_old_as_what_its_mirror_had_durably() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut bed = open(&data, false);
    let link = bed.link(&later(1));
    let remembered = |bed: &mut Bed, attempt: u32, seen: (u64, u64)| match bed.greet(&Hello {
        attempt,
        seen: Some(seen),
        ..later(1)
    }) {
        (_, Answer::Welcome(remembered)) => remembered,
        (_, other) => panic!("{other:?}"),
    };
    bed.put_mirror(link, 5, true);
    let backup = back_up(dir.path(), &EXTENT_AND_SUMS);
    bed.put_mirror(link, 8, true);
    bed.put_mirror(link, 9, false);
    assert_eq!(remembered(&mut bed, 2, (2, 7)), Some((2, 7)), "it is older than that");
    assert_eq!(remembered(&mut bed, 3, (2, 9)), Some((2, 7)), "what need not be durable does not count");
    drop(bed);
    let mut bed = open(&data, false);
    assert_eq!(remembered(&mut bed, 4, (2, 9)), Some((2, 7)), "on the flash");
    drop(bed);
    // Extent and checksums fit the identity, and the mirror is the last one.
    let change = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut files = back_up(dir.path(), &["data.sums"]);
        change(&mut files[0].1);
        put_back(&files);
    };
    let older = Header::decode(&backup[1].1).expect("a header");
    change(&|sums| {
        let header = Header::decode(sums).expect("a header");
        assert_eq!((header.age, older.age), (Some((2, 7)), Some((2, 4))));
        sums[..4096].copy_from_slice(&Header { age: older.age, ..header }.encode());
    });
    assert_eq!(remembered(&mut open(&data, false), 5, (2, 9)), Some((2, 4)));
    // An earlier build keeps none: then the mirror tells.
    change(&|sums| sums[60..4096].fill(0));
    assert_eq!(remembered(&mut open(&data, false), 6, (2, 9)), Some((2, 8)));
}

#[test]
fn an_extent_that_an_earlier_program_adopted_gets_checksums_when_its_gateway_links() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, sidecar) = (dir.path().join("data"), dir.path().join("data.flashmob"));
    let mut content = vec![0; SIZE_BYTES as usize];
    content[..8].copy_from_slice(b"precious");
    std::fs::write(&data, &content).expect("data");
    let mut identity = Identity::load_or_create(&sidecar, SIZE_BYTES, false).expect("an identity");
    identity.adopt("photos", 3, 4096, "mapped:4194304", charge(1).as_ref()).expect("adopted");
    assert!(identity.to_text().expect("a text").contains("version = 2"));
    let mut bed = open(&data, false);
    assert!(bed.extent.sums_status().is_none());
    let (link, answer) = bed.greet(&hello(2));
    assert!(
        matches!(answer, Answer::Welcome(remembered) if remembered == charge(1).map(|charge| (charge.epoch, charge.version))),
        "{answer:?}"
    );
    assert_eq!(bed.extent.sums_status().map(|sums| sums.units_without), Some(3));
    assert_eq!(bed.read(link, 0, 8), Ok(b"precious".to_vec()));
    assert_eq!(bed.extent.sums_status().map(|sums| sums.units_without), Some(2));
    assert!(std::fs::read_to_string(&sidecar).expect("a text").contains("version = 3"));
}

#[test]
fn without_room_for_checksums_the_extent_is_not_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut bed = open(&data, false);
    std::fs::create_dir(sums_of(&data)).expect("something in their place");
    let (_, answer) = bed.greet(&hello(1));
    assert!(matches!(&answer, Answer::Refused(RefuseReason::Store, text) if text.contains("data.sums")), "{answer:?}");
    std::fs::remove_dir(sums_of(&data)).expect("removed");
    bed.link(&Hello { attempt: 2, ..hello(1) });
    assert!(bed.extent.sums_status().is_some());
}
