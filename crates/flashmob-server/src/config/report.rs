//! What is wrong with a configuration, shown as compilers do: file, line, the line itself, a caret
//! under the value, and the remedy.
//!
//! Whatever stands in the file is shown harmless: control characters escaped, long lines cut. It must
//! never let a configuration write to the terminal as it likes.

use std::fmt::{self, Write as _};
use std::ops::Range;

use super::limits::PROBLEMS_MAX;

/// Characters of a value that a message repeats.
const QUOTED_CHARS_MAX: usize = 60;
/// Characters of a line that an excerpt shows.
const EXCERPT_CHARS_MAX: usize = 100;
/// Characters kept to the left of a caret when the line has to be cut there.
const EXCERPT_CHARS_LEFT: usize = 30;
/// What a tabulator is shown as, so that carets stand where they should.
const TAB: &str = "    ";

/// All that is wrong with one configuration, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    file: String,
    problems: Vec<Problem>,
    found: usize,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, in one line, with the offending value.
    pub message: String,
    /// Where; `None` if something is missing from the file as a whole.
    pub place: Option<Place>,
    /// What to do about it.
    pub help: String,
    /// What else one may want to know.
    pub notes: Vec<String>,
}

/// A place in a file, with what stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    excerpt: String,
    caret_at: usize,
    caret_len: usize,
}

impl Report {
    /// The problems, the first [`PROBLEMS_MAX`] of them.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            problem.write(f, &self.file)?;
        }
        if self.found > 1 {
            write!(f, "\n\nerror: {} has {} problems", self.file, self.found)?;
        }
        if self.found > self.problems.len() {
            write!(f, ", of which the first {} are shown", self.problems.len())?;
        }
        Ok(())
    }
}

impl Problem {
    fn write(&self, f: &mut fmt::Formatter<'_>, file: &str) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        let gutter = match &self.place {
            Some(place) => {
                let number = place.line.to_string();
                let gutter = number.len();
                writeln!(f, "{:gutter$}--> {file}:{}:{}", "", place.line, place.column)?;
                writeln!(f, "{:gutter$} |", "")?;
                writeln!(f, "{number} | {}", place.excerpt)?;
                let (at, carets) = (place.caret_at, "^".repeat(place.caret_len));
                writeln!(f, "{:gutter$} | {:at$}{carets}", "", "")?;
                gutter
            }
            None => {
                writeln!(f, " --> {file}")?;
                1
            }
        };
        write!(f, "{:gutter$} = help: {}", "", self.help)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n{:gutter$} = note: {note}", ""))
    }
}

/// Collects problems while a text is read.
pub(super) struct Findings<'a> {
    text: &'a str,
    found: Vec<Finding>,
}

/// A problem before its place is looked up: a text may hold very many, and only the first are shown.
pub(super) struct Finding {
    span: Option<Range<usize>>,
    message: String,
    help: String,
    notes: Vec<Note>,
}

enum Note {
    Text(String),
    Line(&'static str, Range<usize>),
}

impl Finding {
    /// Something else one may want to know.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.notes.push(Note::Text(text.into()));
        self
    }

    /// `what`, followed by the line of another place.
    pub fn note_line(&mut self, what: &'static str, span: &Range<usize>) -> &mut Self {
        self.notes.push(Note::Line(what, span.clone()));
        self
    }
}

impl<'a> Findings<'a> {
    /// None so far, in `text`.
    pub fn new(text: &'a str) -> Self {
        Findings { text, found: Vec::new() }
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// A problem at these bytes of the text.
    pub fn add(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) -> &mut Finding {
        self.push(Some(span.clone()), message.into(), help.into())
    }

    /// Something that is missing from the file as a whole.
    pub fn add_missing(&mut self, message: impl Into<String>, help: impl Into<String>) -> &mut Finding {
        self.push(None, message.into(), help.into())
    }

    /// The report on `file`.
    pub fn into_report(mut self, file: &str) -> Report {
        self.found.sort_by_key(|finding| finding.span.as_ref().map_or(usize::MAX, |span| span.start));
        let problems = self.found.iter().take(PROBLEMS_MAX).map(|finding| self.problem(finding)).collect();
        Report { file: printable(file), problems, found: self.found.len() }
    }

    fn push(&mut self, span: Option<Range<usize>>, message: String, help: String) -> &mut Finding {
        self.found.push(Finding { span, message, help, notes: Vec::new() });
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    fn problem(&self, finding: &Finding) -> Problem {
        let notes = finding.notes.iter().map(|note| match note {
            Note::Text(text) => text.clone(),
            Note::Line(what, span) => format!("{what} on line {}", line_number(self.text, span.start)),
        });
        Problem {
            message: finding.message.clone(),
            place: finding.span.as_ref().map(|span| place(self.text, span)),
            help: finding.help.clone(),
            notes: notes.collect(),
        }
    }
}

/// The line of that byte, counted from 1.
pub(super) fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

fn place(text: &str, span: &Range<usize>) -> Place {
    let start = floor_char(text, span.start);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
    let line_end = line_start + line.len();
    let start = start.min(line_end);
    let end = floor_char(text, span.end).clamp(start, line_end);
    let before = &text[line_start..start];

    let (excerpt, caret_at, caret_len) = excerpt(before, &text[start..end], &text[end..line_end]);
    Place { line: line_number(text, start), column: before.chars().count() + 1, excerpt, caret_at, caret_len }
}

/// The line as shown, where the carets start in it, and how many there are.
fn excerpt(before: &str, within: &str, after: &str) -> (String, usize, usize) {
    // No more than can be shown is looked at, however long the line is.
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

/// `text` in single quotes, harmless and not too long.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", shortened(text, QUOTED_CHARS_MAX))
}

/// As much of `text` as takes at most `chars_max` characters when it is printable, and dots for the rest. What cannot
/// be printed counts with all that stands for it.
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

/// `text` with everything escaped that a terminal might obey.
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

/// The words joined as people do, with `last` before the last: `a`, `a and b`, `a, b and c`.
pub(super) fn listed(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_string(),
        [first @ .., end] => {
            let mut text = first.join(", ");
            // Writing to a string cannot fail.
            let _ = write!(text, " {last} {end}");
            text
        }
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}
