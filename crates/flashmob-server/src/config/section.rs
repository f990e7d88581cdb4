//! One section of the document, read key by key. What is wrong is reported at the bytes where it
//! stands, and reading goes on, so that one run shows everything.
//!
//! It knows which keys exist where, and nothing of what they mean.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::limits::Limits;
use super::quantity::{FromToml, type_name};
use super::report::{Findings, listed, quoted, shortened};

/// A kind of section: how it is written, and the keys it may hold.
pub(super) struct Schema {
    /// As a header, or in words for the top of the file.
    pub title: &'static str,
    /// In the order in which people are shown them.
    pub keys: &'static [&'static str],
}

/// What stands above the first header.
pub(super) const TOP: Schema = Schema {
    title: "the top part of the file",
    keys: &["listen", "admin", "connections", "busy_poll_us", "trace_one_in", "memory", "congestion", "name", "volume"],
};
/// A volume.
pub(super) const VOLUME: Schema = Schema {
    title: "[[volume]]",
    keys: &[
        "name",
        "id",
        "description",
        "layout",
        "stripe",
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
    keys: &["address", "path", "size", "extent", "threads", "engine", "direct", "mapped"],
};

const SCHEMAS: [&Schema; 4] = [&TOP, &VOLUME, &SOCKET, &NODE];
/// A key longer than this resembles none.
const KEY_CHARS_MAX: usize = 40;

/// A section that is being read.
pub(super) struct Section<'a> {
    table: &'a DeTable<'a>,
    /// The bytes of its header.
    pub span: Range<usize>,
    schema: &'static Schema,
}

/// A text and the bytes where it stands.
pub(super) type Text<'a> = (&'a str, Range<usize>);

impl<'a> Section<'a> {
    /// Starts reading; reports the keys that do not exist.
    pub fn open(
        table: &'a DeTable<'a>,
        span: Range<usize>,
        schema: &'static Schema,
        findings: &mut Findings<'_>,
    ) -> Self {
        for key in table.keys().filter(|key| !schema.keys.contains(&key.get_ref().as_ref())) {
            report_unknown(key, schema, findings);
        }
        Section { table, span, schema }
    }

    /// The value of a key and the bytes where it stands.
    pub fn value(&self, key: &'static str) -> Option<(&'a DeValue<'a>, Range<usize>)> {
        debug_assert!(self.schema.keys.contains(&key), "{key} is missing from the schema of {}", self.schema.title);
        self.table.get(key).map(|value| (value.get_ref(), value.span()))
    }

    /// Whether the key is written, rightly or wrongly.
    pub fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// Whether nothing is written below that key, or an empty list.
    pub fn lacks(&self, key: &'static str) -> bool {
        self.value(key).is_none_or(|(value, _)| matches!(value, DeValue::Array(items) if items.is_empty()))
    }

    /// A text.
    pub fn text(&self, key: &'static str, findings: &mut Findings<'_>) -> Option<Text<'a>> {
        let (value, span) = self.value(key)?;
        match value {
            DeValue::String(text) => Some((text, span)),
            other => {
                findings.add(
                    &span,
                    format!("`{key}` must be text, not {}", type_name(other)),
                    format!("write it in quotes: {key} = \"...\""),
                );
                None
            }
        }
    }

    /// True or false.
    pub fn flag(&self, key: &'static str, findings: &mut Findings<'_>) -> Option<bool> {
        let (value, span) = self.value(key)?;
        if let DeValue::Boolean(flag) = value {
            return Some(*flag);
        }
        findings.add(
            &span,
            format!("`{key}` must be true or false, not {}", type_name(value)),
            "write true or false, without quotes",
        );
        None
    }

    /// One of several words.
    pub fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
        findings: &mut Findings<'_>,
    ) -> Option<T> {
        let (text, span) = self.text(key, findings)?;
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            findings.add(
                &span,
                format!("`{key}` must be {}, not {}", listed(&words, "or"), quoted(text)),
                format!("write {}", listed(&words, "or")),
            );
        }
        found
    }

    /// A number, size or time within its limits.
    pub fn quantity<Q: FromToml>(
        &self,
        key: &'static str,
        limits: &Limits<Q>,
        findings: &mut Findings<'_>,
    ) -> Option<Q> {
        let (value, span) = self.value(key)?;
        match Q::from_toml(value) {
            Ok(quantity) if quantity >= limits.min && quantity <= limits.max => Some(quantity),
            Ok(quantity) => {
                let (min, max) = (limits.min.to_toml(), limits.max.to_toml());
                findings.add(
                    &span,
                    format!("`{key}` must be between {min} and {max}, not {}", quantity.to_toml()),
                    format!("write a value from {min} to {max}: {}", limits.reason),
                );
                None
            }
            Err(wrong) => {
                findings.add(&span, format!("`{key}` {}", wrong.problem), wrong.help);
                None
            }
        }
    }

    /// The section below that key, written `[a.b]`.
    pub fn section(&self, key: &'static str, schema: &'static Schema, findings: &mut Findings<'_>) -> Option<Self> {
        let (value, span) = self.value(key)?;
        if let DeValue::Table(table) = value {
            return Some(Section::open(table, span, schema, findings));
        }
        let message = match value {
            DeValue::Array(_) => format!("`{key}` is a list of sections, but must be a single section"),
            other => format!("`{key}` must be a section, not {}", type_name(other)),
        };
        findings.add(&span, message, format!("write the header with single brackets, {}", schema.title));
        None
    }

    /// The sections below that key, written `[[a.b]]`; empty if there are none or the key is something else.
    pub fn sections(&self, key: &'static str, schema: &'static Schema, findings: &mut Findings<'_>) -> Vec<Self> {
        let mut sections = Vec::new();
        let mut refuse = |value: &DeValue<'_>, span: &Range<usize>| {
            let message = match value {
                DeValue::Table(_) => format!("`{key}` is a single section, but must be a list of sections"),
                other => format!("`{key}` must be a list of sections, not {}", type_name(other)),
            };
            findings.add(span, message, format!("write the header of each with double brackets, {}", schema.title));
        };
        match self.value(key) {
            None => {}
            Some((DeValue::Array(items), _)) => {
                for item in items.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => sections.push((table, item.span())),
                        other => refuse(other, &item.span()),
                    }
                }
            }
            Some((other, span)) => refuse(other, &span),
        }
        sections.into_iter().map(|(table, span)| Section::open(table, span, schema, findings)).collect()
    }
}

fn report_unknown(key: &Spanned<toml::de::DeString<'_>>, schema: &Schema, findings: &mut Findings<'_>) {
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
    let message = format!("unknown key `{}` in {}", shown_key(name), schema.title);
    findings.add(&key.span(), message, help).note(format!("the keys are {allowed}"));
}

/// The key that `name` is most probably a slip of.
fn resembling(name: &str, keys: &[&'static str]) -> Option<&'static str> {
    if name.chars().count() > KEY_CHARS_MAX {
        return None;
    }
    // Hyphens for underscores and capitals are no slips worth counting.
    let name = name.to_lowercase().replace('-', "_");
    keys.iter()
        .map(|&key| (strsim::damerau_levenshtein(&name, key), key))
        // A third of the letters may be wrong, as in rustc's and cargo's suggestions.
        .filter(|(distance, key)| *distance <= name.chars().count().max(key.len()) / 3)
        .min()
        .map(|(_, key)| key)
}

fn shown_key(name: &str) -> String {
    shortened(name, KEY_CHARS_MAX)
}
