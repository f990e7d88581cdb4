//! Modelled paths on the command line.

use clap::Args;

use super::in_lab::LabPath;

/// Default rate of a path, each way.
const RATE_BITS_PER_SECOND: u64 = 100_000_000;
/// Whole microseconds of these are exact, and finer than the lab's timing.
const RTT_MS_MAX: f64 = 20_000.0;

/// A path between two hosts of this machine, modelled: instead of --connect and --server.
#[derive(Clone, Debug, Args)]
pub struct PathArgs {
    /// Measure between two hosts of a lab on this machine, over a modelled path with these added round-trip times in
    /// milliseconds. Needs root, or a system that allows user namespaces.
    #[arg(long, value_name = "MS", value_delimiter = ',', value_parser = rtt_ms, help_heading = "Modelled paths")]
    pub rtt: Vec<f64>,
    /// Packet loss in percent, each way; one lab for each combination with --rtt.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = loss_ppm, requires = "rtt", help_heading = "Modelled paths")]
    pub loss: Vec<u32>,
    /// Path rate in bits per second, each way [default: 100M].
    #[arg(long, value_name = "RATE", value_parser = path_rate, requires = "rtt", help_heading = "Modelled paths")]
    pub path_rate: Option<u64>,
    /// Queue limit at the path's entry, in packets.
    #[arg(long, default_value_t = 100, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Modelled paths")]
    pub path_queue: u32,
    /// Maximum receive buffer in the client's host: the third value of its tcp_rmem.
    #[arg(long, value_name = "SIZE", value_parser = receive_max, requires = "rtt", help_heading = "Modelled paths")]
    pub client_receive_max: Option<u64>,
    /// Maximum receive buffer in the server's host: the third value of its tcp_rmem.
    #[arg(long, value_name = "SIZE", value_parser = receive_max, requires = "rtt", help_heading = "Modelled paths")]
    pub server_receive_max: Option<u64>,
    /// Random seed for packet losses.
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Modelled paths")]
    pub seed: u64,
}

impl PathArgs {
    /// Whether a path was requested.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !self.rtt.is_empty()
    }

    /// All combinations: round trips change slowest.
    #[must_use]
    pub fn paths(&self) -> Vec<LabPath> {
        let losses: &[u32] = if self.loss.is_empty() { &[0] } else { &self.loss };
        let of_rtt = |&rtt_ms: &f64| {
            losses.iter().map(move |&loss_ppm| LabPath {
                rtt_us: (rtt_ms * 1e3).round() as u64,
                loss_ppm,
                rate_bits_per_second: self.path_rate.unwrap_or(RATE_BITS_PER_SECOND),
                queue_packets: self.path_queue,
                client_receive_max_bytes: self.client_receive_max,
                server_receive_max_bytes: self.server_receive_max,
                seed: self.seed,
            })
        };
        self.rtt.iter().flat_map(of_rtt).collect()
    }
}

/// Parses a round-trip time.
pub fn rtt_ms(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().trim_end_matches("ms").parse().ok();
    number.filter(|ms| (0.0..=RTT_MS_MAX).contains(ms)).ok_or_else(|| format!("must be 0 to {RTT_MS_MAX} milliseconds"))
}

/// Parses a loss in percent.
fn loss_ppm(text: &str) -> Result<u32, String> {
    flashmob_text::parse_percent(text).map(|percent| (percent * 1e4).round() as u32)
}

/// Parses a path's rate, within the lab's limits.
pub fn path_rate(text: &str) -> Result<u64, String> {
    flashmob_text::parse_bit_rate(text, 1e3..=1e11).map(|rate| rate as u64)
}

/// Parses a receive maximum: no socket has less, and the kernel's values have 31 bits.
pub fn receive_max(text: &str) -> Result<u64, String> {
    let bytes = crate::commands::size(text)?;
    if (4_096..=i32::MAX as u64).contains(&bytes) { Ok(bytes) } else { Err("must be 4KiB to 2047MiB".to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_their_limits() {
        assert_eq!(rtt_ms("0"), Ok(0.0));
        assert_eq!(rtt_ms("16ms"), Ok(16.0));
        assert_eq!(rtt_ms("20000"), Ok(20_000.0));
        assert_eq!((loss_ppm("0.1%"), loss_ppm("100"), loss_ppm("0.0001")), (Ok(1_000), Ok(1_000_000), Ok(1)));
        for wrong in ["-1", "20000.1", "x", "", "inf", "NaN"] {
            assert!(rtt_ms(wrong).is_err(), "{wrong}");
        }
        for wrong in ["-0.1", "100.1", "x", ""] {
            assert!(loss_ppm(wrong).is_err(), "{wrong}");
        }
        assert_eq!((receive_max("4096"), receive_max("4095").is_err()), (Ok(4_096), true));
        assert_eq!((receive_max("2147483647"), receive_max("2147483648").is_err()), (Ok(2_147_483_647), true));
    }
}
