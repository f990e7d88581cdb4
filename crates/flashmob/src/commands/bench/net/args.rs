//! The arguments, and the points that are combinations of their lists.

use std::net::IpAddr;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use flashmob_bench::net::protocol::parameters::{DEPTH_MAX, MESSAGE_BYTES_MAX};
use flashmob_bench::net::protocol::{BLOCK_BYTES_MAX, DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, PORT, STREAMS_MAX};
use flashmob_bench::net::{Length, Plan};
use flashmob_results::net::{Direction, Messages, Parameters, Path, Protocol};

use crate::commands::result_args::ResultArgs;
use crate::commands::time;

/// Default rate of datagrams, as in iperf3: 1 Mbit/s.
const UDP_RATE_DEFAULT: u64 = 1_000_000;
/// Longest time that is omitted, as in iperf3.
const OMIT_MAX: Duration = Duration::from_secs(60);

/// Measure the network between two devices: TCP, UDP, or requests and replies. Speaks iperf3's protocol: either end
/// may be iperf3.
///
/// Start it with --server --bind 0.0.0.0 on one device and with --connect on the other. Lists of values run a sweep over all
/// combinations. Besides throughput it reports TCP statistics (from both ends if both are flashmob): retransmissions,
/// windows, round-trip times, packets.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("role").required(true).args(["server", "connect", "rtt"]), after_help = "\
Examples:
  flashmob bench net --server --bind 0.0.0.0                           # or iperf3 -s
  flashmob bench net --connect 192.168.1.20
  flashmob bench net -c 192.168.1.20 --direction up,down -P 1,4 --repeat 3 --save net.json
  flashmob bench net -c 192.168.1.20 -C reno,cubic,bbr --window 64K,1M
  flashmob bench net -c 192.168.1.20 --udp --rate 10M,50M,100M
  flashmob bench net -c 192.168.1.20 --messages 40:4k:1,40:4k:32       # the traffic of a flashmob link
  flashmob bench net --rtt 0,2,4,8,16,32,64,128 --loss 0,0.1,1 --path-rate 20M --direction up,down -t 3   # between two hosts of a lab

Exit status: 0 done, 1 failed, 2 wrong arguments, 5 all repetitions of a point are void (the lab was late),
130 stopped by Ctrl-C (the result so far is printed and saved).")]
pub struct NetArgs {
    /// Serve tests, one at a time, until stopped.
    #[arg(short, long, conflicts_with_all = ["label", "save", "output"])]
    pub server: bool,
    /// Connect to this server and measure.
    #[arg(short, long, value_name = "HOST[:PORT]")]
    pub connect: Option<String>,
    /// Port of the server.
    #[arg(short, long, default_value_t = PORT, value_name = "PORT")]
    pub port: u16,
    /// Address to listen on, or to connect from. --server without it listens on 127.0.0.1, for clients on this device only;
    /// 0.0.0.0 stands for all addresses, :: for those of IPv6 as well.
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// With --server: exit after one test.
    #[arg(short = '1', long, conflicts_with = "connect")]
    pub one_off: bool,
    /// With --server: longest test; longer ones are refused, or ended at that time if they are limited by bytes.
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = time, conflicts_with = "connect")]
    #[cfg_attr(target_os = "linux", arg(conflicts_with = "rtt"))]
    pub longest: Duration,
    /// What is sent.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Repetitions of each combination.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Further rounds, at most, to replace void repetitions: those in which a lab was late.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub replace_void: u32,
    /// Time to wait for the server to answer; a bare number means seconds.
    #[arg(long, default_value = "5", value_name = "TIME", value_parser = time)]
    pub connect_timeout: Duration,
    /// Time to retry while the connection is refused.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "connect")]
    pub wait: Option<Duration>,
    /// What is between, where it is modelled.
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    pub path: super::path_args::PathArgs,
    #[command(flatten)]
    pub result: ResultArgs,
}

/// What is sent. Lists make a sweep over all combinations.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Send UDP datagrams instead of TCP.
    #[arg(short, long, conflicts_with = "messages")]
    pub udp: bool,
    /// Bits per second of each stream, such as 10M; 0 for no limit [default: 1M for UDP, no limit for TCP].
    #[arg(short = 'b', long, visible_alias = "bitrate", value_name = "RATE,...", value_delimiter = ',', value_parser = rate)]
    pub rate: Vec<u64>,
    /// Time to measure.
    #[arg(short, long, default_value = "10", value_name = "TIME", value_parser = time, conflicts_with = "bytes")]
    pub time: Duration,
    /// Bytes to send each way, instead of a time.
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = crate::commands::size_in(1..=u64::MAX))]
    pub bytes: Option<u64>,
    /// Bytes per write [default: 128K], or per datagram [default: the largest that fits a packet].
    #[arg(short, long, value_name = "SIZE", value_parser = crate::commands::size)]
    pub length: Option<u64>,
    /// Parallel streams, each way.
    #[arg(short = 'P', long, visible_alias = "parallel", default_value = "1", value_name = "N,...", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=i64::from(STREAMS_MAX)))]
    pub streams: Vec<u32>,
    /// Server sends, client receives: same as --direction down.
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "direction", "messages"])]
    pub reverse: bool,
    /// Both ends send at once: same as --direction both.
    #[arg(long, conflicts_with_all = ["direction", "messages"])]
    pub bidir: bool,
    /// Direction of the data; up is client to server.
    #[arg(long, value_enum, default_value = "up", value_name = "WAY,...", value_delimiter = ',')]
    pub direction: Vec<DirectionArg>,
    /// Congestion control at both ends, such as reno,cubic,bbr [default: the system's].
    #[arg(short = 'C', long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "udp")]
    pub congestion: Vec<String>,
    /// Send and receive buffer size of each socket, at both ends [default: sized by the system].
    #[arg(short = 'w', long, value_name = "SIZE,...", value_delimiter = ',', value_parser = crate::commands::size)]
    pub window: Vec<u64>,
    /// Time to omit at the start, in whole seconds.
    #[arg(short = 'O', long, default_value = "0", value_name = "TIME", conflicts_with = "bytes", value_parser = omitted)]
    pub omit: Duration,
    /// Time between progress lines.
    #[arg(short, long, default_value = "1", value_name = "TIME", value_parser = time)]
    pub interval: Duration,
    /// Measure requests and replies: sizes in bytes, and requests outstanding per stream. Needs flashmob at both ends.
    #[arg(long, value_name = "REQUEST:ANSWER:DEPTH,...", value_delimiter = ',', value_parser = messages, conflicts_with_all = ["rate", "length"])]
    pub messages: Vec<Messages>,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
    /// Both directions at once.
    Both,
}

impl From<DirectionArg> for Direction {
    fn from(arg: DirectionArg) -> Direction {
        match arg {
            DirectionArg::Up => Direction::Up,
            DirectionArg::Down => Direction::Down,
            DirectionArg::Both => Direction::Both,
        }
    }
}

impl LoadArgs {
    /// All combinations: messages change slowest, then direction, streams, congestion control, window and rate.
    ///
    /// # Errors
    /// A length that is not possible.
    pub fn points(&self, path: Option<&Path>) -> anyhow::Result<Vec<Parameters>> {
        let protocol = match (self.udp, self.messages.is_empty()) {
            (true, _) => Protocol::Udp,
            (false, true) => Protocol::Tcp,
            (false, false) => Protocol::Messages,
        };
        let block_bytes = self.block_bytes(protocol)?;
        let directions = self.directions();
        let rates: Vec<Option<u64>> = match protocol {
            Protocol::Udp if self.rate.is_empty() => vec![Some(UDP_RATE_DEFAULT)],
            _ => options(&self.rate).into_iter().map(|rate| rate.filter(|&r| r > 0)).collect(),
        };
        let mut points = Vec::new();
        for &messages in &options(&self.messages) {
            for &direction in &directions {
                for &streams in &self.streams {
                    for congestion in &options(&self.congestion) {
                        for &window_bytes in &options(&self.window) {
                            points.extend(rates.iter().map(|&rate_bits_per_second| Parameters {
                                protocol,
                                direction,
                                streams,
                                congestion: congestion.clone(),
                                rate_bits_per_second,
                                block_bytes,
                                window_bytes,
                                messages,
                                path: path.cloned(),
                                client_receive_max_bytes: None,
                                server_receive_max_bytes: None,
                            }));
                        }
                    }
                }
            }
        }
        Ok(points)
    }

    /// Directions; always up for messages.
    #[must_use]
    pub fn directions(&self) -> Vec<Direction> {
        match (self.reverse, self.bidir) {
            (true, _) => vec![Direction::Down],
            (_, true) => vec![Direction::Both],
            _ if !self.messages.is_empty() => vec![Direction::Up],
            _ => self.direction.iter().map(|&way| way.into()).collect(),
        }
    }

    /// Bytes of a write; 0 if the connection determines them.
    fn block_bytes(&self, protocol: Protocol) -> anyhow::Result<u32> {
        let (least, most, default) = match protocol {
            Protocol::Udp => (DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX, 0),
            Protocol::Tcp | Protocol::Messages => {
                (1, BLOCK_BYTES_MAX, flashmob_bench::net::protocol::parameters::BLOCK_BYTES_DEFAULT)
            }
        };
        match self.length {
            None => Ok(default),
            Some(bytes) => u32::try_from(bytes)
                .ok()
                .filter(|bytes| (least..=most).contains(bytes))
                .ok_or_else(|| anyhow::anyhow!("--length {bytes}: must be from {least} to {most} bytes")),
        }
    }

    /// The parameters for measuring one point.
    #[must_use]
    pub fn plan(&self, point: &Parameters) -> Plan {
        Plan {
            protocol: point.protocol,
            direction: point.direction,
            streams: point.streams,
            congestion: point.congestion.clone(),
            rate_bits_per_second: point.rate_bits_per_second,
            block_bytes: Some(point.block_bytes).filter(|&bytes| bytes > 0),
            window_bytes: point.window_bytes,
            messages: point.messages,
            length: self.bytes.map_or(Length::Time(self.time), Length::Bytes),
            omit_s: self.omit.as_secs() as u32,
            interval: self.interval,
        }
    }

    /// Duration of one repetition in seconds; `None` if bytes end it.
    #[must_use]
    pub fn expected_s(&self) -> Option<f64> {
        self.bytes.is_none().then(|| (self.time + self.omit).as_secs_f64())
    }
}

/// The values of the list; a single `None` for an empty list.
fn options<T: Clone>(list: &[T]) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.iter().cloned().map(Some).collect() }
}

/// The host and the port of `HOST`, `HOST:PORT`, `[IPv6]:PORT` or a bare IPv6 address.
///
/// # Errors
/// The port is invalid.
pub fn host_and_port(text: &str, port: u16) -> anyhow::Result<(String, u16)> {
    let number = |text: &str| {
        let port = text.parse::<u16>().ok().filter(|&port| port > 0);
        port.ok_or_else(|| anyhow::anyhow!("'{text}' is not a port; give HOST or HOST:PORT"))
    };
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return Ok((host.into(), rest.strip_prefix(':').map_or(Ok(port), number)?));
    }
    match text.split_once(':') {
        Some((host, rest)) if !rest.contains(':') => Ok((host.into(), number(rest)?)),
        _ => Ok((text.into(), port)),
    }
}

/// Bits per second; 0 is no limit.
pub fn rate(text: &str) -> Result<u64, String> {
    flashmob_text::parse_bit_rate(text, 0.0..=1e15).map(|rate| rate as u64)
}

/// A time in whole seconds, as in iperf3's protocol.
fn omitted(text: &str) -> Result<Duration, String> {
    let time = flashmob_node::values::time_in(Duration::ZERO..=OMIT_MAX)(text)?;
    if time.subsec_nanos() == 0 { Ok(time) } else { Err(format!("'{text}' is not in whole seconds, such as 3s")) }
}

fn messages(text: &str) -> Result<Messages, String> {
    let wrong = || format!("'{text}' does not have the form REQUEST:ANSWER:DEPTH, such as 40:4k:32");
    let parts: Vec<&str> = text.split(':').collect();
    let [request, answer, depth] = parts.as_slice() else { return Err(wrong()) };
    let bytes = |text: &str| match crate::commands::size(text).map(u32::try_from) {
        Ok(Ok(bytes)) if (1..=MESSAGE_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!("'{text}': message sizes are from 1 byte to 16MiB")),
    };
    let depth = depth.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
    Ok(Messages {
        request_bytes: bytes(request)?,
        answer_bytes: bytes(answer)?,
        depth: depth.ok_or_else(|| format!("give a depth from 1 to {DEPTH_MAX} in '{text}'"))?,
    })
}
