//! `flashmob net analyze`: limits of TCP connections, from a capture or an interface.

mod file;
pub mod live;
mod record;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flashmob_flows::Limits;

use crate::commands::tell::{self, Begun, Form, STATUS_INTERRUPTED};

/// Analyze captured packets: what limited each TCP connection.
///
/// Reads captures of tcpdump and Wireshark (pcap and pcapng) of any size, or captures on an interface with tcpdump. Reports
/// for each connection and direction: rate, round-trip times, losses, windows, and a verdict with its evidence:
/// receiver-limited, sender-limited, congestion-limited, application-limited. The capture point may be anywhere on
/// the path; this needs TCP timestamps (the default everywhere) or the connection's handshake.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo tcpdump -i wlan0 -s 128 -w slow.pcap tcp port 10809      # 128 bytes of each packet are enough
  flashmob net analyze slow.pcap
  ssh phone tcpdump -s 128 -U -w - | flashmob net analyze -
  sudo flashmob net analyze --capture wlan0 --time 10 --filter-port 10809
  flashmob net analyze slow.pcap --save slow.json && flashmob report slow.json

Limits: 1,000 connections at once (beyond that the one idle longest is closed), 4,096 unacknowledged segments per direction,
16 MiB per packet: memory does not grow with the capture. docs/analyzing-packets.md has all limits and definitions, and
describes how verdicts are found.

Exit status: 0 done, also if the capture is truncated or damaged after its first packets (a note says so), or if --capture was
stopped by Ctrl-C; 1 nothing could be read, 2 wrong arguments, 130 reading a file was stopped by Ctrl-C (the result so far is printed).")]
pub struct AnalyzeArgs {
    /// Capture file of tcpdump or Wireshark; '-' is standard input.
    #[arg(value_name = "FILE", required_unless_present = "capture", conflicts_with = "capture")]
    file: Option<PathBuf>,
    /// Capture on this interface until --time is over, or Ctrl-C. Keeps headers only. Runs tcpdump, which needs root or CAP_NET_RAW.
    #[arg(long, value_name = "INTERFACE")]
    capture: Option<String>,
    /// With --capture: stop after this time; a bare number means seconds.
    #[arg(long, value_name = "TIME", value_parser = crate::commands::time, requires = "capture")]
    time: Option<Duration>,
    /// Ignore TCP packets that are neither from nor to this port.
    #[arg(long, value_name = "PORT")]
    filter_port: Option<u16>,
    /// With --capture: save the headers in this file (pcapng), written at the end.
    #[arg(long, value_name = "FILE", requires = "capture")]
    write: Option<PathBuf>,
    /// Connections to show, those with most bytes first.
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1000))]
    flows: u64,
    /// Name of this capture in reports.
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Save the result as JSON (schema/result-1.json), for `flashmob report`.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Output format: a table, or the result as JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

/// The result before it is a document.
struct Heard {
    source: String,
    form: &'static str,
    summary: flashmob_flows::Summary,
    lost_packets: Option<u64>,
    ended_by: Option<String>,
    is_interrupted: bool,
    is_modelled: bool,
    /// Why the packets could not be written to the file of --write.
    unwritten: Option<anyhow::Error>,
}

/// Runs the analysis.
pub fn run(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    let begun = Begun::now();
    for path in args.save.iter().chain(&args.write) {
        tell::check_writable(path, args.file.as_deref())?;
    }
    let limits = Limits { flows_told: args.flows as usize, ..Limits::default() };
    let heard = match (&args.file, &args.capture) {
        (Some(path), _) => file::read(path, args.filter_port, limits)?,
        (None, Some(interface)) => live::listen(args, interface, limits)?,
        (None, None) => anyhow::bail!("give a capture file, or an interface with --capture"),
    };
    let is_interrupted = heard.is_interrupted;
    let is_live = args.capture.is_some();
    let mut heard = heard;
    let unwritten = heard.unwritten.take();
    let document = record::document(heard, begun, args.label.clone());
    // A full disk takes the file, not the analysis.
    let saved = args.save.as_ref().map_or(Ok(()), |path| tell::save(&document, path));
    let text = match args.output {
        Form::Table => text::render(&document),
        Form::Json => tell::json(&document)?,
    };
    tell::print(&text)?;
    unwritten.map_or(Ok(()), Err)?;
    saved?;
    Ok(if is_interrupted && !is_live { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
}
