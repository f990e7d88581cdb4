//! The table of events that make a layer: `layers.toml`, built in. The head of that file describes the fields.
//!
//! Kernels differ in their events: an event of the table that the running kernel lacks is left out.

use std::collections::BTreeMap;
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

/// All rules.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub(crate) system_call: Vec<SystemCall>,
    pub(crate) span: Vec<SpanRule>,
    pub(crate) point: Vec<SpanRule>,
    pub(crate) map: Vec<MapRule>,
    pub(crate) block: BTreeMap<BlockStep, Vec<String>>,
    pub(crate) schedule: ScheduleRule,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SystemCall {
    pub names: Vec<String>,
    pub file: Option<String>,
    pub offset: Option<String>,
    pub moves: bool,
    pub opens: bool,
    pub closes: bool,
    pub closes_to: Option<String>,
    pub copies: bool,
    pub copies_by: Option<String>,
    pub copies_if: Vec<u64>,
    pub path: bool,
    pub many: bool,
}

/// Work with a begin and an end, or a moment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpanRule {
    pub layer: Layer,
    pub name: String,
    #[serde(alias = "event")]
    pub begin: Vec<String>,
    #[serde(default)]
    pub end: Vec<String>,
    #[serde(default)]
    pub keys: Vec<String>,
    pub device: Option<String>,
    pub inode: Option<String>,
    pub offset: Option<String>,
    pub page: Option<String>,
    pub bytes: Option<String>,
    pub sector: Option<String>,
    pub sectors: Option<String>,
    pub host: Option<String>,
    pub code: Option<String>,
    #[serde(default)]
    pub after_issue: bool,
    #[serde(default)]
    pub before_issue: bool,
    #[serde(default)]
    pub scope: Scope,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapRule {
    pub event: Vec<String>,
    pub device: String,
    pub inode: String,
    pub physical: String,
    pub length: String,
}

/// What happens to a bio or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlockStep {
    Queue,
    Merge,
    Insert,
    /// The driver had no room for it.
    Requeue,
    Issue,
    Complete,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleRule {
    pub switch: String,
    pub waking: String,
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
        for rule in self.span.iter().chain(&self.point) {
            rule.begin.iter().chain(&rule.end).for_each(|name| add(name, rule.scope));
        }
        let maps = self.map.iter().flat_map(|rule| &rule.event);
        maps.chain(self.block.values().flatten()).for_each(|name| add(name, Scope::Devices));
        let schedule = &self.schedule;
        [&schedule.switch, &schedule.waking, &schedule.new_task].into_iter().for_each(|name| add(name, Scope::Threads));
        all
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
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "an event that is there twice would be counted twice");
    }
}
