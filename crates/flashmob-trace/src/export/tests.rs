//! Exports are complete: all rows, and slices that nest.

use std::collections::HashMap;

use flashmob_results::trace::{Cause, Layer, Span, Timeline};
use proptest::prelude::*;
use prost::Message;

use super::perfetto::messages::{INSTANT, SLICE_BEGIN, SLICE_END, Trace, TracePacket, Value};
use super::{csv, perfetto};
use crate::view::tests::any::{sound, timeline};
use crate::view::tests::sample::{Mode, inserts};

fn rows(timeline: &Timeline) -> Vec<HashMap<String, String>> {
    let mut text = Vec::new();
    csv::write(timeline, &mut text).unwrap();
    ::csv::Reader::from_reader(text.as_slice()).deserialize().map(Result::unwrap).collect()
}

fn packets(timeline: &Timeline) -> Vec<TracePacket> {
    let mut bytes = Vec::new();
    perfetto::write(timeline, &mut bytes).unwrap();
    Trace::decode(bytes.as_slice()).unwrap().packet
}

/// The path of each track: process, layer, file.
fn paths(packets: &[TracePacket]) -> HashMap<u64, Vec<String>> {
    let mut paths: HashMap<u64, Vec<String>> = HashMap::new();
    for track in packets.iter().filter_map(|packet| packet.track.as_ref()) {
        let mut path = track.parent.map_or(Vec::new(), |parent| paths[&parent].clone());
        path.extend(track.name.clone().or(track.process.as_ref().and_then(|process| process.name.clone())));
        assert!(paths.insert(track.uuid, path).is_none(), "a track is told twice");
    }
    paths
}

/// Slices of each track, begin and end, ordered by begin. Panics if they do not nest.
fn slices(packets: &[TracePacket]) -> HashMap<u64, Vec<(u64, u64)>> {
    let (mut open, mut all) = (HashMap::<u64, Vec<usize>>::new(), HashMap::<u64, Vec<(u64, u64)>>::new());
    for packet in packets {
        let Some(event) = &packet.event else { continue };
        let (track, time_ns) = (event.track.unwrap(), packet.timestamp.unwrap());
        let (slices, open) = (all.entry(track).or_default(), open.entry(track).or_default());
        match event.kind.unwrap() {
            SLICE_BEGIN => {
                open.push(slices.len());
                slices.push((time_ns, u64::MAX));
            }
            SLICE_END => {
                let at = open.pop().expect("an end without a begin");
                assert!(slices[at].0 < time_ns);
                slices[at].1 = time_ns;
            }
            INSTANT => slices.push((time_ns, time_ns)),
            other => panic!("{other} is no kind of event"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "a begin without an end");
    all
}

#[test]
fn every_span_is_a_row() {
    let timeline = inserts(Mode::Delete, 3);
    let rows = rows(&timeline);
    assert_eq!(rows.len(), timeline.spans.len());
    let at = timeline.spans.iter().position(|span| span.layer == Layer::Driver).unwrap();
    let of = |column: &str| rows[at][column].as_str();
    assert_eq!(
        ["operation", "layer", "name", "thread", "place", "file", "role", "address", "bytes", "cause"].map(of),
        [
            "0",
            "driver",
            "write",
            "loop0",
            "this device",
            "/data/test.db-journal",
            "journal",
            "1048576",
            "16384",
            "direct"
        ]
    );
    assert_eq!(of("duration_ns"), "40000");
    assert_eq!(rows[at]["begin_ns"], timeline.spans[at].begin_ns.to_string());
    let unknown = rows.iter().find(|row| row["cause"] == "unknown").unwrap();
    assert_eq!(unknown["operation"], "", "nobody's work belongs to nobody");
}

#[test]
fn each_layer_and_file_has_a_track_with_its_slices() {
    let timeline = inserts(Mode::Delete, 3);
    let packets = packets(&timeline);
    let (paths, slices) = (paths(&packets), slices(&packets));
    let of = |path: &[&str]| {
        let (uuid, _) = paths.iter().find(|(_, names)| *names == path).unwrap_or_else(|| panic!("{path:?}: {paths:?}"));
        slices.get(uuid).map_or(0, Vec::len)
    };
    assert_eq!(of(&["this device", "operations"]), 3);
    assert_eq!(of(&["this device", "SQLite"]), 3, "statements, which have no file");
    assert_eq!(of(&["this device", "system call", "/data/test.db-journal"]), 3 * (4 + 1 + 1 + 1));
    assert_eq!(of(&["this device", "driver", "journal of loop0"]), 3 * 8);
    assert_eq!(of(&["this device", "driver", "flush"]), 3 * 2);
    assert_eq!(slices.values().map(Vec::len).sum::<usize>(), timeline.spans.len() + timeline.operations.len());
}

#[test]
fn files_that_come_and_go_under_one_name_share_a_track() {
    let mut timeline = inserts(Mode::Delete, 2);
    timeline.files.push(timeline.files[1].clone());
    let (second, again) = (timeline.operations[1].number, timeline.files.len() as u32 - 1);
    let journal = timeline.spans.iter_mut().filter(|span| span.file == Some(1) && span.operation == Some(second));
    journal.for_each(|span| span.file = Some(again));
    let packets = packets(&timeline);
    let (paths, slices) = (paths(&packets), slices(&packets));
    let calls =
        paths.iter().filter(|(_, path)| path.ends_with(&["system call".into(), "/data/test.db-journal".into()]));
    assert_eq!(calls.map(|(uuid, _)| slices[uuid].len()).collect::<Vec<_>>(), [2 * 7]);
}

#[test]
fn names_and_notes_are_told_once_and_used() {
    let timeline = inserts(Mode::Delete, 1);
    let packets = packets(&timeline);
    let names = packets[0].names.as_ref().unwrap();
    let event = packets.iter().filter_map(|packet| packet.event.as_ref());
    let commit = event.clone().find(|event| {
        let name = event.name.and_then(|id| names.events.iter().find(|name| name.id == id));
        name.is_some_and(|name| name.name == "commit")
    });
    let told: Vec<(String, String)> = (commit.unwrap().notes.iter())
        .map(|note| {
            let name = &names.notes.iter().find(|name| name.id == note.name).unwrap().name;
            let value = match note.value.as_ref().unwrap() {
                Value::Number(number) => number.to_string(),
                Value::Words(words) => words.clone(),
                Value::Text(id) => {
                    String::from_utf8(names.texts.iter().find(|text| text.id == *id).unwrap().text.clone()).unwrap()
                }
            };
            (name.clone(), value)
        })
        .collect();
    let expected = [("thread", "jbd2/loop0-8"), ("file", "journal of loop0"), ("operation", "0"), ("cause", "waited")];
    assert_eq!(told, expected.map(|(name, value)| (name.to_string(), value.to_string())));
}

#[test]
fn arrows_lead_from_operations_to_what_they_waited_for() {
    let timeline = inserts(Mode::Delete, 2);
    let packets = packets(&timeline);
    let events: Vec<_> = packets.iter().filter_map(|packet| packet.event.as_ref()).collect();
    let begun: Vec<u64> = events.iter().flat_map(|event| event.flows.clone()).collect();
    let mut ended: Vec<u64> = events.iter().flat_map(|event| event.flow_ends.clone()).collect();
    ended.sort_unstable();
    assert_eq!(begun, ended);
    assert_eq!(begun.len(), 2 * 2, "a commit for the journal and one for its folder; what is within needs no arrow");
}

#[test]
fn what_overlaps_gets_a_track_of_its_own() {
    let mut timeline = inserts(Mode::Wal, 1);
    let command = *timeline.spans.iter().find(|span| span.layer == Layer::Driver).unwrap();
    let later = |by: u64| Span { begin_ns: command.begin_ns + by, end_ns: command.end_ns + by, ..command };
    timeline.spans.extend([later(10), later(20), later(1_000_000)]);
    let packets = packets(&timeline);
    let (paths, slices) = (paths(&packets), slices(&packets));
    let mut tracks: Vec<(String, usize)> = (paths.iter())
        .filter(|(_, path)| path.len() == 3 && path[1] == "driver")
        .map(|(uuid, path)| (path[2].clone(), slices[uuid].len()))
        .collect();
    tracks.sort();
    let name = "/data/test.db-wal";
    assert_eq!(tracks, [(name.into(), 2), (format!("{name} (2)"), 1), (format!("{name} (3)"), 1)]);
}

#[test]
fn the_clock_is_monotonic() {
    let packets = packets(&inserts(Mode::Wal, 1));
    let clocks = packets.iter().find_map(|packet| packet.clocks.as_ref()).unwrap();
    assert_eq!((clocks.primary, clocks.clocks[0].id), (Some(3), 3));
    assert!(packets.iter().filter(|packet| packet.event.is_some()).all(|packet| packet.clock == Some(3)));
}

proptest! {
    #[test]
    fn any_timeline_can_be_written(timeline in timeline()) {
        csv::write(&timeline, std::io::sink()).unwrap();
        perfetto::write(&timeline, std::io::sink()).unwrap();
    }

    #[test]
    fn sound_ones_come_back(timeline in sound()) {
        prop_assert_eq!(rows(&timeline).len(), timeline.spans.len());
        let packets = packets(&timeline);
        let _ = paths(&packets);
        let mut found: Vec<(u64, u64)> = slices(&packets).into_values().flatten().collect();
        let mut expected: Vec<(u64, u64)> = timeline.spans.iter().map(|span| (span.begin_ns, span.end_ns)).collect();
        expected.extend(timeline.operations.iter().map(|operation| (operation.begin_ns, operation.end_ns)));
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        let waited = timeline.spans.iter().filter(|span| span.cause == Cause::Waited && span.operation.is_some());
        let arrows = packets.iter().filter_map(|p| p.event.as_ref()).map(|event| event.flow_ends.len());
        prop_assert!(arrows.sum::<usize>() <= waited.count());
    }
}
