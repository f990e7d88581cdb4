//! The figure of the rates: bars, our own in colour.

use flashmob_peers::bars::{self, Bar, Look};

use super::markdown::count;
use super::{Report, RowReport};
use crate::rows::{Class, Group};

/// The groups that are drawn.
const GROUPS: [Group; 4] = [Group::Blocks1, Group::Blocks4, Group::Bytes4, Group::Writes];

/// Draws the figure; `None` if nothing that belongs into it was measured.
pub fn svg(report: &Report) -> anyhow::Result<Option<String>> {
    let groups: Vec<bars::Group> = GROUPS.into_iter().filter_map(|group| bars_of(report, group)).collect();
    if groups.is_empty() {
        return Ok(None);
    }
    let header = &report.header;
    let how = format!(
        "{}, {} cores, Linux {}; medians of {} rounds, thin lines from least to greatest; requests per second",
        header.cpu, header.cpus, header.kernel, header.rounds
    );
    bars::svg(&groups, &how).map(Some)
}

fn bars_of(report: &Report, group: Group) -> Option<bars::Group> {
    let drawn = |row: &&RowReport| row.group == group && row.class != Class::CrossCheck;
    let bars: Vec<Bar> = report.rows.iter().filter(drawn).map(bar).collect();
    (!bars.is_empty()).then(|| bars::Group { title: group.title().to_string(), bars, full: None })
}

fn bar(row: &RowReport) -> Bar {
    let look = match row.class {
        Class::Ours => Look::Ours,
        Class::Peer => Look::Peer,
        Class::Anchor | Class::CrossCheck => Look::Anchor,
    };
    let rate = &row.per_second;
    Bar { name: row.name.clone(), look, min: rate.min, median: rate.median, max: rate.max, value: count(rate.median) }
}
