//! Properties of placements.

use super::*;
use crate::copies::testing::{CHUNK, id, members};
use crate::copies::{CHUNK_BYTES, DOMAIN_BYTES_MAX, MEMBERS_MAX};
use crate::units::GIB;
use proptest::prelude::*;

fn placed(copies: usize, members: &[Member]) -> Vec<Vec<Place>> {
    let places = place(CHUNK, copies, members, None).unwrap_or_else(|e| panic!("{e}"));
    places.chunks(copies).map(<[Place]>::to_vec).collect()
}

fn chunks_on(table: &[Vec<Place>], member: usize) -> usize {
    table.iter().flatten().filter(|place| usize::from(place.member) == member).count()
}

/// The largest number of chunks, by taking the domains with the most free slots for one chunk after the other: slow,
/// known to be the best.
fn most(copies: usize, members: &[Member]) -> usize {
    let mut free: BTreeMap<&str, u64> = BTreeMap::new();
    for member in members {
        *free.entry(&member.domain).or_default() += member.size_bytes / CHUNK;
    }
    let mut free: Vec<u64> = free.into_values().collect();
    let mut chunks = 0;
    loop {
        free.sort_unstable_by_key(|&free| Reverse(free));
        if free.get(copies - 1).is_none_or(|&free| free == 0) {
            return chunks;
        }
        free.iter_mut().take(copies).for_each(|free| *free -= 1);
        chunks += 1;
    }
}

/// Copies, and members in at least as many domains.
fn any_members() -> impl Strategy<Value = (usize, Vec<Member>)> {
    (1usize..=COPIES_MAX, prop::collection::vec((1u64..40, 0usize..8), 1..12), 1u64..40).prop_map(
        |(copies, mut all, slots)| {
            // Domains that are there for certain.
            all.extend((0..copies).map(|domain| (slots, domain)));
            (copies, members(&all))
        },
    )
}

proptest! {
    #[test]
    fn a_table_is_sound_and_as_large_as_can_be((copies, members) in any_members()) {
        let table = placed(copies, &members);
        prop_assert_eq!(table.len(), most(copies, &members));
        let mut next = vec![0u32; members.len()];
        for places in &table {
            let domain = |place: &Place| members[usize::from(place.member)].domain.as_str();
            let mut domains: Vec<&str> = places.iter().map(domain).collect();
            domains.sort_unstable();
            domains.dedup();
            prop_assert_eq!(domains.len(), copies, "{:?}", places);
            for place in places {
                // Slots in order: each used once, and none beyond the end if their number fits.
                prop_assert_eq!(place.slot, next[usize::from(place.member)]);
                next[usize::from(place.member)] += 1;
            }
        }
        for (member, &used) in members.iter().zip(&next) {
            prop_assert!(u64::from(used) * CHUNK <= member.size_bytes);
        }
        prop_assert_eq!(placed(copies, &members), table, "it is always the same");
    }

    #[test]
    fn equal_members_of_a_domain_differ_by_one((copies, members) in any_members()) {
        let table = placed(copies, &members);
        for (i, one) in members.iter().enumerate() {
            for (k, other) in members.iter().enumerate() {
                if one.domain == other.domain && one.size_bytes == other.size_bytes {
                    prop_assert!(chunks_on(&table, i).abs_diff(chunks_on(&table, k)) <= 1);
                }
            }
        }
    }

    #[test]
    fn equal_domains_of_equal_members_are_used_alike_and_up(
        copies in 1usize..=COPIES_MAX, domains in 1usize..9, in_each in 1usize..4, slots in 1u64..60,
    ) {
        prop_assume!(domains >= copies);
        let all: Vec<(u64, usize)> = (0..domains * in_each).map(|member| (slots, member % domains)).collect();
        let table = placed(copies, &members(&all));
        let used: Vec<usize> = (0..all.len()).map(|member| chunks_on(&table, member)).collect();
        let (least, greatest) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        prop_assert!(greatest - least <= 1, "{:?}", used);
        let total = slots as usize * all.len();
        prop_assert!(total - table.len() * copies < copies, "all slots are used but a rest");
    }

    #[test]
    fn so_many_chunks_as_fill_all_members_once_lie_on_different_ones(
        copies in 1usize..=3, groups in 2usize..5, slots in 1u64..60,
    ) {
        let count = copies * groups;
        let all: Vec<(u64, usize)> = (0..count).map(|member| (slots, member)).collect();
        for run in placed(copies, &members(&all)).chunks_exact(groups) {
            let mut on: Vec<u16> = run.iter().flatten().map(|place| place.member).collect();
            on.sort_unstable();
            on.dedup();
            prop_assert_eq!(on.len(), count, "{:?}", run);
        }
    }

    #[test]
    fn a_member_shares_its_chunks_with_all_others(copies in 2usize..=4, count in 4usize..20) {
        let all: Vec<(u64, usize)> = (0..count).map(|member| (2000, member)).collect();
        let table = placed(copies, &members(&all));
        let mut shared = vec![0usize; count];
        let of_first = table.iter().filter(|places| places.iter().any(|place| place.member == 0));
        of_first.flatten().for_each(|place| shared[usize::from(place.member)] += 1);
        let fair = 2000 * (copies - 1) / (count - 1);
        prop_assert!(shared[1..].iter().all(|&n| n >= fair * 2 / 3 && n <= fair * 4 / 3), "{:?}, {}", shared, fair);
    }

    #[test]
    fn unequal_domains_fill_alike(sizes in prop::collection::vec(50u64..100, 4..8)) {
        // None is so large that every chunk needs it.
        let all: Vec<(u64, usize)> = sizes.iter().enumerate().map(|(domain, &slots)| (slots, domain)).collect();
        let table = placed(2, &members(&all));
        let early = &table[..table.len() / 2];
        for (member, &slots) in sizes.iter().enumerate() {
            let fraction = chunks_on(early, member) as f64 / slots as f64;
            prop_assert!((0.46..0.54).contains(&fraction), "{} of {:?} at half", fraction, sizes);
        }
    }
}

#[test]
fn a_domain_that_every_chunk_needs_is_never_left_out() {
    // The first chunk must not be on the two small members, which is what the fractions alone would choose.
    let table = placed(2, &members(&[(10, 1), (10, 2), (10, 0), (10, 0)]));
    assert_eq!(table.len(), 20);
    assert!(table.iter().all(|places| places.iter().any(|place| place.member >= 2)));
    // A giant: the others' slots are the limit.
    assert_eq!(placed(2, &members(&[(1000, 0), (3, 1), (4, 2)])).len(), 7);
    assert_eq!(placed(3, &members(&[(1000, 0), (1000, 1), (4, 2)])).len(), 4);
}

#[test]
fn three_copies_on_three_members_are_the_same_everywhere() {
    let table = placed(3, &members(&[(5, 0), (5, 1), (5, 2)]));
    assert_eq!(table.len(), 5);
    for (slot, places) in (0u32..).zip(&table) {
        assert!((0u16..).zip(places).all(|(member, &place)| place == Place { member, slot }), "{places:?}");
    }
}

#[test]
fn what_cannot_be_placed_is_refused_at_its_limits() {
    let one = members(&[(1, 0)]);
    let two = members(&[(1, 0), (1, 1)]);
    let text =
        |chunk_bytes, copies, members: &[Member]| place(chunk_bytes, copies, members, None).unwrap_err().to_string();
    assert_eq!(text(CHUNK, 1, &[]), "a volume needs at least one member");
    assert_eq!(text(CHUNK, 2, &one), "2 copies need members in 2 domains, there is 1");
    assert_eq!(text(CHUNK, 3, &two), "3 copies need members in 3 domains, there are 2");
    assert_eq!(text(CHUNK, 2, &members(&[(1, 4), (1, 4)])), "2 copies need members in 2 domains, there is 1");
    assert_eq!(text(CHUNK, 0, &two), "0 copies are not between 1 and 4");
    assert_eq!(text(CHUNK, 5, &two), "5 copies are not between 1 and 4");
    for chunk_bytes in
        [0, 1, CHUNK_BYTES_MIN - 1, CHUNK_BYTES_MIN / 2, 3 * CHUNK_BYTES_MIN, 2 * CHUNK_BYTES_MAX, u64::MAX]
    {
        assert_eq!(place(chunk_bytes, 1, &one, None), Err(PlacementError::ChunkBytes(chunk_bytes)));
    }
    let large = Member { size_bytes: CHUNK_BYTES_MAX, ..one[0].clone() };
    assert_eq!(place(CHUNK_BYTES_MAX, 1, std::slice::from_ref(&large), None).map(|table| table.len()), Ok(1));
    let small = Member { size_bytes: CHUNK_BYTES_MAX - 1, ..large };
    assert_eq!(text(CHUNK_BYTES_MAX, 1, &[small]), "member 0 has 67108863 bytes, less than one chunk of 67108864");
}

#[test]
fn members_are_refused_at_their_limits() {
    let many = |count: usize| members(&(0..count).map(|domain| (1, domain % 5)).collect::<Vec<_>>());
    assert_eq!(place(CHUNK, 1, &many(MEMBERS_MAX), None).map(|table| table.len()), Ok(MEMBERS_MAX));
    assert_eq!(place(CHUNK, 1, &many(MEMBERS_MAX + 1), None), Err(PlacementError::Member(MapError::TooManyMembers)));
    let named =
        |domain: String| vec![Member { extent_id: id(1), boot_id: None, seen: None, size_bytes: CHUNK, domain }];
    assert!(place(CHUNK, 1, &named("d".repeat(DOMAIN_BYTES_MAX)), None).is_ok());
    for bad in [String::new(), "d".repeat(DOMAIN_BYTES_MAX + 1)] {
        let len_bytes = bad.len();
        let error = PlacementError::Member(MapError::Domain { member: 0, len_bytes });
        assert_eq!(place(CHUNK, 1, &named(bad), None), Err(error));
    }
    let mut twice = members(&[(1, 0), (1, 1), (1, 2)]);
    twice[2].extent_id = twice[0].extent_id;
    let error = PlacementError::Member(MapError::ExtentTwice { first: 0, second: 2 });
    assert_eq!(place(CHUNK, 2, &twice, None), Err(error));
}

#[test]
fn sizes_near_the_end_of_numbers_fit() {
    let mut huge = members(&[(1, 0), (1, 1), (1, 2)]);
    huge.iter_mut().for_each(|member| member.size_bytes = u64::MAX);
    let slots: Vec<u64> = domains_of(CHUNK, &huge).iter().map(|domain| domain.slots).collect();
    assert_eq!(most_chunks(&slots, 2), u64::from(CHUNKS_MAX), "the volume's limit");
    let shares = shares(&slots, u64::from(CHUNKS_MAX), 2 * u64::from(CHUNKS_MAX));
    assert_eq!(shares.iter().sum::<u64>(), 2 * u64::from(CHUNKS_MAX));
    assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
    // In one domain there is room for far more than the volume may have.
    let domain = [u64::from(CHUNKS_MAX) * MEMBERS_MAX as u64, 5];
    assert_eq!(most_chunks(&domain, 1), u64::from(CHUNKS_MAX));
    assert_eq!(
        super::shares(&domain, u64::from(CHUNKS_MAX), u64::from(CHUNKS_MAX)).iter().sum::<u64>(),
        u64::from(CHUNKS_MAX)
    );
}

#[test]
fn a_tebibyte_with_three_copies_is_placed_whole() {
    let member = |number: u64| Member {
        extent_id: id(number),
        boot_id: None,
        seen: None,
        size_bytes: 128 * GIB,
        domain: format!("node {number}"),
    };
    let members: Vec<Member> = (0..24).map(member).collect();
    let places = place(CHUNK_BYTES, 3, &members, None).unwrap();
    assert_eq!(places.len() as u64, 3 * 1024 * GIB / CHUNK_BYTES);
}
