//! The cost of an INSERT in calls, commands and bytes, by kind of work and role of the file.

use flashmob_results::trace::{Layer, Role, Run};

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Write,
    /// Waits until written data are durable.
    Sync,
    Remove,
    Truncate,
}

impl Kind {
    /// From the name of a system call or of SQLite's own; `None` for calls that change nothing.
    pub fn of(work: &str) -> Option<Kind> {
        let work = work.to_ascii_lowercase();
        let bare = work.trim_start_matches(['p', 'x']);
        if bare.starts_with("write") {
            Some(Kind::Write)
        } else if work.ends_with("sync") || work.starts_with("sync") {
            Some(Kind::Sync)
        } else if work.starts_with("unlink") || bare == "delete" {
            Some(Kind::Remove)
        } else if work.contains("truncate") {
            Some(Kind::Truncate)
        } else {
            None
        }
    }
}

/// Counts per insert.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Calls that change something, by kind and role of the file.
    pub calls: Vec<(Kind, Role, f64)>,
    /// The calls are SQLite's own, because no system calls were seen.
    pub own: bool,
    /// The driver's commands that move data, by role; `None` if the driver was not seen.
    pub commands: Option<Vec<(Role, f64)>>,
    /// Bytes that these commands move.
    pub bytes: f64,
    pub flushes: f64,
}

impl Cost {
    /// The cost in this run; `None` without inserts.
    pub fn of(run: &Run) -> Option<Cost> {
        let inserts = run.operations.count;
        if inserts == 0 {
            return None;
        }
        let each = |count: u64| count as f64 / inserts as f64;
        let has = |layer: Layer, kind: Kind| {
            run.files.iter().any(|row| row.layer == layer && Kind::of(&row.work) == Some(kind))
        };
        let mut cost = Cost { own: !has(Layer::SystemCall, Kind::Write), ..Cost::default() };
        for row in &run.files {
            let Some(kind) = Kind::of(&row.work) else { continue };
            // Calls that take names may refer to unknown files: then SQLite's own calls count.
            let layer = if has(Layer::SystemCall, kind) { Layer::SystemCall } else { Layer::Sqlite };
            if row.layer != layer {
                continue;
            }
            match cost.calls.iter_mut().find(|call| (call.0, call.1) == (kind, row.role)) {
                Some(call) => call.2 += each(row.count),
                None => cost.calls.push((kind, row.role, each(row.count))),
            }
        }
        // The driver was observed and issued no command.
        if run.sources.iter().any(|source| source.is_used && source.layers.contains(&Layer::Driver)) {
            cost.commands = Some(Vec::new());
        }
        cost.calls.sort_by_key(|call| (call.0, call.1 as u8));
        for row in run.files.iter().filter(|row| row.layer == Layer::Driver) {
            let commands = cost.commands.get_or_insert_default();
            if row.role == Role::Flush {
                cost.flushes += each(row.count);
                continue;
            }
            cost.bytes += each(row.bytes);
            match commands.iter_mut().find(|command| command.0 == row.role) {
                Some(command) => command.1 += each(row.count),
                None => commands.push((row.role, each(row.count))),
            }
        }
        Some(cost)
    }

    pub fn total(&self, kind: Kind) -> f64 {
        self.calls.iter().filter(|call| call.0 == kind).fold(0.0, |sum, call| sum + call.2)
    }

    pub fn calls(&self, kind: Kind, role: Role) -> f64 {
        self.calls.iter().filter(|call| (call.0, call.1) == (kind, role)).fold(0.0, |sum, call| sum + call.2)
    }

    /// All of the driver's commands except flushes.
    pub fn all_commands(&self) -> Option<f64> {
        self.commands.as_ref().map(|commands| commands.iter().fold(0.0, |sum, command| sum + command.1))
    }
}

#[cfg(test)]
mod tests {
    use flashmob_results::trace::Source;

    use super::*;
    use crate::tests::insert_builder::run;

    #[test]
    fn calls_and_commands_are_counted_for_each_insert() {
        let cost = Cost::of(&run("ext4")).unwrap();
        assert_eq!((cost.total(Kind::Write), cost.total(Kind::Sync), cost.total(Kind::Remove)), (10.0, 4.0, 0.0));
        assert_eq!((cost.calls(Kind::Write, Role::Journal), cost.calls(Kind::Sync, Role::Directory)), (8.0, 1.0));
        assert_eq!((cost.all_commands(), cost.flushes, cost.own), (Some(11.0), 2.0, false));
        assert_eq!(cost.bytes, 68_192.0);
        let mut silent = run("ext4");
        silent.files.retain(|row| row.layer != Layer::Driver);
        assert_eq!(Cost::of(&silent).unwrap().all_commands(), None);
        silent.sources = vec![Source { name: "block".into(), layers: vec![Layer::Driver], is_used: true, why: None }];
        assert_eq!(Cost::of(&silent).unwrap().all_commands(), Some(0.0));
        let mut none = run("ext4");
        none.operations.count = 0;
        assert_eq!(Cost::of(&none), None);
    }

    #[test]
    fn names_of_calls_say_what_they_do() {
        let of = |names: &[&str]| names.iter().map(|name| Kind::of(name)).collect::<Vec<_>>();
        assert_eq!(of(&["write", "pwrite64", "pwritev2", "xWrite"]), [Some(Kind::Write); 4]);
        assert_eq!(of(&["fsync", "fdatasync", "sync_file_range", "xSync", "msync"]), [Some(Kind::Sync); 5]);
        assert_eq!(of(&["unlink", "unlinkat", "xDelete"]), [Some(Kind::Remove); 3]);
        assert_eq!(of(&["ftruncate", "xTruncate"]), [Some(Kind::Truncate); 2]);
        assert_eq!(of(&["pread64", "openat", "xRead", "fcntl", ""]), [None; 5]);
    }
}
