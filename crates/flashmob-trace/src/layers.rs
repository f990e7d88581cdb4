//! The table that says which events make a layer: `layers.toml`, built in.
//!
//! Kernels differ in what they tell. An event of the table that the kernel at hand lacks is left out, and [`Table::shows`] says which layer lost
//! something by that.

use std::sync::LazyLock;

use flashmob_results::trace::Layer;
use serde::Deserialize;

use crate::capture::{Event, Scope};

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // A test reads it, so it is known to be well-formed.
    toml::from_str(include_str!("layers.toml")).unwrap_or_default()
});

/// The built-in table.
#[must_use]
pub fn table() -> &'static Table {
    &TABLE
}

/// All of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// System calls.
    pub system_call: Vec<SystemCall>,
    /// Work with a begin and an end.
    pub span: Vec<SpanRule>,
    /// Moments.
    pub point: Vec<PointRule>,
    /// Where blocks of files lie.
    pub map: Vec<MapRule>,
    /// Requests of the block layer.
    pub block: BlockRule,
    /// Who runs.
    pub schedule: ScheduleRule,
}

/// System calls that are told apart by name alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemCall {
    /// Their names.
    pub names: Vec<String>,
    /// The argument that is a descriptor.
    pub file: Option<String>,
    /// The argument that is a position in the file.
    pub offset: Option<String>,
    /// What they return is a number of bytes.
    pub moves: bool,
    /// What they return is a descriptor.
    pub opens: bool,
    /// Their descriptor is none afterwards.
    pub closes: bool,
    /// The argument that is the last descriptor of those that are none afterwards; the first is `file`.
    pub closes_to: Option<String>,
    /// What they return is one more descriptor of the same open file.
    pub copies: bool,
    /// The argument that says whether they do; none: they always do.
    pub copies_by: Option<String>,
    /// Values of that with which they do.
    pub copies_if: Vec<u64>,
    /// They take a name.
    pub path: bool,
    /// They are about files that no argument names.
    pub many: bool,
}

/// Whose events are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// Those about the workload's devices, whoever did it.
    #[default]
    Devices,
    /// Those of the workload's threads.
    Threads,
    /// Everybody's.
    All,
}

/// Work with a begin and an end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanRule {
    /// Its layer.
    pub layer: Layer,
    /// What is done.
    pub name: String,
    /// Events that begin it.
    pub begin: Vec<String>,
    /// Events that end it; none: the return of the thread's system call does.
    #[serde(default)]
    pub end: Vec<String>,
    /// Fields by which an end finds its begin; none: it is the same thread's.
    #[serde(default)]
    pub keys: Vec<String>,
    /// The field with the device's number.
    pub device: Option<String>,
    /// The field with the inode.
    pub inode: Option<String>,
    /// The field with the position in the file.
    pub offset: Option<String>,
    /// The field with the position in the file, in pages.
    pub page: Option<String>,
    /// The field with the bytes.
    pub bytes: Option<String>,
    /// The field with the place on the disk, in sectors of 512 bytes.
    pub sector: Option<String>,
    /// The field with how many; 0 where there is no place.
    pub sectors: Option<String>,
    /// The field that tells hosts of one driver apart.
    pub host: Option<String>,
    /// The field whose number ends the name.
    pub code: Option<String>,
    /// It begins right after the issue of the request that it serves, by the same thread.
    #[serde(default)]
    pub after_issue: bool,
    /// It begins right before that.
    #[serde(default)]
    pub before_issue: bool,
    /// Whose.
    #[serde(default)]
    pub scope: Whose,
}

/// A moment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointRule {
    /// Its layer.
    pub layer: Layer,
    /// What is done.
    pub name: String,
    /// Events that say so.
    pub event: Vec<String>,
    /// The field with the device's number.
    pub device: Option<String>,
    /// The field with the inode.
    pub inode: Option<String>,
    /// The field with the position in the file, in pages.
    pub page: Option<String>,
    /// Whose.
    #[serde(default)]
    pub scope: Whose,
}

/// Where blocks of a file lie, in blocks of the file system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapRule {
    /// Events that say so.
    pub event: Vec<String>,
    /// The field with the device's number.
    pub device: String,
    /// The field with the inode.
    pub inode: String,
    /// The field with the first block in the file.
    pub logical: String,
    /// The field with the first block on the device.
    pub physical: String,
    /// The field with how many.
    pub length: String,
}

/// Names of the block layer's events.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRule {
    /// A bio is handed over.
    pub queue: String,
    /// It joined the end of a request.
    pub back_merge: String,
    /// It joined the begin of a request.
    pub front_merge: String,
    /// A request entered the scheduler.
    pub insert: String,
    /// It came back from the driver unserved.
    pub requeue: String,
    /// It left for the driver.
    pub issue: String,
    /// It is done.
    pub complete: String,
}

/// Names of the scheduler's events.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRule {
    /// A processor changes threads.
    pub switch: String,
    /// Somebody wakes a thread.
    pub waking: String,
    /// A thread was made.
    pub new_task: String,
}

impl Table {
    /// Every event that it names, as a capture wants them.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let mut all = Vec::new();
        let mut add = |name: &str, scope: Scope| {
            if let Some((system, name)) = name.split_once(':') {
                all.push(Event { system: system.into(), name: name.into(), scope, filter: None });
            }
        };
        for name in self.system_call.iter().flat_map(|call| &call.names) {
            add(&format!("syscalls:sys_enter_{name}"), Scope::Threads);
            add(&format!("syscalls:sys_exit_{name}"), Scope::Threads);
        }
        for rule in &self.span {
            rule.begin.iter().chain(&rule.end).for_each(|name| add(name, rule.scope.into()));
        }
        for rule in &self.point {
            rule.event.iter().for_each(|name| add(name, rule.scope.into()));
        }
        for rule in &self.map {
            rule.event.iter().for_each(|name| add(name, Scope::Devices));
        }
        let block = &self.block;
        let requests = [
            &block.queue,
            &block.back_merge,
            &block.front_merge,
            &block.insert,
            &block.requeue,
            &block.issue,
            &block.complete,
        ];
        requests.into_iter().for_each(|name| add(name, Scope::Devices));
        let schedule = &self.schedule;
        [&schedule.switch, &schedule.waking, &schedule.new_task].into_iter().for_each(|name| add(name, Scope::Threads));
        all
    }

    /// The layers that an event, as `system:name`, tells of.
    #[must_use]
    pub fn shows(&self, event: &str) -> Vec<Layer> {
        let mut layers = Vec::new();
        let (system, name) = event.split_once(':').unwrap_or(("", event));
        let call = name.strip_prefix("sys_enter_").or_else(|| name.strip_prefix("sys_exit_"));
        let is_call = |call: &str| self.system_call.iter().flat_map(|rule| &rule.names).any(|name| name == call);
        if system == "syscalls" && call.is_some_and(is_call) {
            layers.push(Layer::SystemCall);
        }
        let spans = self.span.iter().filter(|rule| rule.begin.iter().chain(&rule.end).any(|name| name == event));
        layers.extend(spans.map(|rule| rule.layer));
        let points = self.point.iter().filter(|rule| rule.event.iter().any(|name| name == event));
        layers.extend(points.map(|rule| rule.layer));
        if system == "block" {
            layers.push(Layer::Block);
        }
        if event == self.block.issue || event == self.block.complete {
            layers.push(Layer::Driver);
        }
        if system == "sched" {
            layers.push(Layer::Processor);
        }
        layers.sort_unstable();
        layers.dedup();
        layers
    }
}

impl From<Whose> for Scope {
    fn from(whose: Whose) -> Scope {
        match whose {
            Whose::Devices => Scope::Devices,
            Whose::Threads => Scope::Threads,
            Whose::All => Scope::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed_and_names_each_event_once() {
        let table: Table = toml::from_str(include_str!("layers.toml")).unwrap();
        let mut names: Vec<String> = table.events().iter().map(|e| format!("{}:{}", e.system, e.name)).collect();
        assert!(names.len() > 100);
        for name in &names {
            assert!(
                !table.shows(name).is_empty() || name.ends_with("allocate_blocks") || name.ends_with("newtask"),
                "{name}"
            );
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "an event that is there twice would be counted twice");
    }

    #[test]
    fn what_an_event_shows() {
        let of = |event: &str| table().shows(event);
        assert_eq!(of("block:block_rq_issue"), [Layer::Block, Layer::Driver]);
        assert_eq!(of("syscalls:sys_enter_pwrite64"), [Layer::SystemCall]);
        assert_eq!(of("ext4:ext4_writepages"), [Layer::PageCache]);
        assert_eq!(of("mmc:mmc_request_done"), [Layer::Driver]);
        assert!(of("syscalls:sys_enter_getpid").is_empty());
    }
}
