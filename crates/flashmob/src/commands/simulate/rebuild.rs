//! A node whose copies are made again, as the command line has it, and what came of it.

use flashmob_lab::cluster::rebuild::Rebuilt;
use flashmob_results::cluster_rebuild::Rebuild;
use flashmob_results::latency::Latency;
use flashmob_text::parse_percent;

/// The node that returns, and what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Counted from 0.
    pub node: u32,
    /// So many of a million of its blocks.
    pub differing_ppm: u32,
}

/// Parses `N` or `N:PERCENT`.
pub fn parse(text: &str) -> Result<Lacking, String> {
    let (node, percent) = text.split_once(':').unwrap_or((text, "100"));
    let parsed = node.parse().ok().zip(parse_percent(percent).ok());
    let (node, percent) = parsed.ok_or("must be a node, counted from 0, or N:PERCENT, such as 7 or 7:2.5%")?;
    Ok(Lacking { node, differing_ppm: (percent * 10_000.0).round() as u32 })
}

/// The text that [`parse`] makes the same of.
pub fn text(lacking: Lacking) -> String {
    let Lacking { node, differing_ppm } = lacking;
    if differing_ppm == 1_000_000 { node.to_string() } else { format!("{node}:{}%", f64::from(differing_ppm) / 1e4) }
}

/// Parses the part of the air that clients take.
pub fn parse_load(text: &str) -> Result<f64, String> {
    let percent = parse_percent(text)?;
    if (1.0..=95.0).contains(&percent) { Ok(percent) } else { Err("must be from 1 to 95 percent".to_string()) }
}

/// In the format of results.
pub fn result(rebuilt: &Rebuilt) -> Rebuild {
    Rebuild {
        before_latency_ns: Latency::new(&rebuilt.before.latency_ns),
        before_busy_fraction: rebuilt.before.air_busy_fraction,
        asked_per_second: rebuilt.asked_per_s,
        copied_bytes: rebuilt.copied_bytes,
        digested_bytes: rebuilt.digested_bytes,
        digest_bytes: rebuilt.digest_bytes,
        bytes_per_second: rebuilt.bytes_per_s(),
        alone_bytes_per_second: rebuilt.alone_bytes_per_s,
        alone_busy_fraction: rebuilt.alone_busy_fraction,
        used_of_left: rebuilt.used_of_left(),
        took_s: rebuilt.took.map(|took| took.as_secs_f64()),
        eta_error: rebuilt.eta_error.map(|(first, _)| first),
        eta_error_worst: rebuilt.eta_error.map(|(_, worst)| worst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_what_they_lack_are_read_and_written() {
        for wanted in ["0", "7", "3:2.5%", "3:0%"] {
            assert_eq!(text(parse(wanted).unwrap()), wanted);
        }
        assert_eq!(parse("7:100%"), parse("7"));
        for wrong in ["", "-1", "x", "7:", ":5%", "7:101%", "7:-1%"] {
            assert!(parse(wrong).unwrap_err().contains("such as 7"), "{wrong}");
        }
    }

    #[test]
    fn loads_have_limits() {
        assert_eq!(["1", "95%", "33.3"].map(|text| parse_load(text).is_ok()), [true; 3]);
        assert_eq!(["0.9", "95.1", "", "x"].map(|text| parse_load(text).is_ok()), [false; 4]);
    }
}
