//! Totals agree with the timeline, and accept any timeline.

pub mod any;
mod document;
pub mod sample;

use flashmob_results::disk::Operation as Direction;
use flashmob_results::trace::{Cause, File, Layer, Operation, Role, Span, Thread, Timeline, Workload};

use super::layers::place;
use super::*;
use sample::{Mode, inserts};

/// One operation from 0 to 100 with these spans: layer, begin and end.
fn operation(spans: &[(Layer, u64, u64)]) -> Timeline {
    let span = |(layer, begin_ns, end_ns)| Span {
        layer,
        name: 0,
        thread: 0,
        begin_ns,
        end_ns,
        file: None,
        address_bytes: None,
        bytes: 0,
        operation: Some(7),
        cause: Cause::Direct,
    };
    let thread = Thread { name: "t".into(), id: 1, place: "this device".into(), clock_error_ns: None };
    Timeline {
        names: vec!["work".into()],
        files: vec![File { name: "f".into(), role: Role::Other }],
        threads: vec![thread],
        operations: vec![Operation {
            number: 7,
            name: 0,
            thread: 0,
            begin_ns: 0,
            end_ns: 100,
            layers_ns: vec![(Layer::SystemCall, 90)],
            unattributed_ns: 10,
        }],
        spans: spans.iter().copied().map(span).collect(),
    }
}

fn told(timeline: &Timeline) -> Vec<(Layer, Layer, u64, u64)> {
    handovers(timeline).iter().map(|h| (h.from, h.to, h.count, h.total_ns)).collect()
}

#[test]
fn layers_stand_in_the_order_of_all() {
    assert!(Layer::ALL.iter().enumerate().all(|(at, layer)| place(*layer) == at));
}

#[test]
fn operations_have_their_rate_and_times() {
    let timeline = inserts(Mode::Delete, 10_000);
    let all = operations(&timeline, "insert");
    assert_eq!((all.count, all.latency_ns.count, all.unattributed_ns), (10_000, 10_000, 0));
    assert_eq!((all.begins_s.len(), all.durations_ms.len(), all.begins_s[0]), (4_096, 4_096, 0.0));
    assert!(all.begins_s.is_sorted() && all.begins_s[4_095] > all.begins_s[4_094]);
    let (first, last) = (&timeline.operations[0], &timeline.operations[9_999]);
    let elapsed_s = (last.end_ns - first.begin_ns) as f64 / 1e9;
    assert!((all.per_second * elapsed_s - 10_000.0).abs() < 1e-6, "{}", all.per_second);
    assert_eq!(all.durations_ms[0], (first.end_ns - first.begin_ns) as f64 / 1e6);
}

#[test]
fn work_of_layers_is_counted_once_and_as_far_as_it_lies_within() {
    use Layer::{Driver, SystemCall};
    // Two overlapping commands, one that ends after the operation, and an unattributed one.
    let mut timeline = operation(&[(SystemCall, 0, 95), (Driver, 10, 30), (Driver, 20, 40), (Driver, 90, 130)]);
    timeline.spans[3].operation = Some(7);
    timeline.spans.push(Span { operation: None, bytes: 5, ..timeline.spans[1] });
    let totals = layers(&timeline);
    let of = |layer| totals.iter().find(|total| total.layer == layer).unwrap();
    assert_eq!((of(Driver).inclusive_ns, of(Driver).spans, of(Driver).unowned_spans), (30 + 10, 4, 1));
    assert_eq!((of(SystemCall).inclusive_ns, of(SystemCall).time_ns, of(Driver).bytes), (95, 90, 5));
    assert_eq!(totals.len(), 2, "layers that did nothing are left out");
}

#[test]
fn layers_time_and_what_is_nobodys_add_up_to_the_operations() {
    let timeline = inserts(Mode::Delete, 20);
    let all = operations(&timeline, "insert");
    let attributed: u64 = layers(&timeline).iter().map(|total| total.time_ns).sum();
    assert_eq!(attributed + all.unattributed_ns, all.total_ns);
    assert!(layers(&timeline).iter().all(|total| total.inclusive_ns >= total.time_ns));
}

#[test]
fn handovers_lie_between_events_of_two_layers() {
    use Layer::{Block, Driver, FileSystem, PageCache, SystemCall};
    let down_and_up =
        operation(&[(SystemCall, 0, 100), (FileSystem, 7, 90), (Block, 20, 30), (Driver, 30, 70), (PageCache, 80, 80)]);
    assert_eq!(
        told(&down_and_up),
        [
            (SystemCall, FileSystem, 1, 7),
            (FileSystem, SystemCall, 1, 10),
            (FileSystem, Block, 1, 13),
            (PageCache, FileSystem, 1, 10),
            (Block, Driver, 1, 0),
            (Driver, PageCache, 1, 10),
        ]
    );
    let within_one = operation(&[(SystemCall, 0, 10), (SystemCall, 20, 30)]);
    assert!(told(&within_one).is_empty(), "the same layer hands over to nobody");
    let beyond = operation(&[(SystemCall, 50, 200), (Driver, 150, 160)]);
    assert!(told(&beyond).is_empty(), "what happens behind the end is not waited for");
}

#[test]
fn handovers_and_work_add_up_to_the_time_between_first_and_last_event() {
    let timeline = inserts(Mode::Delete, 1);
    let handed_ns: u64 = handovers(&timeline).iter().map(|h| h.total_ns).sum();
    let own = timeline.spans.iter().filter(|span| span.operation == Some(0));
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for span in own {
        events.push((span.begin_ns, true, place(span.layer)));
        if span.end_ns > span.begin_ns {
            events.push((span.end_ns, false, 11 - place(span.layer)));
        }
    }
    events.sort_unstable();
    let layer = |event: (u64, bool, usize)| if event.1 { event.2 } else { 11 - event.2 };
    let same = events.windows(2).filter(|pair| layer(pair[0]) == layer(pair[1]));
    let worked_ns: u64 = same.map(|pair| pair[1].0 - pair[0].0).sum();
    assert_eq!(handed_ns + worked_ns, timeline.operations[0].end_ns - timeline.operations[0].begin_ns);
    assert!(handed_ns > 0 && worked_ns > 0);
}

#[test]
fn files_are_counted_by_name_layer_and_work() {
    let totals = files(&inserts(Mode::Delete, 100));
    let row = |role, layer, work| {
        let found: Vec<_> =
            totals.iter().filter(|t| (t.role, t.layer, t.work.as_str()) == (role, layer, work)).collect();
        assert_eq!(found.len(), 1, "{role:?} {layer:?} {work}: {found:?}");
        (found[0].count, found[0].bytes)
    };
    assert_eq!(row(Role::Journal, Layer::SystemCall, "pwrite64"), (400, 400 * 4_096));
    assert_eq!(row(Role::Database, Layer::SystemCall, "fdatasync"), (100, 0));
    assert_eq!(row(Role::FilesystemJournal, Layer::Driver, "write"), (800, 800 * 4_096));
    assert_eq!(row(Role::Flush, Layer::Driver, "flush"), (200, 0));
    assert!(totals.is_sorted_by_key(|t| (t.role, t.file.clone(), t.layer, t.work.clone())));
}

#[test]
fn files_of_one_name_are_one_and_too_many_share_a_row() {
    let mut timeline = operation(&[(Layer::SystemCall, 0, 1); 1_200]);
    for (at, span) in timeline.spans.iter_mut().enumerate() {
        (span.file, span.end_ns) = (Some(at as u32), 1 + at as u64);
    }
    // 1,100 files with different names, and 100 that share one.
    timeline.files =
        (0..1_200_usize).map(|at| File { name: format!("file {}", at.min(1_100)), role: Role::Journal }).collect();
    let totals = files(&timeline);
    let count = |name: &str| totals.iter().find(|t| t.file == name).map(|t| t.count);
    assert_eq!((count("file 1100"), count("other files"), totals.len()), (Some(100), Some(601), 501));
    assert_eq!(totals.iter().map(|t| t.count).sum::<u64>(), 1_200);
}

#[test]
fn what_has_no_file_is_told_where_layers_work_on_files() {
    let totals = files(&operation(&[(Layer::Sqlite, 0, 9), (Layer::SystemCall, 1, 8), (Layer::Driver, 2, 5)]));
    let told: Vec<_> = totals.iter().map(|t| (t.role, t.file.as_str(), t.layer, t.time_ns)).collect();
    assert_eq!(told, [(Role::Unknown, "unknown", Layer::Driver, 3)]);
}

#[test]
fn commands_have_steps_from_the_end_of_the_one_before() {
    let mut timeline = operation(&[
        (Layer::Driver, 0, 30_000),
        (Layer::Driver, 10_000, 40_000),
        (Layer::Driver, 40_000, 50_000),
        (Layer::Driver, 60_000, 61_000),
    ]);
    timeline.names = vec!["read".into(), "FWFS".into(), "flush".into()];
    for (span, (name, address, bytes)) in
        timeline.spans.iter_mut().zip([(0, 8_192, 4_096), (1, 12_288, 4_096), (1, 0, 512), (2, 0, 0)])
    {
        (span.name, span.address_bytes, span.bytes) = (name, Some(address), bytes);
    }
    let all = commands(&timeline).unwrap();
    let steps: Vec<_> = all.list.iter().map(|c| (c.step_bytes, c.outstanding, c.service_us)).collect();
    assert_eq!(steps, [(None, 1, 30.0), (Some(0), 2, 30.0), (Some(-16_384), 1, 10.0)], "a flush is no step");
    assert_eq!(
        all.list.iter().map(|c| c.direction).collect::<Vec<_>>(),
        [Direction::Read, Direction::Write, Direction::Write]
    );
    assert_eq!((all.count, all.forward.unwrap().count, all.backward.unwrap().p50_us), (3, 1, 10.0));
    assert_eq!(commands(&operation(&[(Layer::Driver, 0, 1)])), None, "nothing has an address");
}

#[test]
fn devices_have_steps_of_their_own() {
    let mut timeline = operation(&[(Layer::Driver, 0, 10), (Layer::Driver, 20, 30), (Layer::Driver, 40, 50)]);
    timeline.threads.push(Thread { place: "node 3".into(), ..timeline.threads[0].clone() });
    for (span, (thread, address)) in timeline.spans.iter_mut().zip([(0, 0), (1, 1 << 30), (0, 512)]) {
        (span.thread, span.address_bytes, span.bytes) = (thread, Some(address), 512);
    }
    let steps: Vec<_> = commands(&timeline).unwrap().list.iter().map(|c| c.step_bytes).collect();
    assert_eq!(steps, [None, None, Some(0)]);
}

#[test]
fn an_excerpt_stands_alone() {
    let timeline = inserts(Mode::Delete, 12);
    let part = excerpt(&timeline, &[3, 4, 99], &[]);
    part.check().unwrap();
    assert_eq!(part.operations.iter().map(|o| o.number).collect::<Vec<_>>(), [3, 4]);
    let own = |timeline: &Timeline, number| timeline.spans.iter().filter(|s| s.operation == Some(number)).count();
    assert_eq!((own(&part, 3), own(&part, 4)), (own(&timeline, 3), own(&timeline, 4)));
    assert_eq!(part.operations[0].layers_ns, timeline.operations[3].layers_ns);
    let names = |timeline: &Timeline| -> Vec<String> {
        let own = timeline.spans.iter().filter(|span| span.operation == Some(3));
        own.map(|s| format!("{} {:?}", timeline.name(s.name), s.file.map(|f| &timeline.files[f as usize].name)))
            .collect()
    };
    assert_eq!(names(&part), names(&timeline));
    assert!(part.spans.is_sorted_by_key(|span| span.begin_ns));
    // Names that do not occur are dropped: the unattributed write was before these operations.
    assert!(!part.names.iter().any(|name| name == "writeback") && part.operations.len() == 2);
}

#[test]
fn an_excerpt_has_what_was_done_for_nobody_meanwhile() {
    let mut timeline = operation(&[(Layer::SystemCall, 10, 20), (Layer::Block, 50, 300), (Layer::Block, 101, 300)]);
    timeline.spans[1].operation = None;
    timeline.spans[2].operation = None;
    assert_eq!(excerpt(&timeline, &[7], &[]).spans.len(), 2, "what began behind the end is left out");
    assert_eq!(excerpt(&timeline, &[], &[]), Timeline::default());
}

#[test]
fn an_excerpt_has_an_end() {
    let mut timeline = operation(&[(Layer::SystemCall, 10, 20); 15_000]);
    let second = Operation { number: 8, ..timeline.operations[0].clone() };
    timeline.operations.push(second);
    let others: Vec<Span> = timeline.spans.iter().map(|span| Span { operation: Some(8), ..*span }).collect();
    timeline.spans.extend(others);
    let part = excerpt(&timeline, &[7, 8], &[]);
    assert_eq!((part.operations.len(), part.spans.len()), (1, 15_000));
    let part = excerpt(&timeline, &[8], &[7]);
    assert_eq!((part.operations.len(), part.spans.len()), (2, 30_000), "neighbours have room of their own");
}

#[test]
fn neighbours_follow_each_other_from_the_middle_and_keep_what_lies_between_them() {
    let timeline = inserts(Mode::Delete, 12);
    let (all, of) = (&timeline.operations, |time_ns, most| neighbours(&timeline, time_ns, most));
    assert_eq!(of(0, 99), Vec::<u64>::new());
    assert_eq!(of(u64::MAX, 99), (0..12).collect::<Vec<u64>>());
    assert_eq!(of(u64::MAX, 3), [0, 1, 2]);
    let few = of(all[8].begin_ns - all[6].begin_ns + 1, 99);
    assert_eq!(few, [6, 7, 8]);
    let mut between = timeline.clone();
    let span = Span { operation: None, begin_ns: all[6].end_ns, end_ns: all[6].end_ns, ..between.spans[0] };
    between.spans.push(span);
    between.spans.sort_by_key(|span| span.begin_ns);
    let unattributed = |timeline: &Timeline| timeline.spans.iter().filter(|span| span.operation.is_none()).count();
    let (with, without) = (excerpt(&between, &[], &few), excerpt(&timeline, &[], &few));
    assert_eq!(unattributed(&with), unattributed(&without) + 1);
}

fn parts() -> RunParts {
    RunParts {
        name: "DELETE, FULL".into(),
        workload: Workload::Command { command: vec!["true".into()], status: Some(0) },
        system: System::default(),
        sources: Vec::new(),
        losses: Losses::default(),
        overhead: None,
        elapsed_s: 1.0,
        operation: "insert".into(),
        warnings: Vec::new(),
    }
}

#[test]
fn a_run_says_what_is_doubtful() {
    let timeline = inserts(Mode::Wal, 5);
    let clean = run(&timeline, parts(), &[0], &[]);
    assert!(clean.warnings.is_empty() && clean.timeline.operations.len() == 1, "{:?}", clean.warnings);
    assert!(clean.commands.is_some() && clean.operations.count == 5);
    let losses = Losses { events: 10, lost: 3, unreadable_bytes: 0, buffer_bytes: 1 << 20 };
    let mut hollow = timeline.clone();
    hollow.operations[0].unattributed_ns = hollow.operations[0].end_ns - hollow.operations[0].begin_ns;
    let doubtful = run(&hollow, RunParts { losses, ..parts() }, &[], &[]);
    let said: String = doubtful.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(said.contains("3 events were lost") && said.contains("1 MiB") && said.contains("unattributed"), "{said}");
}
