//! The table, made ready for the formats of the kernel at hand.

use crate::format::{EventFormat, Field};
use crate::layers::{MapRule, PointRule, SpanRule, SystemCall, table};
use flashmob_results::trace::Layer;

/// What each kind of event means, by its number.
#[derive(Debug)]
pub struct Rules<'a> {
    by_id: Vec<Option<Meaning<'a>>>,
}

/// What an event means.
#[derive(Debug)]
pub enum Meaning<'a> {
    /// A system call begins.
    CallEnter(Call<'a>),
    /// It returns.
    CallExit(Call<'a>),
    /// Work begins.
    Begin(Begin<'a>),
    /// Work ends.
    End(End<'a>),
    /// A moment.
    Point(Point<'a>),
    /// Where a file lies.
    Map(MapFields<'a>),
    /// The block layer.
    Block(Block<'a>),
    /// A processor changes threads.
    Switch(Switch<'a>),
    /// A thread is woken.
    Waking(Waking<'a>),
    /// A thread was made.
    NewTask(NewTask<'a>),
    /// A marker of the application.
    Marker(&'a Field),
    /// A name that a system call was given.
    Name,
    /// A function of a SQLite that was probed.
    Probe(Probe<'a>),
}

/// A system call.
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

/// Fields that say what work is about.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    pub device: Option<&'a Field>,
    pub inode: Option<&'a Field>,
    pub offset: Option<&'a Field>,
    pub page: Option<&'a Field>,
    pub bytes: Option<&'a Field>,
}

/// The begin of work.
#[derive(Debug)]
pub struct Begin<'a> {
    pub index: usize,
    pub rule: &'static SpanRule,
    pub fields: Fields<'a>,
    pub keys: Vec<&'a Field>,
    /// Where it is a command of a driver, what tells its request.
    pub command: CommandFields<'a>,
}

/// Fields of a driver's command.
#[derive(Debug, Default)]
pub struct CommandFields<'a> {
    pub sector: Option<&'a Field>,
    pub sectors: Option<&'a Field>,
    pub host: Option<&'a Field>,
    pub code: Option<&'a Field>,
}

/// The end of work.
#[derive(Debug)]
pub struct End<'a> {
    pub index: usize,
    pub before_issue: bool,
    pub bytes: Option<&'a Field>,
    pub keys: Vec<&'a Field>,
}

/// A moment.
#[derive(Debug)]
pub struct Point<'a> {
    pub layer: Layer,
    pub name: &'static str,
    pub fields: Fields<'a>,
}

/// Where a file lies.
#[derive(Debug)]
pub struct MapFields<'a> {
    pub device: &'a Field,
    pub inode: &'a Field,
    pub physical: &'a Field,
    pub length: &'a Field,
}

/// What happens to a bio or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStep {
    Queue,
    Merge,
    Insert,
    Requeue,
    Issue,
    Complete,
}

/// An event of the block layer.
#[derive(Debug)]
pub struct Block<'a> {
    pub step: BlockStep,
    pub device: &'a Field,
    pub sector: &'a Field,
    pub sectors: &'a Field,
    pub kind: &'a Field,
    pub comm: Option<&'a Field>,
}

/// A processor changes threads.
#[derive(Debug)]
pub struct Switch<'a> {
    pub from: &'a Field,
    pub from_comm: Option<&'a Field>,
    pub state: &'a Field,
    pub to: &'a Field,
    pub to_comm: Option<&'a Field>,
}

/// A thread is woken.
#[derive(Debug)]
pub struct Waking<'a> {
    pub thread: &'a Field,
    /// In what the waker was interrupted.
    pub flags: Option<&'a Field>,
}

/// A thread was made.
#[derive(Debug)]
pub struct NewTask<'a> {
    pub thread: &'a Field,
    pub flags: &'a Field,
}

/// A probed function.
#[derive(Debug)]
pub struct Probe<'a> {
    pub name: &'a str,
    pub is_return: bool,
}

/// How the names of probes on returns end.
pub const RETURN_SUFFIX: &str = "_return";

impl<'a> Rules<'a> {
    /// For these formats.
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

    /// What an event means; nothing if it is of no interest.
    pub fn of(&self, id: u16) -> Option<&Meaning<'a>> {
        self.by_id.get(usize::from(id))?.as_ref()
    }
}

fn meaning(format: &EventFormat) -> Option<Meaning<'_>> {
    let event = format!("{}:{}", format.system, format.name);
    let field = |name: &str| format.field(name);
    let wanted = |name: &Option<String>| name.as_deref().and_then(field);
    if format.system == "syscalls" {
        return call(format);
    }
    if event == "ftrace:print" {
        return field("buf").map(Meaning::Marker);
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
        let keys = || rule.keys.iter().filter_map(|name| field(name)).collect();
        if rule.begin.contains(&event) {
            let command = CommandFields {
                sector: wanted(&rule.sector),
                sectors: wanted(&rule.sectors),
                host: wanted(&rule.host),
                code: wanted(&rule.code),
            };
            let fields = fields_of_span(format, rule);
            return Some(Meaning::Begin(Begin { index, rule, fields, keys: keys(), command }));
        }
        if rule.end.contains(&event) {
            return Some(Meaning::End(End {
                index,
                before_issue: rule.before_issue,
                bytes: wanted(&rule.bytes),
                keys: keys(),
            }));
        }
    }
    if let Some(rule) = table.point.iter().find(|rule| rule.event.contains(&event)) {
        return Some(Meaning::Point(Point {
            layer: rule.layer,
            name: &rule.name,
            fields: fields_of_point(format, rule),
        }));
    }
    if let Some(rule) = table.map.iter().find(|rule| rule.event.contains(&event)) {
        return map(format, rule);
    }
    block(format, &event).or_else(|| schedule(format, &event))
}

fn call(format: &EventFormat) -> Option<Meaning<'_>> {
    let is_enter = format.name.starts_with("sys_enter_");
    let name = format.name.strip_prefix(if is_enter { "sys_enter_" } else { "sys_exit_" })?;
    let rule = table().system_call.iter().find(|rule| rule.names.iter().any(|n| n == name))?;
    let field = |name: &Option<String>| name.as_deref().and_then(|name| format.field(name));
    let (file, offset) = (field(&rule.file), field(&rule.offset));
    // The kernel's names carry history; people know the calls by those of the C library.
    let name = match name {
        "newfstat" => "fstat",
        "newstat" => "stat",
        "newlstat" => "lstat",
        name => name,
    };
    let (closes_to, copies_by) = (field(&rule.closes_to), field(&rule.copies_by));
    let call = Call { name, rule, file, offset, result: format.field("ret"), closes_to, copies_by };
    Some(if is_enter { Meaning::CallEnter(call) } else { Meaning::CallExit(call) })
}

fn fields_of_span<'a>(format: &'a EventFormat, rule: &SpanRule) -> Fields<'a> {
    let field = |name: &Option<String>| name.as_deref().and_then(|name| format.field(name));
    let (device, inode) = (field(&rule.device), field(&rule.inode));
    Fields { device, inode, offset: field(&rule.offset), page: field(&rule.page), bytes: field(&rule.bytes) }
}

fn fields_of_point<'a>(format: &'a EventFormat, rule: &PointRule) -> Fields<'a> {
    let field = |name: &Option<String>| name.as_deref().and_then(|name| format.field(name));
    Fields { device: field(&rule.device), inode: field(&rule.inode), page: field(&rule.page), ..Fields::default() }
}

fn map<'a>(format: &'a EventFormat, rule: &MapRule) -> Option<Meaning<'a>> {
    Some(Meaning::Map(MapFields {
        device: format.field(&rule.device)?,
        inode: format.field(&rule.inode)?,
        physical: format.field(&rule.physical)?,
        length: format.field(&rule.length)?,
    }))
}

fn block<'a>(format: &'a EventFormat, event: &str) -> Option<Meaning<'a>> {
    let names = &table().block;
    let step = match event {
        _ if event == names.queue => BlockStep::Queue,
        _ if event == names.back_merge || event == names.front_merge => BlockStep::Merge,
        _ if event == names.insert => BlockStep::Insert,
        _ if event == names.requeue => BlockStep::Requeue,
        _ if event == names.issue => BlockStep::Issue,
        _ if event == names.complete => BlockStep::Complete,
        _ => return None,
    };
    Some(Meaning::Block(Block {
        step,
        device: format.field("dev")?,
        sector: format.field("sector")?,
        sectors: format.field("nr_sector")?,
        kind: format.field("rwbs")?,
        comm: format.field("comm"),
    }))
}

fn schedule<'a>(format: &'a EventFormat, event: &str) -> Option<Meaning<'a>> {
    let names = &table().schedule;
    let field = |name: &str| format.field(name);
    if event == names.switch {
        return Some(Meaning::Switch(Switch {
            from: field("prev_pid")?,
            from_comm: field("prev_comm"),
            state: field("prev_state")?,
            to: field("next_pid")?,
            to_comm: field("next_comm"),
        }));
    }
    if event == names.waking {
        return Some(Meaning::Waking(Waking { thread: field("pid")?, flags: field("common_flags") }));
    }
    if event == names.new_task {
        return Some(Meaning::NewTask(NewTask { thread: field("pid")?, flags: field("clone_flags")? }));
    }
    None
}
