//! Builds events and formats for tests: every number has 8 bytes, every text 40.

use flashmob_results::trace::{Layer, Operation, Span, Timeline};

use crate::format::{EventFormat, Field, Shape};
use crate::join::rules::Rules;
use crate::record::Record;
use crate::surroundings::{AppOperation, BlockDevice, NamedFile, Surroundings};

/// The file system's device.
pub const DEVICE: u64 = 7 << 20;
/// The workload's thread.
pub const WORKER: u32 = 100;
/// The journal's thread.
pub const JOURNAL: u32 = 200;

/// A value of a field.
#[derive(Clone, Debug)]
pub enum Value {
    Number(u64),
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

/// Events, in the order of their construction.
#[derive(Debug, Default)]
pub struct Events {
    formats: Vec<EventFormat>,
    rows: Vec<(u64, u32, u32, usize, Vec<u8>)>,
    cpu: u32,
}

impl Events {
    /// The CPU of the next events.
    pub fn on(&mut self, cpu: u32) -> &mut Events {
        self.cpu = cpu;
        self
    }

    /// An event with all its fields.
    pub fn at(&mut self, time_ns: u64, thread: u32, event: &str, fields: &[(&str, Value)]) -> &mut Events {
        let (system, name) = event.split_once(':').unwrap();
        let index = self.formats.iter().position(|f| f.system == system && f.name == name).unwrap_or_else(|| {
            let mut offset = 8;
            let mut field = |(name, value): &(&str, Value)| {
                let (size, shape) = match value {
                    Value::Number(_) => (8, Shape::Number),
                    Value::Text(_) => (40, Shape::Array),
                };
                let c_type = if size == 8 { "u64" } else { "char[40]" };
                offset += size;
                let (name, c_type) = (name.to_string(), c_type.to_string());
                Field { name, c_type, offset: offset - size, size, is_signed: false, shape }
            };
            let fields = fields.iter().map(&mut field).collect();
            let id = u16::try_from(self.formats.len() + 1).unwrap();
            self.formats.push(EventFormat { system: system.into(), name: name.into(), id, fields });
            self.formats.len() - 1
        });
        let mut data = vec![0; 8];
        for (_, value) in fields {
            match value {
                Value::Number(number) => data.extend(number.to_le_bytes()),
                Value::Text(text) => {
                    let mut bytes = text.clone().into_bytes();
                    bytes.resize(40, 0);
                    data.extend(bytes);
                }
            }
        }
        self.rows.push((time_ns, self.cpu, thread, index, data));
        self
    }

    /// A system call is entered.
    pub fn enter(&mut self, time_ns: u64, call: &str, fd: u64) -> &mut Events {
        self.at(time_ns, WORKER, &format!("syscalls:sys_enter_{call}"), &[("fd", fd.into()), ("pos", 0.into())])
    }

    /// A system call returns.
    pub fn exit(&mut self, time_ns: u64, call: &str, result: u64) -> &mut Events {
        self.at(time_ns, WORKER, &format!("syscalls:sys_exit_{call}"), &[("ret", result.into())])
    }

    /// An inode event.
    pub fn inode(&mut self, time_ns: u64, thread: u32, event: &str, inode: u64) -> &mut Events {
        self.at(time_ns, thread, event, &[("dev", DEVICE.into()), ("ino", inode.into())])
    }

    /// A bio or request event.
    pub fn block(
        &mut self,
        time_ns: u64,
        thread: u32,
        event: &str,
        (sector, sectors): (u64, u64),
        kind: &str,
    ) -> &mut Events {
        let fields =
            [("dev", DEVICE.into()), ("sector", sector.into()), ("nr_sector", sectors.into()), ("rwbs", kind.into())];
        self.at(time_ns, thread, &format!("block:{event}"), &fields)
    }

    /// A context switch; `state` 0 means still runnable.
    pub fn switch(&mut self, time_ns: u64, from: u32, state: u64, to: u32) -> &mut Events {
        let comm = |thread: u32| if thread == JOURNAL { "jbd2/loop0-8" } else { "other" };
        let fields = [
            ("prev_pid", u64::from(from).into()),
            ("prev_comm", comm(from).into()),
            ("prev_state", state.into()),
            ("next_pid", u64::from(to).into()),
            ("next_comm", comm(to).into()),
        ];
        self.at(time_ns, from, "sched:sched_switch", &fields)
    }

    /// `by` wakes a thread.
    pub fn wake(&mut self, time_ns: u64, by: u32, thread: u32) -> &mut Events {
        self.at(time_ns, by, "sched:sched_waking", &[("pid", u64::from(thread).into())])
    }

    /// The joined timeline.
    pub fn join(&self, surroundings: &Surroundings) -> Timeline {
        let record = |(time_ns, cpu, thread, format, data): &'_ (u64, u32, u32, usize, Vec<u8>)| {
            (*time_ns, *cpu, *thread, *format, data.clone())
        };
        let rows: Vec<_> = self.rows.iter().map(record).collect();
        let records: Vec<Record<'_>> = rows
            .iter()
            .map(|(time_ns, cpu, thread, format, data)| Record {
                time_ns: *time_ns,
                cpu: *cpu,
                thread: *thread,
                format: &self.formats[*format],
                data,
            })
            .collect();
        let timeline = crate::join::join_records(&records, &Rules::new(&self.formats), surroundings);
        timeline.check().unwrap();
        for operation in &timeline.operations {
            let sum: u64 = operation.layers_ns.iter().map(|(_, time)| time).sum();
            assert_eq!(sum + operation.unattributed_ns, operation.end_ns - operation.begin_ns, "{operation:?}");
        }
        timeline
    }
}

/// An ext4 on the device, a database with inode 12, and one operation for each pair of times.
pub fn surroundings(operations: &[(u64, u64)]) -> Surroundings {
    use flashmob_results::trace::Role;
    let number = u32::try_from(DEVICE).unwrap();
    let file = |path: &str, role, inode, from_ns| NamedFile {
        path: path.into(),
        role,
        device: number,
        inode,
        from_ns,
        until_ns: u64::MAX,
        extents: Vec::new(),
    };
    let operation =
        |&(begin_ns, end_ns): &(u64, u64)| AppOperation { name: "insert".into(), thread: WORKER, begin_ns, end_ns };
    Surroundings {
        threads: vec![WORKER],
        files: vec![file("/mnt/db", Role::Database, 12, 0)],
        devices: vec![BlockDevice {
            number,
            disk_number: number,
            name: "loop0".into(),
            filesystem: "ext4".into(),
            block_bytes: 1024,
            ..BlockDevice::default()
        }],
        operations: operations.iter().map(operation).collect(),
        ..Surroundings::default()
    }
}

/// The time of a layer.
pub fn time_of(operation: &Operation, layer: Layer) -> u64 {
    operation.layers_ns.iter().find(|(l, _)| *l == layer).map_or(0, |(_, time)| *time)
}

/// Spans of a layer with this name.
pub fn spans<'a>(timeline: &'a Timeline, layer: Layer, name: &str) -> Vec<&'a Span> {
    timeline.spans.iter().filter(|span| span.layer == layer && timeline.name(span.name) == name).collect()
}

/// The name of a span's file.
pub fn file<'a>(timeline: &'a Timeline, span: &Span) -> &'a str {
    span.file.map_or("", |file| &timeline.files[file as usize].name)
}
