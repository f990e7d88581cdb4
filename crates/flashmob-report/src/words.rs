//! Numbers, units and names for the page. Formatting is that of `flashmob-text`.

use flashmob_results::cluster::{self, Batch, Order};
use flashmob_results::disk::{Cache, Engine, Operation, Parameters};
use flashmob_results::latency::Latency;
use flashmob_results::net::{self, Protocol};

pub use flashmob_text::{bits_per_second, count, percent, sentence as number, short};

/// A size in binary units: `4 KiB`, `1 B`, `1.5 GiB`.
pub fn bytes(size: u64) -> String {
    flashmob_text::Bytes(size).to_string()
}

/// A rate of bytes in decimal units.
pub fn bytes_per_second(rate: f64) -> String {
    if rate >= 1e6 { format!("{} MB/s", number(rate / 1e6)) } else { format!("{} KB/s", number(rate / 1e3)) }
}

/// Milliseconds as `16 ms`, never in a smaller unit: the axes are in milliseconds.
pub fn time_ms(ms: f64) -> String {
    if ms.abs() < 1_000.0 { format!("{} ms", number(ms)) } else { format!("{} s", number(ms / 1e3)) }
}

/// Nanoseconds as `1.2 ms`.
pub fn time_ns(ns: f64) -> String {
    flashmob_text::time(ns / 1e9)
}

/// A percentile as `1.2 ms`; `None` if it was not recorded.
pub fn percentile(latency: &Latency, percent: f64) -> Option<String> {
    latency.percentile_ns(percent).map(|ns| time_ns(ns as f64))
}

/// `p50 1.9 ms, p99 2.5 ms`.
pub fn p50_and_p99(latency: &Latency) -> Option<String> {
    Some(format!("p50 {}, p99 {}", percentile(latency, 50.0)?, percentile(latency, 99.0)?))
}

/// The text, or a dash for an unknown value.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".into())
}

/// `a, b, c`; `None` without parts.
pub fn joined(parts: impl IntoIterator<Item = String>) -> Option<String> {
    Some(parts.into_iter().collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
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

/// With an initial capital.
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

/// The combination of a cluster in short: `8 nodes, 4 links, k=10, read 1 B`, `8 nodes, 4 links, k=10, read 1 B, order of arrival`.
pub fn combination(p: &cluster::Parameters) -> String {
    let what = match p.read_percent {
        all if all >= 100.0 => "read".to_string(),
        none if none <= 0.0 => "write".to_string(),
        part => format!("read {} %, write the rest,", number(part)),
    };
    let how = match p.order {
        _ if p.no_io => ", without I/O",
        Some(Order::Arrival) => ", order of arrival",
        Some(Order::Sorted) | None => "",
    };
    format!(
        "{}, {}, {}, {what} {}{how}",
        plural(u64::from(p.nodes), "node"),
        plural(u64::from(p.links), "link"),
        batch(p.batch),
        bytes(u64::from(p.block_bytes))
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
        let [client, server] = [p.client_receive_max_bytes, p.server_receive_max_bytes].map(receive_max);
        parts.push(format!("receive maxima {client}, {server}"));
    }
    parts.join(", ")
}

/// The maximum of receive buffers: `320 KiB`, or `the system's` if it was not set.
pub fn receive_max(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "the system's".into(), self::bytes)
}

/// `k=10`, or `auto`.
pub fn batch(batch: Batch) -> String {
    match batch {
        Batch::Auto => "auto".into(),
        Batch::Fixed(k) => format!("k={k}"),
    }
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

/// Text from a file for titles and figures: without control characters, and cut to `characters_max`.
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
    fn dates_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_790_000_000), "2026-09-21 14:13 UTC");
        assert_eq!(date(u64::MAX), format!("{} s after 1970", u64::MAX));
    }

    #[test]
    fn combinations_of_a_cluster_tell_the_order_of_arrival() {
        let sorted = crate::tests::cluster_builder::parameters(8, 4, Batch::Fixed(10));
        assert_eq!(combination(&sorted), "8 nodes, 4 links, k=10, read 1 B");
        let arrival = cluster::Parameters { order: Some(Order::Arrival), ..sorted };
        assert_eq!(combination(&arrival), "8 nodes, 4 links, k=10, read 1 B, order of arrival");
    }

    #[test]
    fn text_from_files_is_cut_and_cleaned() {
        assert_eq!(plain("a\u{0}b\nc", 10), "a b c");
        assert_eq!(plain("abcdef", 4), "abc…");
        assert_eq!(plain("abcd", 4), "abcd");
    }
}
