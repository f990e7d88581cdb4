//! Volumes with copies: one gateway is in charge, and a node serves no other.

use crate::testing::{NodeBed, Reads, bytes_of, hello, node_config};
use flashmob_core::node::{LinkId, NodeConfig};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::generation::first_of;
use flashmob_core::wire::hello::{Charge, FromLinear, Hello, Refuse, RefuseReason, Welcome};
use proptest::prelude::*;

const EXTENT_BYTES: u64 = 1 << 20;

/// The first link of a gateway's start.
fn start(gateway: u8, epoch: u64) -> Hello {
    let charge = Charge { map_id: [3; 16], epoch, nonce: epoch * 100 + u64::from(gateway), version: 7 };
    Hello { gateway_id: [gateway; 16], session: epoch, charge: Some(charge), ..hello() }
}

fn with_version(hello: Hello, version: u64) -> Hello {
    Hello { charge: hello.charge.map(|charge| Charge { version, ..charge }), ..hello }
}

fn bed(first: &Hello) -> NodeBed {
    NodeBed::greeted(NodeConfig { store_depth: 1, ..node_config(EXTENT_BYTES) }, Reads::NotTried, first)
}

fn writes(seq: u32, count: u64) -> Vec<u8> {
    let write =
        |n| WirePiece { op: Op::Write, flags: OpFlags::FUA, offset_bytes: seq as u64 * 65_536 + n * 100, len_bytes: 1 };
    let pieces: Vec<WirePiece> = (0..count).map(write).collect();
    bytes_of(|out| encode_batch(out, seq, &pieces, |data| data.resize(data.len() + pieces.len(), 1)))
}

/// What a link was sent since the last look.
fn kinds(bed: &mut NodeBed, link: LinkId) -> Vec<FrameKind> {
    bed.sent(link).into_iter().map(|frame| frame.kind).collect()
}

/// Why a hello is refused on a link of its own; `None` if it is welcome at once.
fn refused(bed: &mut NodeBed, hello: &Hello) -> Option<(RefuseReason, String)> {
    let link = bed.open_link(hello);
    let frames = bed.sent(link);
    assert_eq!(frames.len(), 1, "{frames:?}");
    if frames[0].kind == FrameKind::Welcome {
        return None;
    }
    let refuse = Refuse::decode(&frames[0].meta).unwrap();
    Some((refuse.reason, refuse.text))
}

#[test]
fn numbers_of_a_generation_need_a_link_that_was_admitted_with_its_key() {
    let border = first_of(3).unwrap();
    let mut bed = bed(&start(1, 4));
    let admitted = |bed: &mut NodeBed, generation, epoch| {
        let link = bed.node.link_opened();
        bed.node.link_admitted(link, generation);
        bed.receive(link, &bytes_of(|out| start(epoch as u8, epoch).encode(out)));
        bed.sent(link)[0].kind
    };
    assert_eq!(admitted(&mut bed, 2, border), FrameKind::Refuse);
    assert_eq!(refused(&mut bed, &start(2, border - 1)).map(|(reason, _)| reason), Some(RefuseReason::Identity));
    assert_eq!(bed.charge, start(1, 4).charge, "nothing is remembered");
    // The largest that the earlier key may have keeps the later one out of nothing.
    assert_eq!(admitted(&mut bed, 2, border - 1), FrameKind::Welcome);
    assert_eq!(admitted(&mut bed, 3, border), FrameKind::Welcome);
    assert_eq!(admitted(&mut bed, 3, border - 1), FrameKind::Refuse);
}

#[test]
fn a_later_gateway_ends_every_link_of_the_earlier_ones_and_what_they_wait_for() {
    for has_charge in [true, false] {
        let first = if has_charge { start(1, 4) } else { hello() };
        let mut bed = bed(&first);
        // Another gateway of that time, and another link of the first.
        let others = [
            bed.open_link(&Hello { link: 1, ..first.clone() }),
            bed.open_link(&Hello { gateway_id: [8; 16], ..first.clone() }),
        ];
        for (link, seq) in [(bed.link, 1), (others[0], 2), (others[1], 3)] {
            assert_eq!(kinds(&mut bed, link), [FrameKind::Welcome]);
            bed.receive(link, &writes(seq, 5));
        }
        assert_eq!(bed.ops.len(), 1, "the store has one, fourteen wait");
        let later = bed.open_link(&start(2, 5));
        let reasons: Vec<String> = std::iter::from_fn(|| bed.closed()).collect();
        assert_eq!(reasons, vec!["a later gateway took charge of the volume"; 3]);
        assert_eq!(bed.charge, start(2, 5).charge, "remembered before the welcome");
        assert_eq!(kinds(&mut bed, later), [], "the store is not done");
        bed.receive(bed.link, &writes(4, 1));
        assert_eq!(bed.ops.len(), 1);
        bed.end_one();
        assert_eq!(kinds(&mut bed, later), [FrameKind::Welcome]);
        assert_eq!(bed.ops, [], "nothing of the earlier ones is executed any more");
        bed.receive(later, &writes(1, 1));
        assert_eq!(bed.ops.len(), 1);
        let (reason, _) = refused(&mut bed, &Hello { attempt: 9, ..start(1, 4) }).expect("refused");
        assert_eq!(reason, RefuseReason::Deposed);
    }
}

#[test]
fn a_welcome_tells_the_charge_that_was_remembered_before() {
    let mut bed = NodeBed::new(NodeConfig { store_depth: 1, ..node_config(EXTENT_BYTES) }, Reads::NotTried);
    let told = |bed: &mut NodeBed, hello: &Hello| {
        let link = bed.open_link(hello);
        let frames = bed.sent(link);
        assert_eq!(frames.iter().map(|frame| frame.kind).collect::<Vec<_>>(), [FrameKind::Welcome]);
        Welcome::decode(&frames[0].meta).unwrap().remembered
    };
    let (first, later) = (start(1, 4), with_version(start(1, 4), 9));
    let seen = |hello: Hello, version: u64| Hello { seen: Some((4, version)), ..hello };
    assert_eq!(told(&mut bed, &first), None, "a free extent");
    assert_eq!(told(&mut bed, &Hello { link: 1, ..later.clone() }), Some((4, 7)));
    assert_eq!(told(&mut bed, &seen(Hello { attempt: 2, ..later.clone() }, 7)), Some((4, 7)), "what the gateway knows");
    assert_eq!(told(&mut bed, &seen(with_version(start(2, 5), 9), 9)), Some((4, 9)));
    // Restored from a copy that was made before all of that.
    (bed.charge, bed.accepted) = (first.charge, vec![(4, 7)]);
    for attempt in [2, 3] {
        let hello = Hello { attempt, ..with_version(start(2, 5), 9) };
        assert_eq!(told(&mut bed, &seen(hello, 9)), Some((4, 7)), "the last one that it accepted, until that is known");
    }

    let mut without = NodeBed::new(node_config(EXTENT_BYTES), Reads::NotTried);
    assert_eq!(told(&mut without, &Hello { attempt: 2, ..hello() }), None, "a volume without copies");
}

#[test]
fn a_gateway_that_waits_for_its_welcome_is_deposed_too() {
    let mut bed = bed(&start(1, 4));
    bed.receive(bed.link, &writes(1, 1));
    let second = bed.open_link(&start(2, 5));
    let third = bed.open_link(&start(3, 6));
    bed.end_one();
    assert_eq!(kinds(&mut bed, second), [], "never welcome");
    assert_eq!(kinds(&mut bed, third), [FrameKind::Welcome]);
}

#[test]
fn links_of_one_start_stand_beside_each_other() {
    let mut bed = bed(&start(1, 4));
    bed.receive(bed.link, &writes(1, 2));
    for version in [7, 8, 9] {
        let next = Hello { link: version as u16, ..with_version(start(1, 4), version) };
        assert_eq!(refused(&mut bed, &next), None);
        assert_eq!(bed.charge, next.charge);
    }
    assert_eq!(bed.closed(), None);
    // A new attempt at a link fences that link alone, as ever.
    let again = bed.open_link(&Hello { attempt: 2, ..with_version(start(1, 4), 9) });
    assert_eq!(bed.closed().as_deref(), Some("the gateway linked anew"));
    assert_eq!((kinds(&mut bed, again), bed.closed()), (vec![], None));
    bed.end_one();
    assert_eq!(kinds(&mut bed, again), [FrameKind::Welcome]);
}

#[test]
fn who_is_not_in_charge_is_refused_and_changes_nothing() {
    let mut bed = bed(&start(1, 5));
    let same_epoch = Hello { gateway_id: [2; 16], ..start(2, 5) };
    let other_map = Charge { map_id: [4; 16], epoch: 99, nonce: 0, version: 99 };
    for (hello, expected) in [
        (start(1, 4), RefuseReason::Deposed),
        (start(2, 4), RefuseReason::Deposed),
        (same_epoch, RefuseReason::Deposed),
        (with_version(start(2, 6), 6), RefuseReason::Deposed),
        (Hello { link: 1, ..with_version(start(1, 5), 6) }, RefuseReason::Superseded),
        (Hello { charge: Some(other_map), ..start(2, 99) }, RefuseReason::Identity),
        (hello(), RefuseReason::Identity),
    ] {
        let (reason, text) = refused(&mut bed, &hello).expect("refused");
        assert_eq!(reason, expected, "{text}");
        assert_eq!(bed.charge, start(1, 5).charge);
        assert!(bed.closed().is_some_and(|why| why.starts_with("refused")) && bed.closed().is_none());
    }
    bed.receive(bed.link, &writes(1, 1));
    assert_eq!(bed.ops.len(), 1, "the one in charge is served");
}

#[test]
fn a_node_without_room_for_links_says_first_who_is_in_charge() {
    let config = NodeConfig { links_max: 1, ..node_config(EXTENT_BYTES) };
    let mut bed = NodeBed::greeted(config, Reads::NotTried, &start(1, 5));
    assert_eq!(refused(&mut bed, &start(2, 4)).map(|r| r.0), Some(RefuseReason::Deposed));
    let next = Hello { link: 1, ..start(1, 5) };
    assert_eq!(refused(&mut bed, &next).map(|r| r.0), Some(RefuseReason::Busy));
    assert_eq!(refused(&mut bed, &start(2, 6)), None, "it fences the link that is in its way");
}

#[test]
fn a_charge_that_cannot_be_remembered_is_not_accepted() {
    let mut bed = bed(&start(1, 4));
    bed.is_full = true;
    assert_eq!(refused(&mut bed, &start(2, 5)).map(|r| r.0), Some(RefuseReason::Store));
    assert!(bed.closed().is_some() && bed.closed().is_none(), "only the link that was refused ends");
    bed.receive(bed.link, &writes(1, 1));
    assert_eq!((bed.ops.len(), bed.charge), (1, start(1, 4).charge));
    assert_eq!(refused(&mut bed, &Hello { link: 1, ..start(1, 4) }), None, "nothing new is to be remembered");
}

#[test]
fn an_epoch_counts_more_than_a_session() {
    // The gateway's clock was set back: its session is a time.
    let mut bed = bed(&Hello { session: 1_000_000, ..start(1, 4) });
    let later = start(1, 5);
    assert_eq!(refused(&mut bed, &later), None);
    assert_eq!(bed.closed().as_deref(), Some("a later gateway took charge of the volume"));
    let late = refused(&mut bed, &Hello { attempt: 0, ..later.clone() });
    assert_eq!(late.map(|r| r.0), Some(RefuseReason::Superseded), "attempts of one start are told apart as ever");
    assert_eq!(
        refused(&mut bed, &Hello { session: 1_000_001, ..start(1, 4) }).map(|r| r.0),
        Some(RefuseReason::Deposed)
    );
}

proptest! {
    #[test]
    fn nothing_below_the_epoch_that_is_remembered_is_executed(
        steps in prop::collection::vec((0u8..4, 1u8..3, 0u64..5, 0u64..3, 0usize..40), 1..60),
    ) {
        let mut bed = bed(&start(1, 0));
        let first = bed.link;
        prop_assert_eq!(kinds(&mut bed, first), [FrameKind::Welcome]);
        let mut links = vec![(first, 0, 0u32)];
        let (mut attempt, mut best) = (1, bed.charge);
        for (kind, gateway, epoch, version, which) in steps {
            attempt += 1;
            let mut before = bed.ops.len();
            match kind {
                0 | 1 => {
                    let hello = with_version(Hello { attempt, ..start(gateway, epoch) }, 7 + version);
                    links.push((bed.open_link(&hello), epoch, 0));
                }
                2 => {
                    let count = links.len();
                    let (link, epoch, seq) = &mut links[which % count];
                    // Each writes at a place that tells its epoch.
                    let write = WirePiece { op: Op::Write, flags: OpFlags::FUA, offset_bytes: *epoch, len_bytes: 1 };
                    *seq += 1;
                    let bytes = bytes_of(|out| encode_batch(out, *seq, &[write], |data| data.push(1)));
                    bed.receive(*link, &bytes);
                }
                _ if before > 0 => {
                    bed.end_one();
                    before -= 1;
                }
                _ => {}
            }
            let (Some(earlier), Some(now)) = (best, bed.charge) else { panic!("a charge is remembered") };
            prop_assert!(earlier.epoch <= now.epoch && earlier.version <= now.version);
            prop_assert!(earlier.epoch < now.epoch || earlier.nonce == now.nonce);
            best = Some(now);
            prop_assert!(bed.ops[before..].iter().all(|op| op.offset_bytes == now.epoch), "begun too late");
            for &(link, epoch, _) in &links {
                let is_welcome = kinds(&mut bed, link).contains(&FrameKind::Welcome);
                let is_over = bed.ops.iter().all(|op| op.offset_bytes == epoch);
                prop_assert!(!is_welcome || (epoch == now.epoch && is_over), "welcome too early");
            }
        }
    }
}

#[test]
fn a_linear_extent_is_not_converted_while_a_gateway_uses_it() {
    let mut bed = bed(&hello());
    let from = FromLinear { extent_id: [1; 16], extents: 1 };
    let convert = Hello { from_linear: Some(from), ..start(2, 5) };
    bed.receive(bed.link, &writes(1, 1));
    let (reason, text) = refused(&mut bed, &convert).expect("the other gateway has a link");
    assert!(reason == RefuseReason::Busy && text.contains("stop that gateway"), "{reason:?} {text}");
    assert_eq!(bed.charge, None, "nothing is remembered");
    bed.node.link_closed(bed.link);
    let (reason, _) =
        refused(&mut bed, &Hello { attempt: 2, ..convert.clone() }).expect("a write of it is in the store");
    assert_eq!(reason, RefuseReason::Busy);
    bed.end_one();
    assert_eq!(refused(&mut bed, &Hello { attempt: 3, ..convert.clone() }), None);
    assert_eq!(bed.charge, convert.charge);
    assert_eq!(refused(&mut bed, &Hello { link: 1, ..convert }), None, "its own links are no obstacle");
}
