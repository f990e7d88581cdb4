//! A trace in Perfetto's protobuf format, for its viewer (ui.perfetto.dev) and its trace processor.
//!
//! Each place (this device, a node) is a process. It has a track for operations and one for each layer, which has a track for each file.
//! Spans that overlap without nesting get further tracks with the same name and a number, because slices of one track must
//! nest. A flow arrow leads from an operation to work that others did for it ([`Cause::Waited`]). Times are nanoseconds of CLOCK_MONOTONIC.
//!
//! - `messages`: the subset of Perfetto's messages that is needed
//! - `tracks`: assignment of spans to tracks

pub(super) mod messages;
mod tracks;

use std::collections::HashMap;
use std::io::{self, Write};

use flashmob_results::trace::{Cause, Span, Timeline};
use prost::Message;

use messages::{
    ADDRESS, BYTES, CAUSE, CHILDREN_EXPLICIT, Clock, ClockSnapshot, FILE, INSTANT, InternedData, InternedName,
    InternedString, MONOTONIC, NAMES, NEEDS_STATE, Note, OPERATION, ProcessDescriptor, SLICE_BEGIN, SLICE_END,
    STATE_CLEARED, THREAD, Trace, TracePacket, TrackDescriptor, TrackEvent, Value,
};
use tracks::{Slices, Track, Tracks, operation_time, span_time};

/// All packets belong to one sequence, so names are interned once.
const SEQUENCE: u32 = 1;

/// Writes the whole timeline.
///
/// # Errors
/// Writing failed.
pub fn write(timeline: &Timeline, to: impl Write) -> io::Result<()> {
    let tracks = Tracks::of(timeline);
    let mut packets = Packets { to, buffer: Vec::new() };
    packets.write(names(timeline))?;
    packets.write(clock(timeline))?;
    for track in &tracks.tracks {
        packets.write(described(track))?;
    }
    let flows = flows(timeline);
    for slices in &tracks.operations {
        operations(&mut packets, timeline, slices, &flows)?;
    }
    for slices in &tracks.spans {
        spans(&mut packets, timeline, slices, &flows)?;
    }
    packets.to.flush()
}

/// Writes packets one after the other: a trace is a plain sequence of them.
struct Packets<W> {
    to: W,
    buffer: Vec<u8>,
}

impl<W: Write> Packets<W> {
    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        self.buffer.clear();
        let trace = Trace { packet: vec![TracePacket { sequence: Some(SEQUENCE), ..packet }] };
        trace.encode(&mut self.buffer).map_err(io::Error::other)?;
        self.to.write_all(&self.buffer)
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.write(TracePacket {
            timestamp: Some(time_ns),
            clock: Some(MONOTONIC),
            flags: Some(NEEDS_STATE),
            event: Some(event),
            ..TracePacket::default()
        })
    }
}

/// Interned identifiers start at 1.
fn interned(index: u32) -> u64 {
    u64::from(index) + 1
}

/// All interned names, in one packet.
fn names(timeline: &Timeline) -> TracePacket {
    let texts = timeline.threads.iter().map(|thread| &thread.name).chain(timeline.files.iter().map(|file| &file.name));
    TracePacket {
        flags: Some(STATE_CLEARED),
        names: Some(InternedData {
            events: (1..).zip(&timeline.names).map(|(id, name)| InternedName { id, name: name.clone() }).collect(),
            notes: (1..).zip(NAMES).map(|(id, name)| InternedName { id, name: name.into() }).collect(),
            texts: (1..).zip(texts).map(|(id, text)| InternedString { id, text: text.clone().into_bytes() }).collect(),
        }),
        ..TracePacket::default()
    }
}

/// Declares CLOCK_MONOTONIC as the clock of all times, also for display.
fn clock(timeline: &Timeline) -> TracePacket {
    let begins = timeline.operations.first().map(|operation| operation.begin_ns);
    let first_ns = begins.into_iter().chain(timeline.spans.first().map(|span| span.begin_ns)).min().unwrap_or(0);
    TracePacket {
        timestamp: Some(first_ns),
        clock: Some(MONOTONIC),
        clocks: Some(ClockSnapshot {
            clocks: vec![Clock { id: MONOTONIC, timestamp: first_ns }],
            primary: Some(MONOTONIC as i32),
        }),
        ..TracePacket::default()
    }
}

fn described(track: &Track) -> TracePacket {
    TracePacket {
        track: Some(TrackDescriptor {
            uuid: track.uuid,
            name: track.process.is_none().then(|| track.name.clone()),
            process: track.process.map(|pid| ProcessDescriptor { pid, name: Some(track.name.clone()) }),
            parent: track.parent,
            children: Some(CHILDREN_EXPLICIT),
            rank: Some(track.rank),
        }),
        ..TracePacket::default()
    }
}

/// Flow identifiers: by span index, for each span that others did for an operation; and by operation. Spans nested in such a span
/// have none.
struct Flows {
    of_span: HashMap<u32, u64>,
    of_operation: HashMap<u64, Vec<u64>>,
}

fn flows(timeline: &Timeline) -> Flows {
    let (mut of_span, mut of_operation) = (HashMap::new(), HashMap::<u64, Vec<u64>>::new());
    let mut until: HashMap<u64, u64> = HashMap::new();
    for (index, span) in (0_u32..).zip(&timeline.spans) {
        let (Some(number), Cause::Waited) = (span.operation, span.cause) else { continue };
        let until_ns = until.entry(number).or_default();
        if span.end_ns > *until_ns {
            *until_ns = span.end_ns;
            let id = interned(index);
            of_span.insert(index, id);
            of_operation.entry(number).or_default().push(id);
        }
    }
    Flows { of_span, of_operation }
}

fn operations(
    packets: &mut Packets<impl Write>,
    timeline: &Timeline,
    slices: &Slices,
    flows: &Flows,
) -> io::Result<()> {
    nested(packets, slices, operation_time(timeline), |index| {
        let operation = &timeline.operations[index as usize];
        TrackEvent {
            name: Some(interned(operation.name)),
            notes: vec![
                Note::number(OPERATION, operation.number),
                Note::number(messages::UNATTRIBUTED, operation.unattributed_ns),
                Note { name: THREAD, value: Some(Value::Text(interned(operation.thread))) },
            ],
            flows: flows.of_operation.get(&operation.number).cloned().unwrap_or_default(),
            ..TrackEvent::default()
        }
    })
}

fn spans(packets: &mut Packets<impl Write>, timeline: &Timeline, slices: &Slices, flows: &Flows) -> io::Result<()> {
    let threads = timeline.threads.len() as u64;
    nested(packets, slices, span_time(timeline), |index| {
        let span = &timeline.spans[index as usize];
        TrackEvent {
            name: Some(interned(span.name)),
            notes: notes(span, threads),
            flow_ends: flows.of_span.get(&index).copied().into_iter().collect(),
            ..TrackEvent::default()
        }
    })
}

/// The properties of a span besides its name and times.
fn notes(span: &Span, threads: u64) -> Vec<Note> {
    let mut notes = vec![Note { name: THREAD, value: Some(Value::Text(interned(span.thread))) }];
    notes.extend(span.file.map(|file| Note { name: FILE, value: Some(Value::Text(threads + interned(file))) }));
    notes.extend(span.address_bytes.map(|address| Note::number(ADDRESS, address)));
    if span.bytes > 0 {
        notes.push(Note::number(BYTES, span.bytes));
    }
    notes.extend(span.operation.map(|number| Note::number(OPERATION, number)));
    notes.push(Note { name: CAUSE, value: Some(Value::Words(super::cause(span.cause).into())) });
    notes
}

/// Begins and ends of the slices of one track, ordered by time; at equal times, ends precede begins.
fn nested(
    packets: &mut Packets<impl Write>,
    slices: &Slices,
    time: impl Fn(u32) -> (u64, u64),
    event: impl Fn(u32) -> TrackEvent,
) -> io::Result<()> {
    let track = Some(slices.track);
    let end = || TrackEvent { kind: Some(SLICE_END), track, ..TrackEvent::default() };
    let mut open: Vec<u64> = Vec::new();
    for index in &slices.indices {
        let (begin_ns, end_ns) = time(*index);
        while let Some(ended_ns) = open.pop_if(|ended_ns| *ended_ns <= begin_ns) {
            packets.event(ended_ns, end())?;
        }
        let is_moment = end_ns <= begin_ns;
        let kind = if is_moment { INSTANT } else { SLICE_BEGIN };
        packets.event(begin_ns, TrackEvent { kind: Some(kind), track, ..event(*index) })?;
        if !is_moment {
            open.push(end_ns);
        }
    }
    while let Some(ended_ns) = open.pop() {
        packets.event(ended_ns, end())?;
    }
    Ok(())
}
