//! Nodes that say that another gateway is in charge, in a cluster with keys: a node may lie.

use std::time::Duration;

use crate::testing::{CHUNK_BYTES, GatewayBed, bytes_of, linked_pair, pair_map, welcome, welcome_link};
use flashmob_core::copies::{MapImage, Record};
use flashmob_core::gateway::{Action, CopiesSpec, LinkId, LinkPhase, Proof};
use flashmob_core::op::Op;
use flashmob_core::wire::generation::first_of;
use flashmob_core::wire::hello::{Refuse, RefuseReason, Welcome};
use flashmob_core::wire::mirror::MirrorState;

/// The generation of the gateway's key.
const GENERATION: u64 = 3;
/// The start of this gateway, and its random number.
const START: (u64, u64) = (5, 55);
const WORDS: &str = "a later gateway is in charge of this volume";

fn map() -> MapImage {
    let mut map = pair_map();
    for epoch in 1..START.0 {
        map.apply(&Record::Epoch { epoch, nonce: epoch }).unwrap();
    }
    map.apply(&Record::Epoch { epoch: START.0, nonce: START.1 }).unwrap();
    map
}

/// A gateway with keys that is linked to both of two nodes.
fn bed(has_keys: bool) -> GatewayBed {
    let mut bed = linked_pair(CopiesSpec::new(map()));
    if has_keys {
        bed.gateway.verify_claims(GENERATION);
    }
    bed.actions();
    bed
}

/// A node's link ends, and its next one is refused: there is another gateway in charge.
fn refuse(bed: &mut GatewayBed, node: usize) {
    bed.gateway.link_closed(bed.now, LinkId(node), "lost");
    bed.pass(Duration::from_secs(1));
    refuse_again(bed, node);
}

fn refuse_again(bed: &mut GatewayBed, node: usize) {
    let (id, text) = (LinkId(node), WORDS.to_string());
    bed.gateway.link_connected(bed.now, id);
    bed.gateway.link_rx(id).extend(&bytes_of(|out| Refuse { reason: RefuseReason::Deposed, text }.encode(out)));
    bed.gateway.process_link(bed.now, id);
}

/// A node's link ends, and its next one is welcomed so.
fn welcome_again(bed: &mut GatewayBed, node: usize, told: Welcome) {
    bed.gateway.link_closed(bed.now, LinkId(node), "lost");
    bed.pass(Duration::from_secs(1));
    assert!(asked(bed).is_empty());
    let id = [node as u8 + 1; 16];
    welcome_link(&mut bed.gateway, bed.now, LinkId(node), &Welcome { extent_id: id, boot_id: id, ..told });
}

/// Which nodes' claims are to be verified since this was last asked. What is decided is durable.
fn asked(bed: &mut GatewayBed) -> Vec<usize> {
    let mut asked = Vec::new();
    for action in bed.actions() {
        match action {
            Action::VerifyClaim { node, .. } => asked.push(node),
            Action::Commit { volume, number, .. } => bed.gateway.committed(bed.now, volume, number, Ok(())),
            _ => {}
        }
    }
    asked
}

fn refusal(bed: &GatewayBed, node: usize) -> Option<String> {
    bed.gateway.status().volumes[0].nodes[node].refusal.clone()
}

/// Whether the volume answers a read, by the node that is linked.
fn is_served(bed: &mut GatewayBed) -> bool {
    let client = bed.gateway.native_opened(0).unwrap();
    bed.submit(client, Op::Read, 0, 4096);
    for _ in 0..40 {
        bed.pass(Duration::from_millis(50));
        asked(bed);
        bed.answer(1);
    }
    bed.ended() == 1
}

fn state(epoch: u64, nonce: u64, version: u64) -> MirrorState {
    MirrorState { epoch, nonce, version, len_bytes: 99 }
}

#[test]
fn a_node_that_says_without_proof_that_another_gateway_is_in_charge_is_refused_and_others_serve() {
    let own = state(START.0, START.1, map().version());
    let lies = [
        Proof::Nothing,
        // The gateway's own mirror, that of an earlier start, and a later one of another volume.
        Proof::Shown([9; 16], own),
        Proof::Shown([9; 16], state(4, 4, own.version - 1)),
        Proof::Shown([8; 16], state(77, 7, 999)),
    ];
    for proof in lies {
        let mut bed = bed(true);
        refuse(&mut bed, 0);
        assert_eq!(asked(&mut bed), [0]);
        assert!(!is_served(&mut bed), "it is not known yet");
        bed.gateway.claim_answered(bed.now, 0, proof);
        assert_eq!(bed.gateway.deposed(0), None, "{proof:?}");
        bed.pass(Duration::from_millis(50));
        bed.answer(1);
        assert_eq!(bed.ended(), 1, "what has waited is answered");
        assert!(is_served(&mut bed));
        let refusal = refusal(&bed, 0).unwrap();
        let extent = bed.gateway.map(0).unwrap().members()[0].extent_id;
        let unpin = format!("`flashmob key unpin CONFIG {:032x}`", u128::from_be_bytes(extent));
        assert!(refusal.contains("without proof") && refusal.contains(&unpin), "{refusal}");
        assert!(refusal.contains(WORDS), "{refusal}");
        // Its next claims hold nobody up.
        let mut verified = 0;
        for _ in 0..20 {
            bed.pass(Duration::from_secs(1));
            refuse_again(&mut bed, 0);
            verified += asked(&mut bed).len();
            assert!(is_served(&mut bed));
            bed.gateway.claim_answered(bed.now, 0, proof);
        }
        assert_eq!(bed.gateway.deposed(0), None);
        assert!((3..=6).contains(&verified), "{verified} times in a minute: after 2 s, 4 s, 8 s, ...");
    }
}

#[test]
fn a_claim_that_a_signed_mirror_shows_ends_the_gateway() {
    let version = map().version();
    // A later start, another one with the same number, and decisions that this map lacks.
    for (epoch, nonce, version) in [(6, 66, version + 9), (5, 56, version), (4, 4, version + 9)] {
        let mut bed = bed(true);
        refuse(&mut bed, 0);
        assert_eq!((asked(&mut bed), bed.gateway.deposed(0)), (vec![0], None));
        bed.gateway.claim_answered(bed.now, 0, Proof::Shown([9; 16], state(epoch, nonce, version)));
        assert_eq!(bed.gateway.deposed(0), Some(WORDS), "{epoch} {nonce}");
    }
    // A node inside the gateway does not lie.
    let mut inside = bed(true);
    refuse(&mut inside, 0);
    inside.gateway.claim_answered(inside.now, 0, Proof::Trusted);
    assert!(inside.gateway.deposed(0).is_some());
    // Without keys there is nothing that could show it.
    let mut without = bed(false);
    refuse(&mut without, 0);
    assert!(without.gateway.deposed(0).is_some() && asked(&mut without).is_empty());
}

#[test]
fn a_welcome_with_a_mirror_of_an_unknown_start_is_a_claim() {
    for (has_keys, is_believed) in [(true, false), (false, true)] {
        let mut bed = bed(has_keys);
        let mirror = Some(state(9, 99, 100));
        welcome_again(&mut bed, 0, Welcome { mirror, ..welcome(2 * CHUNK_BYTES) });
        assert_eq!(asked(&mut bed), if has_keys { vec![0] } else { vec![] });
        assert_eq!(bed.gateway.deposed(0).is_some(), is_believed);
        if has_keys {
            bed.gateway.claim_answered(bed.now, 0, Proof::Nothing);
            assert!(is_served(&mut bed) && refusal(&bed, 0).is_some_and(|text| text.contains("epoch 9")));
        }
    }
}

#[test]
fn a_node_that_shows_nothing_holds_nobody_up_for_long_and_the_last_ones_are_believed() {
    let mut bed = bed(true);
    refuse(&mut bed, 0);
    assert_eq!(asked(&mut bed), [0]);
    assert!(!is_served(&mut bed), "two seconds");
    // As long as the mirror of a small map may take, once.
    for _ in 0..261 {
        bed.pass(Duration::from_millis(50));
        assert!(asked(&mut bed).is_empty());
        bed.answer(1);
    }
    // Those that waited for longer than they may.
    let ended = std::mem::take(bed.gateway.completions());
    assert!(ended.iter().all(|completion| completion.result.is_err()), "15 s");
    assert!(is_served(&mut bed));
    bed.gateway.claim_answered(bed.now, 0, Proof::Nothing);
    bed.pass(Duration::from_secs(3));
    refuse_again(&mut bed, 0);
    assert_eq!(asked(&mut bed), [0], "verified again");
    assert!(is_served(&mut bed), "and nobody is held up");
    // No other node is linked, and this goes on.
    bed.gateway.link_closed(bed.now, LinkId(1), "lost");
    for _ in 0..29 {
        bed.pass(Duration::from_secs(1));
        refuse_again(&mut bed, 0);
        assert_eq!(bed.gateway.deposed(0), None);
    }
    for _ in 0..2 {
        bed.pass(Duration::from_secs(1));
        refuse_again(&mut bed, 0);
    }
    assert_eq!(bed.gateway.deposed(0), Some(WORDS));
    // If all say it, none is left that could serve.
    let mut all = self::bed(true);
    refuse(&mut all, 0);
    assert_eq!(all.gateway.deposed(0), None);
    refuse(&mut all, 1);
    refuse_again(&mut all, 0);
    assert!(all.gateway.deposed(0).is_some());
}

#[test]
fn numbers_of_a_generation_that_there_is_not_are_refused_and_named() {
    let at = first_of(GENERATION + 1).unwrap();
    for (epoch, version, is_refused) in [(at - 1, at, false), (at, at, true), (at + 1, at, true), (1, at + 1, true)] {
        for is_mirror in [true, false] {
            let mut bed = bed(true);
            let mirror = is_mirror.then(|| state(epoch, 1, version));
            let remembered = (!is_mirror).then_some((epoch, version));
            welcome_again(&mut bed, 0, Welcome { mirror, remembered, ..welcome(2 * CHUNK_BYTES) });
            let refusal = refusal(&bed, 0);
            let is_named =
                refusal.is_some_and(|text| text.contains("generation 4 of the keys, and there is none later"));
            assert_eq!(is_named, is_refused, "{epoch} {version} {is_mirror}");
            assert_eq!(bed.gateway.deposed(0), None);
            if is_refused {
                assert!(asked(&mut bed).is_empty() && is_served(&mut bed), "and nobody waits");
            }
            assert!(!is_refused || bed.phase(0) != LinkPhase::Ready);
        }
    }
}
