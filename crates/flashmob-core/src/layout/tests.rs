//! Properties of layouts: a bijection between the volume and what it uses of its extents.

use super::*;
use crate::units::{KIB, MIB};
use proptest::prelude::*;

const STRIPED_512: LayoutKind = LayoutKind::Striped { stripe_bytes: 512 };

impl Layout {
    fn extents(&self) -> u32 {
        self.extent_sizes_bytes.len() as u32
    }

    fn extent_size_bytes(&self, extent: u32) -> Option<u64> {
        self.extent_sizes_bytes.get(extent as usize).copied()
    }

    fn locate(&self, offset_bytes: u64) -> Option<(u32, u64)> {
        self.locate_whole(offset_bytes, 1)
    }

    /// The volume address of a byte of an extent: the inverse of [`Layout::locate`], computed from the tables in another way.
    fn volume_offset(&self, extent: u32, extent_offset_bytes: u64) -> Option<u64> {
        if extent_offset_bytes >= self.extent_size_bytes(extent)? {
            return None;
        }
        let stripes = match &self.map {
            Map::LinearEqual { extent_bytes } => return Some(u64::from(extent) * extent_bytes + extent_offset_bytes),
            Map::LinearUnequal { starts_bytes } => {
                return Some(starts_bytes.get(extent as usize)? + extent_offset_bytes);
            }
            Map::Striped(stripes) => stripes,
            Map::Elsewhere => return None,
        };
        let row = extent_offset_bytes >> stripes.shift;
        let rank = stripes.order.iter().position(|&other| other == extent)? as u64;
        let zone = stripes.zones.get(stripes.zones.partition_point(|z| z.end_row <= row))?;
        let stripe = (row - zone.first_row) * zone.members + rank;
        let in_stripe_bytes = extent_offset_bytes & ((1 << stripes.shift) - 1);
        (rank < zone.members).then_some(zone.start_bytes + (stripe << stripes.shift) + in_stripe_bytes)
    }
}

fn layout(kind: LayoutKind, sizes_bytes: &[u64]) -> Layout {
    Layout::new(kind, sizes_bytes).expect("a valid layout")
}

fn small_layout() -> impl Strategy<Value = Layout> {
    let kind =
        prop_oneof![Just(LayoutKind::Linear), Just(STRIPED_512), Just(LayoutKind::Striped { stripe_bytes: 1024 })];
    let unequal = prop::collection::vec(1024u64..4096, 1..7);
    let equal = (1024u64..4096, 1usize..7).prop_map(|(size, count)| vec![size; count]);
    (kind, prop_oneof![unequal, equal]).prop_map(|(kind, sizes)| layout(kind, &sizes))
}

fn any_layout() -> impl Strategy<Value = Layout> {
    let kind = prop_oneof![
        Just(LayoutKind::Linear),
        (9u32..=30).prop_map(|shift| LayoutKind::Striped { stripe_bytes: 1 << shift })
    ];
    (kind, prop::collection::vec(GIB..(1 << 50), 1..40)).prop_map(|(kind, sizes)| layout(kind, &sizes))
}

proptest! {
    #[test]
    fn every_volume_byte_has_one_place_and_every_used_place_one_byte(layout in small_layout()) {
        let mut used = 0;
        for extent in 0..layout.extents() {
            for offset in 0..layout.extent_size_bytes(extent).unwrap_or(0) {
                if let Some(volume) = layout.volume_offset(extent, offset) {
                    prop_assert_eq!(layout.locate(volume), Some((extent, offset)));
                    used += 1;
                }
            }
        }
        prop_assert_eq!(used, layout.size_bytes(), "as many used places as bytes: with the above, a bijection");
        for volume in 0..layout.size_bytes() {
            let (extent, offset) = layout.locate(volume).expect("inside");
            prop_assert_eq!(layout.volume_offset(extent, offset), Some(volume));
        }
    }

    #[test]
    fn nothing_is_unused_but_what_is_less_than_a_stripe(layout in small_layout()) {
        for extent in 0..layout.extents() {
            let size = layout.extent_size_bytes(extent).expect("there");
            let whole = match &layout.map {
                Map::Striped(stripes) => size >> stripes.shift << stripes.shift,
                _ => size,
            };
            prop_assert!((0..whole).all(|offset| layout.volume_offset(extent, offset).is_some()));
            prop_assert!((whole..size + 2).all(|offset| layout.volume_offset(extent, offset).is_none()));
        }
    }

    #[test]
    fn a_split_covers_the_request_in_order_and_agrees_with_locate(
        layout in small_layout(), from in 0.0..1.0f64, part in 0.0..=1.0f64,
    ) {
        let offset = (layout.size_bytes() as f64 * from) as u64;
        let len = ((layout.size_bytes() - offset) as f64 * part) as u64;
        let mut at = 0;
        for span in layout.split(offset, len) {
            prop_assert_eq!(span.request_offset_bytes, at);
            prop_assert!(span.len_bytes > 0);
            for i in 0..span.len_bytes {
                prop_assert_eq!(layout.locate(offset + at + i), Some((span.extent, span.extent_offset_bytes + i)));
            }
            at += span.len_bytes;
        }
        prop_assert_eq!(at, len);
    }

    #[test]
    fn what_is_located_whole_is_one_span(layout in small_layout(), from in any::<prop::sample::Index>(), len in 1u64..3000) {
        let offset = from.index(layout.size_bytes() as usize + 2) as u64;
        let spans: Vec<Span> = layout.split(offset, len).collect();
        let whole = match &spans[..] {
            [span] if span.len_bytes == len => Some((span.extent, span.extent_offset_bytes)),
            _ => None,
        };
        prop_assert_eq!(layout.locate_whole(offset, len), whole);
    }

    #[test]
    fn large_volumes_invert_too(layout in any_layout(), from in any::<u64>(), len in 0u64..(8 * MIB)) {
        let offset = from % layout.size_bytes();
        let (extent, extent_offset) = layout.locate(offset).expect("inside");
        prop_assert!(extent_offset < layout.extent_size_bytes(extent).expect("there"));
        prop_assert_eq!(layout.volume_offset(extent, extent_offset), Some(offset));
        let expected = len.min(layout.size_bytes() - offset);
        prop_assert_eq!(layout.split(offset, len).map(|span| span.len_bytes).sum::<u64>(), expected);
    }

    #[test]
    fn no_address_makes_it_panic(layout in any_layout(), offset in any::<u64>(), len in any::<u64>(), extent in any::<u32>()) {
        prop_assert_eq!(layout.locate(offset).is_some(), offset < layout.size_bytes());
        let _ = layout.volume_offset(extent, offset);
        let _ = layout.extent_size_bytes(extent);
        for span in layout.split(offset, len).take(3) {
            prop_assert!(span.extent_offset_bytes + span.len_bytes <= layout.extent_size_bytes(span.extent).expect("there"));
        }
    }
}

#[test]
fn linear_addresses_belong_to_nodes_as_in_p1() {
    let gb = 1_000_000_000;
    for sizes in [vec![10 * gb; 8], vec![10 * gb, 10 * gb, 10 * gb, 7 * gb]] {
        let layout = layout(LayoutKind::Linear, &sizes);
        assert_eq!(layout.locate(20 * gb - 1), Some((1, 10 * gb - 1)));
        assert_eq!(layout.locate(20 * gb), Some((2, 0)), "the third node");
        assert_eq!(layout.locate(30 * gb - 1), Some((2, 10 * gb - 1)));
        assert_eq!(layout.locate(30 * gb), Some((3, 0)));
        let spans: Vec<Span> = layout.split(20 * gb - 1, 2).collect();
        assert_eq!(
            spans,
            [
                Span { extent: 1, extent_offset_bytes: 10 * gb - 1, len_bytes: 1, request_offset_bytes: 0 },
                Span { extent: 2, extent_offset_bytes: 0, len_bytes: 1, request_offset_bytes: 1 },
            ]
        );
    }
}

#[test]
fn stripes_lie_as_drawn() {
    let layout = layout(STRIPED_512, &[512 * 3 + 256, 512 * 5, 512 * 2]);
    assert_eq!(layout.size_bytes(), 10 * 512);
    let drawn = [(1, 0), (0, 0), (2, 0), (1, 1), (0, 1), (2, 1), (1, 2), (0, 2), (1, 3), (1, 4)];
    for (stripe, (extent, row)) in drawn.into_iter().enumerate() {
        assert_eq!(layout.locate(stripe as u64 * 512), Some((extent, row * 512)), "stripe {stripe}");
    }
    assert_eq!(layout.volume_offset(0, 512 * 3), None, "what is less than a stripe");
    assert_eq!(layout.split(0, layout.size_bytes()).count(), 9, "the last two stripes are one span");
}

#[test]
fn stripes_over_equal_extents_go_round_in_order() {
    let layout = layout(LayoutKind::Striped { stripe_bytes: 64 * KIB }, &[MIB; 4]);
    assert_eq!(layout.size_bytes(), 4 * MIB);
    let spans: Vec<(u32, u64, u64)> =
        layout.split(0, 320 * KIB).map(|s| (s.extent, s.extent_offset_bytes, s.len_bytes)).collect();
    let stripe = 64 * KIB;
    assert_eq!(spans, [(0, 0, stripe), (1, 0, stripe), (2, 0, stripe), (3, 0, stripe), (0, stripe, stripe)]);
}

#[test]
fn what_lies_beyond_the_end_gives_no_span() {
    for kind in [LayoutKind::Linear, STRIPED_512] {
        let layout = layout(kind, &[1024, 2048]);
        let covered = |offset, len| layout.split(offset, len).map(|s| s.len_bytes).sum::<u64>();
        assert_eq!(covered(3071, 1), 1);
        assert_eq!(covered(3071, 2), 1);
        assert_eq!(covered(3072, 1), 0);
        assert_eq!(covered(u64::MAX, u64::MAX), 0);
        assert_eq!(covered(0, u64::MAX), 3072);
        assert_eq!(covered(5, 0), 0);
        assert_eq!(layout.locate(3072), None);
        assert_eq!(layout.volume_offset(2, 0), None);
        assert_eq!(layout.extent_size_bytes(2), None);
    }
}

#[test]
fn the_number_of_extents_is_limited() {
    for kind in [LayoutKind::Linear, STRIPED_512] {
        assert_eq!(Layout::new(kind, &[]).err(), Some(LayoutError::NoExtents));
        assert_eq!(layout(kind, &[512]).extents(), 1);
        assert_eq!(layout(kind, &[512; EXTENTS_MAX]).extents(), 4096);
        let count = EXTENTS_MAX + 1;
        assert_eq!(Layout::new(kind, &vec![512; count]).err(), Some(LayoutError::TooManyExtents(count)));
    }
    let stairs: Vec<u64> = (1..=EXTENTS_MAX as u64).map(|i| i * 512).collect();
    let layout = layout(STRIPED_512, &stairs);
    assert_eq!(layout.size_bytes(), stairs.iter().sum());
    assert_eq!(layout.locate(layout.size_bytes() - 1), Some((4095, 4096 * 512 - 1)));
}

#[test]
fn sizes_are_limited() {
    let (linear, half) = (LayoutKind::Linear, VOLUME_BYTES_MAX / 2);
    assert_eq!(Layout::new(linear, &[1, 0]).err(), Some(LayoutError::EmptyExtent(1)));
    assert_eq!(layout(linear, &[1]).size_bytes(), 1);
    assert_eq!(layout(linear, &[half, half]).size_bytes(), VOLUME_BYTES_MAX - 1);
    assert_eq!(layout(linear, &[half, half + 1]).size_bytes(), VOLUME_BYTES_MAX);
    assert_eq!(Layout::new(linear, &[half + 1, half + 1]).err(), Some(LayoutError::TooLarge));
    assert_eq!(Layout::new(linear, &[u64::MAX, u64::MAX]).err(), Some(LayoutError::TooLarge), "sum overflows");
    let striped = layout(LayoutKind::Striped { stripe_bytes: GIB }, &[VOLUME_BYTES_MAX]);
    assert_eq!(striped.size_bytes(), VOLUME_BYTES_MAX / GIB * GIB);
}

#[test]
fn stripes_are_limited() {
    let new = |stripe_bytes, size| Layout::new(LayoutKind::Striped { stripe_bytes }, &[4 * GIB, size]);
    for stripe_bytes in [0, 1, 256, 511, 513, 768, GIB - 1, GIB + 1, 2 * GIB, u64::MAX] {
        assert_eq!(new(stripe_bytes, 4 * GIB).err(), Some(LayoutError::StripeBytes(stripe_bytes)));
    }
    for stripe_bytes in [512, 1024, GIB / 2, GIB] {
        assert!(new(stripe_bytes, stripe_bytes).is_ok(), "an extent of one stripe");
        let size_bytes = stripe_bytes - 1;
        assert_eq!(
            new(stripe_bytes, size_bytes).err(),
            Some(LayoutError::ExtentBelowStripe { extent: 1, size_bytes, stripe_bytes })
        );
    }
}

#[test]
fn the_text_that_nodes_remember_is_stable() {
    assert_eq!(LayoutKind::Linear.to_string(), "linear");
    assert_eq!(LayoutKind::Striped { stripe_bytes: 65536 }.to_string(), "striped:65536");
}
