//! A row for each span, as comma-separated values with a heading, written as they come.

use std::io::Write;

use flashmob_results::trace::{Span, Timeline};

/// The heading. What is not known stays empty; times are nanoseconds of CLOCK_MONOTONIC.
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
/// It could not be written.
pub fn write(timeline: &Timeline, to: impl Write) -> Result<(), csv::Error> {
    let mut rows = csv::Writer::from_writer(to);
    rows.write_record(COLUMNS)?;
    for span in &timeline.spans {
        row(&mut rows, timeline, span)?;
    }
    rows.flush()?;
    Ok(())
}

fn row(rows: &mut csv::Writer<impl Write>, timeline: &Timeline, span: &Span) -> Result<(), csv::Error> {
    let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let thread = timeline.threads.get(span.thread as usize);
    let file = span.file.and_then(|index| timeline.files.get(index as usize));
    rows.write_field(number(span.operation))?;
    rows.write_field(span.layer.name())?;
    rows.write_field(timeline.name(span.name))?;
    rows.write_field(thread.map_or("", |thread| &thread.name))?;
    rows.write_field(thread.map_or("", |thread| &thread.place))?;
    rows.write_field(span.begin_ns.to_string())?;
    rows.write_field(span.end_ns.to_string())?;
    rows.write_field(span.end_ns.saturating_sub(span.begin_ns).to_string())?;
    rows.write_field(file.map_or("", |file| &file.name))?;
    rows.write_field(file.map_or("", |file| super::role(file.role)))?;
    rows.write_field(number(span.address_bytes))?;
    rows.write_field(span.bytes.to_string())?;
    rows.write_field(super::cause(span.cause))?;
    // The end of a row.
    rows.write_record(None::<&[u8]>)
}
