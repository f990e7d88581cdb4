//! Formatted figures and names, each in at most six columns in tables.

use flashmob_server::status::volumes::Rebuild;
use flashmob_text::Bytes;
pub use flashmob_text::{harmless as printable, short as mean, shortened, wrapped};

/// A count: `9999`, `12.3k`, `1.23M`.
pub fn count(n: u64) -> String {
    flashmob_text::short(n as f64)
}

/// Bytes: `512`, `64Ki`, `1.5Gi`.
pub fn bytes(n: u64) -> String {
    flashmob_text::Bytes(n).to_string().replace([' ', 'B'], "")
}

/// A time: `0`, `420us`, `1.25ms`, `12s`; `-` for NaN.
pub fn seconds(x: f64) -> String {
    match x {
        x if !x.is_finite() || x < 0.0 => "-".to_string(),
        x if x < 5e-8 => "0".to_string(),
        x => flashmob_text::time(x).replace([' ', ','], ""),
    }
}

/// A long time: `45 s`, `3 h 12 min`, `2 d 3 h`.
pub fn uptime(x: f64) -> String {
    // A cast saturates, and NaN becomes 0.
    let s = x as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// Why copies are not made current, where that is not looked into.
pub const HELD_UP: &str = "waiting for their nodes, or for devices that fail";

/// Why copies are not made current: of nodes with such copies, some may be `away`, and devices may fail.
#[must_use]
pub fn held_up(away: bool, failing: &[String]) -> String {
    match (away, failing.is_empty()) {
        (true, true) => "waiting for their nodes".to_string(),
        (true, false) => format!("waiting for their nodes, and held up by devices: {}", failing.join(", ")),
        (false, false) => format!("held up by devices that fail: {}", failing.join(", ")),
        (false, true) => "about to begin".to_string(),
    }
}

/// Copies that are left to be made current. `held_up`: why nothing was lately.
#[must_use]
pub fn left(rebuild: &Rebuild, held_up: &str) -> Option<String> {
    let Rebuild { behind_copies, left_bytes, .. } = *rebuild;
    if behind_copies == 0 {
        return None;
    }
    let speed = match (rebuild.bytes_per_second, rebuild.eta_seconds) {
        (Some(rate), Some(eta)) => format!("{}/s, {} left", Bytes(rate as u64), uptime(eta)),
        _ => held_up.to_string(),
    };
    Some(format!("{behind_copies} copies to be made current: {}, {speed}", Bytes(left_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_their_column() {
        assert_eq!(
            [0, 1023, 1536, 64 << 20, (1 << 30) - 1, u64::MAX].map(bytes),
            ["0", "1023", "1.5Ki", "64Mi", "1Gi", "16Ei"]
        );
        let times = [0.0, 4e-8, 1e-6, 0.000_42, 0.000_999_6, 0.001_25, 0.9996, 1_234.0, f64::NAN, -1.0].map(seconds);
        assert_eq!(times, ["0", "0", "1us", "420us", "1ms", "1.25ms", "1s", "1234s", "-", "-"]);
        assert!((0..64).all(|bit| count(1 << bit).len() <= 6 && bytes((1 << bit) - 1).len() <= 6));
    }

    #[test]
    fn copies_wait_for_nodes_only_where_one_is_away() {
        let full = ["node 1 is full".to_string()];
        assert_eq!(held_up(true, &[]), "waiting for their nodes");
        assert_eq!(held_up(false, &full), "held up by devices that fail: node 1 is full");
        assert!(held_up(true, &full).contains("their nodes") && held_up(true, &full).contains("node 1"));
        assert_eq!(held_up(false, &[]), "about to begin");
        let rebuild = Rebuild::of(2, 1 << 20, None);
        assert_eq!(left(&rebuild, "for a reason").unwrap(), "2 copies to be made current: 2 MiB, for a reason");
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
}
