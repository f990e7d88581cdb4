//! Tables and sentences of traces for a terminal, 100 columns wide at most.

use std::fmt::Write;

use crate::commands::tell::harmless;

/// Nothing is wider.
pub const WIDTH: usize = 100;

/// Rows in columns of equal width, the first `words` of them flush left. Writing to a String cannot fail.
pub fn aligned(text: &mut String, rows: &[Vec<String>], words: usize) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::from(" ");
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = if at < words { write!(line, " {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// A sentence in lines, the second and later ones below the first's begin.
pub fn fold(text: &mut String, first: &str, sentence: &str) {
    let mut line = first.to_string();
    let indent = " ".repeat(first.chars().count());
    let mut is_empty = true;
    for word in harmless(sentence).split_whitespace() {
        if line.chars().count() + word.chars().count() > WIDTH && !is_empty {
            let _ = writeln!(text, "{}", line.trim_end());
            line.clone_from(&indent);
        }
        // A name without spaces may be of any length.
        let room = WIDTH.saturating_sub(indent.chars().count());
        let word = if word.chars().count() > room { shortened(word, room) } else { word.to_string() };
        line.push_str(&word);
        line.push(' ');
        is_empty = false;
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

/// The end of a name, which tells more than its begin.
pub fn shortened(name: &str, characters_max: usize) -> String {
    let name = harmless(name);
    let many = name.chars().count();
    if many <= characters_max {
        return name;
    }
    format!("…{}", name.chars().skip(many + 1 - characters_max).collect::<String>())
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// Three significant digits at least, and no more than needed.
pub fn number(value: f64) -> String {
    // What is rounded to nothing has no sign.
    let value = if value.abs() < 0.005 { 0.0 } else { value };
    let size = value.abs();
    if !value.is_finite() {
        "-".into()
    } else if size >= 100.0 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        trimmed(format!("{value:.1}"))
    } else {
        trimmed(format!("{value:.2}"))
    }
}

fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Microseconds or longer.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", number(ns / 1e9)),
        ns if ns >= 1e6 => format!("{} ms", number(ns / 1e6)),
        ns => format!("{} us", number(ns / 1e3)),
    }
}

/// A bar for a part of one, of so many characters at most.
pub fn bar(part: f64, characters: usize) -> String {
    let eighths = (part.clamp(0.0, 1.0) * characters as f64 * 8.0).round() as usize;
    let rest = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8)).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_ends() {
        assert_eq!(shortened("/data/test.db-journal", 11), "…db-journal");
        assert_eq!(shortened("a\nb", 5), "a\u{fffd}b");
        assert_eq!([file_name("/a/b"), file_name("/a/"), file_name("/"), file_name("flush")], ["b", "a", "/", "flush"]);
    }

    #[test]
    fn numbers_have_three_digits_and_nothing_has_no_sign() {
        assert_eq!([-0.0, -0.001, 0.004, f64::NAN].map(number), ["0", "0", "0", "-"]);
        assert_eq!([0.25, -0.25, 9.999, 99.96, 1_234.5].map(number), ["0.25", "-0.25", "10", "100", "1234"]);
    }

    #[test]
    fn bars_are_as_long_as_their_part() {
        assert_eq!([bar(0.0, 4), bar(0.5, 4), bar(1.0, 4), bar(7.0, 2)], ["", "██", "████", "██"]);
        assert_eq!(bar(0.1, 5), "▌");
        assert_eq!(bar(f64::NAN, 4), "");
    }

    #[test]
    fn sentences_are_folded_and_nothing_is_too_wide() {
        let mut text = String::new();
        fold(&mut text, "  note: ", &format!("{} {}", "word ".repeat(40), "x".repeat(300)));
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("        ")));
    }
}
