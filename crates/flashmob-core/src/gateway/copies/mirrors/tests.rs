use super::recent::RECENT_BYTES_MAX;
use super::*;
use crate::copies::testing::ToyKey;
use crate::copies::{Found, Marks, Member, Record, Terms, encode_batch, recover, replay};

/// Mirrors of a map, and the one of its first member.
struct Bed {
    image: MapImage,
    mirrors: Mirrors,
    file: Vec<u8>,
    new: Vec<u8>,
}

impl Bed {
    fn new() -> Bed {
        let member = |n: u8| Member {
            extent_id: [n; 16],
            boot_id: Some([n; 16]),
            seen: None,
            size_bytes: 1 << 20,
            domain: format!("d{n}"),
        };
        let mut image = MapImage::new([9; 16], 1 << 18, 2, (1..4).map(member).collect()).unwrap();
        image.apply(&Record::Epoch { epoch: 1, nonce: 7 }).unwrap();
        let mut bed = Bed { mirrors: Mirrors::new(&image), image, file: Vec::new(), new: Vec::new() };
        bed.mirrors.welcomed(Time::default(), 0, LinkId(0), Some(MirrorState::default()));
        bed
    }

    /// So many decisions become durable, each in a batch of its own.
    fn decide(&mut self, count: usize) {
        for _ in 0..count {
            let is_open = !self.image.marks(0).is_open;
            let record = Record::Marks { first_chunk: 0, count: 1, marks: Marks { is_open, ..Marks::default() } };
            let (mut bytes, number) = (Vec::new(), self.image.version() + 1);
            encode_batch(&mut bytes, number, std::slice::from_ref(&record)).unwrap();
            self.image.apply(&record).unwrap();
            self.mirrors.committing(&Batch { number, bytes, is_whole: false }, &self.image);
            self.mirrors.committed(Time::default(), true);
        }
    }

    /// The next frame, which waits for no decision.
    fn next(&mut self) -> Option<(PutMirror, Vec<u8>)> {
        self.mirrors.at_rest(Time::default(), &self.image);
        let late = Time::default() + LAZY;
        // The first look says that it lacks something, the second that it has for long.
        let log = Log::new(self.image.version());
        let frame = self.mirrors.next(Time::default(), 0, &log).or_else(|| self.mirrors.next(late, 0, &log));
        frame.map(|(_, put, bytes)| (put, bytes))
    }

    /// The node stores it.
    fn store(&mut self, (put, bytes): &(PutMirror, Vec<u8>)) {
        let file = if put.is_new { &mut self.new } else { &mut self.file };
        file.truncate(put.offset_bytes as usize);
        assert_eq!(file.len() as u64, put.offset_bytes, "no gap");
        file.extend(bytes);
        if put.is_last {
            self.file = std::mem::take(&mut self.new);
        }
        let answer = MirrorPut { state: put.state, is_kept: true };
        assert_eq!(self.mirrors.answered(Time::default(), 0, answer), Some(*put));
    }

    /// It gets all that it lacks, and then has the map. Returns how many frames that took.
    fn catch_up(&mut self) -> usize {
        let mut frames = 0;
        while let Some(frame) = self.next() {
            self.store(&frame);
            frames += 1;
        }
        if self.mirrors.sign.is_none() {
            assert_eq!(replay(&self.file).map(|replayed| replayed.image), Ok(self.image.clone()));
        }
        frames
    }

    /// The version that is recovered from the mirror with a key.
    fn version_with(&self, key: ToyKey) -> Option<u64> {
        let found = [Found { extent_id: [1; 16], charge: None, mirror: &self.file }];
        recover(&found, &Terms { keys: Some(&key), ..Terms::default() }).ok().map(|recovered| recovered.of.1)
    }
}

#[test]
fn a_mirror_gets_a_snapshot_and_then_changes() {
    let mut bed = Bed::new();
    assert_eq!(bed.catch_up(), 1);
    bed.decide(3);
    assert_eq!(bed.catch_up(), 1);
    bed.decide(4000);
    assert!(bed.catch_up() > 1, "a frame has 64 KiB at most");
}

#[test]
fn an_answer_that_comes_once_it_has_fallen_out_of_step_puts_it_in_step_no_more() {
    let mut bed = Bed::new();
    bed.catch_up();
    bed.decide(4000);
    let frame = bed.next().unwrap();
    assert!(!frame.0.is_new && frame.1.len() == MIRROR_FRAME_BYTES_MAX);
    bed.decide(RECENT_BYTES_MAX / 24);
    bed.store(&frame);
    assert_eq!(bed.mirrors.in_step(), 0, "changes between are not kept any more");
    bed.catch_up();
    assert_eq!(bed.mirrors.in_step(), 1);
}

#[test]
fn a_mirror_that_has_grown_is_made_anew_only_while_another_is_in_step() {
    let mut bed = Bed::new();
    bed.catch_up();
    bed.decide(4000);
    bed.catch_up();
    assert!(bed.file.len() as u64 > COMPACTION_BYTES_MIN);
    bed.decide(1);
    assert!(bed.next().is_some_and(|(put, _)| !put.is_new), "it is the only one");
}

#[test]
fn a_mirror_that_has_more_than_the_map_had_at_first_is_noticed() {
    let mut bed = Bed::new();
    let had = bed.image.version() - bed.image.epoch();
    // What is decided meanwhile does not count.
    bed.decide(5);
    let told =
        |epoch, decisions, len_bytes| Some(MirrorState { epoch, nonce: 5, version: epoch + decisions, len_bytes });
    // No start before the first is known.
    assert_eq!(bed.mirrors.lacking(told(0, had, 400)), None);
    assert_eq!(bed.mirrors.lacking(told(0, had + 1, 400)), Some(Lacking::Decisions(1)));
    for epoch in [1, 2, 90] {
        assert_eq!(bed.mirrors.lacking(told(epoch, 0, 400)), Some(Lacking::Start(epoch)), "of a branch");
    }
    assert_eq!((bed.mirrors.lacking(None), bed.mirrors.lacking(told(1, had + 1, 0))), (None, None));
    let own = MirrorState { epoch: 1, nonce: 7, version: bed.image.version(), len_bytes: 400 };
    assert_eq!(bed.mirrors.lacking(Some(own)), None, "what this start has put there");
}

#[test]
fn what_is_sent_is_signed_and_made_anew_with_another_key() {
    let (mut bed, keys) = (Bed::new(), [ToyKey::new(7, 1), ToyKey::new(8, 2)]);
    let sign = |bed: &mut Bed, key: usize| bed.mirrors.sign_with(Time::default(), Some(Box::new(keys[key])));
    sign(&mut bed, 0);
    bed.catch_up();
    assert_eq!(bed.version_with(keys[0]), Some(bed.image.version()));
    bed.decide(4000);
    bed.catch_up();
    assert_eq!((bed.version_with(keys[0]), bed.version_with(keys[1])), (Some(bed.image.version()), None));

    // What is under way, or was made for others, is not continued with the next key.
    bed.decide(4000);
    let under_way = bed.next().unwrap();
    sign(&mut bed, 1);
    bed.store(&under_way);
    assert_eq!(bed.mirrors.in_step(), 0, "nobody could read the rest of it");
    bed.decide(3);
    assert!(bed.next().is_some_and(|(put, _)| put.is_new && put.offset_bytes == 0));
    bed.mirrors.members[0].out = None;
    bed.catch_up();
    assert_eq!((bed.version_with(keys[1]), bed.version_with(keys[0])), (Some(bed.image.version()), None));

    // Nor is a snapshot that was made while a batch was not durable yet.
    let record = Record::Marks { first_chunk: 0, count: 1, marks: Marks { is_open: true, ..Marks::default() } };
    let (mut bytes, number) = (Vec::new(), bed.image.version() + 1);
    encode_batch(&mut bytes, number, std::slice::from_ref(&record)).unwrap();
    bed.image.apply(&record).unwrap();
    sign(&mut bed, 1);
    bed.mirrors.committing(&Batch { number, bytes, is_whole: false }, &bed.image);
    sign(&mut bed, 0);
    bed.mirrors.committed(Time::default(), true);
    bed.catch_up();
    assert_eq!(bed.version_with(keys[0]), Some(bed.image.version()));
    assert_eq!(bed.mirrors.in_step(), 1);
}
