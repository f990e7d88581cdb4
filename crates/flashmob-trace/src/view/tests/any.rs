//! Arbitrary timelines: totals do not panic and count everything once, and an excerpt can be read back.

use flashmob_results::trace::{Cause, File, Layer, Operation, Role, Span, Thread, Timeline};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::*;

/// Times that coincide, and times at the limits of the range.
fn time() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..40_u64, 0..40_u64, any::<u64>(), Just(u64::MAX)]
}

fn index() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![0..3_u32, 0..3_u32, any::<u32>()]
}

fn span() -> impl Strategy<Value = Span> {
    let what = (select(Layer::ALL.to_vec()), index(), index(), proptest::option::of(index()));
    let amount = (proptest::option::of(any::<u64>()), prop_oneof![Just(0), any::<u64>()]);
    let cause = select(vec![Cause::Direct, Cause::Waited, Cause::Unknown]);
    (what, time(), time(), amount, proptest::option::of(0..5_u64), cause).prop_map(
        |((layer, name, thread, file), begin_ns, end_ns, (address_bytes, bytes), operation, cause)| Span {
            layer,
            name,
            thread,
            begin_ns,
            end_ns,
            file,
            address_bytes,
            bytes,
            operation,
            cause,
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    let layers = vec((select(Layer::ALL.to_vec()), any::<u64>()), 0..4);
    (0..4_u64, index(), index(), time(), time(), layers, any::<u64>()).prop_map(
        |(number, name, thread, begin_ns, end_ns, layers_ns, unattributed_ns)| Operation {
            number,
            name,
            thread,
            begin_ns,
            end_ns,
            layers_ns,
            unattributed_ns,
        },
    )
}

/// Invalid indices, ends before begins, duplicate numbers, any order.
pub fn timeline() -> impl Strategy<Value = Timeline> {
    (vec(any::<String>(), 0..3), vec(any::<String>(), 0..3), vec(operation(), 0..5), vec(span(), 0..30)).prop_map(
        |(names, files, operations, spans)| Timeline {
            threads: names
                .iter()
                .map(|name| Thread { name: name.clone(), id: 1, place: name.clone(), clock_error_ns: None })
                .collect(),
            names,
            files: files.into_iter().map(|name| File { name, role: Role::Journal }).collect(),
            operations,
            spans,
        },
    )
}

/// The same, in a form that satisfies the contract.
pub fn sound() -> impl Strategy<Value = Timeline> {
    timeline().prop_map(|mut timeline| {
        let (names, files) = (timeline.names.len() as u32, timeline.files.len() as u32);
        if names == 0 {
            return Timeline::default();
        }
        for (number, operation) in (0..).zip(&mut timeline.operations) {
            operation.number = number;
            (operation.name, operation.thread) = (operation.name % names, operation.thread % names);
            operation.end_ns = operation.end_ns.max(operation.begin_ns);
        }
        for span in &mut timeline.spans {
            (span.name, span.thread) = (span.name % names, span.thread % names);
            span.file = span.file.filter(|_| files > 0).map(|file| file % files);
            span.end_ns = span.end_ns.max(span.begin_ns);
        }
        timeline.spans.sort_by_key(|span| (span.begin_ns, std::cmp::Reverse(span.end_ns), span.layer));
        timeline
    })
}

proptest! {
    #[test]
    fn no_timeline_makes_it_panic(timeline in timeline(), wanted in vec(0..4_u64, 0..3)) {
        let _ = (operations(&timeline, "x"), layers(&timeline), handovers(&timeline), files(&timeline), commands(&timeline));
        let _ = excerpt(&timeline, &wanted, &wanted);
        let _ = neighbours(&timeline, 80_000_000, 3);
    }

    #[test]
    fn sound_ones_are_counted_once_and_their_excerpts_are_sound(timeline in sound(), wanted in vec(0..6_u64, 0..4)) {
        timeline.check().unwrap();
        let totals = layers(&timeline);
        prop_assert_eq!(totals.iter().map(|total| total.spans).sum::<u64>(), timeline.spans.len() as u64);
        let longest = |total: u64, operation: &Operation| total.saturating_add(operation.end_ns - operation.begin_ns);
        let all_ns = timeline.operations.iter().fold(0, longest);
        prop_assert!(totals.iter().all(|total| total.inclusive_ns <= all_ns));
        prop_assert!(handovers(&timeline).iter().all(|h| h.longest_ns <= h.total_ns && h.from != h.to));
        let handed_ns = handovers(&timeline).iter().fold(0_u64, |sum, h| sum.saturating_add(h.total_ns));
        prop_assert!(handed_ns <= all_ns, "more was handed over than there is time: {} of {}", handed_ns, all_ns);
        let part = excerpt(&timeline, &wanted[..wanted.len() / 2], &wanted[wanted.len() / 2..]);
        prop_assert_eq!(part.check(), Ok(()));
        prop_assert!(part.operations.iter().all(|operation| wanted.contains(&operation.number)));
    }
}
