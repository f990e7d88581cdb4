//! The top of a configuration: where the gateway listens, what it may use, and its volumes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use toml::de::DeValue;

use super::address::{parse_ip_address, parse_listen};
use super::limits::{
    ADMIN_PORT, BUSY_POLL_US, BUSY_POLL_US_DEFAULT, CONNECTIONS, CONNECTIONS_DEFAULT, MEMORY, MEMORY_DEFAULT_BYTES,
    NAME_BYTES_MAX, NBD_PORT, TRACE_ONE_IN, TRACE_ONE_IN_DEFAULT,
};
use super::quantity::{Count, Size, type_name};
use super::report::{Findings, quoted};
use super::section::{Section, Text, VOLUME};
use super::types::{Config, Listen, VolumeConfig};
use super::volume::{read_congestion, read_volume};

/// What reading needs besides the section at hand.
pub(super) struct Reader<'a> {
    /// Relative paths start there.
    pub base_dir: &'a Path,
    /// Whether a local extent is there already.
    pub exists: fn(&Path) -> bool,
    /// What is wrong so far.
    pub findings: Findings<'a>,
    /// What two volumes or nodes must not share.
    pub names: Unique,
    /// See `names`.
    pub ids: Unique,
    /// See `names`.
    pub sources: Unique,
    /// Nodes of all volumes so far.
    pub nodes: usize,
}

impl<'a> Reader<'a> {
    /// Nothing read so far.
    pub fn new(text: &'a str, base_dir: &'a Path, exists: fn(&Path) -> bool) -> Self {
        Reader {
            base_dir,
            exists,
            findings: Findings::new(text),
            names: Unique::default(),
            ids: Unique::default(),
            sources: Unique::default(),
            nodes: 0,
        }
    }
}

/// Things that may occur once only, each with the place where it did.
#[derive(Default)]
pub(super) struct Unique(HashMap<String, Range<usize>>);

impl Unique {
    /// Notes `thing`, and says whether it is new; reports it if it is not.
    pub fn claim(
        &mut self,
        thing: String,
        span: &Range<usize>,
        findings: &mut Findings<'_>,
        message: impl FnOnce() -> String,
        help: &str,
    ) -> bool {
        let first = self.0.get(&thing);
        if let Some(first) = first {
            findings.add(span, message(), help).note_line("the first is", first);
            return false;
        }
        self.0.insert(thing, span.clone());
        true
    }
}

/// Reads everything from the top on. The result means something only if nothing was found wrong.
pub(super) fn read_config(top: &Section<'_>, reader: &mut Reader<'_>) -> Config {
    let listen = read_listen(top, reader);
    let admin = read_admin(top, &listen, &mut reader.findings);
    let listen = listen.into_iter().map(|(listen, _)| listen).collect();
    let findings = &mut reader.findings;
    let connections = top.quantity("connections", &CONNECTIONS, findings).unwrap_or(Count(CONNECTIONS_DEFAULT));
    let busy_poll_us = top.quantity("busy_poll_us", &BUSY_POLL_US, findings).unwrap_or(Count(BUSY_POLL_US_DEFAULT));
    let trace_one_in = top.quantity("trace_one_in", &TRACE_ONE_IN, findings).unwrap_or(Count(TRACE_ONE_IN_DEFAULT));
    let memory = top.quantity("memory", &MEMORY, findings).unwrap_or(Size(MEMORY_DEFAULT_BYTES));
    let name = printable_text(top, "name", NAME_BYTES_MAX, findings).map(|(name, _)| name.to_string());

    let congestion = read_congestion(top, findings);

    let sections = top.sections("volume", &VOLUME, findings);
    if top.lacks("volume") {
        findings.add_missing(
            "the configuration has no volume",
            "add one: a line [[volume]] with a name = \"...\" below it, then a line [[volume.node]] \
             with an address = \"host:port\" below it, once for each node",
        );
    }
    let mut volumes: Vec<VolumeConfig> = sections.iter().map(|section| read_volume(section, reader)).collect();
    for volume in &mut volumes {
        volume.socket.congestion = volume.socket.congestion.take().or_else(|| congestion.clone());
    }
    Config {
        listen,
        admin,
        connections: connections.0 as usize,
        busy_poll_us: busy_poll_us.0,
        trace_one_in: trace_one_in.0,
        memory_bytes: memory.0,
        name,
        volumes,
    }
}

/// A text of one line without control characters, of 1 to `bytes_max` bytes.
pub(super) fn printable_text<'a>(
    section: &Section<'a>,
    key: &'static str,
    bytes_max: usize,
    findings: &mut Findings<'_>,
) -> Option<Text<'a>> {
    let (text, span) = section.text(key, findings)?;
    let message = if text.is_empty() {
        format!("`{key}` is empty")
    } else if text.len() > bytes_max {
        format!("`{key}` has {} bytes, more than {bytes_max}", text.len())
    } else if text.contains(unprintable) {
        format!("`{key}` is {}, with a character that cannot be printed", quoted(text))
    } else if text.trim().len() < text.len() {
        format!("`{key}` is {}, which starts or ends with a space", quoted(text))
    } else {
        return Some((text, span));
    };
    findings.add(&span, message, format!("write 1 to {bytes_max} bytes of printable text, without spaces around it"));
    None
}

/// Control characters, line ends, and the marks that turn the direction of writing.
fn unprintable(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c != ' ' && (c.is_control() || c.is_whitespace() || turns)
}

fn read_listen(top: &Section<'_>, reader: &mut Reader<'_>) -> Vec<(Listen, Range<usize>)> {
    let findings = &mut reader.findings;
    let mut texts: Vec<Text<'_>> = Vec::new();
    match top.value("listen") {
        None => return vec![(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], NBD_PORT))), 0..0)],
        Some((DeValue::String(text), span)) => texts.push((text, span)),
        Some((DeValue::Array(items), span)) => {
            if items.is_empty() {
                findings.add(
                    &span,
                    "`listen` is empty, so no client can connect",
                    "write at least one address, or remove the line for 127.0.0.1:10809",
                );
            }
            for item in items.iter() {
                match item.get_ref() {
                    DeValue::String(text) => texts.push((text, item.span())),
                    other => wrong_listen(other, &item.span(), findings),
                }
            }
        }
        Some((other, span)) => wrong_listen(other, &span, findings),
    }

    let mut seen = Unique::default();
    let mut listeners = Vec::new();
    for (text, span) in texts {
        match parse_listen(text, NBD_PORT, reader.base_dir) {
            Ok(listen) => {
                if !matches!(listen, Listen::Tcp(address) if address.port() == 0) {
                    let message = || format!("{} is given twice in `listen`", quoted(text));
                    seen.claim(listen.to_string(), &span, findings, message, "remove one of the two");
                }
                listeners.push((listen, span));
            }
            Err(why) => {
                let message = format!("`listen` has {}, which is not an address to listen on", quoted(text));
                findings.add(&span, message, why.to_string());
            }
        }
    }
    listeners
}

fn wrong_listen(value: &DeValue<'_>, span: &Range<usize>, findings: &mut Findings<'_>) {
    findings.add(
        span,
        format!("`listen` must be an address or a list of addresses, not {}", type_name(value)),
        "write them in quotes: listen = [\"127.0.0.1:10809\", \"unix:/run/flashmob/nbd.sock\"]",
    );
}

fn read_admin(top: &Section<'_>, listen: &[(Listen, Range<usize>)], findings: &mut Findings<'_>) -> Option<SocketAddr> {
    let (text, span) = top.text("admin", findings)?;
    match parse_ip_address(text, ADMIN_PORT) {
        Ok(admin) => {
            let taken = listen.iter().any(|(listen, _)| *listen == Listen::Tcp(admin));
            if taken && admin.port() != 0 {
                findings.add(
                    &span,
                    format!("`admin` is {}, which is already used for NBD", quoted(text)),
                    format!("use another port, such as {ADMIN_PORT}"),
                );
            }
            Some(admin)
        }
        Err(why) => {
            let message = format!("`admin` is {}, which is not an address to listen on", quoted(text));
            findings.add(&span, message, why.to_string());
            None
        }
    }
}
