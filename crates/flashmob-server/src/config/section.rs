//! One section of the document, read key by key. A problem is reported with its place and reading goes on, so that one
//! run shows all problems.
//!
//! This module knows which keys exist where, but not their meaning.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::limits::Limits;
use super::quantity::{Quantity, type_name};
use super::report::{Findings, Note, listed, quoted, shortened};

/// A kind of section: how it is written, and the keys it may hold.
pub(super) struct Schema {
    /// As a header, or in words for the top of the file.
    pub title: &'static str,
    /// In the order in which people are shown them.
    pub keys: &'static [&'static str],
}

/// The part above the first header.
pub(super) const TOP: Schema = Schema {
    title: "the top part of the file",
    keys: &[
        "listen",
        "admin",
        "admin_hosts",
        "keys",
        "connections",
        "busy_poll_us",
        "trace_one_in",
        "memory",
        "congestion",
        "name",
        "etcd",
        "volume",
    ],
};
/// Where the maps are, if not in files.
pub(super) const ETCD: Schema =
    Schema { title: "[etcd]", keys: &["endpoints", "ca", "cert", "key", "prefix", "lease"] };
/// A volume.
pub(super) const VOLUME: Schema = Schema {
    title: "[[volume]]",
    keys: &[
        "name",
        "id",
        "description",
        "layout",
        "stripe",
        "copies",
        "size",
        "min_current",
        "evict_after",
        "scrub",
        "compare",
        "read_only",
        "batch",
        "batch_bytes",
        "links",
        "outstanding_batches",
        "timeout",
        "connect_timeout",
        "reconnect_min",
        "reconnect_max",
        "keep_awake",
        "socket",
        "node",
    ],
};
/// Options of a volume's sockets.
pub(super) const SOCKET: Schema =
    Schema { title: "[volume.socket]", keys: &["send_buffer", "receive_buffer", "buffers", "congestion", "keepalive"] };
/// A node of a volume.
pub(super) const NODE: Schema = Schema {
    title: "[[volume.node]]",
    keys: &["address", "path", "size", "domain", "extent", "threads", "engine", "direct", "mapped"],
};

const SCHEMAS: [&Schema; 5] = [&TOP, &ETCD, &VOLUME, &SOCKET, &NODE];
/// A key longer than this resembles none.
const KEY_CHARS_MAX: usize = 40;

/// A section that is being read.
pub(super) struct Section<'a> {
    table: &'a DeTable<'a>,
    /// The bytes of its header.
    pub span: Range<usize>,
    schema: &'static Schema,
    /// The problems found so far in the whole text.
    pub findings: &'a Findings<'a>,
}

/// A text and the bytes where it stands.
pub(super) type Text<'a> = (&'a str, Range<usize>);

impl<'a> Section<'a> {
    /// Starts reading; reports the keys that do not exist.
    pub fn open(
        table: &'a DeTable<'a>,
        span: Range<usize>,
        schema: &'static Schema,
        findings: &'a Findings<'a>,
    ) -> Self {
        for key in table.keys().filter(|key| !schema.keys.contains(&key.get_ref().as_ref())) {
            report_unknown(key, schema, findings);
        }
        Section { table, span, schema, findings }
    }

    /// The value of a key and the bytes where it stands.
    pub fn value(&self, key: &'static str) -> Option<(&'a DeValue<'a>, Range<usize>)> {
        debug_assert!(self.schema.keys.contains(&key), "{key} is missing from the schema of {}", self.schema.title);
        self.table.get(key).map(|value| (value.get_ref(), value.span()))
    }

    /// Whether the key is written, with a valid value or not.
    pub fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// Whether nothing is written below that key, or an empty list.
    pub fn lacks(&self, key: &'static str) -> bool {
        self.value(key).is_none_or(|(value, _)| matches!(value, DeValue::Array(items) if items.is_empty()))
    }

    /// Reports a problem with the value of a key; with the section if the key is not written.
    pub fn wrong(&self, key: &'static str, message: impl Into<String>, help: impl Into<String>) {
        let span = self.value(key).map_or_else(|| self.span.clone(), |(_, span)| span);
        self.findings.add(&span, message, help);
    }

    /// A text.
    pub fn text(&self, key: &'static str) -> Option<Text<'a>> {
        match self.value(key)? {
            (DeValue::String(text), span) => return Some((text, span)),
            (other, _) => self.wrong(
                key,
                format!("`{key}` must be text, not {}", type_name(other)),
                format!("write it in quotes: {key} = \"...\""),
            ),
        }
        None
    }

    /// A text or a list of texts; `None` without the key. `example` is how they are written.
    pub fn texts(&self, key: &'static str, example: &str) -> Option<Vec<Text<'a>>> {
        let wrong = |value: &DeValue<'_>, span: &Range<usize>| {
            let message = format!("`{key}` must be text or a list of texts, not {}", type_name(value));
            self.findings.add(span, message, format!("write them in quotes: {key} = {example}"));
        };
        let mut texts = Vec::new();
        match self.value(key)? {
            (DeValue::String(text), span) => texts.push((&**text, span)),
            (DeValue::Array(items), _) => {
                for item in items.iter() {
                    match item.get_ref() {
                        DeValue::String(text) => texts.push((&**text, item.span())),
                        other => wrong(other, &item.span()),
                    }
                }
            }
            (other, span) => wrong(other, &span),
        }
        Some(texts)
    }

    /// A text of one line without control characters, of 1 to `bytes_max` bytes.
    pub fn printable(&self, key: &'static str, bytes_max: usize) -> Option<Text<'a>> {
        let (text, span) = self.text(key)?;
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
        self.wrong(key, message, format!("write 1 to {bytes_max} bytes of printable text, without spaces around it"));
        None
    }

    /// True or false; false without the key.
    pub fn flag(&self, key: &'static str) -> bool {
        match self.value(key) {
            None => {}
            Some((DeValue::Boolean(flag), _)) => return *flag,
            Some((other, _)) => self.wrong(
                key,
                format!("`{key}` must be true or false, not {}", type_name(other)),
                "write true or false, without quotes",
            ),
        }
        false
    }

    /// One of several words.
    pub fn choice<T: Copy>(&self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let (text, _) = self.text(key)?;
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let words = listed(&words.iter().map(String::as_str).collect::<Vec<_>>(), "or");
            self.wrong(key, format!("`{key}` must be {words}, not {}", quoted(text)), format!("write {words}"));
        }
        found
    }

    /// A number, size or time within its limits.
    pub fn quantity<Q: Quantity>(&self, key: &'static str, limits: &Limits<Q>) -> Option<Q> {
        match Q::from_toml(self.value(key)?.0) {
            Ok(quantity) if quantity >= limits.min && quantity <= limits.max => return Some(quantity),
            Ok(quantity) => {
                let (min, max) = (limits.min.to_toml(), limits.max.to_toml());
                let message = format!("`{key}` must be between {min} and {max}, not {}", quantity.to_toml());
                self.wrong(key, message, format!("write a value from {min} to {max}: {}", limits.reason));
            }
            Err(wrong) => self.wrong(key, format!("`{key}` {}", wrong.problem), wrong.help),
        }
        None
    }

    /// The same, or the default.
    pub fn get<Q: Quantity>(&self, key: &'static str, limits: &Limits<Q>) -> Q {
        self.quantity(key, limits).unwrap_or(limits.default)
    }

    /// The section below that key, written `[a.b]`.
    pub fn section(&self, key: &'static str, schema: &'static Schema) -> Option<Self> {
        let message = match self.value(key)? {
            (DeValue::Table(table), span) => return Some(Section::open(table, span, schema, self.findings)),
            (DeValue::Array(_), _) => format!("`{key}` is a list of sections, but must be a single section"),
            (other, _) => format!("`{key}` must be a section, not {}", type_name(other)),
        };
        self.wrong(key, message, format!("write the header with single brackets, {}", schema.title));
        None
    }

    /// The sections below that key, written `[[a.b]]`; empty if there are none or the key is something else.
    pub fn sections(&self, key: &'static str, schema: &'static Schema) -> Vec<Self> {
        let refuse = |value: &DeValue<'_>, span: &Range<usize>| {
            let message = match value {
                DeValue::Table(_) => format!("`{key}` is a single section, but must be a list of sections"),
                other => format!("`{key}` must be a list of sections, not {}", type_name(other)),
            };
            self.findings.add(
                span,
                message,
                format!("write the header of each with double brackets, {}", schema.title),
            );
        };
        let mut sections = Vec::new();
        match self.value(key) {
            None => {}
            Some((DeValue::Array(items), _)) => {
                for item in items.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => {
                            sections.push(Section::open(table, item.span(), schema, self.findings));
                        }
                        other => refuse(other, &item.span()),
                    }
                }
            }
            Some((other, span)) => refuse(other, &span),
        }
        sections
    }
}

/// Control characters, line ends, and the marks that change the direction of writing.
fn unprintable(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c != ' ' && (c.is_control() || c.is_whitespace() || turns)
}

fn report_unknown(key: &Spanned<toml::de::DeString<'_>>, schema: &Schema, findings: &Findings<'_>) {
    let name = key.get_ref().as_ref();
    let elsewhere: Vec<&str> =
        SCHEMAS.iter().filter(|other| other.keys.contains(&name)).map(|other| other.title).collect();
    let allowed = listed(schema.keys, "and");
    let help = match (name, resembling(name, schema.keys)) {
        ("node", _) => format!("write the header as {}, below the volume that it belongs to", NODE.title),
        ("socket", _) => format!("write the header as {}, below the volume that it belongs to", SOCKET.title),
        _ if !elsewhere.is_empty() => {
            format!("`{name}` belongs in {}: move the line there", listed(&elsewhere, "or"))
        }
        (_, Some(like)) => format!("did you mean `{like}`?"),
        (_, None) => "remove it, or comment it out with #".to_string(),
    };
    let message = format!("unknown key `{}` in {}", shortened(name, KEY_CHARS_MAX), schema.title);
    findings.add_noted(&key.span(), message, help, Note::Text(format!("the keys are {allowed}")));
}

/// The key that `name` is most probably a misspelling of.
fn resembling(name: &str, keys: &[&'static str]) -> Option<&'static str> {
    if name.chars().count() > KEY_CHARS_MAX {
        return None;
    }
    // Hyphens for underscores, and capitals, are not counted as errors.
    let name = name.to_lowercase().replace('-', "_");
    keys.iter()
        .map(|&key| (strsim::damerau_levenshtein(&name, key), key))
        // A third of the letters may be wrong, as in rustc's and cargo's suggestions.
        .filter(|(distance, key)| *distance <= name.chars().count().max(key.len()) / 3)
        .min()
        .map(|(_, key)| key)
}
