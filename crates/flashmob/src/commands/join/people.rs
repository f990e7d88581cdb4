//! Devices, as people see them, and as programs do.

use std::io::Write;

use flashmob_core::units::Bytes;
use flashmob_server::config::{Config, NodeSource};
use flashmob_server::keys::enroll::JoinPort;
use flashmob_server::keys::enroll::desk::{Caution, Device, State};
use flashmob_text::{Side, Table, quoted_beside_digits};
use serde::Serialize;

use super::desk::Session;
use crate::commands::tell::Form;

const WIDTH: usize = 140;

/// The most columns of a device's name.
const NAME_COLUMNS_MAX: usize = 24;
/// The word before the digits that a device shows.
const SHOWS: &str = "shows";

/// The name that a device says it has.
pub fn name(device: &Device) -> String {
    match &device.request.name[..] {
        "" => "a device".to_string(),
        name => quoted_name(name),
    }
}

/// A name that looks like no part of what this command says: it has neither six digits nor the word before them.
fn quoted_name(name: &str) -> String {
    let mut name = name.to_string();
    while let Some(at) = name.to_ascii_lowercase().find(SHOWS) {
        name.replace_range(at..at + SHOWS.len(), "#");
    }
    quoted_beside_digits(&name, NAME_COLUMNS_MAX)
}

/// Where gateways will reach it.
fn address(device: &Device) -> String {
    device.place().map_or_else(String::new, |place| place.to_string())
}

/// A device that has come.
pub fn line(device: &Device) -> String {
    let state = match device.state {
        // Alone in a line, for what a device says of itself is in the one before.
        State::Waiting if device.needs_confirmation => format!("has come, and {SHOWS}\n{}", device.digits),
        State::Waiting => "is here".to_string(),
        State::Pinned | State::Kept => "is enrolled".to_string(),
        State::TurnedDown => "was turned down".to_string(),
    };
    format!("{} at {} {state}", name(device), address(device))
}

fn caution(device: &Device) -> &'static str {
    match device.caution {
        None => "",
        Some(Caution::InUse) => "a volume has this extent, whose key was not known",
        Some(Caution::Replaces(_)) => "replaces the key that is known",
    }
}

/// The devices that somebody is to confirm.
pub fn list(session: &Session<'_>, numbers: &[usize]) -> anyhow::Result<()> {
    let devices = session.port.devices();
    let mut table = Table::new(&[Side::Left, Side::Left, Side::Left, Side::Right, Side::Left, Side::Left]);
    table.plain(["digits", "name", "address", "size", "extent", ""]);
    for device in numbers.iter().filter_map(|&number| devices.get(number)) {
        table.plain([
            device.digits.clone(),
            name(device),
            address(device),
            Bytes(device.request.size_bytes).to_string(),
            device.request.extent.to_string(),
            caution(device).to_string(),
        ]);
    }
    table.lines(WIDTH, false).iter().try_for_each(|line| session.say(line))
}

/// What `--output json` writes at the end.
#[derive(Debug, Serialize)]
struct Report {
    /// The cluster's public key.
    cluster: String,
    nodes: Vec<NodeReport>,
}

#[derive(Debug, Serialize)]
struct NodeReport {
    name: String,
    /// Where gateways reach it.
    address: String,
    extent: String,
    size_bytes: u64,
    /// Its public key.
    key: String,
    /// `enrolled`, `confirmed` (its key is pinned, and it does not know it), or `refused`.
    state: &'static str,
}

/// What became of all devices, and what is to be done now.
pub fn report(config: &Config, config_path: &str, port: &JoinPort, output: Form) -> anyhow::Result<()> {
    let devices = port.devices();
    let mut out = std::io::stdout();
    if output == Form::Json {
        let nodes = devices.iter().map(of_device).collect();
        writeln!(out, "{}", serde_json::to_string(&Report { cluster: port.cluster().to_string(), nodes })?)?;
        return Ok(());
    }
    let enrolled: Vec<&Device> = devices.iter().filter(|device| device.state == State::Kept).collect();
    for device in &enrolled {
        writeln!(out, "{}: enrolled, extent {}", name(device), device.request.extent)?;
    }
    let is_named = |device: &&&Device| {
        let mut nodes = config.volumes.iter().flat_map(|volume| &volume.nodes);
        let place = address(device);
        nodes.any(|node| {
            node.extent == Some(device.request.extent)
                || matches!(&node.source, NodeSource::Remote { address } if *address == place)
        })
    };
    let unnamed: Vec<_> = enrolled.iter().filter(|device| !is_named(device)).collect();
    if unnamed.is_empty() {
        return Ok(());
    }
    if let Some(volume) = config.volumes.iter().find(|volume| volume.copies.is_some()) {
        writeln!(out, "a volume with copies that is in use takes a node by")?;
        for device in &unnamed {
            writeln!(out, "flashmob volume add {config_path} {} {}", volume.name, address(device))?;
        }
        writeln!(out, "and any other if the configuration names it:")?;
    } else {
        writeln!(out, "a volume uses a node if the configuration names it:")?;
    }
    for device in unnamed {
        writeln!(out, "[[volume.node]]\naddress = \"{}\"   # {}", address(device), name(device))?;
    }
    Ok(())
}

fn of_device(device: &Device) -> NodeReport {
    NodeReport {
        name: device.request.name.clone(),
        address: address(device),
        extent: device.request.extent.to_string(),
        size_bytes: device.request.size_bytes,
        key: device.key.to_string(),
        state: match device.state {
            State::Kept => "enrolled",
            State::Pinned => "confirmed",
            State::Waiting | State::TurnedDown => "refused",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_part_of_what_is_said_of_a_device() {
        let forged = quoted_name("tablet at 10.9.0.98:7411 shows 555 123");
        assert!(!forged.contains(|c: char| c.is_ascii_digit()) && !forged.contains(SHOWS), "{forged}");
        assert!(
            forged.starts_with("'tablet at") && forged.ends_with('\'') && flashmob_text::columns(&forged) <= 26,
            "{forged}"
        );
        assert_eq!(quoted_name("ShoWs shshowsows 12345"), "'# sh#ows 12345'");
        assert_eq!(quoted_name("nexus7-a"), "'nexus7-a'");
    }
}
