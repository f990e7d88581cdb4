//! Text that is not TOML: the parser's errors as remedies.
//!
//! Most errors are values without quotes. The remedy is derived from the line itself, because the parser's messages are
//! about grammar.

use std::ops::Range;

use toml::de::Error;

use super::report::{Findings, floor_char, shortened};

/// Characters of a line that a remedy repeats.
const REPEATED_CHARS_MAX: usize = 60;

/// Reports the errors of the parser, one for each line.
pub(super) fn report_syntax(text: &str, errors: &[Error], findings: &Findings<'_>) {
    let mut errors: Vec<(Range<usize>, &str)> =
        errors.iter().map(|error| (error.span().unwrap_or(0..0), error.message())).collect();
    errors.sort_by_key(|(span, _)| span.start);
    let mut next_line = 0;
    for (span, message) in errors {
        // Checked before the line is searched for: one line may have very many errors.
        if span.start < next_line {
            continue;
        }
        let (line_start, line) = line_at(text, span.start);
        next_line = line_start + line.len() + 1;
        let (what, help) = explain(line, message);
        findings.add(&span_on_line(&span, line_start, line), what, help);
        let open = ["array", "inline table", "multi-line"].iter().any(|what| message.contains(what));
        if open || (line.trim().starts_with('[') && message != "duplicate key") {
            // Text after an open bracket or quotation mark is misread, so its errors mean nothing.
            break;
        }
    }
}

/// The problem of a line, and the remedy.
fn explain(line: &str, message: &str) -> (String, String) {
    let code = line.trim();
    if code.starts_with('[') {
        return explain_header(code, message);
    }
    match code.split_once('=').map(|(key, value)| (key.trim(), without_comment(value))) {
        _ if message == "duplicate key" => {
            ("this key is already set in the same section".into(), "remove one of the two lines".into())
        }
        Some((key, "")) if !key.is_empty() => {
            ("missing value after =".into(), format!("write {} = ..., with the value", short(key)))
        }
        Some((key, value)) if !key.is_empty() && !value.starts_with(['"', '\'', '[', '{', '=']) => {
            explain_bare(key, value, message)
        }
        Some((_, value)) if value.starts_with(['"', '\'']) => explain_quoted(value, message),
        None if !code.is_empty() && !code.starts_with(['"', '\'', ']', '}', ',']) => {
            (format!("`{}` is not a valid line", short(code)), "write key = value, or start a comment with #".into())
        }
        _ => not_toml(message),
    }
}

fn explain_header(code: &str, message: &str) -> (String, String) {
    let headers = "headers are [[volume]], [volume.socket] and [[volume.node]]";
    let (what, help) = if message == "duplicate key" {
        (
            "this header is already in the file",
            "write [[volume]] and [[volume.node]] with double brackets to add another",
        )
    } else if without_comment(code).ends_with(']') && !message.contains("table") {
        ("a list above this header is not closed", "close it with ] before this line")
    } else if code.contains('=') {
        ("something follows the header", "write the header and every key on a line of its own")
    } else {
        return (format!("invalid header: {message}"), headers.into());
    };
    (what.into(), help.into())
}

/// A value that is not a list, section or text of TOML.
fn explain_bare(key: &str, value: &str, message: &str) -> (String, String) {
    if value.contains('=') {
        return ("there are two keys on this line".into(), "write every key on a line of its own".into());
    }
    let small = value.to_ascii_lowercase();
    if small == "true" || small == "false" {
        let help = format!("write {} = {small}, in small letters", short(key));
        return (format!("`{}` needs small letters", short(value)), help);
    }
    if let Ok(number) = value.parse::<u64>() {
        let help = format!("write {} = {number}", short(key));
        return (format!("`{}` is not how TOML writes a number", short(value)), help);
    }
    if value.parse::<f64>().is_ok() {
        return not_toml(message);
    }
    (format!("`{}` needs quotes", short(value)), format!("write {} = \"{}\"", short(key), short(value)))
}

fn explain_quoted(value: &str, message: &str) -> (String, String) {
    let (what, help) = if message.contains("escape") {
        (
            "a backslash in this text starts no TOML escape sequence",
            "write \\\\ for a backslash, or put the whole text in '...'",
        )
    } else if !closes(value) {
        ("this text is not closed", "end it on the same line with the same quotation mark")
    } else if message.contains("visible characters") {
        ("this text has a character that cannot be printed", "remove it, or write it as an escape such as \"\\t\"")
    } else {
        return not_toml(message);
    };
    (what.into(), help.into())
}

fn not_toml(message: &str) -> (String, String) {
    (format!("this is not TOML: {message}"), "see https://toml.io for how TOML is written".into())
}

/// Whether the text ends with the quotation mark that it starts with.
fn closes(value: &str) -> bool {
    value.chars().next().is_some_and(|mark| value.len() > 1 && value.ends_with(mark))
}

fn without_comment(value: &str) -> &str {
    let value = value.trim();
    if value.starts_with(['"', '\'']) { value } else { value.split('#').next().unwrap_or_default().trim() }
}

fn short(text: &str) -> String {
    shortened(text, REPEATED_CHARS_MAX)
}

/// The line that this byte is on, or the one that it ends, and where that line starts.
fn line_at(text: &str, at: usize) -> (usize, &str) {
    // A missing value is reported at the start of the next line.
    let start = text[..floor_char(text, at)].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].split('\n').next().unwrap_or_default();
    (start, line)
}

/// The value on that line if the parser points into it, else the place that the parser points at.
fn span_on_line(span: &Range<usize>, line_start: usize, line: &str) -> Range<usize> {
    let Some((key, value)) = line.split_once('=') else { return span.clone() };
    let value_start = line_start + key.len() + 1 + (value.len() - value.trim_start().len());
    let value_end = value_start + without_comment(value).len();
    if span.start >= value_start && span.end <= value_end && value_start < value_end {
        value_start..value_end
    } else {
        span.clone()
    }
}
