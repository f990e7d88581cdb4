//! A node on a real file that belongs to a volume with copies: its checksums, from one start to the next.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashmob_core::elevator::IssueOrder;
use flashmob_core::node::LinkId;
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::MIB;
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::hello::{Charge, Hello, Refuse, RefuseReason, Welcome};
use flashmob_core::wire::replies::RepliesDecoder;
use flashmob_core::wire::{Decoded, FrameKind, decode_frame};
use flashmob_server::net::{Clock, Wake};
use flashmob_server::node::{Extent, ExtentConfig};
use flashmob_server::store::identity::Identity;
use flashmob_server::store::{ExtentId, StoreConfig, SumsStamp};

const SIZE_BYTES: u64 = 9 * MIB;
const BLOCK: usize = 4096;

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
    Bed { extent: Extent::open(&config, clock, Wake::nobody()).expect("an extent"), clock, seq: 0 }
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
