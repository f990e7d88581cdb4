//! A `[[volume]]` and its `[volume.socket]`.

use std::ops::Range;
use std::time::Duration;

use toml::de::DeValue;

use super::gateway::{Reader, printable_text};
use super::limits::{
    BATCH, BATCH_BYTES, BATCH_BYTES_DEFAULT, CONGESTION_BYTES_MAX, CONNECT_TIMEOUT, CONNECT_TIMEOUT_DEFAULT,
    DESCRIPTION_BYTES_MAX, KEEP_AWAKE, KEEP_AWAKE_DEFAULT, KEEPALIVE, LINKS, LINKS_DEFAULT, NAME_BYTES_MAX, NODES_MAX,
    OUTSTANDING_BATCHES, OUTSTANDING_BATCHES_DEFAULT_AUTO, OUTSTANDING_BATCHES_DEFAULT_FIXED, RECONNECT,
    RECONNECT_MAX_DEFAULT, RECONNECT_MIN_DEFAULT, SOCKET_BUFFER, STRIPE, STRIPE_DEFAULT_BYTES, TIMEOUT,
    TIMEOUT_DEFAULT,
};
use super::node::read_node;
use super::quantity::{Count, Period, Quantity, Size, type_name};
use super::report::{Findings, quoted};
use super::section::{NODE, SOCKET, Section};
use super::types::{Batch, LayoutKind, NodeConfig, Sizing, SocketConfig, VolumeConfig};

/// Reads one volume. The result means something only if nothing was found wrong.
pub(super) fn read_volume(section: &Section<'_>, reader: &mut Reader<'_>) -> VolumeConfig {
    let (name, id) = read_identity(section, reader);
    let findings = &mut reader.findings;
    let description = printable_text(section, "description", DESCRIPTION_BYTES_MAX, findings);
    let layout = read_layout(section, findings);
    let batch = read_batch(section, findings);
    let outstanding_default = match batch {
        Batch::Auto => OUTSTANDING_BATCHES_DEFAULT_AUTO,
        Batch::Fixed(_) => OUTSTANDING_BATCHES_DEFAULT_FIXED,
    };
    let count = |quantity: Option<Count>, default: u64| quantity.map_or(default, |Count(n)| n) as usize;
    let time = |quantity: Option<Period>, default: Duration| quantity.map_or(default, |Period(time)| time);
    let (reconnect_min, reconnect_max) = read_reconnect(section, findings);
    let socket = section.section("socket", &SOCKET, findings);
    VolumeConfig {
        name,
        id,
        description: description.map(|(text, _)| text.to_string()),
        layout,
        read_only: section.flag("read_only", findings).unwrap_or(false),
        batch,
        batch_bytes: section.quantity("batch_bytes", &BATCH_BYTES, findings).map_or(BATCH_BYTES_DEFAULT, |Size(n)| n),
        links: count(section.quantity("links", &LINKS, findings), LINKS_DEFAULT),
        outstanding_batches: count(
            section.quantity("outstanding_batches", &OUTSTANDING_BATCHES, findings),
            outstanding_default,
        ),
        timeout: time(section.quantity("timeout", &TIMEOUT, findings), TIMEOUT_DEFAULT),
        connect_timeout: time(section.quantity("connect_timeout", &CONNECT_TIMEOUT, findings), CONNECT_TIMEOUT_DEFAULT),
        reconnect_min,
        reconnect_max,
        keep_awake: time(section.quantity("keep_awake", &KEEP_AWAKE, findings), KEEP_AWAKE_DEFAULT),
        socket: socket.map(|socket| read_socket(&socket, findings)).unwrap_or_default(),
        nodes: read_nodes(section, reader),
    }
}

fn read_identity(section: &Section<'_>, reader: &mut Reader<'_>) -> (String, String) {
    let findings = &mut reader.findings;
    let name = printable_text(section, "name", NAME_BYTES_MAX, findings);
    let id = printable_text(section, "id", NAME_BYTES_MAX, findings);
    if !section.has("name") {
        findings.add(
            &section.span,
            "this volume has no name",
            "write name = \"...\" below the header; NBD clients select the volume by this name",
        );
    }
    let new = name.as_ref().is_some_and(|(name, span)| {
        let message = || format!("two volumes are named {}", quoted(name));
        reader.names.claim((*name).to_string(), span, findings, message, "give each volume its own name")
    });
    // Where the names clash already, one message is enough.
    let own_id = id.clone().or_else(|| name.clone().filter(|_| new && !section.has("id")));
    if let Some((id, span)) = &own_id {
        let message = || format!("two volumes have the id {}", quoted(id));
        let help = "give each volume its own id: nodes record the volume they belong to by this id";
        reader.ids.claim((*id).to_string(), span, findings, message, help);
    }
    let name = name.map(|(name, _)| name.to_string()).unwrap_or_default();
    let id = id.map_or_else(|| name.clone(), |(id, _)| id.to_string());
    (name, id)
}

fn read_layout(section: &Section<'_>, findings: &mut Findings<'_>) -> LayoutKind {
    let striped = section.choice("layout", &[("linear", false), ("striped", true)], findings);
    let stripe = section.quantity("stripe", &STRIPE, findings);
    let Some((_, span)) = section.value("stripe") else {
        let stripe_bytes = STRIPE_DEFAULT_BYTES;
        return if striped == Some(true) { LayoutKind::Striped { stripe_bytes } } else { LayoutKind::Linear };
    };
    // A layout that is written wrongly was reported, and may have been meant to be striped.
    if striped == Some(false) || !section.has("layout") {
        findings.add(
            &span,
            "`stripe` is set, but the volume is linear",
            "write layout = \"striped\" as well, or remove this line",
        );
    }
    let Some(Size(stripe_bytes)) = stripe else { return LayoutKind::Linear };
    if !stripe_bytes.is_power_of_two() {
        findings.add(
            &span,
            format!("`stripe` must be a power of two, not {}", Size(stripe_bytes).to_toml()),
            "write a power of two, such as \"64KiB\": this avoids a division per request, and keeps direct I/O aligned",
        );
    }
    LayoutKind::Striped { stripe_bytes }
}

fn read_batch(section: &Section<'_>, findings: &mut Findings<'_>) -> Batch {
    let (message, span) = match section.value("batch") {
        None => return Batch::Auto,
        Some((DeValue::Integer(_), _)) => {
            let count = section.quantity("batch", &BATCH, findings);
            return count.and_then(|Count(n)| u16::try_from(n).ok()).map_or(Batch::Auto, Batch::Fixed);
        }
        Some((DeValue::String(text), _)) if text == "auto" => return Batch::Auto,
        Some((DeValue::String(text), span)) => (quoted(text), span),
        Some((other, span)) => (type_name(other).to_string(), span),
    };
    findings.add(
        &span,
        format!("`batch` must be \"auto\" or a whole number, not {message}"),
        "write batch = \"auto\", or a number from 1 to 4096 without quotes",
    );
    Batch::Auto
}

fn read_reconnect(section: &Section<'_>, findings: &mut Findings<'_>) -> (Duration, Duration) {
    let read = |key, findings: &mut Findings<'_>| section.quantity(key, &RECONNECT, findings).map(|Period(time)| time);
    let min = read("reconnect_min", findings);
    let max = read("reconnect_max", findings);
    let times = (min.unwrap_or(RECONNECT_MIN_DEFAULT), max.unwrap_or(RECONNECT_MAX_DEFAULT));
    // One that is written wrongly was reported; its default says nothing about what was meant.
    let wrong = |key, time: Option<Duration>| section.has(key) && time.is_none();
    if times.0 > times.1 && !wrong("reconnect_min", min) && !wrong("reconnect_max", max) {
        let place = section.value("reconnect_min").or_else(|| section.value("reconnect_max"));
        let span: Range<usize> = place.map_or(section.span.clone(), |(_, span)| span);
        let (min, max) = (Period(times.0).to_toml(), Period(times.1).to_toml());
        findings.add(
            &span,
            format!("`reconnect_min` is {min}, longer than `reconnect_max`, which is {max}"),
            "write both, the shorter one as reconnect_min",
        );
    }
    times
}

fn read_socket(section: &Section<'_>, findings: &mut Findings<'_>) -> SocketConfig {
    let bytes = |size: Option<Size>| size.map(|Size(bytes)| bytes);
    let keepalive = section.quantity("keepalive", &KEEPALIVE, findings).map(|Period(time)| time);
    if let (Some(time), Some((_, span))) = (keepalive, section.value("keepalive"))
        && time.subsec_nanos() != 0
    {
        findings.add(
            &span,
            format!("`keepalive` must be whole seconds, not {}", Period(time).to_toml()),
            "write whole seconds, such as \"10s\": the kernel's unit is a second",
        );
    }
    SocketConfig {
        send_buffer_bytes: bytes(section.quantity("send_buffer", &SOCKET_BUFFER, findings)),
        receive_buffer_bytes: bytes(section.quantity("receive_buffer", &SOCKET_BUFFER, findings)),
        sizing: section
            .choice("buffers", &[("path", Sizing::Path), ("kernel", Sizing::Kernel)], findings)
            .unwrap_or_default(),
        congestion: read_congestion(section, findings),
        keepalive,
    }
}

/// A congestion control: of a volume's links, or above all volumes.
pub(super) fn read_congestion(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<String> {
    let (text, span) = section.text("congestion", findings)?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    if (1..=CONGESTION_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) {
        return Some(text.to_string());
    }
    findings.add(
        &span,
        format!("`congestion` must be a congestion control, not {}", quoted(text)),
        "write one that /proc/sys/net/ipv4/tcp_available_congestion_control lists, such as \"bbr\" or \"cubic\"",
    );
    None
}

fn read_nodes(section: &Section<'_>, reader: &mut Reader<'_>) -> Vec<NodeConfig> {
    let sections = section.sections("node", &NODE, &mut reader.findings);
    if section.lacks("node") {
        reader.findings.add(
            &section.span,
            "this volume has no nodes",
            "write a header [[volume.node]] below it for each node, with an address or a path",
        );
    }
    let before = reader.nodes;
    reader.nodes += sections.len();
    if before <= NODES_MAX && reader.nodes > NODES_MAX {
        reader.findings.add(
            &sections[NODES_MAX - before].span,
            format!("more than {NODES_MAX} nodes"),
            format!("remove nodes, or run several gateways: one supports up to {NODES_MAX}"),
        );
    }
    sections.iter().filter_map(|section| read_node(section, reader)).collect()
}
