//! The table of what is resident, without files and clocks.

use super::super::residency::*;
use super::*;
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn table(size_bytes: u64) -> Residency {
    let table = Residency::new(size_bytes, PAGE as usize);
    at_ms(&table, 1000);
    table
}

fn at_ms(table: &Residency, ms: u64) {
    table.tick(Time(ms << 20));
}

/// Answers for a region; `is_there` tells for each page of it.
fn answer(table: &Residency, region: u64, is_there: impl Fn(usize) -> bool) -> usize {
    let mut pages = vec![0; table.pages_per_region()];
    table.renew(region, &mut pages, |pages| {
        // The upper bits of mincore's bytes mean nothing.
        pages.iter_mut().enumerate().for_each(|(i, page)| *page = 0xFE | u8::from(is_there(i)));
        true
    })
}

#[test]
fn what_nobody_has_asked_about_is_unknown() {
    let table = table(10 * REGION_BYTES);
    assert_eq!(table.look(0, 1), Look::Unknown);
    answer(&table, 3, |_| true);
    assert_eq!(table.look(3 * REGION_BYTES, REGION_BYTES), Look::Resident);
    assert_eq!(table.look(3 * REGION_BYTES - 1, 2), Look::Unknown);
    assert_eq!(table.look(4 * REGION_BYTES - 1, 2), Look::Unknown);
}

#[test]
fn an_answer_holds_for_its_time_and_not_a_tick_longer() {
    let table = table(REGION_BYTES);
    answer(&table, 0, |_| true);
    at_ms(&table, 1000 + u64::from(VALID_TICKS) - 1);
    assert_eq!(table.look(0, 1), Look::Resident);
    at_ms(&table, 1000 + u64::from(VALID_TICKS));
    assert_eq!(table.look(0, 1), Look::Unknown, "served once: not worth asking again");
    answer(&table, 0, |_| true);
    for _ in 0..READS_BEFORE_RENEWING {
        assert_eq!(table.look(0, 1), Look::Resident);
    }
    at_ms(&table, 1000 + 5 * u64::from(VALID_TICKS));
    assert_eq!(table.look(0, 1), Look::Ask(0));
    at_ms(&table, 1000 + (1 << 29));
    assert_eq!(table.look(0, 1), Look::Ask(0), "days later as well");
}

#[test]
fn pages_that_vanish_make_it_wary_for_a_while() {
    let table = table(2 * REGION_BYTES);
    assert_eq!(answer(&table, 0, |_| true), 0);
    assert_eq!(answer(&table, 0, |page| page != 7), 1);
    at_ms(&table, 1000 + u64::from(VALID_TICKS_WARY));
    assert_eq!(table.look(0, 1), Look::Unknown);
    answer(&table, 1, |_| true);
    at_ms(&table, 1000 + 2 * u64::from(VALID_TICKS_WARY));
    assert_eq!(table.look(REGION_BYTES, 1), Look::Unknown, "other regions are doubted too");
    let later = 1000 + u64::from(WARY_TICKS);
    at_ms(&table, later);
    answer(&table, 1, |_| true);
    at_ms(&table, later + u64::from(VALID_TICKS) - 1);
    assert_eq!(table.look(REGION_BYTES, 1), Look::Resident);
}

#[test]
fn a_page_that_came_by_system_call_is_believed_without_asking() {
    let table = table(REGION_BYTES);
    answer(&table, 0, |page| page != 5);
    assert_eq!(table.look(5 * PAGE, 1), Look::Unknown);
    assert_eq!(table.note(5 * PAGE, 1, true), None);
    assert_eq!(table.look(4 * PAGE, 3 * PAGE), Look::Resident);
    assert_eq!(answer(&table, 0, |page| page != 5), 1, "and missed when it is gone");
}

#[test]
fn reads_of_which_nothing_is_known_make_nothing_believed_and_are_a_reason_to_ask_again() {
    let table = table(REGION_BYTES);
    answer(&table, 0, |page| page != 5);
    for _ in 1..HITS_BEFORE_ASKING {
        assert_eq!(table.note(5 * PAGE, 1, false), None);
        assert_eq!(table.look(5 * PAGE, 1), Look::Unknown);
    }
    assert_eq!(table.note(5 * PAGE, 1, false), Some(0));
}

#[test]
fn reads_are_counted_for_the_region_that_has_the_place() {
    // Regions that share a place: more of them than the table has.
    let table = table(1 << 40);
    let far = 1u64 << 38;
    for n in 1..HITS_BEFORE_ASKING {
        assert_eq!(table.note(0, 1, true), None, "{n}");
    }
    assert_eq!(table.note(far, 1, true), None, "another region takes the place");
    for n in 1..HITS_BEFORE_ASKING {
        assert_eq!(table.note(0, 1, true), None, "counted anew: {n}");
    }
    assert_eq!(table.note(0, 1, true), Some(0));
    answer(&table, 0, |_| true);
    assert_eq!(table.look(far, 1), Look::Unknown, "an answer is not taken for its neighbour's");
}

#[test]
fn what_is_punched_out_while_the_kernel_is_asked_is_not_believed() {
    let table = table(REGION_BYTES);
    let mut pages = vec![0; table.pages_per_region()];
    table.renew(0, &mut pages, |pages| {
        pages.fill(1);
        table.forget(4096, 4096);
        true
    });
    assert_eq!(table.look(0, 1), Look::Unknown);
    answer(&table, 0, |_| true);
    table.forget(4096, 0);
    assert_eq!(table.look(0, 1), Look::Resident);
    table.forget(REGION_BYTES - 1, 1);
    assert_eq!(table.look(0, 1), Look::Unknown);
    answer(&table, 0, |_| true);
    table.clear();
    assert_eq!(table.look(0, 1), Look::Unknown);
}

#[test]
fn a_kernel_that_does_not_answer_leaves_nothing_known() {
    let table = table(REGION_BYTES);
    answer(&table, 0, |_| true);
    table.renew(0, &mut [0; 512], |_| false);
    assert_eq!(table.look(0, 1), Look::Unknown);
}

#[test]
fn with_checksums_a_page_counts_once_it_was_verified_until_it_is_seen_absent() {
    let table = table(2 * REGION_BYTES);
    answer(&table, 0, |_| true);
    table.verify_from_now_on();
    assert_eq!(table.look(0, 1), Look::Unknown, "what was known before is not verified");
    answer(&table, 0, |_| true);
    assert_eq!(table.look(0, 1), Look::Unknown, "there, and not verified");
    assert_eq!(table.note(5 * PAGE + 7, 1, true), None);
    table.note_verified(6 * PAGE + 1, 2 * PAGE - 1);
    let verified = |first: u64, count: u64| table.look(first * PAGE, count * PAGE) == Look::Resident;
    assert!(verified(5, 3) && !verified(4, 2) && !verified(7, 2));
    // A look keeps what is still there.
    at_ms(&table, 1000 + u64::from(VALID_TICKS));
    assert_eq!(answer(&table, 0, |_| true), 0);
    assert!(verified(5, 3) && !verified(4, 2));
    // A page that was absent and is back has to be verified again.
    assert_eq!(answer(&table, 0, |page| page != 6), 1);
    assert_eq!(answer(&table, 0, |_| true), 0);
    assert!(verified(5, 1) && !verified(6, 1) && verified(7, 1));
    // Who did not look for long does not know whether it was absent.
    at_ms(&table, 1000 + 2 * u64::from(VALID_TICKS) + u64::from(VALID_TICKS_WARY) - 1);
    answer(&table, 0, |_| true);
    assert!(verified(5, 1), "just in time");
    at_ms(&table, 1000 + 10 * u64::from(VALID_TICKS));
    answer(&table, 0, |_| true);
    assert!(!verified(5, 1));
    table.note_verified(0, REGION_BYTES);
    assert!(verified(0, REGION_BYTES / PAGE));
    // Where nothing is known, nothing is noted.
    table.note_verified(REGION_BYTES - PAGE, 2 * PAGE);
    answer(&table, 1, |_| true);
    assert_eq!(table.look(REGION_BYTES, 1), Look::Unknown);
    table.note_verified(REGION_BYTES - PAGE, 2 * PAGE);
    assert_eq!(table.look(REGION_BYTES - PAGE, 2 * PAGE), Look::Resident);
}

#[test]
fn what_was_verified_is_verified_again_after_a_while_though_it_was_always_there() {
    let table = table(4 * REGION_BYTES);
    table.verify_from_now_on();
    let mut forgotten = [const { Vec::new() }; 4];
    for tick in (0..=2u64 << TRUST_SHIFT).step_by(512) {
        at_ms(&table, 1000 + tick);
        for (region, forgotten) in (0..).zip(&mut forgotten) {
            answer(&table, region, |_| true);
            if table.look(region * REGION_BYTES, 1) != Look::Resident {
                table.note_verified(region * REGION_BYTES, PAGE);
                assert_eq!(table.look(region * REGION_BYTES, 1), Look::Resident);
                forgotten.push(tick);
            }
        }
    }
    for ticks in &forgotten {
        let [0, first, second] = ticks[..] else { panic!("at first, and twice: {ticks:?}") };
        assert_eq!(second - first, 1 << TRUST_SHIFT);
    }
    assert!(
        forgotten.iter().all(|other| std::ptr::eq(other, &forgotten[0]) || other[1] != forgotten[0][1]),
        "{forgotten:?}"
    );
    // Without checksums nothing is.
    let table = self::table(REGION_BYTES);
    for tick in (0..=2u64 << TRUST_SHIFT).step_by(512) {
        at_ms(&table, 1000 + tick);
        answer(&table, 0, |_| true);
        assert_eq!(table.look(0, REGION_BYTES), Look::Resident);
    }
}

#[test]
fn a_page_of_many_blocks_counts_when_all_of_them_were_verified() {
    let table = Residency::new(REGION_BYTES, 4 * PAGE as usize);
    at_ms(&table, 1000);
    table.verify_from_now_on();
    answer(&table, 0, |_| true);
    for (first, count) in [(4, 3), (5, 3), (3, 4), (7, 4)] {
        table.note_verified(first * PAGE, count * PAGE);
        table.note(first * PAGE, count * PAGE, true);
        assert_eq!(table.look(first * PAGE, 1), Look::Unknown, "{first}+{count}");
    }
    table.note_verified(4 * PAGE + 1, 4 * PAGE - 2);
    assert_eq!(table.look(4 * PAGE, 4 * PAGE), Look::Resident);
    assert_eq!(table.look(8 * PAGE, 1), Look::Unknown);
}

proptest! {
    #[test]
    fn a_read_is_resident_exactly_if_all_of_its_pages_are(
        there in proptest::collection::vec(proptest::bool::weighted(0.95), 3 * 512),
        page_shift in 12u32..=16,
        offset in 0..3 * REGION_BYTES,
        len in 1u64..200_000,
    ) {
        let page = 1u64 << page_shift;
        let table = Residency::new(3 * REGION_BYTES, page as usize);
        at_ms(&table, 1);
        let per_region = table.pages_per_region();
        for region in 0..3 {
            answer(&table, region, |i| there[region as usize * per_region + i]);
        }
        let len = len.min(3 * REGION_BYTES - offset);
        let expected = (offset / page..=(offset + len - 1) / page).all(|i| there[i as usize]);
        prop_assert_eq!(table.look(offset, len) == Look::Resident, expected);
    }
}
