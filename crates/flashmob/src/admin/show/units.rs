//! Figures and names as people read them, each in at most six columns where it goes into a table.

/// A count: `9999`, `12.3k`, `1.23M`.
pub(crate) fn count(n: u64) -> String {
    if n < 10_000 { n.to_string() } else { scaled(n as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"]) }
}

/// Bytes: `512`, `64Ki`, `1.5Gi`.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// A mean: `1.5`, `64`, `1448`, `12.3k`; `-` if there is none.
pub(crate) fn mean(x: f64) -> String {
    if !x.is_finite() || x < 0.0 {
        return "-".to_string();
    }
    if x < 9999.5 { digits(x) } else { scaled(x, 1000.0, &["", "k", "M", "G", "T", "P", "E"]) }
}

/// A time: `0`, `420us`, `1.25ms`, `12s`; `-` if it is none.
pub(crate) fn seconds(x: f64) -> String {
    if !x.is_finite() || x < 0.0 {
        return "-".to_string();
    }
    let micros = x * 1e6;
    if micros < 0.05 {
        "0".to_string()
    } else if micros < 999.5 {
        digits(micros) + "us"
    } else if micros < 999.5e3 {
        digits(micros / 1e3) + "ms"
    } else {
        digits(x) + "s"
    }
}

/// A long time: `45 s`, `3 h 12 min`, `2 d 3 h`.
pub(crate) fn uptime(x: f64) -> String {
    // A cast saturates, and makes 0 of what is no number.
    let s = x as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// `name` without anything that steers a terminal or turns the direction of writing.
pub(crate) fn printable(name: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    name.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// `text` in at most `width` columns: what stands in the middle gives way, for the ends tell hosts, ports and files apart.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_string();
    }
    let kept = width.saturating_sub(1);
    let head = kept / 2;
    let tail = kept - head;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(len - tail)).collect()
}

/// `text` in lines of at most `width` columns, broken between words where it can be.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let used = lines.last().map_or(0, |line| line.chars().count());
            let gap = usize::from(used > 0);
            let part = word.len().min(width);
            if used > 0 && used + gap + part > width {
                lines.push(String::new());
                continue;
            }
            if let Some(line) = lines.last_mut() {
                line.extend(std::iter::repeat_n(' ', gap).chain(word.drain(..part)));
            }
        }
    }
    lines
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would be rounded to a fourth digit; 1023.5 likewise.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    digits(value) + units[unit]
}

/// Three digits, and no zeros that tell nothing; whole numbers from 100 on.
fn digits(value: f64) -> String {
    let places = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits_and_fit_their_column() {
        for (n, expected) in [
            (0, "0"),
            (9999, "9999"),
            (10_000, "10k"),
            (12_345, "12.3k"),
            (999_499, "999k"),
            (999_500, "1M"),
            (1_234_567, "1.23M"),
            (u64::MAX, "18.4E"),
        ] {
            assert_eq!(count(n), expected);
        }
        for (n, expected) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1536, "1.5Ki"),
            (64 << 20, "64Mi"),
            ((1 << 30) - 1, "1Gi"),
            (u64::MAX, "16Ei"),
        ] {
            assert_eq!(bytes(n), expected);
        }
        for (x, expected) in [
            (0.0, "0"),
            (4e-8, "0"),
            (1e-6, "1us"),
            (0.000_42, "420us"),
            (0.000_999_6, "1ms"),
            (0.001_25, "1.25ms"),
            (0.0126, "12.6ms"),
            (0.9996, "1s"),
            (100.0, "100s"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
            (-1.0, "-"),
        ] {
            assert_eq!(seconds(x), expected);
        }
        assert_eq!([64.0, 1.5, 1448.2, 12_345.0, 0.0, f64::NAN].map(mean), ["64", "1.5", "1448", "12.3k", "0", "-"]);
        assert!((0..64).all(|bit| count(1 << bit).len() <= 6 && bytes((1 << bit) - 1).len() <= 6));
    }

    #[test]
    fn long_times_have_two_units() {
        for (s, expected) in [
            (0.9, "0 s"),
            (59.9, "59 s"),
            (60.0, "1 min 0 s"),
            (3599.0, "59 min 59 s"),
            (11_530.0, "3 h 12 min"),
            (86_400.0, "1 d 0 h"),
            (f64::NAN, "0 s"),
            (-5.0, "0 s"),
        ] {
            assert_eq!(uptime(s), expected);
        }
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2J\n\u{202e}\u{feff}\u{9b}é漢"), "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}é漢");
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
    }
}
