//! Values of options: times, sizes, addresses, models of a flash.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::ValueEnum;
use flashmob_core::elevator::IssueOrder;
use flashmob_lab::cluster::SLOWER_MAX;
use flashmob_lab::flash::Profile;
use flashmob_text::Bytes;

/// The shortest time above 0.
pub const MOMENT: Duration = Duration::from_nanos(1);
/// The longest time of most options.
pub const DAY: Duration = Duration::from_secs(86_400);

/// Reads a time within limits from the command line; a bare number means seconds.
pub fn time_in(limits: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| flashmob_text::parse_duration_in(text, &limits).map_err(|error| error.to_string())
}

/// Reads a time above 0 and up to a day from the command line.
///
/// # Errors
/// For people, as those of all parsers here.
pub fn time(text: &str) -> Result<Duration, String> {
    time_in(MOMENT..=DAY)(text)
}

/// Reads a time from 0 up to a day from the command line.
///
/// # Errors
/// See [`time`].
pub fn time_or_none(text: &str) -> Result<Duration, String> {
    time_in(Duration::ZERO..=DAY)(text)
}

/// Reads an address and a port from the command line.
///
/// # Errors
/// See [`time`].
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let remedy = "give an IP address and a port, such as 127.0.0.1:7411, 0.0.0.0:7411 or [::1]:7411";
    text.parse().map_err(|_| match text.rsplit_once(':') {
        _ if text.parse::<IpAddr>().is_ok() => format!("there is no port; {remedy}"),
        Some((host, port)) if port.parse::<u16>().is_ok() => format!("'{host}' is not an IP address; {remedy}"),
        _ => remedy.to_string(),
    })
}

/// Reads a size from the command line.
///
/// # Errors
/// See [`time`].
pub fn size(text: &str) -> Result<u64, String> {
    flashmob_text::parse_size(text).map_err(|error| error.to_string())
}

/// Reads a size within limits from the command line. The message shows limits in bytes, or with three digits where they are multiples of 1 KiB.
pub fn size_in(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| {
        let bytes = size(text)?;
        let shown =
            |bytes: u64| if bytes.is_multiple_of(1024) { Bytes(bytes).to_string() } else { format!("{bytes} B") };
        if limits.contains(&bytes) {
            Ok(bytes)
        } else {
            Err(format!("'{text}' is out of range: give {} to {}", shown(*limits.start()), shown(*limits.end())))
        }
    }
}

/// A modelled flash on the command line.
///
/// # Errors
/// See [`time`].
pub fn flash_profile(text: &str) -> Result<Profile, String> {
    Profile::named(text).map_err(|error| error.to_string())
}

/// Parses how many times slower something is.
///
/// # Errors
/// See [`time`].
pub fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1.0..=SLOWER_MAX).contains(factor));
    factor.ok_or_else(|| format!("must be a factor of 1 to {SLOWER_MAX}, such as 10"))
}

/// [`IssueOrder`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// Ascending offsets.
    Sorted,
    /// As they come.
    Arrival,
}

impl From<OrderArg> for IssueOrder {
    fn from(order: OrderArg) -> IssueOrder {
        match order {
            OrderArg::Sorted => IssueOrder::Sorted,
            OrderArg::Arrival => IssueOrder::Arrival,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_its_port_gets_the_remedy() {
        assert_eq!(address("[::1]:7411").unwrap().port(), 7411);
        for (text, reason) in [
            ("127.0.0.1", "there is no port; give"),
            ("::1", "there is no port; give"),
            ("localhost:7411", "'localhost' is not an IP address; give"),
            ("127.0.0.1:65536", "give an IP address and a port"),
            ("", "give an IP address and a port"),
        ] {
            assert!(address(text).unwrap_err().starts_with(reason), "{text}");
        }
    }

    #[test]
    fn a_factor_has_limits() {
        for (text, wanted) in [("1", Some(1.0)), ("2.5", Some(2.5)), ("1000", Some(1000.0))] {
            assert_eq!(factor(text).ok(), wanted);
        }
        for wrong in ["", "0.99", "1000.1", "-2", "nan", "inf", "2x"] {
            assert!(factor(wrong).unwrap_err().contains("1 to 1000"), "{wrong}");
        }
    }
}
