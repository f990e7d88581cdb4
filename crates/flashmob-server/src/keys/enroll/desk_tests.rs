//! The desk against a plain account of its promises, over many histories.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::keys::enroll::proof::NONCE_BYTES;

/// Pins and extents of a gateway.
#[derive(Debug, Default)]
struct World {
    pins: HashMap<ExtentId, PublicKey>,
    in_use: HashSet<ExtentId>,
}

impl Known for World {
    fn pin_of(&self, extent: ExtentId) -> Option<PublicKey> {
        self.pins.get(&extent).copied()
    }

    fn extent_of(&self, key: PublicKey) -> Option<ExtentId> {
        self.pins.iter().find(|(_, pinned)| **pinned == key).map(|(extent, _)| *extent)
    }

    fn is_in_use(&self, extent: ExtentId) -> bool {
        self.in_use.contains(&extent)
    }
}

fn key(byte: u8) -> PublicKey {
    // None of them is of small order.
    PublicKey::of([byte | 0x40; 32]).unwrap()
}

fn extent(byte: u8) -> ExtentId {
    ExtentId([byte; 16])
}

fn secret(number: usize) -> Secret {
    Secret::of_code(&format!("{number:016}")).unwrap()
}

/// A device comes with a secret, or with one that was never issued.
fn come(desk: &mut Desk, now: Instant, world: &World, with: &Secret, key_of: u8, extent_of: u8) -> Verdict {
    let request = Request {
        nonce: [key_of; NONCE_BYTES],
        extent: extent(extent_of),
        size_bytes: 1,
        port: 7411,
        name: String::new(),
    };
    let session = Session {
        exported: [key_of; 32],
        digits: [key_of; 32],
        device: key(key_of),
        gateway: key(200),
        cluster: key(201),
    };
    let proof = session.prove(with, Role::Device, &request.to_bytes());
    let it = Presented { request: &request, proof: &proof, session: &session, address: None, digits: "" };
    let (verdict, known) = desk.present(now, world, it);
    assert_eq!(known.is_none(), matches!(verdict, Verdict::Refused(Reason::Code, _)));
    assert!(known.is_none_or(|known| known == *with));
    verdict
}

fn reason(verdict: Verdict) -> Option<Reason> {
    match verdict {
        Verdict::Refused(reason, _) => Some(reason),
        _ => None,
    }
}

fn terms(uses: usize, until: Instant, needs_confirmation: bool) -> Terms {
    Terms { uses, until, needs_confirmation }
}

#[test]
fn a_code_is_for_one_device_and_for_some_minutes_and_guesses_do_not_use_it_up() {
    let (mut desk, world, start) = (Desk::default(), World::default(), Instant::now());
    let until = start + Duration::from_secs(600);
    desk.issue(vec![secret(1)], terms(1, until, true));
    for guess in 2..1000 {
        assert_eq!(reason(come(&mut desk, start, &world, &secret(guess), 1, 1)), Some(Reason::Code));
    }
    assert_eq!(come(&mut desk, start, &world, &secret(1), 1, 1), Verdict::Wait(0));
    assert_eq!(reason(come(&mut desk, start, &world, &secret(1), 2, 2)), Some(Reason::Used));
    // Its connection broke.
    assert_eq!(come(&mut desk, until, &world, &secret(1), 1, 1), Verdict::Wait(0));
    desk.issue(vec![secret(3)], terms(1, until, true));
    assert_eq!(come(&mut desk, start, &world, &secret(3), 1, 1), Verdict::Wait(0), "it needs no second code");
    assert_eq!(reason(come(&mut desk, until, &world, &secret(3), 2, 2)), Some(Reason::Expired));
    assert_eq!(come(&mut desk, until - Duration::from_nanos(1), &world, &secret(3), 2, 2), Verdict::Wait(1));
}

#[test]
fn a_person_decides_and_may_change_its_mind_with_another_code() {
    let (mut desk, mut world, start) = (Desk::default(), World::default(), Instant::now());
    let until = start + Duration::from_secs(600);
    desk.issue(vec![secret(1), secret(2)], terms(1, until, true));
    assert_eq!(come(&mut desk, start, &world, &secret(2), 1, 1), Verdict::Wait(0));
    assert_eq!(reason(come(&mut desk, start, &world, &secret(1), 2, 2)), Some(Reason::Used), "both are one use");
    desk.turn_down(0);
    assert_eq!(reason(come(&mut desk, start, &world, &secret(2), 1, 1)), Some(Reason::TurnedDown));
    desk.pinned(0);
    assert_eq!(desk.devices()[0].state, State::TurnedDown);
    desk.issue(vec![secret(3)], terms(1, until, true));
    assert_eq!(come(&mut desk, start, &world, &secret(3), 1, 1), Verdict::Wait(0));
    desk.pinned(0);
    world.pins.insert(extent(1), key(1));
    assert_eq!(come(&mut desk, start, &world, &secret(3), 1, 1), Verdict::Accepted(0));
    desk.kept(0);
    assert_eq!(desk.devices()[0].state, State::Kept);
    // `flashmob key unpin`.
    world.pins.clear();
    assert_eq!(reason(come(&mut desk, start, &world, &secret(3), 1, 1)), Some(Reason::TurnedDown));
}

#[test]
fn who_was_turned_down_does_not_come_back_with_another_extent() {
    let (mut desk, mut world, start) = (Desk::default(), World::default(), Instant::now());
    desk.issue(vec![secret(1)], terms(1, start + Duration::from_secs(1), false));
    world.in_use.insert(extent(1));
    assert_eq!(come(&mut desk, start, &world, &secret(1), 1, 1), Verdict::Wait(0));
    desk.turn_down(0);
    for extent in [1, 2] {
        assert_eq!(reason(come(&mut desk, start, &world, &secret(1), 1, extent)), Some(Reason::TurnedDown));
    }
}

#[test]
fn digits_cannot_be_tried_without_end() {
    let (mut desk, world, start) = (Desk::default(), World::default(), Instant::now());
    desk.issue(vec![secret(1)], terms(1, start + Duration::from_secs(1), true));
    for _ in 0..=AGAIN_MAX {
        assert_eq!(come(&mut desk, start, &world, &secret(1), 1, 1), Verdict::Wait(0));
    }
    assert_eq!(reason(come(&mut desk, start, &world, &secret(1), 1, 1)), Some(Reason::TurnedDown));
    assert_eq!(reason(come(&mut desk, start, &world, &secret(1), 1, 1)), Some(Reason::TurnedDown));
    assert_eq!(desk.devices()[0].state, State::TurnedDown);
}

#[test]
fn a_token_asks_nobody_but_for_extents_that_volumes_have() {
    let (mut desk, mut world, start) = (Desk::default(), World::default(), Instant::now());
    desk.issue(vec![secret(1)], terms(8, start + Duration::from_secs(1), false));
    world.in_use.extend([extent(2), extent(3)]);
    world.pins.insert(extent(3), key(3));
    assert_eq!(come(&mut desk, start, &world, &secret(1), 1, 1), Verdict::Pin(0));
    assert_eq!(come(&mut desk, start, &world, &secret(1), 1, 1), Verdict::Pin(0), "until it is done");
    assert_eq!(come(&mut desk, start, &world, &secret(1), 2, 2), Verdict::Wait(1));
    assert_eq!(desk.devices()[1].caution, Some(Caution::InUse));
    assert_eq!(come(&mut desk, start, &world, &secret(1), 3, 3), Verdict::Accepted(2), "nothing is new");
    // Whose is it?
    for (key, extent) in [(4, 3), (3, 4), (1, 5), (5, 1)] {
        assert_eq!(reason(come(&mut desk, start, &world, &secret(1), key, extent)), Some(Reason::Identity));
    }
    desk.may_replace = true;
    assert_eq!(reason(come(&mut desk, start, &world, &secret(1), 3, 4)), Some(Reason::Identity));
    assert_eq!(reason(come(&mut desk, start, &world, &secret(1), 4, 3)), Some(Reason::Identity), "one came with it");
    world.pins.insert(extent(6), key(6));
    assert_eq!(come(&mut desk, start, &world, &secret(1), 7, 6), Verdict::Wait(3));
    assert_eq!(desk.devices()[3].caution, Some(Caution::Replaces(key(6))));
}

/// What happens.
#[derive(Debug, Clone)]
enum Happening {
    Issue { uses: usize, seconds: u64, needs_confirmation: bool },
    Come { with: usize, key: u8, extent: u8 },
    Pass(u64),
    Confirm(usize),
    TurnDown(usize),
    Keep(usize),
    Unpin(u8),
    Replace(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        1 => (0..3usize, 0..20u64, any::<bool>())
            .prop_map(|(uses, seconds, needs_confirmation)| Happening::Issue { uses, seconds, needs_confirmation }),
        6 => (0..5usize, 0..4u8, 0..4u8).prop_map(|(with, key, extent)| Happening::Come { with, key, extent }),
        1 => (0..8u64).prop_map(Happening::Pass),
        2 => (0..6usize).prop_map(Happening::Confirm),
        1 => (0..6usize).prop_map(Happening::TurnDown),
        1 => (0..6usize).prop_map(Happening::Keep),
        1 => (0..4u8).prop_map(Happening::Unpin),
        1 => any::<bool>().prop_map(Happening::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn the_promises_hold_over_any_history(history in prop::collection::vec(happening(), 0..80)) {
        let (mut desk, mut world, start) = (Desk::default(), World::default(), Instant::now());
        let mut now = start;
        world.in_use.insert(extent(0));
        // An account of its own: the terms of each secret, and which keys it let in.
        let (mut issued, mut let_in): (Vec<Terms>, Vec<HashSet<u8>>) = (Vec::new(), Vec::new());
        // Keys that somebody has said no to, with the secret that they came with first.
        let (mut came_with, mut refused) = (HashMap::new(), HashSet::new());
        for what in history {
            match what {
                Happening::Issue { uses, seconds, needs_confirmation } => {
                    if issued.len() < 4 {
                        issued.push(terms(uses, now + Duration::from_secs(seconds), needs_confirmation));
                        let_in.push(HashSet::new());
                        desk.issue(vec![secret(issued.len())], issued[issued.len() - 1]);
                    }
                }
                Happening::Come { with, key: k, extent: e } => {
                    let before: Vec<State> = desk.devices().iter().map(|device| device.state).collect();
                    let pinned = world.pins.clone();
                    let verdict = come(&mut desk, now, &world, &secret(with), k, e);
                    let terms = with.checked_sub(1).and_then(|number| issued.get(number));
                    let Some(terms) = terms else {
                        prop_assert_eq!(reason(verdict), Some(Reason::Code));
                        let after: Vec<State> = desk.devices().iter().map(|device| device.state).collect();
                        prop_assert_eq!(before, after, "who knows no secret changes nothing");
                        continue;
                    };
                    match verdict {
                        Verdict::Refused(..) => {
                            // It came too often.
                            for (number, device) in desk.devices().iter().enumerate() {
                                if device.state == State::TurnedDown && before.get(number) == Some(&State::Waiting) {
                                    refused.insert((device.key, came_with[&number]));
                                }
                            }
                        }
                        Verdict::Wait(number) | Verdict::Pin(number) | Verdict::Accepted(number) => {
                            let device = &desk.devices()[number];
                            prop_assert_eq!((device.key, device.request.extent), (key(k), extent(e)));
                            prop_assert!(!refused.contains(&(key(k), with)), "no is no, for this code");
                            if before.get(number).is_none_or(|state| *state == State::TurnedDown) {
                                came_with.insert(number, with);
                                // Another code is another try, which counts for all.
                                refused.retain(|(refused, _)| *refused != key(k));
                            }
                            // It came before, or the secret counts now.
                            let came = before.get(number).is_some_and(|state| *state != State::TurnedDown);
                            prop_assert!(came || now < terms.until);
                            if !came && pinned.get(&extent(e)) != Some(&key(k)) {
                                let_in[with - 1].insert(k);
                                prop_assert!(let_in[with - 1].len() <= terms.uses, "uses");
                            }
                        }
                    }
                    if let Verdict::Accepted(_) = verdict {
                        prop_assert_eq!(pinned.get(&extent(e)), Some(&key(k)), "only who is pinned is told so");
                    }
                    if let Verdict::Pin(number) = verdict {
                        prop_assert!(!terms.needs_confirmation || before.get(number) == Some(&State::Waiting));
                        prop_assert!(!desk.devices()[number].needs_confirmation);
                        prop_assert!(e != 0 || pinned.contains_key(&extent(0)), "a volume's extent is not taken unasked");
                        prop_assert!(!pinned.contains_key(&extent(e)), "no key is replaced unasked");
                        world.pins.insert(extent(e), key(k));
                        desk.pinned(number);
                    }
                }
                Happening::Pass(seconds) => now += Duration::from_secs(seconds),
                Happening::Confirm(number) => {
                    if let Some(device) = desk.devices().get(number).filter(|device| device.state == State::Waiting) {
                        let (extent, key) = (device.request.extent, device.key);
                        let other = world.pins.get(&extent).is_some_and(|other| *other != key);
                        prop_assert!(!other || matches!(device.caution, Some(Caution::Replaces(_))), "nobody knew");
                        // One key, one extent, as pins demand.
                        if world.extent_of(key).is_none_or(|known| known == extent) {
                            world.pins.insert(extent, key);
                            desk.pinned(number);
                        }
                    }
                }
                Happening::TurnDown(number) => {
                    if let Some(device) = desk.devices().get(number).filter(|device| device.state == State::Waiting) {
                        refused.insert((device.key, came_with[&number]));
                    }
                    desk.turn_down(number);
                }
                Happening::Keep(number) => desk.kept(number),
                Happening::Unpin(e) => {
                    world.pins.remove(&extent(e));
                }
                Happening::Replace(may) => desk.may_replace = may,
            }
            // Of those that are not turned down, no two share a key or an extent.
            let live: Vec<&Device> = desk.devices().iter().filter(|device| device.state != State::TurnedDown).collect();
            for (at, one) in live.iter().enumerate() {
                for other in &live[at + 1..] {
                    prop_assert!(one.key != other.key && one.request.extent != other.request.extent);
                }
            }
        }
    }
}
