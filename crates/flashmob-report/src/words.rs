//! Numbers and names as people read them.

use flashmob_results::cluster::{self, Batch};
use flashmob_results::disk::{Cache, Engine, Operation, Parameters};
use flashmob_results::net::{self, Protocol};

/// A figure with three significant digits or, from 1,000 on, whole with separators; from 10^15 on with an exponent.
pub fn number(value: f64) -> String {
    // Nothing is less than nothing: an empty sum is -0.
    let value = value + 0.0;
    let size = value.abs();
    if !value.is_finite() {
        "–".into()
    } else if size >= 1e15 {
        format!("{value:.2e}")
    } else if size >= 100.0 || size == 0.0 {
        separated(value.round())
    } else if size >= 10.0 {
        trimmed(format!("{value:.1}"))
    } else if size >= 1.0 {
        trimmed(format!("{value:.2}"))
    } else if size >= 0.001 {
        // Each zero after the point takes one decimal more.
        let decimals = (2.0 - size.log10().floor()) as usize;
        trimmed(format!("{value:.decimals$}"))
    } else {
        format!("{value:.1e}")
    }
}

/// For axes: `800`, `1,500`, `20k`, `1.5M`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let scaled = |unit: f64, letter: &str| format!("{}{letter}", number(value / unit));
    if size < 1e4 {
        number(value)
    } else if size < 1e6 {
        scaled(1e3, "k")
    } else if size < 1e9 {
        scaled(1e6, "M")
    } else if size < 1e12 {
        scaled(1e9, "G")
    } else if size < 1e15 {
        scaled(1e12, "T")
    } else {
        format!("{value:.0e}")
    }
}

/// A whole number with separators.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

fn separated(value: f64) -> String {
    let text = format!("{value:.0}");
    match text.strip_prefix('-') {
        Some(digits) => format!("-{}", group(digits)),
        None => group(&text),
    }
}

fn group(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A size in binary units if it is a round one: `4 KiB`, `1 B`, `1.5 GiB`.
pub fn bytes(size: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if size >= unit {
            return format!("{} {name}", number(size as f64 / unit as f64));
        }
    }
    format!("{size} B")
}

/// A rate of bytes in decimal units.
pub fn bytes_per_second(rate: f64) -> String {
    if rate >= 1e6 { format!("{} MB/s", number(rate / 1e6)) } else { format!("{} KB/s", number(rate / 1e3)) }
}

/// A rate of bits in decimal units: `10.8 Mbit/s`.
pub fn bits_per_second(rate: f64) -> String {
    match rate {
        _ if rate >= 1e9 => format!("{} Gbit/s", number(rate / 1e9)),
        _ if rate >= 1e6 => format!("{} Mbit/s", number(rate / 1e6)),
        _ if rate >= 1e3 => format!("{} kbit/s", number(rate / 1e3)),
        _ => format!("{} bit/s", number(rate)),
    }
}

/// Milliseconds as `16 ms`.
pub fn time_ms(ms: f64) -> String {
    if ms.abs() < 1_000.0 { format!("{} ms", number(ms)) } else { format!("{} s", number(ms / 1e3)) }
}

/// Nanoseconds as `1.2 ms`.
pub fn time_ns(ns: f64) -> String {
    if ns < 1e3 {
        format!("{} ns", number(ns))
    } else if ns < 1e6 {
        format!("{} us", number(ns / 1e3))
    } else if ns < 1e9 {
        format!("{} ms", number(ns / 1e6))
    } else {
        format!("{} s", number(ns / 1e9))
    }
}

/// `1 thread`, `4 threads`.
pub fn threads(count: u32) -> String {
    plural(u64::from(count), "thread")
}

/// `1 thing`, `2 things`.
pub fn plural(many: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(many), if many == 1 { "" } else { "s" })
}

/// `a, b and c`.
pub fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// With a capital letter at its beginning.
pub fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// The combination in short: `read random 4 KiB, 4 threads, cold`.
pub fn parameters(p: &Parameters) -> String {
    let mut text = format!("{} {} {}, {}", p.operation, p.pattern, bytes(p.block_bytes), threads(p.threads));
    if p.engine != Engine::Pread || p.depth != 1 {
        text.push_str(&format!(", {} depth {}", p.engine, p.depth));
    }
    text.push_str(match p.cache {
        Cache::Cold => "",
        Cache::Warm => ", page cache warm",
        Cache::Direct => ", direct",
    });
    if let (Operation::Write, Some(sync)) = (p.operation, p.sync) {
        text.push_str(&format!(", sync {sync}"));
    }
    if let Some(scheduler) = &p.scheduler {
        text.push_str(&format!(", {scheduler}"));
    }
    text
}

/// The combination of a cluster in short: `8 nodes, 4 links, k=10, read 1 B`.
pub fn combination(p: &cluster::Parameters) -> String {
    let what = match p.read_percent {
        all if all >= 100.0 => "read".to_string(),
        none if none <= 0.0 => "write".to_string(),
        part => format!("read {} %, write the rest,", number(part)),
    };
    format!(
        "{}, {}, {}, {what} {}{}",
        plural(u64::from(p.nodes), "node"),
        plural(u64::from(p.links), "link"),
        batch(p.batch),
        bytes(u64::from(p.block_bytes)),
        if p.no_io { ", without I/O" } else { "" }
    )
}

/// The combination of a network in short: `TCP down, cubic, RTT 16 ms, loss 1 %`. Of two receive maxima the first is the client's.
pub fn crossing(p: &net::Parameters) -> String {
    let mut parts = vec![match (p.protocol, p.messages) {
        (Protocol::Tcp, _) => format!("TCP {}", p.direction),
        (Protocol::Udp, _) => format!("UDP {}", p.direction),
        (Protocol::Messages, Some(m)) => format!(
            "requests of {} answered by {}, {} at once",
            bytes(u64::from(m.request_bytes)),
            bytes(u64::from(m.answer_bytes)),
            count(u64::from(m.depth))
        ),
        (Protocol::Messages, None) => "requests and answers".into(),
    }];
    if p.streams != 1 {
        parts.push(plural(u64::from(p.streams), "stream"));
    }
    parts.extend(p.congestion.as_ref().map(|name| plain(name, 24)));
    parts.extend(p.rate_bits_per_second.map(|rate| format!("at {}", bits_per_second(rate as f64))));
    parts.extend(p.window_bytes.map(|window| format!("buffers of {}", bytes(window))));
    if let Some(path) = &p.path {
        parts.push(format!("RTT {}", time_ms(path.rtt_ms)));
        if path.loss_percent > 0.0 {
            parts.push(format!("loss {} %", number(path.loss_percent)));
        }
        parts.extend(path.rate_bits_per_second.map(|rate| format!("path {}", bits_per_second(rate as f64))));
    }
    if p.client_receive_max_bytes.is_some() || p.server_receive_max_bytes.is_some() {
        let of = |max: Option<u64>| max.map_or_else(|| "the system's".to_string(), bytes);
        parts.push(format!("receive maxima {}, {}", of(p.client_receive_max_bytes), of(p.server_receive_max_bytes)));
    }
    parts.join(", ")
}

/// `k=10`, or `auto`.
pub fn batch(batch: Batch) -> String {
    match batch {
        Batch::Auto => "auto".into(),
        Batch::Fixed(k) => format!("k={k}"),
    }
}

/// A fraction as `95 %`, with one decimal where that is what matters.
pub fn percent(fraction: f64) -> String {
    format!("{}\u{a0}%", number((fraction * 1_000.0).round() / 10.0))
}

/// `SmallFile` as `small_file`.
pub fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// Without control characters, and at most so many characters: what comes from a file goes into titles and figures.
pub fn plain(text: &str, characters_max: usize) -> String {
    let mut clean =
        text.chars().map(|c| if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) { ' ' } else { c });
    let mut kept: String = clean.by_ref().take(characters_max).collect();
    if clean.next().is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// Seconds since 1970 as `2026-09-21 14:13 UTC`, by the civil calendar (days since 0000-03-01 in eras of 400 years).
pub fn date(unix_s: u64) -> String {
    let days = unix_s / 86_400;
    let minutes = unix_s % 86_400 / 60;
    // 1970-01-01 is day 719,468 after 0000-03-01.
    let Some(day) = days.checked_add(719_468).filter(|&d| d < 3_652_425) else {
        return format!("{unix_s} s after 1970");
    };
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let all =
            [0.0, 0.00001, 0.001234, 0.04987, 0.5, 1.0, 9.876, 12.34, 999.6, 2_100.4, 1_234_567.0, 1e300].map(number);
        assert_eq!(
            all,
            ["0", "1.0e-5", "0.00123", "0.0499", "0.5", "1", "9.88", "12.3", "1,000", "2,100", "1,234,567", "1.00e300"]
        );
        assert_eq!([800.0, 1_500.0, 20_000.0, 1.5e6, 1e300].map(short), ["800", "1,500", "20k", "1.5M", "1e300"]);
        assert_eq!([0, 512, 4_096, 1 << 30, 10_000_000_000].map(bytes), ["0 B", "512 B", "4 KiB", "1 GiB", "9.31 GiB"]);
        assert_eq!([999.0, 1_200.0, 2.5e6, 3e9].map(time_ns), ["999 ns", "1.2 us", "2.5 ms", "3 s"]);
        assert_eq!([number(f64::NAN), number(-0.0)], ["–", "0"]);
    }

    #[test]
    fn dates_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_790_000_000), "2026-09-21 14:13 UTC");
        assert_eq!(date(u64::MAX), format!("{} s after 1970", u64::MAX));
    }

    #[test]
    fn text_from_files_is_cut_and_cleaned() {
        assert_eq!(plain("a\u{0}b\nc", 10), "a b c");
        assert_eq!(plain("abcdef", 4), "abc…");
        assert_eq!(plain("abcd", 4), "abcd");
    }
}
