//! Text that fits: folded between words, shortened, and without what steers a terminal.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// `text` in lines of at most `width` columns, broken between words where it can be; white space counts as one blank.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    lines(text, width, "", "")
}

/// A sentence behind `first`, in lines of at most `width` columns that end in a line feed; the second and later ones begin below the sentence.
#[must_use]
pub fn fold(first: &str, sentence: &str, width: usize) -> String {
    let indent = " ".repeat(first.chars().count());
    lines(sentence, width, first, &indent).into_iter().map(|line| line.trim_end().to_string() + "\n").collect()
}

fn lines(text: &str, width: usize, first: &str, indent: &str) -> Vec<String> {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    textwrap::wrap(&text, options).into_iter().map(String::from).collect()
}

/// Most characters for each column, as there may be some that take none: no script puts more than three marks on a letter.
const CHARS_PER_COLUMN: usize = 4;

/// `text` in at most `width` columns, and [`CHARS_PER_COLUMN`] as many characters: the middle gives way, for the ends tell hosts, ports and files apart.
#[must_use]
pub fn shortened(text: &str, width: usize) -> String {
    let has_few = text.chars().nth(width.saturating_mul(CHARS_PER_COLUMN)).is_none();
    if has_few && columns(text) <= width {
        return text.to_string();
    }
    let kept = width.saturating_sub(1);
    let chars_max = kept.saturating_mul(CHARS_PER_COLUMN);
    let head = fitting(text.chars().take(chars_max / 2), kept / 2);
    let used: usize = head.iter().map(|&c| columns_of(c)).sum();
    let tail = fitting(text.chars().rev().take(chars_max - head.len()), kept - used);
    head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect()
}

/// The first of `chars` that take at most `width` columns together.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut used = 0;
    let mut fits = |c: &char| {
        used += columns_of(*c);
        used <= width
    };
    chars.take_while(|c| fits(c)).collect()
}

fn columns_of(c: char) -> usize {
    columns(c.encode_utf8(&mut [0; 4]))
}

/// The columns that a terminal gives `text`: two for each wide character of East Asian scripts, none for what combines with another.
#[must_use]
pub fn columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// `text` without anything that steers a terminal or turns the direction of writing: names of files, nodes and devices are anybody's text.
#[must_use]
pub fn harmless(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Somebody else's sentence behind a message: [`harmless`], on one line, with single spaces, at most `columns_max` columns wide. Unlike [`quoted`] it keeps its
/// quotes: a remedy has commands in them.
#[must_use]
pub fn one_line(text: &str, columns_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    shortened(&harmless(&words.join(" ")), columns_max)
}

/// The most columns of a line of a message.
const LINE_COLUMNS_MAX: usize = 1000;

/// The lines of a message that may have anybody's text in it: they steer no terminal, and none but the first looks like the beginning of another message, also
/// not where a terminal wraps it behind many blanks.
pub fn message_lines(text: &str) -> impl Iterator<Item = String> {
    let lines = text.split('\n').map(|line| shortened(&harmless(&with_single_blanks(line)), LINE_COLUMNS_MAX));
    lines.enumerate().map(|(at, line)| if at == 0 { line } else { format!("  {line}") })
}

/// A line whose blanks are single ones, but for those before it.
fn with_single_blanks(line: &str) -> String {
    // Control characters are no blanks here: they are shown.
    let is_blank = |c: char| c.is_whitespace() && !c.is_control();
    let words = line.trim_start_matches(is_blank);
    let before = &line[..line.len() - words.len()];
    let words: Vec<&str> = words.split(is_blank).filter(|word| !word.is_empty()).collect();
    format!("{before}{}", words.join(" "))
}

/// Somebody else's text inside a sentence: in quotes that it has none of, [`harmless`], on one line, with single spaces, at most `columns_max` columns wide.
/// Where it begins and ends is seen, and it is too short to fill a line of a terminal.
#[must_use]
pub fn quoted(text: &str, columns_max: usize) -> String {
    let is_quote = |c: char| matches!(c, '\'' | '`' | '"' | '\u{2018}'..='\u{201f}');
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole: String = harmless(&words.join(" ")).chars().map(|c| if is_quote(c) { '\u{fffd}' } else { c }).collect();
    format!("'{}'", shortened(&whole, columns_max))
}

/// As [`quoted`], where six digits are compared: a text with as many has none.
#[must_use]
pub fn quoted_beside_digits(text: &str, columns_max: usize) -> String {
    const DIGITS: usize = 6;
    let has_too_many = text.chars().filter(|c| c.is_numeric()).count() >= DIGITS;
    let masked: String = text.chars().map(|c| if has_too_many && c.is_numeric() { '#' } else { c }).collect();
    quoted(&masked, columns_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(["タブ", "e\u{301}", "a…b", ""].map(columns), [4, 1, 3, 0]);
        assert_eq!([6, 5, 4, 2, 1].map(|width| shortened("タブレ", width)), ["タブレ", "タ…レ", "…レ", "…", "…"]);
    }

    #[test]
    fn blanks_do_not_push_words_into_a_line_of_their_own() {
        assert_eq!(with_single_blanks("  busy;   \u{3000} [time INFO ] x  "), "  busy; [time INFO ] x");
        assert_eq!(with_single_blanks(""), "");
    }

    #[test]
    fn a_message_with_anybodys_text_has_one_beginning() {
        let text = "node a: no\n\u{1b}[2J\rerror: all is well\n\n   remedy: `x`";
        let lines: Vec<String> = message_lines(text).collect();
        assert_eq!(lines, ["node a: no", "  \u{fffd}[2J\u{fffd}error: all is well", "  ", "     remedy: `x`"]);
        assert_eq!(message_lines(&"x".repeat(5000)).map(|line| columns(&line)).collect::<Vec<_>>(), [LINE_COLUMNS_MAX]);
        assert_eq!(one_line("no\n\u{1b}[2J\r\n`x  y`", 24), "no \u{fffd}[2J `x y`");
        assert_eq!(columns(&one_line(&"long ".repeat(99), 24)), 24);
        for marks in ["\u{301}".repeat(9999), "e\u{301}\u{301}\u{301}\u{301}\u{301}".repeat(24)] {
            let short = one_line(&marks, 24);
            assert!(short.chars().count() <= 4 * 24 && short.contains('…') && columns(&short) <= 24, "{short}");
        }
        assert!(message_lines(&"\u{301}".repeat(9999)).all(|line| line.chars().count() <= 4 * LINE_COLUMNS_MAX));
    }

    #[test]
    fn text_cannot_steer_the_terminal() {
        assert_eq!(
            harmless("a\x1b[2J\n\u{61c}\u{202e}\u{feff}\u{9b}é漢"),
            "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}é漢"
        );
    }

    #[test]
    fn a_quoted_text_ends_where_its_quote_ends_and_fills_no_line() {
        for (text, width, expected) in [
            ("nexus7-a", 24, "'nexus7-a'"),
            ("a' at 10.0.0.1 `x`", 24, "'a\u{fffd} at 10.0.0.1 \u{fffd}x\u{fffd}'"),
            ("a \n\t  \u{3000}b", 24, "'a b'"),
            ("", 24, "''"),
            ("abcdefgh", 8, "'abcdefgh'"),
            ("abcdefghi", 8, "'abc…fghi'"),
        ] {
            assert_eq!(quoted(text, width), expected);
        }
        assert_eq!(quoted_beside_digits("tablet 12345", 24), "'tablet 12345'");
        assert_eq!(quoted_beside_digits("tablet 555 123", 24), "'tablet ### ###'");
        assert_eq!(quoted_beside_digits("\u{ff15}\u{ff15}\u{ff15} \u{661}\u{662}\u{663}", 24), "'### ###'");
    }

    #[test]
    fn shortening_keeps_both_ends() {
        for (width, expected) in [(18, "192.168.1.101:7000"), (17, "192.168.…101:7000"), (3, "1…0"), (1, "…"), (0, "…")]
        {
            assert_eq!(shortened("192.168.1.101:7000", width), expected);
        }
    }

    #[test]
    fn lines_break_between_words_and_else_within() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two", 6), ["one", "two"]);
        assert_eq!(wrapped("  a   bcdefghij ", 4), ["a", "bcde", "fghi", "j"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("receive-buffer a", 10).len(), 2, "a hyphen is no place to break");
    }

    #[test]
    fn a_sentence_stands_behind_its_beginning() {
        assert_eq!(fold("  - ", "one two three", 11), "  - one two\n    three\n");
        assert_eq!(fold("  note: ", "", 80), "  note:\n");
    }

    proptest! {
        #[test]
        fn any_text_is_quoted_on_one_short_line(text: String, width in 1usize..40) {
            prop_assert!(shortened(&text, width).chars().count() <= 4 * width);
            for shown in [quoted(&text, width), quoted_beside_digits(&text, width)] {
                prop_assert!(columns(&shown) <= width + 2);
                prop_assert_eq!(shown.matches('\'').count(), 2);
                prop_assert!(!shown.contains("  ") && !shown.contains(char::is_control));
            }
            prop_assert!(quoted_beside_digits(&text, width).chars().filter(|c| c.is_numeric()).count() < 6);
        }

        #[test]
        fn no_line_is_too_wide_and_nothing_is_lost(text in "[a-z -]{0,200}", width in 9usize..60) {
            let folded = fold("  note: ", &text, width);
            prop_assert!(folded.lines().all(|line| line.chars().count() <= width), "{folded}");
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&folded), letters("note:") + &letters(&text));
        }
    }
}
