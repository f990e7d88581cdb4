//! The table of rules, resolved for the formats of the running kernel.

use crate::format::{EventFormat, Field};
use crate::layers::{BlockStep, SpanRule, SystemCall, table};
use crate::record::Record;

/// The meaning of each kind of event, by event ID.
#[derive(Debug)]
pub struct Rules<'a> {
    by_id: Vec<Option<Meaning<'a>>>,
}

#[derive(Debug)]
pub enum Meaning<'a> {
    CallEnter(Call<'a>),
    CallExit(Call<'a>),
    Begin(Span<'a>),
    End(Span<'a>),
    Point(Span<'a>),
    Map(MapFields<'a>),
    Block(Block<'a>),
    Switch(Switch<'a>),
    Waking(Waking<'a>),
    NewTask(NewTask<'a>),
    /// A marker written by the application.
    Marker(&'a Field),
    /// A path argument of a system call.
    Name,
    /// A probed SQLite function.
    Probe(Probe<'a>),
}

/// A system call, and the fields named by its rule.
#[derive(Debug)]
pub struct Call<'a> {
    pub name: &'a str,
    pub rule: &'static SystemCall,
    pub file: Option<&'a Field>,
    pub offset: Option<&'a Field>,
    pub result: Option<&'a Field>,
    pub closes_to: Option<&'a Field>,
    pub copies_by: Option<&'a Field>,
}

/// Begin or end of work, or a single event, and the fields named by its rule.
#[derive(Debug)]
pub struct Span<'a> {
    /// The rule's index in the table.
    pub index: usize,
    pub rule: &'static SpanRule,
    pub keys: Vec<&'a Field>,
    pub device: Option<&'a Field>,
    pub inode: Option<&'a Field>,
    pub offset: Option<&'a Field>,
    pub page: Option<&'a Field>,
    pub bytes: Option<&'a Field>,
    pub sector: Option<&'a Field>,
    pub sectors: Option<&'a Field>,
    pub host: Option<&'a Field>,
    pub code: Option<&'a Field>,
}

#[derive(Debug)]
pub struct MapFields<'a> {
    pub device: &'a Field,
    pub inode: &'a Field,
    pub physical: &'a Field,
    pub length: &'a Field,
}

#[derive(Debug)]
pub struct Block<'a> {
    pub step: BlockStep,
    pub device: &'a Field,
    pub sector: &'a Field,
    pub sectors: &'a Field,
    pub kind: &'a Field,
    pub comm: Option<&'a Field>,
}

#[derive(Debug)]
pub struct Switch<'a> {
    pub from: &'a Field,
    pub from_comm: Option<&'a Field>,
    pub state: &'a Field,
    pub to: &'a Field,
    pub to_comm: Option<&'a Field>,
}

#[derive(Debug)]
pub struct Waking<'a> {
    pub thread: &'a Field,
    /// Interrupt flags: the context of the waker.
    pub flags: Option<&'a Field>,
}

#[derive(Debug)]
pub struct NewTask<'a> {
    pub thread: &'a Field,
    pub flags: &'a Field,
}

#[derive(Debug)]
pub struct Probe<'a> {
    pub name: &'a str,
    pub is_return: bool,
}

/// Suffix of the names of return probes.
pub const RETURN_SUFFIX: &str = "_return";

/// The number in an optional field.
pub fn number(record: &Record<'_>, field: Option<&Field>) -> Option<u64> {
    field?.number(record.data)
}

/// A device number, which has 32 bits; 0 if larger.
pub fn device_number(record: &Record<'_>, field: &Field) -> Option<u32> {
    Some(u32::try_from(field.number(record.data)?).unwrap_or(0))
}

impl Span<'_> {
    /// Device and inode named by an event.
    pub fn file(&self, record: &Record<'_>) -> Option<(u32, u64)> {
        Some((device_number(record, self.device?)?, self.inode?.number(record.data)?))
    }
}

impl<'a> Rules<'a> {
    pub fn new(formats: &'a [EventFormat]) -> Rules<'a> {
        let mut by_id = Vec::new();
        for format in formats {
            let id = usize::from(format.id);
            if by_id.len() <= id {
                by_id.resize_with(id + 1, || None);
            }
            by_id[id] = meaning(format);
        }
        Rules { by_id }
    }

    /// The meaning of an event; `None` if it is not used.
    pub fn of(&self, id: u16) -> Option<&Meaning<'a>> {
        self.by_id.get(usize::from(id))?.as_ref()
    }
}

fn meaning(format: &EventFormat) -> Option<Meaning<'_>> {
    let event = format!("{}:{}", format.system, format.name);
    if format.system == "syscalls" {
        return call(format);
    }
    if event == "ftrace:print" {
        return format.field("buf").map(Meaning::Marker);
    }
    if event == "bpf_trace:bpf_trace_printk" {
        return Some(Meaning::Name);
    }
    if format.system.starts_with("flashmob") {
        let is_return = format.name.ends_with(RETURN_SUFFIX);
        let name = format.name.strip_suffix(RETURN_SUFFIX).unwrap_or(&format.name);
        return Some(Meaning::Probe(Probe { name, is_return }));
    }
    let table = table();
    for (index, rule) in table.span.iter().enumerate() {
        if rule.begin.contains(&event) {
            return Some(Meaning::Begin(span(format, index, rule)));
        }
        if rule.end.contains(&event) {
            return Some(Meaning::End(span(format, index, rule)));
        }
    }
    if let Some((index, rule)) = table.point.iter().enumerate().find(|(_, rule)| rule.begin.contains(&event)) {
        return Some(Meaning::Point(span(format, index, rule)));
    }
    if let Some(rule) = table.map.iter().find(|rule| rule.event.contains(&event)) {
        return Some(Meaning::Map(MapFields {
            device: format.field(&rule.device)?,
            inode: format.field(&rule.inode)?,
            physical: format.field(&rule.physical)?,
            length: format.field(&rule.length)?,
        }));
    }
    if let Some((step, _)) = table.block.iter().find(|(_, events)| events.contains(&event)) {
        return Some(Meaning::Block(Block {
            step: *step,
            device: format.field("dev")?,
            sector: format.field("sector")?,
            sectors: format.field("nr_sector")?,
            kind: format.field("rwbs")?,
            comm: format.field("comm"),
        }));
    }
    schedule(format, &event)
}

/// The field named by a rule, if any and if the kernel has it.
fn named<'a>(format: &'a EventFormat, name: &Option<String>) -> Option<&'a Field> {
    format.field(name.as_deref()?)
}

fn call(format: &EventFormat) -> Option<Meaning<'_>> {
    let is_enter = format.name.starts_with("sys_enter_");
    let name = format.name.strip_prefix(if is_enter { "sys_enter_" } else { "sys_exit_" })?;
    let rule = table().system_call.iter().find(|rule| rule.names.iter().any(|n| n == name))?;
    // Maps historical kernel names to those of the C library.
    let name = match name {
        "newfstat" => "fstat",
        "newstat" => "stat",
        "newlstat" => "lstat",
        name => name,
    };
    let call = Call {
        name,
        rule,
        file: named(format, &rule.file),
        offset: named(format, &rule.offset),
        result: format.field("ret"),
        closes_to: named(format, &rule.closes_to),
        copies_by: named(format, &rule.copies_by),
    };
    Some(if is_enter { Meaning::CallEnter(call) } else { Meaning::CallExit(call) })
}

fn span<'a>(format: &'a EventFormat, index: usize, rule: &'static SpanRule) -> Span<'a> {
    let field = |name| named(format, name);
    Span {
        index,
        rule,
        keys: rule.keys.iter().filter_map(|name| format.field(name)).collect(),
        device: field(&rule.device),
        inode: field(&rule.inode),
        offset: field(&rule.offset),
        page: field(&rule.page),
        bytes: field(&rule.bytes),
        sector: field(&rule.sector),
        sectors: field(&rule.sectors),
        host: field(&rule.host),
        code: field(&rule.code),
    }
}

fn schedule<'a>(format: &'a EventFormat, event: &str) -> Option<Meaning<'a>> {
    let names = &table().schedule;
    if event == names.switch {
        return Some(Meaning::Switch(Switch {
            from: format.field("prev_pid")?,
            from_comm: format.field("prev_comm"),
            state: format.field("prev_state")?,
            to: format.field("next_pid")?,
            to_comm: format.field("next_comm"),
        }));
    }
    if event == names.waking {
        return Some(Meaning::Waking(Waking { thread: format.field("pid")?, flags: format.field("common_flags") }));
    }
    if event == names.new_task {
        return Some(Meaning::NewTask(NewTask { thread: format.field("pid")?, flags: format.field("clone_flags")? }));
    }
    None
}
