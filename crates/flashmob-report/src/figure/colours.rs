//! Colours and dashes of series. Colour, marker and dash change together, so that no reader depends on one of them.
//!
//! The eight hues are distinct under the common kinds of colour blindness (after Okabe and Ito), and each has a contrast of at least 3:1
//! with the page, light and dark.

/// A role of colour; the page's CSS defines the colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// The series of this number, with its own dash.
    Series(usize),
    /// The series of this number, solid.
    Whole(usize),
    Text,
    /// Labels of ticks.
    Muted,
    Grid,
    Axis,
    Page,
    /// Dashed lines of limits.
    Limit,
}

/// Number of hues; further series repeat them with other dashes and markers.
pub(crate) const HUES: usize = 8;
const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "4 2"];

/// The page's colours, light and dark.
pub(crate) const CSS: &str = "\
:root{--s0:#0068a8;--s1:#c14a00;--s2:#00805c;--s3:#a83c7e;--s4:#8a6500;--s5:#1b8fb8;--s6:#6b4bc4;--s7:#5c5c5c;\
--page:#fff;--card:#fff;--text:#1c2126;--muted:#5a646e;--grid:#e3e7eb;--axis:#8a949e;--line:#d5dbe1;--soft:#f3f6f8;\
--good:#00663f;--good-soft:#e0f3ea;--bad:#a3271b;--bad-soft:#fbe7e4;--note:#7a5200;--note-soft:#fdf1d6;--link:#0059a8}\
@media(prefers-color-scheme:dark){:root{--s0:#56b4f5;--s1:#ff8a47;--s2:#2ecb9c;--s3:#ee93c6;--s4:#f0c43c;--s5:#7fdbf2;--s6:#b79cff;--s7:#b8b8b8;\
--page:#14181c;--card:#1a1f24;--text:#e8ecf0;--muted:#a3adb7;--grid:#2c333a;--axis:#76818b;--line:#343c44;--soft:#21272d;\
--good:#6fdcab;--good-soft:#12352a;--bad:#ff9d90;--bad-soft:#43201c;--note:#f3c766;--note-soft:#3b2e10;--link:#7fbfff}}";

/// The fixed colour that stands for an ink in the drawing library's output; no figure uses it otherwise.
pub(super) fn sentinel(ink: Ink) -> (u8, u8, u8) {
    match ink {
        Ink::Series(n) => (0xFE, (n % DASHES.len()) as u8 + 1, (n % HUES) as u8),
        Ink::Whole(n) => (0xFE, 0, (n % HUES) as u8),
        Ink::Text => (0xFD, 0, 0),
        Ink::Muted => (0xFD, 0, 1),
        Ink::Grid => (0xFD, 0, 2),
        Ink::Axis => (0xFD, 0, 3),
        Ink::Page => (0xFD, 0, 4),
        Ink::Limit => (0xFD, 0, 5),
    }
}

/// Replaces sentinels by the page's colours and removes redundant attributes. Text is not affected: its quotes are escaped.
pub(super) fn coloured(drawing: &str) -> String {
    let mut text = drawing.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "").replace('\n', "");
    let mut replace = |(r, g, b): (u8, u8, u8), name: &str, dash: &str| {
        let code = format!("=\"#{r:02X}{g:02X}{b:02X}\"");
        if text.contains(&code) {
            let dashed = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
            text = text.replace(&code, &format!("=\"var(--{name})\"{dashed}"));
        }
    };
    for (ink, name) in
        [(Ink::Text, "text"), (Ink::Muted, "muted"), (Ink::Grid, "grid"), (Ink::Axis, "axis"), (Ink::Page, "page")]
    {
        replace(sentinel(ink), name, "");
    }
    replace(sentinel(Ink::Limit), "muted", "5 4");
    for n in 0..HUES {
        replace(sentinel(Ink::Whole(n)), &format!("s{n}"), "");
    }
    for n in 0..HUES * DASHES.len() {
        replace(sentinel(Ink::Series(n)), &format!("s{}", n % HUES), DASHES[n % DASHES.len()]);
    }
    text
}
