//! Mirrors of the map of a volume with copies: what nodes are given, and which decisions wait for it.

use std::time::Duration;

use crate::testing::{
    GatewayBed, NodeBed, Reads, bytes_of, frames, gateway_config, hello, node_config, volume, welcome,
};
use flashmob_core::copies::{
    Found, MapImage, Marks, Member, Record, RecoverError, Recovered, Terms, Unreadable, catch_up, encode_snapshot,
    mirror_state, recover,
};
use flashmob_core::gateway::{Action, CopiesSpec, LinkId, LinkPhase, ReplaceError, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::node::{MirrorDone, MirrorOp, NodeConfig, check_charge};
use flashmob_core::op::Op;
use flashmob_core::wire::condition::{Alive, put_alive};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::generation::{GENERATION_MAX, first_of, generation_of};
use flashmob_core::wire::hello::{Charge, Hello, Welcome};
use flashmob_core::wire::mirror::{MirrorPut, MirrorState, PutMirror, Recall, Recalled};

const CHUNK_BYTES: u64 = 1 << 20;
/// Of requests; longer than anything else here.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Three members, each in a domain of its own.
fn members() -> Vec<Member> {
    let member = |n: u8| Member {
        extent_id: [n; 16],
        boot_id: Some([n; 16]),
        seen: None,
        size_bytes: 3 * CHUNK_BYTES,
        domain: format!("node{n}"),
    };
    (1..4).map(member).collect()
}

/// A map of four chunks with a copy on two of three nodes.
fn map() -> MapImage {
    MapImage::new([9; 16], CHUNK_BYTES, 2, members()).unwrap()
}

/// A gateway, and the mirrors of its nodes.
struct Bed {
    gateway: GatewayBed,
    mirrors: [Vec<u8>; 3],
    new: [Vec<u8>; 3],
}

impl Bed {
    fn new() -> Bed {
        Bed::with(map())
    }

    fn with(map: MapImage) -> Bed {
        let spec = VolumeSpec {
            layout: LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES },
            links: 1,
            timeout: TIMEOUT,
            copies: Some(Box::new(CopiesSpec::new(map))),
            ..volume(&[3 * CHUNK_BYTES; 3])
        };
        Bed { gateway: GatewayBed::new(gateway_config(spec)), mirrors: Default::default(), new: Default::default() }
    }

    /// A node is linked. It keeps a mirror, unless it is of an earlier version.
    fn link(&mut self, node: usize, keeps_mirror: bool) {
        let id = [node as u8 + 1; 16];
        let mirror =
            keeps_mirror.then(|| mirror_state(&self.mirrors[node]).map(|(_, state)| state).unwrap_or_default());
        self.gateway.link(node, &Welcome { extent_id: id, boot_id: id, mirror, ..welcome(3 * CHUNK_BYTES) });
    }

    fn is_linked(&self, node: usize) -> bool {
        self.gateway.gateway.status().volumes[0].nodes[node].links[0].phase == LinkPhase::Ready
    }

    /// Time passes, and what is decided is in the map's file. Nodes answer nothing.
    fn commit(&mut self) {
        for _ in 0..4 {
            self.gateway.pass(Duration::from_millis(20));
            for action in self.gateway.actions() {
                if let Action::Commit { volume, number, .. } = action {
                    self.gateway.gateway.committed(self.gateway.now, volume, number, Ok(()));
                }
            }
        }
    }

    /// Bytes for a node's mirror that it has not answered.
    fn wanted(&mut self, node: usize) -> Vec<(PutMirror, Vec<u8>)> {
        let out = self.gateway.gateway.link_out(LinkId(node)).take_all();
        let of_mirror = frames(&out).into_iter().filter(|frame| frame.kind == FrameKind::PutMirror);
        of_mirror.map(|f| (PutMirror::decode(&f.meta, f.payload.len()).unwrap(), f.payload)).collect()
    }

    /// A node stores what it is given, or fails to. Returns how many frames that were.
    fn store(&mut self, node: usize, is_kept: bool) -> usize {
        let wanted = self.wanted(node);
        self.answer(node, &wanted, is_kept);
        wanted.len()
    }

    fn answer(&mut self, node: usize, wanted: &[(PutMirror, Vec<u8>)], is_kept: bool) {
        for (put, bytes) in wanted {
            let file = if put.is_new { &mut self.new[node] } else { &mut self.mirrors[node] };
            file.truncate(put.offset_bytes as usize);
            assert_eq!(file.len() as u64, put.offset_bytes, "no gap");
            file.extend(bytes);
            if put.is_last {
                self.mirrors[node] = std::mem::take(&mut self.new[node]);
            }
            let answer = bytes_of(|out| MirrorPut { state: put.state, is_kept }.encode(out));
            self.gateway.gateway.link_rx(LinkId(node)).extend(&answer);
            self.gateway.gateway.process_link(self.gateway.now, LinkId(node));
        }
    }

    fn store_all(&mut self) {
        for _ in 0..6 {
            self.commit();
            for node in 0..3 {
                self.store(node, true);
            }
        }
    }

    /// Time goes by, in which these nodes show that they are there, and answer nothing else.
    fn pass_with(&mut self, time: Duration, there: &[usize]) {
        let step = Duration::from_millis(250);
        for _ in 0..time.as_millis() / step.as_millis() {
            self.gateway.pass(step - Duration::from_millis(80));
            self.commit();
            for &node in there {
                self.gateway.gateway.link_rx(LinkId(node)).extend(&bytes_of(|out| put_alive(out, Alive::Here)));
                self.gateway.gateway.process_link(self.gateway.now, LinkId(node));
            }
        }
    }

    fn in_step(&self) -> usize {
        self.gateway.gateway.copies_status(self.gateway.now, 0).unwrap().mirrors
    }

    /// How many decisions are durable, and how many there are.
    fn decisions(&self) -> (u64, u64) {
        self.gateway.gateway.copies_status(self.gateway.now, 0).unwrap().decisions
    }

    /// Its node is lost, and another is there with an empty extent: the decision to take that waits for mirrors.
    fn replace(&mut self, node: usize) -> Result<(), ReplaceError> {
        self.replace_with(node, 77)
    }

    fn replace_with(&mut self, node: usize, id: u8) -> Result<(), ReplaceError> {
        self.gateway.gateway.link_closed(self.gateway.now, LinkId(node), "gone");
        self.gateway.pass(Duration::from_secs(2));
        self.gateway.link(node, &Welcome { extent_id: [id; 16], boot_id: [id; 16], ..welcome(3 * CHUNK_BYTES) });
        self.gateway.gateway.replace_extent(self.gateway.now, 0, node, None, false).map(drop)
    }
}

#[test]
fn nodes_get_what_the_map_has() {
    let mut bed = Bed::new();
    (0..3).for_each(|node| bed.link(node, true));
    bed.store_all();
    assert_eq!(bed.in_step(), 3);
    let client = bed.gateway.gateway.native_opened(0).unwrap();
    bed.gateway.submit(client, Op::Write, 0, 4096);
    bed.commit();
    let version = bed.decisions().1;
    assert_eq!(bed.decisions().0, version, "a chunk that is opened waits for no mirror");
    bed.gateway.pass(Duration::from_millis(1100));
    (0..3).for_each(|node| assert!(bed.store(node, true) > 0));
    for mirror in &bed.mirrors {
        assert_eq!(mirror_state(mirror).map(|(id, state)| (id, state.version)), Some(([9; 16], version)));
    }
}

#[test]
fn decisions_that_matter_wait_for_the_mirrors() {
    let mut bed = Bed::new();
    (0..3).for_each(|node| bed.link(node, true));
    bed.store_all();
    let (durable, _) = bed.decisions();
    bed.replace(2).unwrap();
    bed.commit();
    assert!(bed.decisions().0 < bed.decisions().1, "the map's file alone has it");
    assert!(bed.store(0, true) > 0);
    bed.commit();
    assert!(bed.decisions().0 < bed.decisions().1, "one mirror of two has it");
    assert!(bed.store(1, true) > 0);
    bed.commit();
    assert!(bed.decisions().0 > durable, "both have it");
    assert_eq!(bed.decisions().0, bed.decisions().1);
}

#[test]
fn a_node_that_leaves_or_cannot_store_is_not_waited_for() {
    for is_kept in [None, Some(false)] {
        let mut bed = Bed::new();
        (0..3).for_each(|node| bed.link(node, true));
        bed.store_all();
        bed.replace(2).unwrap();
        bed.commit();
        assert!(bed.store(0, true) > 0);
        match is_kept {
            Some(is_kept) => assert!(bed.store(1, is_kept) > 0),
            None => bed.gateway.gateway.link_closed(bed.gateway.now, LinkId(1), "gone"),
        }
        bed.commit();
        assert_eq!(bed.decisions().0, bed.decisions().1, "{is_kept:?}");
    }
}

/// One node has the mirror that a decision waits for, or cannot keep it; another does not answer, for longer than it may where others keep one.
fn with_a_silent_node(is_kept: bool) -> (Bed, Vec<(PutMirror, Vec<u8>)>) {
    let mut bed = Bed::new();
    (0..3).for_each(|node| bed.link(node, true));
    bed.store_all();
    bed.replace(2).unwrap();
    bed.commit();
    assert!(bed.store(0, is_kept) > 0);
    let unanswered = bed.wanted(1);
    assert!(!unanswered.is_empty());
    bed.pass_with(CopiesSpec::new(map()).evict_after * 5 / 4, &[0, 2]);
    (bed, unanswered)
}

#[test]
fn a_mirror_that_is_late_is_given_up_until_it_is_answered() {
    let (mut bed, unanswered) = with_a_silent_node(true);
    assert_eq!(bed.decisions().0, bed.decisions().1, "another node has it");
    bed.answer(1, &unanswered, true);
    bed.commit();
    let lacking = bed.decisions().1;
    bed.replace_with(2, 78).unwrap();
    bed.commit();
    assert!(bed.decisions().1 > lacking);
    let wanted = bed.wanted(1);
    assert!(
        !wanted.is_empty() && wanted.iter().all(|(put, _)| !put.is_new),
        "it gets what it lacks, and is waited for"
    );
    assert!(bed.store(0, true) > 0);
    bed.commit();
    assert!(bed.decisions().0 < bed.decisions().1);
    bed.answer(1, &wanted, true);
    bed.commit();
    assert_eq!(bed.decisions().0, bed.decisions().1);
}

#[test]
fn the_last_mirror_that_is_kept_is_not_given_up() {
    let (mut bed, unanswered) = with_a_silent_node(false);
    assert!(bed.decisions().0 < bed.decisions().1, "nobody would have it but the gateway");
    bed.answer(1, &unanswered, true);
    bed.commit();
    assert_eq!(bed.decisions().0, bed.decisions().1);
}

#[test]
fn a_mirror_that_is_late_counts_when_the_other_can_be_kept_no_more() {
    let (mut bed, unanswered) = with_a_silent_node(true);
    assert_eq!(bed.decisions().0, bed.decisions().1, "another node has it");
    bed.replace_with(2, 78).unwrap();
    bed.commit();
    assert!(bed.store(0, false) > 0);
    bed.commit();
    assert!(bed.decisions().0 < bed.decisions().1, "nobody has that but the gateway");
    bed.answer(1, &unanswered, true);
    bed.commit();
    assert!(bed.store(1, true) > 0);
    bed.commit();
    assert_eq!(bed.decisions().0, bed.decisions().1);
}

#[test]
fn decisions_do_without_the_last_mirror_before_requests_fail() {
    let (mut bed, _) = with_a_silent_node(false);
    let half = TIMEOUT / 2;
    let passed = CopiesSpec::new(map()).evict_after * 5 / 4;
    bed.pass_with(half - passed - Duration::from_millis(500), &[0, 2]);
    assert!(bed.decisions().0 < bed.decisions().1);
    bed.pass_with(Duration::from_secs(1), &[0, 2]);
    assert_eq!(bed.decisions().0, bed.decisions().1);
}

#[test]
fn nodes_of_earlier_versions_keep_none_and_nothing_waits() {
    let mut bed = Bed::new();
    (0..3).for_each(|node| bed.link(node, false));
    bed.store_all();
    bed.replace(2).unwrap();
    bed.commit();
    assert_eq!((bed.in_step(), bed.decisions().0), (0, bed.decisions().1));
    assert!((0..3).all(|node| bed.wanted(node).is_empty()));
}

#[test]
fn a_node_that_returns_gets_only_what_it_lacks() {
    let mut bed = Bed::new();
    (0..3).for_each(|node| bed.link(node, true));
    bed.store_all();
    bed.gateway.gateway.link_closed(bed.gateway.now, LinkId(1), "gone");
    let client = bed.gateway.gateway.native_opened(0).unwrap();
    bed.gateway.submit(client, Op::Write, 0, 4096);
    bed.commit();
    bed.gateway.pass(Duration::from_secs(2));
    bed.link(1, true);
    bed.commit();
    bed.gateway.pass(Duration::from_millis(1100));
    let wanted = bed.wanted(1);
    assert!(!wanted.is_empty() && wanted.iter().all(|(put, _)| !put.is_new));
    // As the gateway's key was replaced, it gets a new one all the same, until it has that.
    let again = |bed: &mut Bed| {
        bed.gateway.gateway.link_closed(bed.gateway.now, LinkId(1), "the keys have changed");
        bed.gateway.pass(Duration::from_secs(2));
        bed.link(1, true);
    };
    bed.store_all();
    bed.gateway.gateway.sign_mirrors(bed.gateway.now, || None);
    for is_doubted in [true, false] {
        again(&mut bed);
        bed.commit();
        let wanted = bed.wanted(1);
        assert_eq!(wanted.first().is_some_and(|(put, _)| put.is_new && put.offset_bytes == 0), is_doubted);
        again(&mut bed);
        bed.store_all();
    }
    // One with a mirror of an earlier start gets a new one.
    bed.gateway.gateway.link_closed(bed.gateway.now, LinkId(0), "gone");
    bed.gateway.pass(Duration::from_secs(2));
    let mirror = Some(MirrorState { epoch: 1, nonce: 1, version: 1, len_bytes: 400 });
    bed.gateway.link(0, &Welcome { extent_id: [1; 16], boot_id: [1; 16], mirror, ..welcome(3 * CHUNK_BYTES) });
    bed.commit();
    let wanted = bed.wanted(0);
    assert!(wanted.first().is_some_and(|(put, _)| put.is_new && put.offset_bytes == 0));
}

#[test]
fn an_answer_to_what_was_not_sent_ends_the_link() {
    let mut bed = Bed::new();
    (0..3).for_each(|node| bed.link(node, true));
    bed.store_all();
    bed.gateway.actions();
    let answer = MirrorPut { state: MirrorState::default(), is_kept: true };
    bed.gateway.gateway.link_rx(LinkId(0)).extend(&bytes_of(|out| answer.encode(out)));
    bed.gateway.gateway.process_link(bed.gateway.now, LinkId(0));
    assert!(bed.gateway.actions().iter().any(|action| matches!(action, Action::Disconnect(LinkId(0)))));
}

#[test]
fn a_node_hands_its_mirror_to_the_shell_one_operation_at_a_time() {
    let config = NodeConfig { keeps_mirror: true, ..node_config(1 << 20) };
    let charge = Charge { map_id: [9; 16], epoch: 4, nonce: 5, version: 6 };
    let greeting = Hello { keeps_mirror: true, charge: Some(charge), ..hello() };
    let mut bed = NodeBed::greeted(config, Reads::Hit, &greeting);
    let (state, link) = (MirrorState { epoch: 4, nonce: 5, version: 6, len_bytes: 3 }, bed.link);
    let put = PutMirror { offset_bytes: 0, is_new: true, is_last: true, is_durable: true, state };
    bed.receive(link, &bytes_of(|out| put.encode(out, b"map")));
    let ops = std::mem::take(bed.node.mirror_ops());
    assert_eq!(ops, [MirrorOp::Put { link, put, bytes: b"map".to_vec() }]);
    // Another link of that gateway is welcomed once that is over.
    let again = bed.open_link(&Hello { attempt: 2, ..greeting.clone() });
    assert!(bed.sent(again).is_empty());
    bed.node.mirror_done(MirrorDone::Put { link, put, is_kept: true });
    let sent = bed.sent(again);
    let welcome = Welcome::decode(&sent[0].meta).unwrap();
    assert_eq!(welcome.mirror, Some(state), "it tells what it has");
    // A second one before the first is answered is refused.
    bed.closed();
    bed.receive(again, &bytes_of(|out| put.encode(out, b"map")));
    bed.receive(again, &bytes_of(|out| put.encode(out, b"map")));
    assert!(bed.closed().is_some_and(|reason| reason.contains("order of bytes for the mirror")));
}

#[test]
fn a_mirror_that_claims_more_than_its_gateway_may_decide_is_none() {
    let config = NodeConfig { keeps_mirror: true, ..node_config(1 << 20) };
    let charge = Charge { map_id: [9; 16], epoch: 4, nonce: 5, version: 6 };
    let greeting = Hello { keeps_mirror: true, charge: Some(charge), ..hello() };
    let border = first_of(1).unwrap();
    for (epoch, version, is_taken) in [(border - 1, border - 1, true), (border, border, false), (4, border + 4, false)]
    {
        let state = MirrorState { epoch, nonce: 5, version, len_bytes: 3 };
        let mut bed = NodeBed::greeted(config.clone(), Reads::Hit, &greeting);
        let put = PutMirror { offset_bytes: 0, is_new: true, is_last: true, is_durable: true, state };
        bed.receive(bed.link, &bytes_of(|out| put.encode(out, b"map")));
        assert_eq!(bed.node.mirror_ops().len(), usize::from(is_taken));
        assert_eq!(bed.closed().is_some_and(|reason| reason.contains("of a later generation")), !is_taken);
        // Its bytes are found when the node starts again.
        let mut bed = NodeBed::greeted(config.clone(), Reads::Hit, &greeting);
        bed.node.set_mirror(Some(([9; 16], state)), Some(&charge));
        let again = bed.open_link(&Hello { attempt: 2, ..greeting.clone() });
        let welcome = Welcome::decode(&bed.sent(again)[0].meta).unwrap();
        assert_eq!(welcome.mirror, Some(if is_taken { state } else { MirrorState::default() }));
    }
}

#[test]
fn a_mirror_is_recalled_in_the_place_of_a_hello() {
    let config = NodeConfig { keeps_mirror: true, ..node_config(1 << 20) };
    let mut bed = NodeBed::new(config, Reads::Hit);
    let link = bed.node.link_opened();
    // Of the gateway's link is told while it is there.
    for (offset_bytes, is_linked) in [(0, true), (7, false)] {
        if !is_linked {
            bed.node.link_closed(bed.link);
        }
        bed.receive(link, &bytes_of(|out| Recall { offset_bytes }.encode(out)));
        assert_eq!(std::mem::take(bed.node.mirror_ops()), [MirrorOp::Recall { link, offset_bytes }]);
        let (extent_id, volume) = ([1; 16], Some(("v".to_string(), 0)));
        let recalled = Recalled {
            extent_id,
            size_bytes: 1 << 20,
            mirror_bytes: 9,
            volume,
            charge: None,
            layout: None,
            is_linked: false,
        };
        bed.node.mirror_done(MirrorDone::Recalled { link, recalled: recalled.clone(), bytes: b"m".to_vec() });
        let sent = bed.sent(link);
        assert_eq!(Recalled::decode(&sent[0].meta, 1), Ok(Recalled { is_linked, ..recalled }));
    }
    let mut earlier = NodeBed::new(node_config(1 << 20), Reads::Hit);
    let link = earlier.node.link_opened();
    earlier.receive(link, &bytes_of(|out| Recall { offset_bytes: 0 }.encode(out)));
    assert!(earlier.closed().is_some(), "one that keeps none");
}

#[test]
fn the_latest_mirror_is_recovered_with_all_chunks_open() {
    let mut bed = Bed::new();
    (0..3).for_each(|node| bed.link(node, true));
    bed.store_all();
    let older = bed.mirrors.clone();
    let client = bed.gateway.gateway.native_opened(0).unwrap();
    bed.gateway.submit(client, Op::Write, 0, 4096);
    bed.commit();
    bed.gateway.pass(Duration::from_millis(1100));
    bed.store(1, true);
    let latest = mirror_state(&bed.mirrors[1]).unwrap().1;
    let charge = Some(Charge { map_id: [9; 16], epoch: 3, nonce: 4, version: latest.version + 5 });
    let found = |mirrors: [&'static [u8]; 3]| -> Vec<Found<'static>> {
        let of = (1..4).zip(mirrors);
        of.map(|(n, mirror)| Found { extent_id: [n; 16], charge, mirror }).collect()
    };
    let leaked = |bytes: &Vec<u8>| -> &'static [u8] { Vec::leak(bytes.clone()) };
    let (old, new) = (leaked(&older[0]), leaked(&bed.mirrors[1]));
    let recovered = recover(&found([old, new, &[]]), &at(1000)).unwrap();
    assert_eq!((recovered.from, recovered.of), (Some(1), (latest.epoch, latest.version)));
    assert_eq!(recovered.mirrors[2], Err(Unreadable::Absent));
    let image = &recovered.image;
    assert!((0..image.chunks()).all(|chunk| image.marks(chunk).is_open));
    assert!(image.epoch() > 3 + 1000 && image.version() > latest.version + 5 + 1000);
    let decisions = image.version() - image.epoch();
    assert!(decisions > (latest.version + 5 - 3) + (1 << 19), "nodes refuse a map that has fewer than their mirror");
    assert_eq!((recovered.missing, recovered.without_copy, recovered.with_fewer), (vec![], vec![], 0));
    // Without a node its chunks have fewer copies; without two some have none.
    let one = recover(&found([old, new, &[]])[..2], &at(1)).unwrap();
    assert_eq!((one.missing, one.without_copy), (vec![2], vec![]));
    assert!(one.with_fewer > 0);
    let two = recover(&found([old, new, &[]])[1..2], &at(1)).unwrap();
    assert_eq!(two.missing, [0, 2]);
    assert!(!two.without_copy.is_empty());
}

/// Recovered at that moment, without keys.
fn at(moment: u64) -> Terms<'static> {
    Terms { moment, ..Terms::default() }
}

#[test]
fn a_node_that_knows_better_gets_nothing_of_what_is_queued_for_it() {
    let mut bed = Bed::new();
    // Node 1 was written to with a later state of the map.
    bed.mirrors[1] = encode_snapshot(&map_of(1, 40));
    bed.link(0, true);
    bed.store_all();
    let client = bed.gateway.gateway.native_opened(0).unwrap();
    for chunk in 0..3 {
        bed.gateway.submit(client, Op::Write, chunk * CHUNK_BYTES, 4096);
    }
    bed.store_all();
    let queued = |bed: &Bed| bed.gateway.gateway.status().volumes[0].nodes[1].queue_depth;
    assert!(queued(&bed) > 0, "a chunk has its copies on nodes 1 and 2, or 0 and 1");
    for _ in 0..2 {
        bed.link(1, true);
        bed.commit();
        let out = bed.gateway.gateway.link_out(LinkId(1)).take_all();
        assert!(frames(&out).iter().all(|frame| frame.kind == FrameKind::Hello), "nothing is sent but hellos");
        let status = bed.gateway.gateway.copies_status(bed.gateway.now, 0).unwrap();
        assert!(status.deposed.is_some_and(|why| why.contains("an older state of it")));
        bed.gateway.pass(Duration::from_secs(2));
    }
}

/// A map of one copy, that has been started and has decided so often since.
fn map_of(epoch: u64, decisions: u64) -> MapImage {
    let mut image = MapImage::new([9; 16], CHUNK_BYTES, 1, members()).unwrap();
    for epoch in 1..=epoch {
        image.apply(&Record::Epoch { epoch, nonce: epoch }).unwrap();
    }
    decide(&mut image, decisions);
    image
}

fn decide(image: &mut MapImage, count: u64) {
    (0..count).for_each(|_| image.apply(&Record::Loss { count: 0 }).unwrap());
}

#[test]
fn what_an_older_map_has_decided_is_not_recovered() {
    let of = |n: u8, mirror: &'static [u8]| Found { extent_id: [n; 16], charge: None, mirror };
    let leaked = |image: &MapImage| -> &'static [u8] { Vec::leak(encode_snapshot(image)) };
    // A backup that lacks ten decisions was started twice, and has made five of its own.
    let (latest, branch) = (leaked(&map_of(4, 30)), leaked(&map_of(6, 25)));
    let branched = |recovered: &Recovered| -> Vec<usize> {
        assert!(recovered.branches.iter().all(|&at| recovered.mirrors[at].is_ok()));
        recovered.branches.clone()
    };
    let recovered = recover(&[of(1, branch), of(2, latest), of(3, branch)], &at(1000)).unwrap();
    assert_eq!(
        (recovered.from, recovered.of, branched(&recovered)),
        (Some(1), (4, map_of(4, 30).version()), vec![0, 2])
    );
    // A start that has decided nothing is a later one of the same map.
    let mut started = map_of(4, 30);
    started.apply(&Record::Epoch { epoch: 5, nonce: 5 }).unwrap();
    let recovered = recover(&[of(1, leaked(&started)), of(2, latest), of(3, latest)], &at(1000)).unwrap();
    assert_eq!((recovered.from, branched(&recovered)), (Some(0), vec![]));
}

#[test]
fn an_older_map_that_has_decided_as_much_as_it_lacks_is_refused_and_so_is_the_latest() {
    let mut latest = map_of(3, 0);
    let mut older = latest.clone();
    decide(&mut latest, 4);
    for epoch in 4..7 {
        older.apply(&Record::Epoch { epoch, nonce: epoch + 100 }).unwrap();
        decide(&mut older, 9);
    }
    assert!(older.decisions() > latest.decisions());
    let start = |mut image: MapImage| {
        let epoch = image.epoch() + 1;
        image.apply(&Record::Epoch { epoch, nonce: epoch + 200 }).unwrap();
        image
    };
    for (map, mirror, why) in [
        (&older, &latest, "lacks 4 decisions that a node's mirror has"),
        (&latest, &older, "a start that the map does not know (epoch 6)"),
    ] {
        let mut bed = Bed::with(start(map.clone()));
        // This one knows no better.
        bed.mirrors[0] = encode_snapshot(map);
        bed.link(0, true);
        assert!(bed.is_linked(0));
        bed.mirrors[1] = encode_snapshot(mirror);
        bed.link(1, true);
        assert!(!bed.is_linked(1));
        let status = bed.gateway.gateway.copies_status(bed.gateway.now, 0).unwrap();
        assert!(status.deposed.as_ref().is_some_and(|text| text.contains(why)), "{:?}", status.deposed);
    }
    // Once it is recovered, nodes of both are welcome.
    let found = |n: u8, mirror| Found { extent_id: [n; 16], charge: None, mirror };
    let [a, b] = [&latest, &older].map(encode_snapshot);
    let recovered = recover(&[found(1, &a), found(2, &b), found(3, &b)], &at(1000)).unwrap();
    assert_eq!((recovered.from, recovered.branches.as_slice()), (Some(1), &[0][..]));
    let mut bed = Bed::with(start(recovered.image));
    bed.mirrors = [a, b.clone(), b];
    (0..3).for_each(|node| bed.link(node, true));
    assert!((0..3).all(|node| bed.is_linked(node)));
}

/// A map that was started once, and its continuation: copy 0 of chunk 0 is behind.
fn map_and_mirror() -> (MapImage, MapImage) {
    let mut map = map();
    map.apply(&Record::Epoch { epoch: 1, nonce: 1 }).unwrap();
    let mut mirror = map.clone();
    let marks = Marks { is_open: true, behind: 1, ..Marks::default() };
    mirror.apply(&Record::Marks { first_chunk: 0, count: 1, marks }).unwrap();
    (map, mirror)
}

fn started(mut map: MapImage) -> MapImage {
    let epoch = map.epoch() + 1;
    map.apply(&Record::Epoch { epoch, nonce: epoch + 200 }).unwrap();
    map
}

#[test]
fn a_map_whose_end_was_dropped_serves_nothing_before_all_nodes_are_linked() {
    let mut cut = map();
    cut.cut().unwrap();
    assert_eq!(cut.counts().open, cut.chunks(), "all copies are compared");
    let mut bed = Bed::with(started(cut));
    let client = bed.gateway.gateway.native_opened(0).unwrap();
    (0..2).for_each(|node| bed.link(node, true));
    bed.gateway.submit(client, Op::Read, 0, 4096);
    let waits = |bed: &Bed| bed.gateway.gateway.copies_status(bed.gateway.now, 0).unwrap().waits_for;
    bed.pass_with(Duration::from_secs(20), &[0, 1]);
    assert!(waits(&bed).is_some_and(|left| left < Duration::from_secs(8)), "{:?}", waits(&bed));
    bed.link(2, true);
    bed.store_all();
    assert_eq!(waits(&bed), None);
    assert!(!bed.gateway.gateway.map(0).unwrap().is_cut(), "a later start need not wait");
}

#[test]
fn a_map_whose_end_was_dropped_is_served_after_a_long_time() {
    let mut cut = map();
    cut.cut().unwrap();
    let mut bed = Bed::with(started(cut));
    (0..2).for_each(|node| bed.link(node, true));
    let waits = |bed: &Bed| bed.gateway.gateway.copies_status(bed.gateway.now, 0).unwrap().waits_for;
    // Nine times the default of `evict_after`.
    bed.pass_with(Duration::from_secs(26), &[0, 1]);
    assert!(waits(&bed).is_some());
    bed.pass_with(Duration::from_secs(2), &[0, 1]);
    assert_eq!(waits(&bed), None);
}

#[test]
fn decisions_may_be_taken_from_a_mirror_until_something_is_decided() {
    let (map, mirror) = map_and_mirror();
    for is_used in [false, true] {
        let mut bed = Bed::with(started(map.clone()));
        (0..2).for_each(|node| bed.link(node, true));
        bed.store_all();
        let client = bed.gateway.gateway.native_opened(0).unwrap();
        for chunk in (0..4).filter(|_| is_used) {
            bed.gateway.submit(client, Op::Write, chunk * CHUNK_BYTES, 4096);
        }
        bed.store_all();
        bed.mirrors[2] = encode_snapshot(&mirror);
        bed.link(2, true);
        assert!(!bed.is_linked(2));
        assert!(bed.gateway.gateway.deposed(0).is_some());
        assert_eq!(bed.gateway.gateway.may_catch_up(0), !is_used);
        bed.gateway.gateway.stay_deposed(bed.gateway.now, 0);
        assert!(!bed.gateway.gateway.may_catch_up(0));
    }
}

#[test]
fn the_decisions_of_a_mirror_that_continues_a_map_are_taken() {
    let found = |n: u8, mirror| Found { extent_id: [n; 16], charge: None, mirror };
    let (map, mirror) = map_and_mirror();
    let (old, new) = (encode_snapshot(&map), encode_snapshot(&mirror));
    let caught = catch_up(&started(map.clone()), &[found(1, &old), found(2, &new), found(3, &old)], &at(1)).unwrap();
    assert_eq!((caught.marks(0).behind, caught.counts().open), (1, 4));
    assert!(caught.epoch() > mirror.epoch() + 1 && caught.version() > mirror.version() && caught.is_cut());
    // The present start has found copy 1 of chunk 1 restored, and copy 1 of chunk 0, of which the mirror knows that no other is current.
    let mut restored = started(map.clone());
    let behind = Marks { is_open: true, behind: 2, ..Marks::default() };
    restored.apply(&Record::Marks { first_chunk: 0, count: 2, marks: behind }).unwrap();
    let caught = catch_up(&restored, &[found(1, &old), found(2, &new), found(3, &old)], &at(1)).unwrap();
    assert_eq!((caught.marks(0).behind, caught.marks(1).behind, caught.marks(2).behind), (1, 2, 0));
    // Without the dropped end nobody knows how much is missing: each node is asked.
    assert_eq!(catch_up(&started(map.clone()), &[found(1, &old), found(2, &new)], &at(1)), None);
    assert_eq!(catch_up(&started(map.clone()), &[found(1, &old), found(2, &new), found(3, &[])], &at(1)), None);
    let mut cut = map.clone();
    cut.cut().unwrap();
    assert!(catch_up(&started(cut.clone()), &[found(2, &new)], &at(1)).is_some());
    assert_eq!(catch_up(&started(cut), &[found(2, &old)], &at(1)), None, "it has no more");
    let mut branch = map_of(1, 0);
    decide(&mut branch, 3);
    let other = encode_snapshot(&branch);
    assert_eq!(catch_up(&started(started(map)), &[found(1, &other), found(2, &new), found(3, &old)], &at(1)), None);
}

#[test]
fn a_recovery_counts_for_more_than_an_earlier_one() {
    let of = |n: u8, mirror: &'static [u8]| Found { extent_id: [n; 16], charge: None, mirror };
    let leaked = |image: &MapImage| -> &'static [u8] { Vec::leak(encode_snapshot(image)) };
    let mirror = leaked(&map_of(4, 30));
    let decisions = |found: &[Found<'_>], moment| {
        let image = recover(found, &at(moment)).unwrap().image;
        image.version() - image.epoch()
    };
    // The second finds nothing of the first.
    let first = decisions(&[of(1, mirror), of(2, mirror)], 1_000_000);
    let second = decisions(&[of(3, mirror)], 1_600_000);
    assert!(second >= first + 600_000, "{first}, {second}");
}

#[test]
fn a_map_that_is_recovered_with_a_later_key_is_later_than_all_of_the_earlier_ones() {
    let first = |generation| first_of(generation).unwrap();
    let own = map_of(4, 30);
    // The thief has a key of generation 2, and uses the largest numbers that nodes accept with it.
    let most = first(3) - 1;
    let charge = Charge { map_id: [9; 16], epoch: most, nonce: 1, version: 2 * most };
    let written = MirrorState { epoch: most, nonce: 1, version: 2 * most, len_bytes: 400 };
    let mut of_thief = own.clone();
    of_thief.apply(&Record::Epoch { epoch: most, nonce: 1 }).unwrap();
    decide(&mut of_thief, 1000);
    // It could not have had this charge.
    let mut untrue = own.clone();
    untrue.apply(&Record::Epoch { epoch: first(9), nonce: 1 }).unwrap();
    let [own_bytes, a, b] = [&own, &of_thief, &untrue].map(encode_snapshot);
    let of = |n: u8, mirror| Found { extent_id: [n; 16], charge: Some(charge), mirror };
    let terms = |generation| Terms { moment: 1000, generation, map: Some(&own_bytes), ..Terms::default() };
    let found = [of(1, &a), of(2, &b), of(3, &[])];
    for generation in [3, 4, GENERATION_MAX] {
        let recovered = recover(&found, &terms(generation)).unwrap();
        assert_eq!((recovered.from, recovered.of), (None, (own.epoch(), own.version())));
        assert_eq!(
            (recovered.mirrors[1], recovered.branches),
            (Err(Unreadable::Beyond), vec![0]),
            "the untrue one shows no map"
        );
        let image = &recovered.image;
        assert!((0..image.chunks()).all(|chunk| image.marks(chunk).is_open));
        assert_eq!((recovered.generation, generation_of(image.epoch(), image.version())), (generation, generation));
        let start = Charge { map_id: [9; 16], epoch: image.epoch() + 1, nonce: 7, version: image.version() + 1 };
        assert_eq!((check_charge(Some(&charge), Some(&start)), written.fits(&charge)), (Ok(()), true));
        assert!(image.decisions() > written.decisions(), "else nodes refuse it for their mirrors");
    }
    // With the key that was stolen it is later as well, but no node takes such numbers from it.
    assert_eq!(recover(&found, &terms(2)).unwrap().generation, 3);
    assert!(recover(&found, &terms(GENERATION_MAX + 1)).is_err());
    // Without a given map, the latest of the mirrors that may be true.
    assert_eq!(recover(&found, &Terms { map: None, ..terms(3) }).unwrap().from, Some(0));
    // A mirror of another map is none, with a given map and without.
    let other = MapImage::new([8; 16], CHUNK_BYTES, 1, members()).unwrap();
    let other = encode_snapshot(&other);
    let with_other = [of(1, &own_bytes), of(2, &other), of(3, &[])];
    for terms in [terms(3), Terms { map: None, ..terms(3) }] {
        assert_eq!(recover(&with_other, &terms).unwrap().mirrors[1], Err(Unreadable::Beyond));
    }
    // Extents that have accepted what the map does not know have forgotten more of it than can be told; others have not.
    let mut with_seen = own.clone();
    for member in 0..3 {
        with_seen.apply(&Record::Seen { member, epoch: 4, version: 9 }).unwrap();
    }
    let with_seen = encode_snapshot(&with_seen);
    let own_start = Charge { epoch: 4, nonce: 4, version: 30, ..charge };
    let found = [of(1, &[]), Found { charge: Some(own_start), ..of(2, &[]) }];
    for (map, kept) in [(Some(&with_seen[..]), [false, true, false]), (None, [false, true, true])] {
        let found = [found[0], Found { mirror: &with_seen, ..found[1] }];
        let image = recover(&found, &Terms { map, ..terms(3) }).unwrap().image;
        assert_eq!(std::array::from_fn(|at| image.members()[at].seen.is_some()), kept);
        // It has accepted later versions of that start.
        let later = Some(Charge { version: 99, ..own_start });
        let image =
            recover(&[found[0], Found { charge: later, ..found[1] }], &Terms { map, ..terms(3) }).unwrap().image;
        assert!(image.members()[1].seen.is_none());
    }
    let cut = &own_bytes[1..];
    assert!(matches!(recover(&found, &Terms { map: Some(cut), ..terms(3) }), Err(RecoverError::Given(_))));
}

#[test]
fn what_cannot_be_recovered_says_why() {
    let of = |extent: u8, mirror| Found { extent_id: [extent; 16], charge: None, mirror };
    let mirror = |id: u8| {
        let member =
            Member { extent_id: [1; 16], boot_id: None, seen: None, size_bytes: 4096, domain: "d".to_string() };
        encode_snapshot(&MapImage::new([id; 16], 4096, 1, vec![member]).unwrap())
    };
    let (a, b) = (mirror(1), mirror(2));
    assert_eq!(recover(&[], &at(1)), Err(RecoverError::NoMirror));
    let damaged = Err(RecoverError::NoneUsable(u128::from_be_bytes([1; 16]), Unreadable::Damaged));
    assert_eq!(recover(&[of(2, &[]), of(1, &a[1..])], &at(1)), damaged);
    assert!(matches!(recover(&[of(1, &a), of(2, &b)], &at(1)), Err(RecoverError::OtherMap(..))));
    assert!(matches!(recover(&[of(1, &a), of(1, &a)], &at(1)), Err(RecoverError::Twice(_))));
    assert!(recover(&[of(1, &a)], &at(u64::MAX)).is_err(), "the numbers are used up");
}
