//! The drawn operations of a run and their spans.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use flashmob_results::trace::{Cause, Layer, Operation, Run, Span, Timeline};

use crate::figure::Figure;
use crate::figure::timeline::{Piece, TimelineFigure};
use crate::words;

/// Width of P5's figures 2 to 4, and of its figure 5: as much as there is in full.
pub const WINDOW_NS: u64 = 80_000_000;
pub const WIDE_NS: u64 = u64::MAX;
/// A wide figure shows at least this much: 1.25 times the narrow one.
const WIDE_MIN_NS: u64 = WINDOW_NS / 4 * 5;

/// Operations in full, those nearest to the median duration first. Of system calls, which are unlike each other, the longest first.
pub fn shown(run: &Run) -> Vec<&Operation> {
    let usual_ns = run.operations.latency_ns.percentile_ns(50.0).unwrap_or(0);
    let mut all: Vec<&Operation> = run.timeline.operations.iter().collect();
    let length_ns = |operation: &Operation| operation.end_ns.saturating_sub(operation.begin_ns);
    if run.operations.name == Layer::SystemCall.name() {
        all.sort_by_key(|operation| Reverse(length_ns(operation)));
    } else {
        all.sort_by_key(|operation| length_ns(operation).abs_diff(usual_ns));
    }
    all
}

pub fn heading(run: &Run, operation: &Operation) -> String {
    let duration_ns = operation.end_ns.saturating_sub(operation.begin_ns);
    let name = words::plain(run.timeline.name(operation.name), 40);
    format!("{} {}: {}", words::capital(&name), words::count(operation.number), words::time_ns(duration_ns as f64))
}

/// All spans of an operation, and the unattributed spans during it.
pub fn timeline(run: &Run, operation: &Operation, number: usize) -> Figure {
    let all = &run.timeline;
    let is_shown = |span: &&Span| match span.operation {
        Some(number) => number == operation.number && span.begin_ns <= operation.end_ns,
        None => span.end_ns >= operation.begin_ns && span.begin_ns <= operation.end_ns,
    };
    let spans: Vec<&Span> = all.spans.iter().filter(is_shown).collect();
    let (pieces, clocks) = pieces(all, &spans, operation.begin_ns);
    let duration_us = operation.end_ns.saturating_sub(operation.begin_ns) as f64 / 1e3;
    let parts: Vec<String> = (operation.layers_ns.iter())
        .map(|(layer, ns)| format!("{} {}", layer.name(), words::time_ns(*ns as f64)))
        .chain([format!("unattributed {}", words::time_ns(operation.unattributed_ns as f64))])
        .collect();
    let figure = TimelineFigure {
        title: format!("{}: {}", words::plain(&run.name, 60), heading(run, operation)),
        description: format!("Time across, layers down. Time by layers: {}.", parts.join(", ")),
        zero: "the operation",
        duration_us,
        pieces,
    };
    let drawn = figure.draw(number);
    let caption = format!("{}By layers: {}.{clocks}", drawn.caption, parts.join(", "));
    Figure { caption, ..drawn }
}

/// Most neighbouring operations of a run, and the begin and the end of what is drawn of them: this time, or less if they take less. `None` if no two
/// neighbours are there in full, or if a wide window would be hardly wider than the narrow one.
fn consecutive(run: &Run, time_ns: u64) -> Option<(&[Operation], u64, u64)> {
    let neighbours = run.timeline.operations.chunk_by(|a, b| a.number.checked_add(1) == Some(b.number));
    let operations = neighbours.max_by_key(|some| some.len()).filter(|some| some.len() > 1)?;
    let (first, last) = (operations.first()?, operations.last()?);
    let end_ns = last.end_ns.min(first.begin_ns.saturating_add(time_ns));
    let is_too_short = time_ns > WINDOW_NS && end_ns.saturating_sub(first.begin_ns) < WIDE_MIN_NS;
    (!is_too_short).then_some((operations, first.begin_ns, end_ns))
}

/// The heading of [`window`]: with its true width, or "longer" for the wide one, whose caption has it.
pub fn window_heading(run: &Run, time_ns: u64) -> Option<String> {
    let (_, begin_ns, end_ns) = consecutive(run, time_ns)?;
    let what = if crate::inserts::setting(run).is_some() { "INSERTs" } else { "operations" };
    if time_ns > WINDOW_NS {
        return Some(format!("Consecutive {what}, longer"));
    }
    Some(format!("Consecutive {what}, {}", words::time_ms(end_ns.saturating_sub(begin_ns) as f64 / 1e6)))
}

/// P5's figures 2 to 5: neighbouring operations for this time, with the spans that the result has of it; of work for no operation these may not be
/// all. `None`: see [`consecutive`].
pub fn window(run: &Run, time_ns: u64, number: usize) -> Option<Figure> {
    let all = &run.timeline;
    let (operations, begin_ns, end_ns) = consecutive(run, time_ns)?;
    let spans: Vec<&Span> = all.spans.iter().filter(|s| s.end_ns >= begin_ns && s.begin_ns <= end_ns).collect();
    let (pieces, clocks) = pieces(all, &spans, begin_ns);
    let duration_us = end_ns.saturating_sub(begin_ns) as f64 / 1e3;
    let name = words::plain(&run.operations.name, 30);
    let many = operations.iter().filter(|operation| operation.begin_ns <= end_ns).count();
    let (many, width) = (words::plural(many as u64, &name), words::time_ms(duration_us / 1e3));
    let what = format!("{many} one after the other, {width}");
    let figure = TimelineFigure {
        title: format!("{}: {what}", words::plain(&run.name, 60)),
        description: format!("Time across, layers down: {what}."),
        zero: "the first of them",
        duration_us,
        pieces,
    };
    let drawn = figure.draw(number);
    Some(Figure { caption: format!("{}: {}{clocks}", words::capital(&what), drawn.caption), ..drawn })
}

/// Spans as pieces of a figure that begins at `zero_ns`, and what is known of the clocks of their places.
fn pieces(all: &Timeline, spans: &[&Span], zero_ns: u64) -> (Vec<Piece>, String) {
    let thread = |span: &&Span| all.threads.get(span.thread as usize);
    let places: BTreeSet<&str> = spans.iter().filter_map(thread).map(|thread| thread.place.as_str()).collect();
    let has_places = places.len() > 1;
    let pieces: Vec<Piece> = spans.iter().map(|span| piece(all, span, zero_ns, has_places)).collect();
    let off: BTreeSet<(&str, u64)> = (spans.iter().filter_map(thread))
        .filter_map(|thread| Some((thread.place.as_str(), thread.clock_error_ns?)))
        .collect();
    let clocks: Vec<String> = (off.iter())
        .map(|(place, error_ns)| format!("{} within {}", words::plain(place, 40), words::time_ns(*error_ns as f64)))
        .collect();
    let clocks =
        if clocks.is_empty() { String::new() } else { format!(" Clocks are related: {}.", words::list(&clocks)) };
    (pieces, clocks)
}

fn piece(all: &Timeline, span: &Span, zero_ns: u64, has_places: bool) -> Piece {
    let file = span.file.and_then(|index| all.files.get(index as usize));
    let name = words::plain(all.name(span.name), 60);
    // The last component of a path identifies the file and is short.
    let short = file.map(|file| file.name.trim_end_matches('/').rsplit('/').next().unwrap_or(&file.name).to_string());
    let begin_us = (span.begin_ns as i128 - zero_ns as i128) as f64 / 1e3;
    let duration_us = span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e3;
    let thread = all.threads.get(span.thread as usize);
    // Rows of several places are distinguished by them.
    let place = thread.map(|thread| thread.place.as_str()).filter(|_| has_places);
    let of = |what: Option<&str>| what.map_or(String::new(), |what| format!(" · {}", words::plain(what, 60)));
    let parts = [
        Some(format!("{name} ({})", span.layer.name())),
        file.map(|file| words::plain(&file.name, 120)),
        (span.bytes > 0).then(|| words::bytes(span.bytes)),
        span.address_bytes.map(|address| format!("at byte {}", words::count(address))),
        Some(format!("begin {} us, {} us long", words::number(begin_us), words::number(duration_us))),
        thread.map(|thread| format!("by {} on {}", words::plain(&thread.name, 40), words::plain(&thread.place, 40))),
        match span.cause {
            Cause::Direct => None,
            Cause::Waited => Some("the operation waited for it".into()),
            Cause::Unknown => Some("for an unknown operation".into()),
        },
    ];
    Piece {
        layer: span.layer,
        row: format!("{name}{}{}", of(short.as_deref()), of(place)),
        begin_us,
        duration_us,
        cause: span.cause,
        words: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
    }
}
