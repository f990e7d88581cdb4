//! Tables and sentences of traces for a terminal, 100 columns wide at most.

use crate::commands::tell::harmless;
pub use flashmob_text::number;

/// Maximum width.
pub const WIDTH: usize = 100;

/// Rows in columns of equal width, the first `words` of them flush left.
pub fn aligned(text: &mut String, rows: &[Vec<String>], words: usize) {
    text.push_str(&flashmob_text::aligned(rows, words, "  ", WIDTH));
}

/// A sentence, wrapped; further lines are indented to the first one's begin.
pub fn fold(text: &mut String, first: &str, sentence: &str) {
    text.push_str(&flashmob_text::fold(first, &harmless(sentence), WIDTH));
}

/// The end of a name, which is more specific than its begin.
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

/// A duration in nanoseconds, formatted.
pub fn time(ns: f64) -> String {
    flashmob_text::time(ns / 1e9)
}

/// A bar for a fraction, of at most this many characters.
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
