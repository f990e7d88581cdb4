//! Problems of a configuration in the form of compilers' messages: file, line, the line itself, a caret under the value,
//! and the remedy.
//!
//! Control characters of the file are escaped and long lines cut, so that a configuration cannot control the terminal.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use super::limits::PROBLEMS_MAX;

/// Characters of a value that a message repeats.
const QUOTED_CHARS_MAX: usize = 60;
/// Characters of a line that an excerpt shows.
const EXCERPT_CHARS_MAX: usize = 100;
/// Characters kept to the left of a caret when the line has to be cut there.
const EXCERPT_CHARS_LEFT: usize = 30;
/// The representation of a tab, so that carets are in the right column.
const TAB: &str = "    ";

/// Everything that is wrong with one configuration, as text for a terminal, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report(String);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Collects problems while a text is read.
pub(super) struct Findings<'a> {
    text: &'a str,
    found: RefCell<Vec<Finding>>,
}

/// A problem. Its line is looked up when it is shown: a text may have very many problems, and only the first are shown.
struct Finding {
    span: Option<Range<usize>>,
    message: String,
    help: String,
    note: Option<Note>,
}

/// Additional information about a problem.
pub(super) enum Note {
    /// A sentence.
    Text(String),
    /// A sentence that ends with the line of another place.
    Line(&'static str, Range<usize>),
}

impl<'a> Findings<'a> {
    /// None so far, in `text`.
    pub fn new(text: &'a str) -> Self {
        Findings { text, found: RefCell::default() }
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Adds a problem at these bytes of the text.
    pub fn add(&self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.push(Some(span), message.into(), help.into(), None);
    }

    /// Adds a problem with a note.
    pub fn add_noted(&self, span: &Range<usize>, message: String, help: impl Into<String>, note: Note) {
        self.push(Some(span), message, help.into(), Some(note));
    }

    /// Adds something that the file as a whole lacks.
    pub fn add_missing(&self, message: &str, help: &str) {
        self.push(None, message.into(), help.into(), None);
    }

    fn push(&self, span: Option<&Range<usize>>, message: String, help: String, note: Option<Note>) {
        self.found.borrow_mut().push(Finding { span: span.cloned(), message, help, note });
    }

    /// The report on `file`.
    pub fn into_report(self, file: &str) -> Report {
        let (mut found, file) = (self.found.into_inner(), printable(file));
        found.sort_by_key(|finding| finding.span.as_ref().map_or(usize::MAX, |span| span.start));
        let mut parts: Vec<String> =
            found.iter().take(PROBLEMS_MAX).map(|finding| finding.shown(self.text, &file)).collect();
        if found.len() > PROBLEMS_MAX {
            let count = found.len();
            parts.push(format!("error: {file} has {count} problems, of which the first {PROBLEMS_MAX} are shown"));
        } else if found.len() > 1 {
            parts.push(format!("error: {file} has {} problems", found.len()));
        }
        Report(parts.join("\n\n"))
    }
}

impl Finding {
    fn shown(&self, text: &str, file: &str) -> String {
        let mut lines = vec![format!("error: {}", self.message)];
        let mut gutter = " ".to_string();
        if let Some(span) = &self.span {
            let start = floor_char(text, span.start);
            let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
            let line = text[line_start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
            let line_end = line_start + line.len();
            let start = start.min(line_end);
            let end = floor_char(text, span.end).clamp(start, line_end);
            let before = &text[line_start..start];
            let (excerpt, at, carets) = excerpt(before, &text[start..end], &text[end..line_end]);
            let (number, column) = (line_number(text, start).to_string(), before.chars().count() + 1);
            gutter = " ".repeat(number.len());
            lines.push(format!("{gutter}--> {file}:{number}:{column}"));
            lines.push(format!("{gutter} |"));
            lines.push(format!("{number} | {excerpt}"));
            lines.push(format!("{gutter} | {:at$}{}", "", "^".repeat(carets)));
        } else {
            lines.push(format!(" --> {file}"));
        }
        lines.push(format!("{gutter} = help: {}", self.help));
        lines.extend(self.note.as_ref().map(|note| match note {
            Note::Text(note) => format!("{gutter} = note: {note}"),
            Note::Line(what, span) => format!("{gutter} = note: {what} on line {}", line_number(text, span.start)),
        }));
        lines.join("\n")
    }
}

/// The line of that byte, counted from 1.
fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

/// The line as shown, where the carets start in it, and how many there are.
fn excerpt(before: &str, within: &str, after: &str) -> (String, usize, usize) {
    // The work is limited to what can be shown, however long the line is.
    let head: String = printable_chars(before.chars()).collect();
    let head_chars = head.chars().count();
    let body: Vec<char> = printable_chars(within.chars()).take(EXCERPT_CHARS_MAX + 1).collect();
    let tail = printable_chars(after.chars()).take(EXCERPT_CHARS_MAX + 1);

    let mut shown = String::new();
    let cut = if head_chars + body.len().min(EXCERPT_CHARS_MAX / 2) > EXCERPT_CHARS_MAX {
        shown.push_str("...");
        head_chars - EXCERPT_CHARS_LEFT
    } else {
        0
    };
    shown.extend(head.chars().skip(cut));
    let caret_at = shown.chars().count();
    let room = EXCERPT_CHARS_MAX.saturating_sub(caret_at).max(1);
    let caret_len = body.len().clamp(1, room);
    let rest: Vec<char> = body.iter().copied().chain(tail).take(room + 1).collect();
    shown.extend(rest.iter().take(room));
    if rest.len() > room {
        shown.push_str("...");
    }
    (shown, caret_at, caret_len)
}

/// `text` in single quotes, escaped and shortened.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", shortened(text, QUOTED_CHARS_MAX))
}

/// The part of `text` that takes at most `chars_max` printable characters, and dots for the rest. An escape counts with
/// all of its characters.
pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    let (mut shown, mut count) = (String::new(), 0);
    for c in text.chars() {
        let before = shown.len();
        shown.extend(printable_chars(std::iter::once(c)));
        count += shown[before..].chars().count();
        if count > chars_max {
            shown.truncate(before);
            shown.push_str("...");
            break;
        }
    }
    shown
}

/// `text` with all control characters escaped.
pub(super) fn printable(text: &str) -> String {
    printable_chars(text.chars()).collect()
}

fn printable_chars<'a>(chars: impl Iterator<Item = char> + 'a) -> impl Iterator<Item = char> + 'a {
    chars.flat_map(|c| {
        let plain = matches!(c, '"' | '\'' | '\\');
        // Escapes what Unicode calls unprintable, direction marks among it.
        let escaped = (!plain && c != '\t').then(|| c.escape_debug()).into_iter().flatten();
        let tab = if c == '\t' { TAB } else { "" };
        plain.then_some(c).into_iter().chain(tab.chars()).chain(escaped)
    })
}

/// The words joined with commas, and `last` before the last: `a`, `a and b`, `a, b and c`.
pub(super) fn listed(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_string(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// The start of the character that this byte belongs to.
pub(super) fn floor_char(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}
