//! The nodes found, as a table and as JSON.

use std::fmt::Write;
use std::net::SocketAddr;

use serde::Serialize;

use super::search::Search;
use crate::status::units::{bytes, count, printable, shortened};
use flashmob_server::discovery::found::{Found, FoundNodes, Way};
use flashmob_server::discovery::{Announcement, MeasuredOver};
use flashmob_text::Side::{Left, Right};
use flashmob_text::Table;

/// Version of the JSON format.
const SCHEMA: u32 = 1;
/// Columns of a table.
const WIDTH: usize = 140;

/// The table of nodes.
pub fn table(found: &FoundNodes) -> String {
    let mut table = Table::new(&[Left, Left, Left, Right, Right, Left, Right, Left]);
    table.plain(["name", "model", "address", "size", "reads/s", "volume", "battery", "found by"]);
    found.listed().iter().for_each(|node| table.plain(row(node)));
    let mut text = String::new();
    for line in table.lines(WIDTH, false) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    let nodes = found.listed();
    let total_bytes: u64 = nodes.iter().map(|node| node.about.size_bytes).fold(0, u64::saturating_add);
    let _ = writeln!(text, "{} node{}, {}", nodes.len(), if nodes.len() == 1 { "" } else { "s" }, bytes(total_bytes));
    if nodes.iter().any(|node| node.about.reads_per_s.is_some()) {
        text += "reads/s: 4 KiB reads, one at a time, measured by each node on its own flash at startup";
        let is_program = |node: &&Found| node.about.measured_over == Some(MeasuredOver::Program);
        text += if nodes.iter().any(is_program) {
            "; * measured on its program file, because the extent is empty\n"
        } else {
            "\n"
        };
    }
    text
}

fn row(node: &Found) -> [String; 8] {
    let a = &node.about;
    let none = || "-".to_string();
    let mark = if a.measured_over == Some(MeasuredOver::Program) { "*" } else { "" };
    let volume = a.volume.as_ref().map(|volume| match &a.place {
        // As `flashmob volume show` counts them. How many there are, a node does not know.
        Some(place) if place.has_copies() => format!("{} node {}", shortened(&printable(volume), 20), place.index),
        Some(place) => format!("{} {}/{}", shortened(&printable(volume), 20), place.index + 1, place.count),
        None => shortened(&printable(volume), 20),
    });
    [
        printable(&a.shown_name()),
        a.model.as_ref().map_or_else(none, |model| shortened(&printable(model), 24)),
        a.address.clone(),
        bytes(a.size_bytes),
        a.reads_per_s.map_or_else(none, |reads| format!("{}{mark}", count(reads))),
        volume.unwrap_or_else(|| "free".to_string()),
        a.battery_percent.map_or_else(none, |percent| format!("{percent}%")),
        words(node),
    ]
}

/// How it was found, and whether it answers.
pub fn words(node: &Found) -> String {
    let ways: Vec<&str> = node.ways().iter().map(|way| if *way == Way::Mdns { "mDNS" } else { "join" }).collect();
    let silent = if node.is_reached() { "" } else { "; no answer" };
    format!("{}{silent}", ways.join(", "))
}

/// One node in JSON.
#[derive(Debug, Serialize)]
pub struct NodeFound<'a> {
    #[serde(flatten)]
    about: &'a Announcement,
    found_by: Vec<&'static str>,
    answers: bool,
}

impl<'a> NodeFound<'a> {
    /// Its current state.
    pub fn of(node: &'a Found) -> NodeFound<'a> {
        let word = |way: &Way| if *way == Way::Mdns { "mdns" } else { "join" };
        NodeFound { about: &node.about, found_by: node.ways().iter().map(word).collect(), answers: node.is_reached() }
    }
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'static str,
    join: Option<String>,
    multicast: Option<String>,
    notes: &'a [String],
    nodes: Vec<NodeFound<'a>>,
}

/// The whole JSON document.
pub fn document(search: &Search, join: Option<SocketAddr>, notes: &[String]) -> anyhow::Result<String> {
    let document = Document {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        join: join.map(|addr| addr.to_string()),
        multicast: search.no_multicast.as_ref().map(ToString::to_string),
        notes,
        nodes: search.found.listed().into_iter().map(NodeFound::of).collect(),
    };
    Ok(serde_json::to_string_pretty(&document)?)
}
