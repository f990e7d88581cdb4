//! A `[[volume]]` and its `[volume.socket]`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use toml::de::DeValue;

use super::gateway::Reader;
use super::limits::{
    BATCH, BATCH_BYTES, COMPARE, CONGESTION_BYTES_MAX, CONNECT_TIMEOUT, COPIES, DESCRIPTION_BYTES_MAX, EVICT_AFTER,
    KEEP_AWAKE, KEEPALIVE, LINKS, Limits, MIN_CURRENT, NAME_BYTES_MAX, NODES_MAX, OFF, OUTSTANDING_BATCHES,
    OUTSTANDING_BATCHES_DEFAULT_AUTO, RECONNECT_MAX, RECONNECT_MIN, SCRUB, SOCKET_BUFFER, STRIPE, TIMEOUT, VOLUME_SIZE,
};
use super::node::read_node;
use super::quantity::{Count, Period, Quantity, Size, type_name};
use super::report::quoted;
use super::section::{NODE, SOCKET, Section};
use super::types::{Batch, CopiesConfig, LayoutKind, NodeConfig, Sizing, SocketConfig, VolumeConfig, file_name_of};

/// Reads one volume. The result is valid only if no problem was found.
pub(super) fn read_volume(section: &Section<'_>, reader: &mut Reader<'_>) -> VolumeConfig {
    let identity = read_identity(section, reader);
    let batch = read_batch(section);
    let outstanding_default = match batch {
        Batch::Auto => OUTSTANDING_BATCHES_DEFAULT_AUTO,
        Batch::Fixed(_) => OUTSTANDING_BATCHES.default,
    };
    let outstanding = section.quantity("outstanding_batches", &OUTSTANDING_BATCHES).unwrap_or(outstanding_default);
    let (reconnect_min, reconnect_max) = read_reconnect(section);
    let layout = read_layout(section);
    if let Some(LayoutKind::Mapped { .. }) = layout {
        claim_files(&identity, section, reader);
    }
    let Identity { name, id, .. } = identity;
    let nodes = read_nodes(section, layout, reader);
    let timeout = section.quantity("timeout", &TIMEOUT);
    let copies = read_copies(section, layout, &nodes, timeout);
    // A wrong layout was reported.
    let layout = layout.unwrap_or(LayoutKind::Linear);
    VolumeConfig {
        name,
        id,
        description: section.printable("description", DESCRIPTION_BYTES_MAX).map(|(text, _)| text.to_string()),
        layout,
        copies,
        read_only: section.flag("read_only"),
        batch,
        batch_bytes: section.get("batch_bytes", &BATCH_BYTES).0,
        links: section.get("links", &LINKS).0 as usize,
        outstanding_batches: outstanding.0 as usize,
        timeout: timeout.unwrap_or(TIMEOUT.default).0,
        connect_timeout: section.get("connect_timeout", &CONNECT_TIMEOUT).0,
        reconnect_min,
        reconnect_max,
        keep_awake: section.get("keep_awake", &KEEP_AWAKE).0,
        socket: section.section("socket", &SOCKET).map(|socket| read_socket(&socket)).unwrap_or_default(),
        nodes,
    }
}

fn read_identity(section: &Section<'_>, reader: &mut Reader<'_>) -> Identity {
    let name = section.printable("name", NAME_BYTES_MAX);
    let id = section.printable("id", NAME_BYTES_MAX);
    if !section.has("name") {
        section.findings.add(
            &section.span,
            "this volume has no name",
            "write name = \"...\" below the header; NBD clients select the volume by this name",
        );
    }
    let new = name.as_ref().is_some_and(|(name, span)| {
        let message = || format!("two volumes are named {}", quoted(name));
        let help = "give each volume its own name";
        reader.names.claim((*name).to_string(), span, section.findings, message, help)
    });
    // Where the names clash already, one message is enough.
    let mut own_id = id.clone().or_else(|| name.clone().filter(|_| new && !section.has("id")));
    if let Some((id, span)) = &own_id {
        let message = || format!("two volumes have the id {}", quoted(id));
        let help = "give each volume its own id: nodes record the volume they belong to by this id";
        if !reader.ids.claim((*id).to_string(), span, section.findings, message, help) {
            own_id = None;
        }
    }
    let span = own_id.map(|(_, span)| span);
    let name = name.map(|(name, _)| name.to_string()).unwrap_or_default();
    let id = id.map_or_else(|| name.clone(), |(id, _)| id.to_string());
    Identity { name, id, span }
}

/// A volume's name and id.
struct Identity {
    name: String,
    id: String,
    /// Where the id is, if no other volume has it.
    span: Option<Range<usize>>,
}

/// Files of volumes with copies are named by their ids.
fn claim_files(identity: &Identity, section: &Section<'_>, reader: &mut Reader<'_>) {
    let Some(span) = &identity.span else { return };
    let file = file_name_of(&identity.id);
    let message = || format!("two volumes would have one map, in CONFIG.toml.{file}.map");
    let help = "give one of them another id: in names of files, all but letters, digits, '-', '_' and '.' becomes '_', and 100 characters count";
    reader.files.claim(file.clone(), span, section.findings, message, help);
}

/// `None` for one that was reported: nobody knows then which other keys belong to it.
fn read_layout(section: &Section<'_>) -> Option<LayoutKind> {
    let mapped = LayoutKind::Mapped { chunk_bytes: flashmob_core::copies::CHUNK_BYTES };
    let Size(stripe_bytes) = STRIPE.default;
    let striped = LayoutKind::Striped { stripe_bytes };
    let layout = section.choice("layout", &[("linear", LayoutKind::Linear), ("striped", striped), ("mapped", mapped)]);
    if layout == Some(mapped) {
        if section.has("stripe") {
            section.wrong("stripe", "`stripe` is set, but the volume is mapped", "remove this line");
        }
        return layout;
    }
    let is_unknown = section.has("layout") && layout.is_none();
    let striped = layout.map(|layout| layout == striped);
    let stripe = section.quantity("stripe", &STRIPE);
    if !section.has("stripe") {
        let Size(stripe_bytes) = STRIPE.default;
        let layout = if striped == Some(true) { LayoutKind::Striped { stripe_bytes } } else { LayoutKind::Linear };
        return (!is_unknown).then_some(layout);
    }
    // A wrong layout was reported, and may have been meant to be striped.
    if striped == Some(false) || !section.has("layout") {
        section.wrong(
            "stripe",
            "`stripe` is set, but the volume is linear",
            "write layout = \"striped\" as well, or remove this line",
        );
    }
    let Some(Size(stripe_bytes)) = stripe else { return (!is_unknown).then_some(LayoutKind::Linear) };
    if !stripe_bytes.is_power_of_two() {
        section.wrong(
            "stripe",
            format!("`stripe` must be a power of two, not {}", Size(stripe_bytes).to_toml()),
            "write a power of two, such as \"64KiB\": this avoids a division per request, and keeps direct I/O aligned",
        );
    }
    (!is_unknown).then_some(LayoutKind::Striped { stripe_bytes })
}

/// The copies of a mapped volume; reports where they do not fit it.
fn read_copies(
    section: &Section<'_>,
    layout: Option<LayoutKind>,
    nodes: &[NodeConfig],
    timeout: Option<Period>,
) -> Option<CopiesConfig> {
    if !matches!(layout?, LayoutKind::Mapped { .. }) {
        for key in ["size", "copies", "min_current", "evict_after", "scrub", "compare"]
            .into_iter()
            .filter(|key| section.has(key))
        {
            section.wrong(
                key,
                format!("`{key}` is set, but the volume has no copies"),
                "write layout = \"mapped\" as well, or remove this line",
            );
        }
        return None;
    }
    if !section.has("copies") {
        let help = "write copies = 2: each chunk then lies on two nodes";
        section.wrong("layout", "the volume is mapped, but does not say how many copies it has", help);
    }
    let copies = section.quantity("copies", &COPIES).map(|Count(copies)| copies);
    let Count(min_current) = section.get("min_current", &MIN_CURRENT);
    if let Some(copies) = copies.filter(|&copies| min_current > copies) {
        let message = format!("`min_current` is {min_current}, more than `copies`, which is {copies}");
        section.wrong("min_current", message, "write at most the number of `copies`");
    }
    // A node that is wrong was reported, and has no domain here.
    let are_all_read = matches!(section.value("node"), Some((DeValue::Array(items), _)) if items.len() == nodes.len());
    let domain_of = |(at, node): (usize, &NodeConfig)| node.domain.clone().ok_or(at);
    let domains = nodes.iter().enumerate().map(domain_of).collect::<BTreeSet<_>>().len() as u64;
    if let Some(copies) = copies.filter(|&copies| are_all_read && domains > 0 && domains < copies) {
        let there = if domains == 1 { "there is 1".to_string() } else { format!("there are {domains}") };
        let message = format!("{copies} copies need {copies} nodes or domains, and {there}");
        section.wrong("copies", message, "add nodes, correct `domain`, or write fewer copies");
    }
    let Count(default) = COPIES.default;
    Some(CopiesConfig {
        copies: copies.unwrap_or(default) as usize,
        size_bytes: read_size(section),
        min_current: min_current as usize,
        evict_after: read_evict_after(section, timeout, copies.unwrap_or(default)),
        scrub: read_every(section, "scrub", &SCRUB),
        compare: read_every(section, "compare", &COMPARE),
    })
}

/// The size of a new volume, in whole chunks.
fn read_size(section: &Section<'_>) -> Option<u64> {
    let Size(bytes) = section.quantity("size", &VOLUME_SIZE)?;
    let chunk_bytes = flashmob_core::copies::CHUNK_BYTES;
    if !bytes.is_multiple_of(chunk_bytes) {
        let message =
            format!("`size` is {}, which is not a multiple of {}", Size(bytes).to_toml(), Size(chunk_bytes).to_toml());
        section.wrong("size", message, format!("write a multiple of {}", Size(chunk_bytes).to_toml()));
    }
    Some(bytes)
}

/// How often something happens by itself; `None` if it is off.
fn read_every(section: &Section<'_>, key: &'static str, limits: &Limits<Period>) -> Option<Duration> {
    if matches!(section.value(key), Some((DeValue::String(text), _)) if text == OFF) {
        return None;
    }
    Some(section.get(key, limits).0)
}

/// How long a node may be silent. Requests wait for it for so long, and then for the map and for other copies: half of `timeout` is left for
/// those. Of a volume of one copy nobody is put out.
fn read_evict_after(section: &Section<'_>, timeout: Option<Period>, copies: u64) -> Duration {
    let evict_after = section.quantity("evict_after", &EVICT_AFTER);
    let times = (evict_after.unwrap_or(EVICT_AFTER.default), timeout.unwrap_or(TIMEOUT.default));
    // A wrong one was reported; its default says nothing about the intended value.
    let wrong = |key, time: Option<Period>| section.has(key) && time.is_none();
    if copies > 1 && times.0.0 * 2 > times.1.0 && !wrong("evict_after", evict_after) && !wrong("timeout", timeout) {
        let (evict_after_text, timeout_text) = (times.0.to_toml(), times.1.to_toml());
        section.wrong(
            if evict_after.is_some() { "evict_after" } else { "timeout" },
            format!("`evict_after` is {evict_after_text}, more than half of `timeout`, which is {timeout_text}"),
            "write a longer `timeout`: requests wait for a silent node for `evict_after`, and need time to go on without it",
        );
    }
    times.0.0
}

fn read_batch(section: &Section<'_>) -> Batch {
    let found = match section.value("batch") {
        None => return Batch::Auto,
        Some((DeValue::Integer(_), _)) => {
            let count = section.quantity("batch", &BATCH);
            return count.and_then(|Count(n)| u16::try_from(n).ok()).map_or(Batch::Auto, Batch::Fixed);
        }
        Some((DeValue::String(text), _)) if text == "auto" => return Batch::Auto,
        Some((DeValue::String(text), _)) => quoted(text),
        Some((other, _)) => type_name(other).to_string(),
    };
    section.wrong(
        "batch",
        format!("`batch` must be \"auto\" or a whole number, not {found}"),
        "write batch = \"auto\", or a number from 1 to 4096 without quotes",
    );
    Batch::Auto
}

fn read_reconnect(section: &Section<'_>) -> (Duration, Duration) {
    let min = section.quantity("reconnect_min", &RECONNECT_MIN);
    let max = section.quantity("reconnect_max", &RECONNECT_MAX);
    let times = (min.unwrap_or(RECONNECT_MIN.default), max.unwrap_or(RECONNECT_MAX.default));
    // A wrong one was reported; its default says nothing about the intended value.
    let wrong = |key, time: Option<Period>| section.has(key) && time.is_none();
    if times.0 > times.1 && !wrong("reconnect_min", min) && !wrong("reconnect_max", max) {
        let (shorter, longer) = (times.0.to_toml(), times.1.to_toml());
        section.wrong(
            if min.is_some() { "reconnect_min" } else { "reconnect_max" },
            format!("`reconnect_min` is {shorter}, longer than `reconnect_max`, which is {longer}"),
            "write both, the shorter one as reconnect_min",
        );
    }
    (times.0.0, times.1.0)
}

fn read_socket(section: &Section<'_>) -> SocketConfig {
    let keepalive = section.quantity("keepalive", &KEEPALIVE);
    if let Some(time) = keepalive.filter(|time| time.0.subsec_nanos() != 0) {
        section.wrong(
            "keepalive",
            format!("`keepalive` must be whole seconds, not {}", time.to_toml()),
            "write whole seconds, such as \"10s\": the kernel's unit is a second",
        );
    }
    SocketConfig {
        send_buffer_bytes: section.quantity("send_buffer", &SOCKET_BUFFER).map(|size| size.0),
        receive_buffer_bytes: section.quantity("receive_buffer", &SOCKET_BUFFER).map(|size| size.0),
        sizing: section.choice("buffers", &[("path", Sizing::Path), ("kernel", Sizing::Kernel)]).unwrap_or_default(),
        congestion: read_congestion(section),
        keepalive: keepalive.map(|time| time.0),
    }
}

/// The congestion control of a volume's links, or that above all volumes.
pub(super) fn read_congestion(section: &Section<'_>) -> Option<String> {
    let (text, _) = section.text("congestion")?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    if (1..=CONGESTION_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) {
        return Some(text.to_string());
    }
    section.wrong(
        "congestion",
        format!("`congestion` must be a congestion control, not {}", quoted(text)),
        "write one that /proc/sys/net/ipv4/tcp_available_congestion_control lists, such as \"bbr\" or \"cubic\"",
    );
    None
}

fn read_nodes(section: &Section<'_>, layout: Option<LayoutKind>, reader: &mut Reader<'_>) -> Vec<NodeConfig> {
    let sections = section.sections("node", &NODE);
    if section.lacks("node") {
        section.findings.add(
            &section.span,
            "this volume has no nodes",
            "write a header [[volume.node]] below it for each node, with an address or a path",
        );
    }
    let before = reader.nodes;
    reader.nodes += sections.len();
    if before <= NODES_MAX && reader.nodes > NODES_MAX {
        section.findings.add(
            &sections[NODES_MAX - before].span,
            format!("more than {NODES_MAX} nodes"),
            format!("remove nodes, or run several gateways: one supports up to {NODES_MAX}"),
        );
    }
    sections.iter().filter_map(|section| read_node(section, layout, reader)).collect()
}
