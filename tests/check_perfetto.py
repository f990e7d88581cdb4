"""Decodes a trace by Perfetto's own definitions of its messages, and compares it with the spans as CSV.

Usage: check_perfetto.py TRACE CSV [TRACE_PROCESSOR]

It fails where anything is not known to Perfetto, where slices of a track do not nest, where a track has other slices than the CSV has spans for
its place, layer and file, or where an arrow has one end only. With Perfetto's trace processor it counts the slices of each track there as well.
"""
import collections
import csv
import re
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

BEGIN, END, INSTANT = (protos.TrackEvent.Type.Value(f'TYPE_{name}') for name in ('SLICE_BEGIN', 'SLICE_END', 'INSTANT'))
LANE = re.compile(r' \(\d+\)$')


def fail(text):
    sys.exit(f'FAIL: {text}')


def read(path):
    data = open(path, 'rb').read()
    trace = protos.Trace()
    trace.ParseFromString(data)
    # What Perfetto does not know would be dropped here, and some bytes with it.
    known = protos.Trace()
    known.CopyFrom(trace)
    known.DiscardUnknownFields()
    if known.ByteSize() != len(data):
        fail(f'{len(data) - known.ByteSize()} bytes are unknown to Perfetto')
    return trace


def tracks_of(trace):
    """The path of each track: process, layer, file. Files that overlap have several tracks, told apart by a number."""
    paths = {}
    for packet in trace.packet:
        if packet.HasField('track_descriptor'):
            track = packet.track_descriptor
            if track.uuid in paths or track.uuid == 0:
                fail(f'track {track.uuid} is told twice, or has no number')
            if track.HasField('parent_uuid') and track.parent_uuid not in paths:
                fail(f'track {track.uuid} comes before its parent')
            name = track.process.process_name if track.HasField('process') else track.name
            paths[track.uuid] = paths.get(track.parent_uuid, ()) + (name,)
    return paths


def slices_of(trace, paths):
    """(path, begin, end, name, notes) of each slice."""
    names, notes, texts, flows = {}, {}, {}, collections.defaultdict(list)
    stacks, latest, slices = collections.defaultdict(list), {}, []
    for packet in trace.packet:
        interned = packet.interned_data
        names.update((entry.iid, entry.name) for entry in interned.event_names)
        notes.update((entry.iid, entry.name) for entry in interned.debug_annotation_names)
        texts.update((entry.iid, entry.str.decode()) for entry in interned.debug_annotation_string_values)
        if packet.HasField('clock_snapshot') and packet.clock_snapshot.primary_trace_clock != protos.BUILTIN_CLOCK_MONOTONIC:
            fail('the clock is not CLOCK_MONOTONIC')
        if not packet.HasField('track_event'):
            continue
        event, at = packet.track_event, packet.timestamp
        if event.track_uuid not in paths:
            fail(f'an event is on track {event.track_uuid}, which nobody told of')
        if packet.timestamp_clock_id != protos.BUILTIN_CLOCK_MONOTONIC or packet.trusted_packet_sequence_id == 0:
            fail('an event has no clock, or no sequence')
        if at < latest.get(event.track_uuid, 0):
            fail(f'track {paths[event.track_uuid]} goes back in time at {at}')
        latest[event.track_uuid] = at
        for flow in event.flow_ids:
            flows[flow].append('begin')
        for flow in event.terminating_flow_ids:
            flows[flow].append('end')
        stack = stacks[event.track_uuid]
        if event.type == END:
            if not stack:
                fail(f'an end without a begin on {paths[event.track_uuid]} at {at}')
            slices[stack.pop()][2] = at
            continue
        value = lambda note: texts[note.string_value_iid] if note.HasField('string_value_iid') else str(getattr(note, note.WhichOneof('value')))
        told = {notes[note.name_iid]: value(note) for note in event.debug_annotations}
        if event.type == BEGIN:
            stack.append(len(slices))
        elif event.type != INSTANT:
            fail(f'an event of type {event.type}')
        slices.append([paths[event.track_uuid], at, at, names[event.name_iid], told])
    if any(stacks.values()):
        fail('a slice has no end')
    halves = [flow for flow, ends in flows.items() if sorted(ends) != ['begin', 'end']]
    if halves:
        fail(f'{len(halves)} arrows do not have both ends')
    return slices, len(flows)


def compare(slices, rows):
    """Each span is a slice on the track of its place, layer and file, with its name, times and what else is known."""
    def place(path):
        return re.sub(r' \(clock within .*\)$', '', path[0])

    found, expected = collections.Counter(), collections.Counter()
    operations = 0
    for path, begin, end, name, told in slices:
        if len(path) == 2 and LANE.sub('', path[1]) == 'operations':
            operations += 1
            continue
        file = told.get('file', '')
        if len(path) == 3 and path[2] != file and LANE.sub('', path[2]) not in (file, path[1]):
            fail(f'a slice about {file!r} is on the track {path}')
        found[(place(path), path[1], file, name, str(begin), str(end), told.get('thread', ''), told.get('operation', ''), told.get('address', ''),
               told.get('bytes', '0'), told.get('cause', ''))] += 1
    for row in rows:
        expected[tuple(row[key] for key in ('place', 'layer', 'file', 'name', 'begin_ns', 'end_ns', 'thread', 'operation', 'address', 'bytes', 'cause'))] += 1
    for what, difference in (('in the CSV alone', expected - found), ('in the trace alone', found - expected)):
        for row, many in list(difference.items())[:5]:
            print(f'{what}, {many} times: {row}')
    if found != expected:
        fail('trace and CSV differ')
    return operations


def ask(processor, path, slices):
    """Perfetto's own trace processor has the same slices on tracks of the same names, and each of them ends."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    query = 'select t.name as name, count(*) as many, sum(s.dur < 0) as unfinished from slice s join track t on s.track_id = t.id group by t.name'
    with TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=processor)) as trace:
        answer = [(row.name, row.many, row.unfinished) for row in trace.query(query)]
    if any(unfinished for _, _, unfinished in answer):
        fail(f'the trace processor has slices without an end: {answer}')
    theirs, ours = {name: many for name, many, _ in answer}, collections.Counter(slice_[0][-1] for slice_ in slices)
    if theirs != dict(ours):
        fail(f'the trace processor has {theirs}, not {dict(ours)}')


def main():
    trace = read(sys.argv[1])
    paths = tracks_of(trace)
    slices, arrows = slices_of(trace, paths)
    rows = list(csv.DictReader(open(sys.argv[2], newline='')))
    operations = compare(slices, rows)
    if len(sys.argv) > 3:
        ask(sys.argv[3], sys.argv[1], slices)
    layers = sorted({path[1] for path in paths.values() if len(path) > 1 and LANE.sub('', path[1]) != 'operations'})
    print(f'{len(rows)} spans and {operations} operations on {len(paths)} tracks, {arrows} arrows; layers: {", ".join(layers)}')


main()
