//! Comma-separated values: a header line, and a row for each span.

use std::io::Write;

use flashmob_results::trace::Timeline;

/// The header line. Unknown values are empty; times are nanoseconds of CLOCK_MONOTONIC.
pub const COLUMNS: [&str; 13] = [
    "operation",
    "layer",
    "name",
    "thread",
    "place",
    "begin_ns",
    "end_ns",
    "duration_ns",
    "file",
    "role",
    "address",
    "bytes",
    "cause",
];

/// Writes all spans, in the timeline's order.
///
/// # Errors
/// Writing failed.
pub fn write(timeline: &Timeline, to: impl Write) -> Result<(), csv::Error> {
    let mut rows = csv::WriterBuilder::new().has_headers(false).from_writer(to);
    rows.write_record(COLUMNS)?;
    for span in &timeline.spans {
        let thread = timeline.threads.get(span.thread as usize);
        let file = span.file.and_then(|index| timeline.files.get(index as usize));
        rows.serialize((
            span.operation,
            span.layer.name(),
            timeline.name(span.name),
            thread.map_or("", |thread| &thread.name),
            thread.map_or("", |thread| &thread.place),
            span.begin_ns,
            span.end_ns,
            span.end_ns.saturating_sub(span.begin_ns),
            file.map_or("", |file| &file.name),
            file.map(|file| file.role),
            span.address_bytes,
            span.bytes,
            span.cause,
        ))?;
    }
    rows.flush()?;
    Ok(())
}
