//! How old extents are known to be: older states of them are noticed, and nothing else is taken for one.

use std::time::Duration;

use crate::testing::{CHUNK_BYTES, GatewayBed, answer, bytes_of, frames, gateway_config, pair_map, volume, welcome};
use flashmob_core::copies::{MapImage, Record, mirror_state};
use flashmob_core::gateway::{Action, ClientId, CopiesSpec, Event, LinkId, SETTLE_AFTER, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::op::Op;
use flashmob_core::wire::condition::{Alive, put_alive};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::{Hello, Welcome};
use flashmob_core::wire::mirror::{MirrorPut, PutMirror};

/// After so long all that was changed before shows in the age of each extent.
const PERIOD: Duration = Duration::from_secs(32);

/// The files on a node's flash.
#[derive(Debug, Clone, Default)]
struct Files {
    accepted: Vec<(u64, u64)>,
    age: Option<(u64, u64)>,
    mirror: Vec<u8>,
}

/// A gateway, and two nodes that answer everything.
struct Bed {
    bed: GatewayBed,
    client: ClientId,
    files: [Files; 2],
    new: [Vec<u8>; 2],
    is_up: [bool; 2],
    keeps_age: bool,
    /// Batches of decisions, and frames that had to be durable.
    commits: usize,
    durable_frames: usize,
}

impl Bed {
    fn new(map: MapImage, files: [Files; 2], keeps_age: bool) -> Bed {
        let mut bed = Bed::unlinked(map, files, keeps_age);
        (0..2).for_each(|node| bed.link(node, [node as u8 + 1; 16]));
        bed.pass(Duration::from_secs(1));
        bed
    }

    fn unlinked(map: MapImage, files: [Files; 2], keeps_age: bool) -> Bed {
        let spec = VolumeSpec {
            layout: LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES },
            links: 1,
            copies: Some(Box::new(CopiesSpec::new(map))),
            ..volume(&[2 * CHUNK_BYTES; 2])
        };
        let mut bed = GatewayBed::new(gateway_config(spec));
        let client = bed.gateway.native_opened(0).unwrap();
        let (new, is_up) = (Default::default(), [false; 2]);
        Bed { bed, client, files, new, is_up, keeps_age, commits: 0, durable_frames: 0 }
    }

    fn started(keeps_age: bool) -> Bed {
        let mut map = pair_map();
        map.apply(&Record::Epoch { epoch: 1, nonce: 4 }).unwrap();
        Bed::new(map, Default::default(), keeps_age)
    }

    /// A node is linked, with what it has by now.
    fn link(&mut self, node: usize, boot_id: [u8; 16]) {
        let (bed, files, id) = (&mut self.bed, &mut self.files[node], LinkId(node));
        bed.gateway.handle_timeout(bed.now);
        bed.actions();
        bed.gateway.link_connected(bed.now, id);
        let out = bed.gateway.link_out(id).take_all();
        let hello = Hello::decode(&frames(&out)[0].meta).unwrap();
        assert!(hello.asks_age);
        let charge = hello.charge.unwrap();
        let seen = hello.seen.unwrap_or((u64::MAX, 0));
        let age = files.age.filter(|_| self.keeps_age).map(|age| age.min(seen));
        let remembered = files.accepted.iter().rev().find(|charge| **charge <= seen).copied().max(age);
        files.accepted.push((charge.epoch, charge.version));
        self.is_up[node] = true;
        let mirror = Some(mirror_state(&files.mirror).map(|(_, state)| state).unwrap_or_default());
        let (extent_id, keeps_age) = ([node as u8 + 1; 16], self.keeps_age);
        let told = Welcome { extent_id, boot_id, remembered, mirror, keeps_age, ..welcome(2 * CHUNK_BYTES) };
        bed.gateway.link_rx(id).extend(&bytes_of(|out| told.encode(out)));
        bed.gateway.process_link(bed.now, id);
    }

    /// The process of a node ends, and is started again with these files.
    fn restart(&mut self, node: usize, files: Files) {
        self.bed.gateway.link_closed(self.bed.now, LinkId(node), "gone");
        self.files[node] = files;
        self.bed.pass(Duration::from_millis(400));
        self.link(node, [node as u8 + 1; 16]);
    }

    fn commit(&mut self) {
        for action in self.bed.actions() {
            if let Action::Commit { volume, number, .. } = action {
                self.commits += 1;
                self.bed.gateway.committed(self.bed.now, volume, number, Ok(()));
            }
        }
    }

    fn serve(&mut self, node: usize) {
        let id = LinkId(node);
        let mut answers = bytes_of(|out| put_alive(out, Alive::Here));
        for frame in frames(&self.bed.gateway.link_out(id).take_all()) {
            match frame.kind {
                FrameKind::Batch => drop(answer(&frame, &mut answers)),
                FrameKind::PutMirror => {
                    let put = PutMirror::decode(&frame.meta, frame.payload.len()).unwrap();
                    self.durable_frames += usize::from(put.is_durable);
                    let file = if put.is_new { &mut self.new[node] } else { &mut self.files[node].mirror };
                    file.truncate(put.offset_bytes as usize);
                    file.extend(&frame.payload);
                    if put.is_last {
                        self.files[node].mirror = std::mem::take(&mut self.new[node]);
                    }
                    if put.is_durable {
                        self.files[node].age = Some(put.state.age());
                    }
                    MirrorPut { state: put.state, is_kept: true }.encode(&mut answers);
                }
                _ => {}
            }
        }
        self.bed.gateway.link_rx(id).extend(&answers);
        self.bed.gateway.process_link(self.bed.now, id);
    }

    fn pass(&mut self, time: Duration) {
        let step = Duration::from_millis(100);
        for _ in 0..time.as_millis() / step.as_millis() {
            self.bed.pass(step);
            (0..2).filter(|&node| self.is_up[node]).collect::<Vec<_>>().into_iter().for_each(|node| self.serve(node));
            self.commit();
        }
    }

    /// A change of the first chunk.
    fn change(&mut self) {
        self.bed.submit(self.client, Op::Write, 0, 4096);
        self.pass(Duration::from_secs(1));
        assert_eq!(self.bed.ended(), 1);
    }

    fn restored(&self) -> u64 {
        self.bed.gateway.copies_status(self.bed.now, 0).unwrap().counters.restored
    }

    fn are_behind(&self, node: usize) -> bool {
        let map = self.bed.gateway.map(0).unwrap();
        (0..map.chunks()).all(|chunk| {
            let copy = map.places(chunk).iter().position(|place| usize::from(place.member) == node);
            copy.is_none_or(|copy| map.marks(chunk).behind & 1 << copy != 0)
        })
    }
}

#[test]
fn an_older_state_of_an_extent_is_noticed_with_whichever_of_its_files_it_comes_back() {
    for chunk_stays_open in [false, true] {
        for (extent, identity, mirror) in
            [(true, false, false), (true, true, false), (true, false, true), (true, true, true), (false, false, true)]
        {
            let mut bed = Bed::started(true);
            bed.change();
            bed.pass(PERIOD * u32::from(!chunk_stays_open));
            let backup = bed.files[1].clone();
            bed.change();
            bed.pass(PERIOD);
            bed.change();
            let mut files = bed.files[1].clone();
            assert!(files.age > backup.age, "it is older by now");
            if extent {
                files.age = backup.age;
            }
            if identity {
                files.accepted = backup.accepted;
            }
            if mirror {
                files.mirror = backup.mirror;
            }
            bed.restart(1, files);
            let is_noticed = u64::from(extent);
            assert_eq!(bed.restored(), is_noticed, "{extent} {identity} {mirror}");
            assert_eq!(bed.are_behind(1), extent);
            bed.pass(Duration::from_secs(5));
            // It is known for what it is, and made equal.
            let files = bed.files[1].clone();
            bed.restart(1, files);
            bed.pass(Duration::from_secs(5));
            assert_eq!((bed.restored(), bed.are_behind(1)), (is_noticed, false));
        }
    }
}

#[test]
fn an_older_state_with_the_only_copy_is_kept_and_told() {
    let mut bed = Bed::started(true);
    bed.change();
    let backup = bed.files[1].clone();
    bed.bed.gateway.link_closed(bed.bed.now, LinkId(0), "gone");
    bed.is_up[0] = false;
    bed.bed.submit(bed.client, Op::Write, 0, 4096);
    bed.pass(PERIOD);
    assert_eq!(bed.bed.ended(), 1, "it goes on without the other node");
    assert_eq!(bed.bed.gateway.map(0).unwrap().marks(0).behind, 0b01);
    bed.bed.gateway.link_closed(bed.bed.now, LinkId(1), "gone");
    bed.files[1] = backup;
    bed.bed.pass(Duration::from_millis(400));
    bed.link(1, [2; 16]);
    let told = bed.bed.actions().into_iter().any(|action| {
        matches!(action, Action::Tell(Event::NodeWarning(_, text)) if text.contains("1 chunks have no other copy: what they hold is old"))
    });
    assert!(told);
    let map = bed.bed.gateway.map(0).unwrap();
    assert_eq!((bed.restored(), map.marks(0).behind, map.marks(1).behind), (1, 0b01, 0b10), "the last copy is kept");
}

#[test]
fn the_next_start_of_the_gateway_notices_it_as_well() {
    let mut bed = Bed::started(true);
    bed.change();
    bed.pass(PERIOD);
    let backup = bed.files[1].clone();
    bed.change();
    for (periods, is_noticed) in [(1, false), (1, true)] {
        bed.pass(PERIOD * periods);
        let mut map = bed.bed.gateway.map(0).unwrap().clone();
        map.apply(&Record::Epoch { epoch: map.epoch() + 1, nonce: 5 }).unwrap();
        let next = Bed::new(map, [bed.files[0].clone(), backup.clone()], true);
        assert_eq!(next.restored() > 0, is_noticed, "what mirrors confirm is recorded a period later");
        assert_eq!(next.restored(), u64::from(is_noticed));
    }
}

#[test]
fn a_node_that_did_not_go_back_is_believed() {
    // It could not store its mirror, and removed it; or its mirror is torn behind what was durable.
    for keeps_age in [true, false] {
        let mut bed = Bed::started(keeps_age);
        for _ in 0..3 {
            bed.change();
            bed.pass(PERIOD);
            let files = Files { mirror: Vec::new(), ..bed.files[1].clone() };
            bed.restart(1, files);
            bed.pass(Duration::from_secs(1));
            // It stores what the gateway is not told of.
            bed.change();
            bed.pass(PERIOD - Duration::from_secs(3));
            let age = bed.files[1].age.map(|(epoch, version)| (epoch, version + 1));
            let files = Files { age, ..bed.files[1].clone() };
            bed.restart(1, files);
        }
        assert_eq!(bed.restored(), 0, "{keeps_age}");
    }
}

#[test]
fn a_node_of_an_earlier_build_is_judged_by_its_mirror() {
    let mut bed = Bed::started(false);
    bed.change();
    let backup = bed.files[1].clone();
    // Nothing is durable there but what decisions wait for.
    let boot_id = [9; 16];
    bed.bed.gateway.link_closed(bed.bed.now, LinkId(0), "gone");
    bed.bed.pass(Duration::from_millis(400));
    bed.link(0, boot_id);
    bed.pass(Duration::from_secs(2));
    let files = Files { mirror: backup.mirror, ..bed.files[1].clone() };
    bed.restart(1, files);
    assert_eq!((bed.restored(), bed.are_behind(1)), (1, true));
}

#[test]
fn a_node_that_goes_back_to_an_earlier_build_is_believed() {
    let mut bed = Bed::started(true);
    bed.change();
    bed.pass(PERIOD * 2);
    let known = bed.bed.gateway.map(0).unwrap().members()[1].seen;
    assert!(known > bed.files[1].accepted.last().copied(), "the map knows an age that no charge has");
    bed.keeps_age = false;
    let files = bed.files[1].clone();
    bed.restart(1, files);
    assert_eq!(bed.restored(), 0);
    // The mirror that it has says so, at the next start of the gateway, too.
    let mut map = bed.bed.gateway.map(0).unwrap().clone();
    map.apply(&Record::Epoch { epoch: map.epoch() + 1, nonce: 5 }).unwrap();
    assert_eq!(Bed::new(map, bed.files.clone(), false).restored(), 0);
}

#[test]
fn an_extent_that_was_restored_grows_no_older_before_that_is_on_record() {
    let mut bed = Bed::started(true);
    bed.change();
    let backup = bed.files[1].clone();
    bed.change();
    bed.pass(PERIOD);
    bed.restart(1, backup);
    assert_eq!(bed.restored(), 1);
    let of_mirror = |bed: &mut Bed| {
        let frames = frames(&bed.bed.gateway.link_out(LinkId(1)).take_all());
        frames.into_iter().filter(|frame| frame.kind == FrameKind::PutMirror).count()
    };
    for _ in 0..20 {
        bed.bed.pass(Duration::from_millis(100));
        assert_eq!(of_mirror(&mut bed), 0);
    }
    bed.commit();
    bed.bed.pass(Duration::from_millis(100));
    assert!(of_mirror(&mut bed) > 0, "it gets the decision with all else");
}

#[test]
fn extents_grow_older_once_a_period_and_not_without_changes() {
    let mut bed = Bed::started(true);
    bed.change();
    bed.pass(PERIOD * 4);
    let (commits, frames) = (bed.commits, bed.durable_frames);
    bed.pass(Duration::from_secs(600));
    assert_eq!((bed.commits, bed.durable_frames), (commits, frames), "nothing is changed, and nothing written");
    // Always the same chunk, which stays open: nothing else is decided.
    for _ in 0..300 {
        bed.change();
    }
    let periods = (300 / SETTLE_AFTER.as_secs()) as usize;
    let (commits, frames) = (bed.commits - commits, bed.durable_frames - frames);
    assert!((periods - 1..=periods + 2).contains(&commits), "{commits} batches in {periods} periods");
    assert!((2 * (periods - 1)..=2 * (periods + 1)).contains(&frames), "{frames} frames to two nodes");
}

#[test]
fn extents_grow_older_though_mirrors_have_all_that_was_decided() {
    let mut map = pair_map();
    map.apply(&Record::Epoch { epoch: 1, nonce: 4 }).unwrap();
    let mut bed = Bed::unlinked(map, Default::default(), true);
    // The mirror of each has durably what the map had when it was linked, so its age is on record already.
    for node in 0..2 {
        bed.link(node, [node as u8 + 1; 16]);
        bed.pass(Duration::from_secs(1));
        assert_eq!(bed.files[node].age, bed.bed.gateway.map(0).unwrap().members()[node].seen);
    }
    let linked = bed.files.clone();
    // Always the same chunk: mirrors get that it is open, not durably, before extents grow older, and nothing else is decided.
    for _ in 0..3 * PERIOD.as_secs() {
        bed.change();
    }
    for (node, linked) in linked.iter().enumerate() {
        assert!(bed.files[node].age > linked.age, "node {node}");
        let known = bed.bed.gateway.map(0).unwrap().members()[node].seen;
        assert!(known > linked.age, "node {node}: {known:?}");
    }
}
