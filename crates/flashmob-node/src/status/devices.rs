//! Devices of nodes as a table: battery, temperature, free space, and last absence. Within 80 columns, for phones.

use flashmob_core::units::Bytes;

use super::units::{bytes, count, printable};
use flashmob_server::status::report::{ConditionReport, NodeOfVolume, VolumeReport};
use flashmob_text::Side::{Left, Right};
use flashmob_text::{Colour, Row, Table};

/// The devices of a volume's nodes; `None` if none reported anything.
pub(super) fn of_volume(volume: &VolumeReport) -> Option<Table> {
    let told: Vec<(&NodeOfVolume, &ConditionReport)> =
        volume.present().filter_map(|node| Some((node, node.condition.as_ref()?))).collect();
    if told.is_empty() {
        return None;
    }
    let mut table = Table::new(&[Left, Right, Left, Right, Left, Right, Right, Right]);
    table.plain(["", "", "", "", "", "", "to be", ""]);
    table.plain(["device", "battery", "power", "temp", "screen", "free", "alloc.", "pauses"]);
    told.into_iter().for_each(|(node, condition)| table.row(row(&node.name, condition)));
    Some(table)
}

fn row(name: &str, c: &ConditionReport) -> Row {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    let paint = |is_bad: bool| if is_bad { Colour::Bad } else { Colour::Plain };
    let room = paint(c.is_space_little);
    vec![
        (printable(name), Colour::Plain),
        (known(c.battery_percent.map(|percent| format!("{percent} %"))), paint(c.is_battery_low)),
        (power(c).to_string(), paint(c.is_battery_low)),
        (known(celsius(c)), paint(c.is_hot)),
        (known(c.screen_on.map(|is_on| if is_on { "on" } else { "off" }.to_string())), Colour::Plain),
        (known(c.free_bytes.map(bytes)), room),
        (known(c.unallocated_bytes.map(bytes)), room),
        (count(c.pauses_total.into()), if c.pauses_total > 0 { Colour::Doubtful } else { Colour::Plain }),
    ]
}

fn power(c: &ConditionReport) -> &'static str {
    match (c.charging, c.doze) {
        (Some(true), _) => "charging",
        (_, Some(true)) => "dozing",
        (Some(false), _) => "on battery",
        (None, _) => "-",
    }
}

fn celsius(c: &ConditionReport) -> Option<String> {
    c.celsius.filter(|celsius| celsius.is_finite() && celsius.abs() < 1e4).map(|celsius| format!("{celsius:.1} °C"))
}

/// Why a node was last paused, if it was.
pub(super) fn last_pause(c: &ConditionReport) -> Option<String> {
    let pause = c.pauses.last()?;
    let lasted = if pause.lasted_seconds < 10.0 { 1 } else { 0 };
    Some(format!("{:.lasted$} s: {}", pause.lasted_seconds, pause.reason))
}

/// A node's own device.
pub(super) fn pairs(c: &ConditionReport) -> Vec<(&'static str, String)> {
    let parts = [
        c.battery_percent.map(|percent| format!("battery {percent} %")),
        c.charging.map(|_| power(c).to_string()),
        celsius(c),
        c.screen_on.map(|is_on| format!("screen {}", if is_on { "on" } else { "off" })),
        c.network.as_ref().map(|network| printable(network)),
    ];
    let device: Vec<String> = parts.into_iter().flatten().collect();
    let free = c.free_bytes.map(|free| format!("{} free", Bytes(free)));
    let wanted = c.unallocated_bytes.map(|n| format!("the extent has {} not yet allocated", Bytes(n)));
    let room: Vec<String> = free.into_iter().chain(wanted).collect();
    let pauses = match last_pause(c) {
        Some(last) => format!("{}; last: {}", c.pauses_total, printable(&last)),
        None => "none".to_string(),
    };
    let device = ("device", device.join(", "));
    let room = ("space", room.join("; "));
    [device, room, ("pauses", pauses)].into_iter().filter(|(_, text)| !text.is_empty()).collect()
}
