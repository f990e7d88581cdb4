//! The arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flashmob_doctor::checks;

use crate::commands::tell::Form;
use flashmob_node::values::time_in;

/// The port of `flashmob bench net --server` and iperf3.
pub const PORT_DEFAULT: u16 = 5201;
const TIME_LEAST: Duration = Duration::from_micros(1);
const TIME_MOST: Duration = Duration::from_secs(60);

/// Check this device, the path to a peer, a cluster or its etcd for problems, and fix them.
///
/// Checking needs no root and changes nothing. Problems are listed by severity, each with its effect and the command
/// that fixes it; values that cannot be determined are reported as unknown. Exits with 0 if there is no problem, 3 if
/// there is one, 1 if the checks could not run.
///
/// --fix applies the changes it can, asks before each and records the previous values; --undo restores them. Changes
/// last until the next boot.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob doctor                                    # this device
  flashmob doctor --data /var/lib/flashmob/data      # also the disk that holds a node's data
  flashmob doctor --peer 192.168.1.20:7070           # also the path to a node; the port may be closed
  flashmob doctor --cluster 127.0.0.1:10810          # also the nodes and copies of a gateway
  flashmob doctor --etcd cluster.toml                # also the etcd cluster of gateways with a standby
  flashmob doctor --rate 50M --rtt 120ms             # are the buffers large enough for this path?
  sudo flashmob doctor --fix                         # apply fixes, asking before each
  sudo flashmob doctor --undo                        # restore the previous values
  flashmob doctor --output json | jq '.checks[] | select(.outcome == \"wrong\") | .command'

docs/doctor.md lists every check with its threshold, reason and source.")]
pub struct DoctorArgs {
    /// Also check the path to this device: reachability, round-trip time, largest packet [default port: 5201]. If an
    /// iperf3 or flashmob server answers on the port, measure the path's rate for a second.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = peer, conflicts_with = "root")]
    pub peer: Option<Peer>,
    /// Also check a cluster, by the admin address of its gateway: nodes that are away, copies that are missing, domains,
    /// batteries, heat, free space. On the gateway's machine also its configuration file.
    #[arg(long, value_name = "ADDR:PORT|CONFIG", conflicts_with = "root")]
    pub cluster: Option<String>,
    /// Also check the etcd cluster that keeps the maps of gateways: members that are away, alarms, how long an answer takes.
    /// With --cluster CONFIG that of its [etcd] section is checked anyway.
    #[arg(long, value_name = "etcd://HOST:PORT,...|CONFIG", conflicts_with = "root")]
    pub etcd: Option<String>,
    /// Folder with the certificates or the token for an https:// address of --cluster, from 'flashmob client add ... --admin'.
    #[arg(long, value_name = "DIR", requires = "cluster")]
    pub credentials: Option<PathBuf>,
    /// Check the disk that holds a node's data: its file, the file's folder, or a block device.
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Rate of the path in bits per second, such as 50M [default: measured to --peer, else the interface's speed, else 100M].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Round-trip time of the path, such as 40ms [default: measured to --peer, else 40ms].
    #[arg(long, value_name = "TIME", value_parser = time_in(TIME_LEAST..=TIME_MOST))]
    pub rtt: Option<Duration>,
    /// Maximum wait for the peer, and for each member of etcd.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time_in(TIME_LEAST..=TIME_MOST))]
    pub timeout: Duration,
    /// Check a copy of another device's /proc and /sys instead of this device.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Run only these checks, such as receive-buffer,mtu.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = check)]
    pub only: Vec<String>,
    /// Also show checks that passed or do not apply.
    #[arg(short, long)]
    pub all: bool,
    /// Output format: text, or JSON (schema/diagnosis-1.json).
    #[arg(long, value_enum, default_value = "table")]
    pub output: Form,
    /// Apply the fixes that can be applied, asking before each. Needs root.
    #[arg(long, conflicts_with_all = ["root", "undo"])]
    pub fix: bool,
    /// With --fix: do not ask.
    #[arg(short, long, requires = "fix")]
    pub yes: bool,
    /// Restore the values that --fix changed; values changed by others since then are kept and listed.
    #[arg(long, conflicts_with_all = ["root", "peer", "cluster", "etcd", "data", "rate", "rtt", "only", "all", "output"])]
    pub undo: bool,
    /// With --undo: restore values changed by others since then, too.
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// File for the previous values. [default: /var/lib/flashmob/doctor-undo.json for root, else in $XDG_STATE_HOME/flashmob]
    #[arg(long, value_name = "FILE")]
    pub undo_file: Option<PathBuf>,
}

/// A device as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The whole text.
    pub text: String,
    /// A name or an address.
    pub host: String,
    /// The port, if given.
    pub port: Option<u16>,
}

/// `host`, `host:port`, `192.0.2.1:7070`, `2001:db8::1`, `[2001:db8::1]:7070`.
pub fn peer(text: &str) -> Result<Peer, String> {
    let wrong = || "must be HOST or HOST:PORT, and for IPv6 [ADDRESS]:PORT".to_string();
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
        port => {
            Some(port.parse::<u16>().ok().filter(|&port| port > 0).ok_or("the port must be a number from 1 to 65535")?)
        }
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
    Err(format!("unknown check{}; the checks are: {}", hint.unwrap_or_default(), all.join(", ")))
}
