//! Properties of plans: every step can be taken in its turn, and in the end members are empty, or even.

use super::super::testing::{CHUNK, id, image, members};
use super::super::{MapImage, Place, Record};
use super::*;
use proptest::prelude::*;

fn set(members: &[u16]) -> BTreeSet<u16> {
    members.iter().copied().collect()
}

/// Takes the steps of a plan one after the other: the map refuses what cannot be.
fn carried_out(mut image: MapImage, plan: &Plan) -> MapImage {
    for &Step { chunk, from, to } in &plan.steps {
        let copy = image.places(chunk).iter().position(|place| place.member == from).unwrap();
        let taken: BTreeSet<u32> = image.chunks_of(to).map(|(chunk, copy)| image.places(chunk)[copy].slot).collect();
        let slot = (0..image.slots(to)).find(|slot| !taken.contains(slot)).unwrap();
        image.apply(&Record::Moved { chunk, copy: copy as u8, to: Place { member: to, slot } }).unwrap();
    }
    image
}

fn fill(image: &MapImage, member: u16) -> f64 {
    f64::from(image.copies_on(member)) / f64::from(image.slots(member))
}

proptest! {
    #[test]
    fn a_leaving_member_is_emptied_wherever_there_is_room(
        copies in 1usize..=4,
        shape in prop::collection::vec((1u64..30, 0usize..6), 1..9),
        share in 1u32..=100,
        leaving in prop::collection::btree_set(0u16..9, 0..3),
        is_balanced in any::<bool>(),
    ) {
        let members = members(&shape);
        let Ok(full) = MapImage::new(id(7), CHUNK, copies, members.clone()) else { return Ok(()) };
        let chunks = (full.chunks() * share).div_ceil(100).max(1);
        let image = MapImage::with_chunks(id(7), CHUNK, copies, members.clone(), chunks).unwrap();
        let leaving: BTreeSet<u16> = leaving.into_iter().filter(|&n| usize::from(n) < members.len()).collect();
        let plan = image.plan(&leaving, is_balanced, &set(&[]));
        let after = carried_out(image.clone(), &plan);
        let left: u32 = leaving.iter().map(|&member| after.copies_on(member)).sum();
        prop_assert_eq!(left, plan.all_stranded());
        if leaving.is_empty() && is_balanced {
            prop_assert_eq!(after.plan(&leaving, true, &set(&[])).steps, []);
        }
        // Whatever fits without them is found, if no more than a few chunks could have been placed in another way.
        let stay: Vec<_> = (0u16..).zip(&members).filter(|(n, _)| !leaving.contains(n)).map(|(_, m)| m.clone()).collect();
        let fits = MapImage::new(id(8), CHUNK, copies, stay).map_or(0, |image| image.chunks());
        if fits >= chunks {
            prop_assert_eq!(left, 0);
        }
    }
}

#[test]
fn a_new_member_gets_its_share_and_no_more_moves_than_that() {
    let with_new = members(&[(40, 0), (40, 1), (40, 2), (40, 3)]);
    let mut image = MapImage::with_chunks(id(7), CHUNK, 2, with_new, 50).unwrap();
    // The last one was added later.
    let plan = image.plan(&set(&[3]), false, &set(&[]));
    image = carried_out(image, &plan);
    assert_eq!([0, 1, 2, 3].map(|member| image.copies_on(member)).iter().sum::<u32>(), 100);
    assert_eq!(image.copies_on(3), 0);
    let plan = image.plan(&set(&[]), true, &set(&[]));
    assert_eq!((plan.steps.len(), plan.all_stranded()), (25, 0));
    assert!(plan.steps.iter().all(|step| step.to == 3));
    let after = carried_out(image.clone(), &plan);
    assert_eq!([0, 1, 2, 3].map(|member| after.copies_on(member)), [25; 4]);
    assert_eq!(image.plan(&set(&[]), true, &set(&[3])).steps, [], "it cannot be used");
}

#[test]
fn uneven_members_are_filled_evenly() {
    let members = members(&[(256, 0), (1024, 1), (4096, 2), (1024, 3)]);
    let mut image = MapImage::with_chunks(id(7), CHUNK, 1, members, 3000).unwrap();
    image = carried_out(image.clone(), &image.plan(&set(&[0, 2]), false, &set(&[])));
    assert_eq!([image.copies_on(0), image.copies_on(1), image.copies_on(3)], [0, 1024, 1024], "what there is room for");
    let after = carried_out(image.clone(), &image.plan(&set(&[]), true, &set(&[])));
    let fills = [0, 1, 2, 3].map(|member| fill(&after, member));
    let (least, most) = fills.iter().fold((1.0, 0.0), |(l, m): (f64, f64), &f| (l.min(f), m.max(f)));
    assert!(most - least < 0.01, "{fills:?}");
}

#[test]
fn nothing_goes_to_members_that_cannot_be_used() {
    let members = members(&[(2, 0), (2, 1), (1, 2), (1, 1)]);
    let mut image = MapImage::with_chunks(id(7), CHUNK, 1, members, 3).unwrap();
    let places = [(0, 0), (1, 0), (2, 0)].map(|(member, slot)| Place { member, slot });
    image.places.copy_from_slice(&places);
    image.count_slots();
    let plan = image.plan(&set(&[0]), false, &set(&[1]));
    assert_eq!(plan.steps, [Step { chunk: 0, from: 0, to: 3 }]);
    let plan = image.plan(&set(&[0]), false, &set(&[1, 3]));
    assert_eq!((plan.steps.len(), plan.all_stranded()), (0, 1));
}

#[test]
fn a_chain_is_found_and_its_last_step_comes_first() {
    // Chunk 0 lies on members 0 and 1, chunk 1 on 2 and 0.
    let mut image = image(2, 4, 4);
    image.members = members(&[(2, 0), (2, 1), (1, 2)]);
    image.places = [(0, 0), (1, 0), (2, 0), (0, 1)].map(|(member, slot)| Place { member, slot }).to_vec();
    image.settle_all();
    image.count_slots();
    let plan = image.plan(&set(&[0]), false, &set(&[]));
    assert_eq!(plan.all_stranded(), 1, "the others have one free slot: {plan:?}");
    let mut wider = image.clone();
    wider.members = members(&[(2, 0), (2, 1), (1, 2), (1, 0)]);
    let plan = wider.plan(&set(&[0]), false, &set(&[]));
    assert_eq!(plan.all_stranded(), 0, "{plan:?}");
    let after = carried_out(wider, &plan);
    assert_eq!([0, 1, 2, 3].map(|member| after.copies_on(member)), [0, 2, 1, 1]);
}
