//! P5's measure of an INSERT: the time from the last write to the database until the next INSERT begins.

use std::collections::HashMap;

use flashmob_results::trace::{AfterLastWrite, Layer, Role, Timeline};

/// Sums over all operations that wrote to the database and are directly followed by another one; `None` if there are none.
///
/// Writes are system calls, or SQLite's own if no system call was seen. Commands count by their issue time, regardless of the operation
/// that they were for: P5 also saw the kernel's own work there.
#[must_use]
pub fn after_last_write(timeline: &Timeline) -> Option<AfterLastWrite> {
    let seen = [Layer::SystemCall, Layer::Sqlite].map(|layer| (layer, writes(timeline, layer, Role::Database)));
    let (layer, to_database) = seen.into_iter().find(|(_, writes)| !writes.is_empty())?;
    let to_journal = writes(timeline, layer, Role::Journal);
    let mut issued: Vec<u64> =
        timeline.spans.iter().filter(|span| span.layer == Layer::Driver).map(|span| span.begin_ns).collect();
    issued.sort_unstable();
    let commands = |from: u64, to: u64| {
        let before = |time: u64| issued.partition_point(|begin| *begin < time);
        before(to).saturating_sub(before(from)) as u64
    };
    let mut sum = AfterLastWrite { rounds: 1, ..AfterLastWrite::default() };
    let (mut commands_before, mut commands_after) = (0, 0);
    for pair in timeline.operations.windows(2) {
        let (operation, next) = (&pair[0], &pair[1]);
        let Some(&Writes { ended_ns: written, .. }) = to_database.get(&operation.number) else { continue };
        if next.number != operation.number + 1 || !(operation.begin_ns..=next.begin_ns).contains(&written) {
            continue;
        }
        sum.operations += 1;
        sum.before_ns += written - operation.begin_ns;
        sum.after_ns += next.begin_ns - written;
        let journal = to_journal.get(&operation.number);
        sum.journal_ns += journal.map_or(0, |writes| writes.last_begun_ns - writes.first_begun_ns);
        commands_before += commands(operation.begin_ns, written);
        commands_after += commands(written, next.begin_ns);
    }
    if !issued.is_empty() {
        (sum.commands_before, sum.commands_after) = (Some(commands_before), Some(commands_after));
    }
    (sum.operations > 0).then_some(sum)
}

/// The writes of one operation to one file.
#[derive(Clone, Copy, Debug)]
struct Writes {
    first_begun_ns: u64,
    last_begun_ns: u64,
    /// When the last one returned.
    ended_ns: u64,
}

/// Each operation's writes to files of this role, as seen by this layer.
fn writes(timeline: &Timeline, layer: Layer, role: Role) -> HashMap<u64, Writes> {
    let is_write: Vec<bool> = timeline.names.iter().map(|name| name.to_ascii_lowercase().contains("write")).collect();
    let is_wanted: Vec<bool> = timeline.files.iter().map(|file| file.role == role).collect();
    let at = |flags: &[bool], index: u32| flags.get(index as usize).copied().unwrap_or(false);
    let mut all: HashMap<u64, Writes> = HashMap::new();
    for span in timeline.spans.iter().filter(|span| span.layer == layer && at(&is_write, span.name)) {
        if let (Some(operation), Some(true)) = (span.operation, span.file.map(|file| at(&is_wanted, file))) {
            let one = Writes { first_begun_ns: span.begin_ns, last_begun_ns: span.begin_ns, ended_ns: span.end_ns };
            let writes = all.entry(operation).or_insert(one);
            writes.first_begun_ns = writes.first_begun_ns.min(span.begin_ns);
            writes.last_begun_ns = writes.last_begun_ns.max(span.begin_ns);
            writes.ended_ns = writes.ended_ns.max(span.end_ns);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use flashmob_results::trace::{Cause, File, Operation, Span, Thread};

    use super::*;

    const NAMES: [&str; 4] = ["insert", "pwrite64", "fdatasync", "xWrite"];

    fn timeline(spans: Vec<Span>) -> Timeline {
        let file = |name: &str, role| File { name: name.into(), role };
        let operation = |number: u64| Operation {
            number,
            name: 0,
            thread: 0,
            begin_ns: number * 1_000,
            end_ns: number * 1_000 + 900,
            layers_ns: Vec::new(),
            unattributed_ns: 900,
        };
        Timeline {
            names: NAMES.map(String::from).to_vec(),
            files: vec![file("p5.db", Role::Database), file("p5.db-journal", Role::Journal)],
            threads: vec![Thread { name: "sql".into(), id: 1, place: "this device".into(), clock_error_ns: None }],
            operations: (0..3).map(operation).collect(),
            spans,
        }
    }

    fn span(layer: Layer, name: u32, file: Option<u32>, begin_ns: u64, end_ns: u64) -> Span {
        let operation = Some(begin_ns / 1_000);
        let cause = Cause::Direct;
        Span { layer, name, thread: 0, begin_ns, end_ns, file, address_bytes: None, bytes: 1, operation, cause }
    }

    #[test]
    fn time_and_commands_are_parted_by_the_last_write_to_the_database() {
        let call = |name, file, begin, end| span(Layer::SystemCall, name, Some(file), begin, end);
        let command = |begin| span(Layer::Driver, 2, None, begin, begin + 5);
        let spans = vec![
            call(1, 1, 50, 60),
            call(1, 1, 80, 90),
            call(1, 1, 130, 140),
            command(70),
            call(1, 0, 200, 210),
            call(1, 0, 250, 300),
            call(2, 0, 310, 600),
            command(320),
            command(950),
            call(1, 0, 1_100, 1_200),
            command(1_150),
            // The last operation has no successor.
            call(1, 0, 2_100, 2_900),
        ];
        let sum = after_last_write(&timeline(spans)).unwrap();
        assert_eq!((sum.operations, sum.before_ns, sum.after_ns), (2, 300 + 200, 700 + 800));
        assert_eq!(sum.journal_ns, 80, "one insert alone wrote to its journal");
        assert_eq!((sum.commands_before, sum.commands_after), (Some(1 + 1), Some(2)));
    }

    #[test]
    fn without_the_kernel_sqlite_itself_tells_of_writes() {
        let spans = vec![span(Layer::Sqlite, 3, Some(0), 100, 400), span(Layer::Sqlite, 3, Some(1), 500, 600)];
        let sum = after_last_write(&timeline(spans)).unwrap();
        assert_eq!((sum.operations, sum.before_ns, sum.after_ns), (1, 400, 600));
        assert_eq!((sum.commands_before, sum.commands_after), (None, None));
    }

    #[test]
    fn without_a_write_to_the_database_there_is_nothing_to_say() {
        assert_eq!(after_last_write(&timeline(Vec::new())), None);
        assert_eq!(after_last_write(&timeline(vec![span(Layer::SystemCall, 1, Some(1), 1, 2)])), None);
        // Operations that are not directly followed by another are ignored.
        let mut gap = timeline(vec![span(Layer::SystemCall, 1, Some(0), 100, 200)]);
        gap.operations.remove(1);
        assert_eq!(after_last_write(&gap), None);
    }
}
