//! Spans, operations, and the attribution of their time.
//!
//! One pass over the events collects pieces of work ([`work`]): it pairs begins with ends ([`spans`]), system calls with descriptors
//! ([`calls`]), bios and driver commands with requests ([`requests`], [`commands`]), and records which threads ran, waited, and woke others
//! ([`schedule`]). Work then gets a file ([`files`]) and an operation ([`owners`]), whose time is divided by layer ([`time`]).
//!
//! Nothing is guessed. Work of the operation's own thread belongs to the operation. Work of other threads belongs to it only if the thread
//! woke the waiting one, or serves a request that a thread of the operation submitted; the rest is unattributed.

mod calls;
mod commands;
mod files;
mod owners;
mod requests;
mod rules;
mod schedule;
mod spans;
#[cfg(test)]
mod tests;
mod time;
mod work;

use std::collections::BTreeSet;

use flashmob_results::trace::{Cause, Layer, Operation, Span, Timeline};

use crate::capture::Capture;
use crate::record::Record;
use crate::surroundings::{AppOperation, Surroundings};

use calls::Calls;
use commands::Commands;
use owners::Owner;
use requests::Requests;
use rules::{Meaning, Rules};
use schedule::Schedule;
use spans::Spans;
use work::{Book, FileKey, Map, Work};

/// Builds one timeline from the capture and the data of the surroundings.
#[must_use]
pub fn join(capture: &Capture, surroundings: &Surroundings) -> Timeline {
    let rules = Rules::new(&capture.formats);
    join_records(&capture.records(), &rules, surroundings)
}

fn join_records(records: &[Record<'_>], rules: &Rules<'_>, surroundings: &Surroundings) -> Timeline {
    let mut book = Book::new(surroundings);
    let mut calls = Calls::new(surroundings);
    let mut spans = Spans::default();
    let mut requests = Requests::default();
    let mut commands = Commands::default();
    let mut schedule = Schedule::default();
    for record in records {
        let Some(meaning) = rules.of(record.format.id) else { continue };
        match meaning {
            Meaning::CallEnter(rule) => {
                spans.call_begins(record);
                calls.enter(record, rule);
            }
            Meaning::CallExit(rule) => {
                calls.exit(record, rule, &mut book);
                spans.call_returned(record, &mut book);
            }
            Meaning::Begin(rule) => {
                calls.saw_inode(record, rule);
                let served = commands.serve(record, rule, &requests);
                spans.begin(record, rule, served);
            }
            Meaning::End(rule) => spans.end(record, rule, &requests, &mut book),
            Meaning::Point(rule) => {
                calls.saw_inode(record, rule);
                spans.point(record, rule, &mut book);
            }
            Meaning::Map(rule) => book.maps.extend(Map::of(record, rule)),
            Meaning::Block(rule) => requests.event(record, rule, spans.inode_in_hand(record.thread), &mut book),
            Meaning::Switch(rule) => schedule.switched(record, rule, &mut book),
            Meaning::Waking(rule) => schedule.woken(record, rule, &requests),
            Meaning::NewTask(rule) => calls.new_task(record, rule),
            Meaning::Marker(field) => calls.marker(record, field, &mut book),
            Meaning::Name => calls.name(record),
            Meaning::Probe(rule) => spans.probe(record, rule, &mut book),
        }
    }
    let end_ns = records.last().map_or(0, |record| record.time_ns);
    requests.finish(&mut book);
    schedule.finish(end_ns);
    finish(book, calls, &requests, &schedule, surroundings)
}

fn finish(
    mut book: Book,
    calls: Calls,
    requests: &Requests,
    schedule: &Schedule,
    surroundings: &Surroundings,
) -> Timeline {
    for span in &surroundings.spans {
        let work = Work::new(span.layer, span.thread, span.begin_ns, span.end_ns);
        let file = span.file.map_or(FileKey::None, FileKey::Told);
        book.add(&span.name, Work { file, address_bytes: span.offset_bytes, bytes: span.bytes, ..work });
    }
    // A reported operation's time belongs to the application unless a lower layer has it; markers are already included.
    surroundings.operations.iter().for_each(|operation| book.add_application(operation));
    let mut operations = match (surroundings.operations.is_empty(), calls.marked.is_empty()) {
        (false, _) => surroundings.operations.clone(),
        (true, false) => calls.marked.clone(),
        (true, true) => of_calls(&book),
    };
    operations.sort_by_key(|operation| (operation.begin_ns, operation.end_ns));
    book.works.sort_by_key(|work| (work.begin_ns, std::cmp::Reverse(work.end_ns), work.layer));
    let mut owners = owners::find(&book.works, &operations, requests, schedule);
    owners.add_waits(&mut book);
    let threads: Vec<u32> =
        requests.list.iter().map(|request| request.by).collect::<BTreeSet<_>>().into_iter().collect();
    let files = files::Files::new(&calls, surroundings, &book, &threads);
    timeline(book, &owners, files, &operations, schedule)
}

/// Without reported operations, each system call on files is an operation.
fn of_calls(book: &Book) -> Vec<AppOperation> {
    let calls = book.works.iter().filter(|work| work.layer == Layer::SystemCall && work.is_operation);
    let operation = |work: &Work| AppOperation {
        name: book.name(work.name).to_string(),
        thread: work.thread,
        begin_ns: work.begin_ns,
        end_ns: work.end_ns,
    };
    calls.map(operation).collect()
}

fn timeline(
    mut book: Book,
    owners: &owners::Owners,
    mut files: files::Files<'_>,
    operations: &[AppOperation],
    schedule: &Schedule,
) -> Timeline {
    let mut timeline = Timeline::default();
    let divided = time::divide(&book.works, owners, operations, schedule);
    for (number, (operation, (layers_ns, unattributed_ns))) in operations.iter().zip(divided).enumerate() {
        let name = book.intern(&operation.name);
        let thread = book.thread(operation.thread);
        timeline.operations.push(Operation {
            number: number as u64,
            name,
            thread,
            begin_ns: operation.begin_ns,
            end_ns: operation.end_ns,
            layers_ns,
            unattributed_ns,
        });
    }
    let mut spans = Vec::with_capacity(book.works.len());
    for (at, work) in std::mem::take(&mut book.works).into_iter().enumerate() {
        let (operation, cause) = match owners.of.get(at).copied().flatten() {
            Some(Owner { operation, cause }) => (Some(operation as u64), cause),
            None => (None, Cause::Unknown),
        };
        spans.push(Span {
            layer: work.layer,
            name: work.name,
            thread: book.thread(work.thread),
            begin_ns: work.begin_ns,
            end_ns: work.end_ns.max(work.begin_ns),
            file: files.of(&work),
            address_bytes: work.address_bytes,
            bytes: work.bytes,
            operation,
            cause,
        });
    }
    schedule.runnable(operations, |operation, thread, begin_ns, end_ns| {
        spans.push(Span {
            layer: Layer::Processor,
            name: book.intern("wait for a processor"),
            thread: book.thread(thread),
            begin_ns,
            end_ns,
            file: None,
            address_bytes: None,
            bytes: 0,
            operation: Some(operation as u64),
            cause: Cause::Direct,
        });
    });
    spans.sort_by_key(|span| (span.begin_ns, std::cmp::Reverse(span.end_ns), span.layer));
    timeline.spans = spans;
    timeline.files = files.into_files();
    (timeline.names, timeline.threads) = book.into_tables();
    timeline
}
