use super::*;
use crate::copies::testing::image;
use crate::copies::{MapImage, Record, encode_snapshot, replay};
use proptest::prelude::*;

fn start(image: &mut MapImage, epoch: u64, nonce: u64) {
    image.apply(&Record::Epoch { epoch, nonce }).unwrap();
}

fn decide(image: &mut MapImage, count: u64) {
    (0..count).for_each(|_| image.apply(&Record::Loss { count: 0 }).unwrap());
}

/// What a mirror has that is written by the present start.
fn mirror_of(image: &MapImage) -> MirrorState {
    MirrorState { epoch: image.epoch(), nonce: image.nonce(), version: image.version(), len_bytes: 400 }
}

fn lacking(image: &MapImage, mirror: &MirrorState) -> Option<Lacking> {
    image.history().lacking(mirror)
}

#[test]
fn a_mirror_of_an_earlier_start_ends_before_the_next_one() {
    let mut map = image(2, 3, 4);
    start(&mut map, 1, 11);
    decide(&mut map, 5);
    let mirror = mirror_of(&map);
    assert_eq!(lacking(&map, &mirror), None);
    let ahead = MirrorState { version: mirror.version + 9, ..mirror };
    assert_eq!(lacking(&map, &ahead), None, "its own start: decisions are mirrored while it runs");
    start(&mut map, 2, 22);
    decide(&mut map, 50);
    assert_eq!(lacking(&map, &mirror), None);
    for beyond in 1..3 {
        let later = MirrorState { version: mirror.version + beyond, ..mirror };
        assert_eq!(lacking(&map, &later), Some(Lacking::Decisions(beyond)), "a backup that was used");
    }
    let empty = MirrorState { version: 0, ..mirror };
    assert_eq!(lacking(&map, &empty), None);
}

#[test]
fn an_older_map_that_has_decided_as_much_as_it_lacks_is_noticed_on_both_sides() {
    let mut latest = image(2, 3, 4);
    start(&mut latest, 1, 11);
    let mut older = latest.clone();
    decide(&mut latest, 5);
    start(&mut older, 2, 33);
    decide(&mut older, 9);
    start(&mut older, 3, 44);
    assert!(older.decisions() > latest.decisions());
    assert_eq!(lacking(&older, &mirror_of(&latest)), Some(Lacking::Decisions(5)));
    assert_eq!(lacking(&latest, &mirror_of(&older)), Some(Lacking::Start(3)));
    start(&mut latest, 2, 55);
    assert_eq!(lacking(&older, &mirror_of(&latest)), Some(Lacking::Start(2)), "the same epoch, another nonce");
}

#[test]
fn starts_that_are_forgotten_are_judged_by_decisions() {
    let mut map = image(2, 3, 4);
    start(&mut map, 1, 1);
    decide(&mut map, 3);
    let first = mirror_of(&map);
    let more = MirrorState { version: first.version + 1, ..first };
    for epoch in 2..=STARTS_MAX as u64 {
        start(&mut map, epoch, epoch);
        assert_eq!(lacking(&map, &more), Some(Lacking::Decisions(1)), "{epoch}");
    }
    let unknown = MirrorState { nonce: 99, ..first };
    assert_eq!(lacking(&map, &unknown), Some(Lacking::Start(1)), "at the limit it is known");
    start(&mut map, STARTS_MAX as u64 + 1, 7);
    assert_eq!(map.history().starts.len(), STARTS_MAX);
    assert_eq!((lacking(&map, &unknown), lacking(&map, &more)), (None, Some(Lacking::Decisions(1))));
    decide(&mut map, 1);
    assert_eq!(lacking(&map, &more), None);
}

#[test]
fn a_map_of_which_no_start_is_known_is_judged_by_decisions() {
    let map = image(2, 3, 4);
    let mirror = |version| MirrorState { epoch: 4, nonce: 1, version, len_bytes: 9 };
    assert_eq!(lacking(&map, &mirror(map.version() + 4)), None);
    assert_eq!(lacking(&map, &mirror(map.version() + 5)), Some(Lacking::Decisions(1)));
}

/// Whether a mirror continues a map after one more start of it.
fn is_continued(map: &MapImage, mirror: &MapImage, starts: u64, is_cut: bool) -> bool {
    let mut map = map.clone();
    for n in 1..=starts {
        let epoch = map.epoch() + 1;
        start(&mut map, epoch, 1000 + n);
    }
    map.history().is_continued_by(&mirror.history(), is_cut)
}

#[test]
fn a_mirror_continues_a_map_that_has_lost_its_end() {
    let mut map = image(2, 3, 4);
    start(&mut map, 1, 11);
    decide(&mut map, 5);
    assert!(!is_continued(&map, &map, 1, false), "it has no more");
    let mut mirror = map.clone();
    decide(&mut mirror, 1);
    assert!(is_continued(&map, &mirror, 1, false));
    assert!(!is_continued(&map, &mirror, 2, false), "an earlier start may have decided something");
    assert!(is_continued(&map, &mirror, 2, true), "not while it waits for nodes");
    // The record of a start may be among what was lost.
    let mut started = map.clone();
    start(&mut started, 2, 22);
    assert!(is_continued(&map, &started, 1, false));
    start(&mut mirror, 2, 33);
    decide(&mut mirror, 9);
    assert!(is_continued(&map, &mirror, 1, false));
}

#[test]
fn a_branch_does_not_continue_a_map() {
    let mut map = image(2, 3, 4);
    start(&mut map, 1, 11);
    decide(&mut map, 5);
    let mut branch = map.clone();
    decide(&mut map, 1);
    start(&mut branch, 2, 22);
    decide(&mut branch, 50);
    assert!(!is_continued(&map, &branch, 1, true), "it began with less than the map had");
    let other = image(2, 3, 4);
    assert!(!is_continued(&map, &other, 1, true), "no start is common");
    assert!(!is_continued(&other, &map, 1, true));
}

proptest! {
    /// Gateways that are started one after the other with one map never lack what they have mirrored, and a copy of the map that is used beside it
    /// never passes for it, however often it was started and whatever it has decided.
    #[test]
    fn one_line_passes_and_a_branch_does_not(line in prop::collection::vec((any::<u64>(), 0u64..9), 1..20), branch_at in any::<prop::sample::Index>(), branch in prop::collection::vec((any::<u64>(), 0u64..40), 1..20)) {
        let (mut map, mut mirrors) = (image(2, 3, 4), Vec::new());
        let branch_at = branch_at.index(line.len());
        let mut older = map.clone();
        for (at, &(nonce, decisions)) in line.iter().enumerate() {
            start(&mut map, at as u64 + 1, nonce);
            if at == branch_at {
                older = map.clone();
            }
            (0..=decisions).for_each(|_| {
                mirrors.push(mirror_of(&map));
                decide(&mut map, 1);
            });
        }
        map = replay(&encode_snapshot(&map)).unwrap().image;
        for mirror in &mirrors {
            prop_assert_eq!(lacking(&map, mirror), None);
        }
        let (first, forked) = (older.epoch() + 1, older.version());
        for (at, &(nonce, decisions)) in branch.iter().enumerate() {
            // Nonces of 64 bits do not meet; here they may.
            start(&mut older, first + at as u64, !nonce);
            decide(&mut older, decisions);
        }
        let shared = |at: u64, nonce: u64| line.get(at as usize).is_some_and(|other| other.0 == !nonce);
        prop_assume!(!branch.iter().enumerate().any(|(at, &(nonce, _))| shared(first - 1 + at as u64, nonce)));
        prop_assert!(lacking(&map, &mirror_of(&older)).is_some());
        for mirror in mirrors {
            prop_assert_eq!(lacking(&older, &mirror).is_some(), mirror.version > forked, "{:?}", mirror);
        }
    }
}
