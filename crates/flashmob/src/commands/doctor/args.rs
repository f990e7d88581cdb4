//! The arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use flashmob_doctor::checks;

use crate::commands::time_in;

/// Where `flashmob bench net --server` and iperf3 listen.
pub const PORT_DEFAULT: u16 = 5201;
const TIME_LEAST: Duration = Duration::from_micros(1);
const TIME_MOST: Duration = Duration::from_secs(60);

/// Say what is wrong with this device, or with the path to a peer, what it costs and what mends it.
///
/// Looking needs no root and changes nothing. What is wrong is told worst first, each with what it costs and the command that mends it; what cannot be known here is
/// called unknown, never guessed. Ends with 0 if nothing is wrong, 3 if something is, 1 if it could not look.
///
/// --fix sets what it can, asking for each and writing down first what was there; --undo puts it back. All of that lasts until the next boot.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob doctor                                    # this device
  flashmob doctor --data /var/lib/flashmob/data      # and the disk below a node's data
  flashmob doctor --peer 192.168.1.20:7070           # and the path to a node; the port may be closed
  flashmob doctor --rate 50M --rtt 120ms             # are the buffers enough for such a path?
  sudo flashmob doctor --fix                         # set what can be set, asking for each
  sudo flashmob doctor --undo                        # put all of it back
  flashmob doctor --output json | jq '.checks[] | select(.outcome == \"wrong\") | .command'

Every check with its threshold, reason and source: docs/doctor.md.")]
pub struct DoctorArgs {
    /// Look at the path to this device as well: is it there, round trip, largest packet. Port 5201 unless one is named;
    /// if an iperf3 or flashmob server answers there, what the path carries is measured for a second.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = peer, conflicts_with = "root")]
    pub peer: Option<Peer>,
    /// Look at the disk below a node's data: its file, the folder it is or will be in, or a block device.
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// What the path carries, in bits per second (50M), where that is known. Else what was measured to --peer, the interface's speed, or 100M.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// The path's round-trip time (40ms), instead of the measured one, or of 40ms.
    #[arg(long, value_name = "TIME", value_parser = time_in(TIME_LEAST..=TIME_MOST))]
    pub rtt: Option<Duration>,
    /// How long the peer is waited for.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time_in(TIME_LEAST..=TIME_MOST))]
    pub timeout: Duration,
    /// Look at a copy of another device's /proc and /sys instead of this device.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Only these checks, such as receive-buffer,mtu.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = check)]
    pub only: Vec<String>,
    /// Show what is well or does not apply here, too.
    #[arg(short, long)]
    pub all: bool,
    /// A text for people, or JSON (described by schema/diagnosis-1.json).
    #[arg(long, value_enum, default_value = "table")]
    pub output: Output,
    /// Set what can be set, asking for each; needs root.
    #[arg(long, conflicts_with_all = ["root", "undo"])]
    pub fix: bool,
    /// Do not ask.
    #[arg(short, long, requires = "fix")]
    pub yes: bool,
    /// Put back what --fix has set; what somebody else has set since is left and named.
    #[arg(long, conflicts_with_all = ["root", "peer", "data", "rate", "rtt", "only", "all", "output"])]
    pub undo: bool,
    /// Put back that, too.
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// Where --fix writes down what was there. [default: /var/lib/flashmob/doctor-undo.json for root, else in $XDG_STATE_HOME/flashmob]
    #[arg(long, value_name = "FILE")]
    pub undo_file: Option<PathBuf>,
}

/// The forms of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// A device as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// All of it.
    pub text: String,
    /// A name or an address.
    pub host: String,
    /// If there was one.
    pub port: Option<u16>,
}

/// `host`, `host:port`, `192.0.2.1:7070`, `2001:db8::1`, `[2001:db8::1]:7070`.
pub fn peer(text: &str) -> Result<Peer, String> {
    let wrong = || "HOST or HOST:PORT, and for IPv6 [ADDRESS]:PORT".to_string();
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            (host, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some("")).ok_or_else(wrong)?)
        }
        None if text.matches(':').count() > 1 => (text, ""),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if host.is_empty() || host.contains(char::is_whitespace) || (text.ends_with(':') && !text.ends_with("::")) {
        return Err(wrong());
    }
    let port = match port {
        "" => None,
        port => Some(port.parse::<u16>().ok().filter(|&port| port > 0).ok_or("a port is a number from 1 to 65535")?),
    };
    Ok(Peer { text: text.into(), host: host.into(), port })
}

/// `50M`, `1.5G`, `9600`.
pub fn rate(text: &str) -> Result<f64, String> {
    flashmob_text::parse_bit_rate(text, 1.0..=1e12)
}

/// The name of a check.
fn check(text: &str) -> Result<String, String> {
    let names = || checks::TABLE.iter().map(|(name, _)| *name);
    if names().any(|name| name == text) {
        return Ok(text.into());
    }
    let near = names().map(|name| (strsim::damerau_levenshtein(text, name), name)).min();
    let hint = near.filter(|(distance, _)| *distance <= 3).map(|(_, name)| format!("; did you mean '{name}'?"));
    let all: Vec<&str> = names().collect();
    Err(format!("there is no such check{}; there are: {}", hint.unwrap_or_default(), all.join(", ")))
}
