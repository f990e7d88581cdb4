//! `flashmob join`: enrolls devices in a cluster with keys, with a code that is used once.

mod desk;
mod invite;
mod people;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use flashmob_server::config::Config;
use flashmob_server::discovery::here::reachable;
use flashmob_server::gateway::extents_in_use;
use flashmob_server::keys::enroll::desk::Terms;
use flashmob_server::keys::enroll::{JOIN_PORT, JoinPort, Secret};

use super::key::folder_of;
use super::tell::{self, Form, STATUS_INTERRUPTED};
use desk::{Outcome, Session};

/// How long a code counts, and a token.
const CODE_FOR: Duration = Duration::from_secs(600);
const TOKEN_FOR: Duration = Duration::from_secs(3600);

/// Enroll devices as nodes of a cluster with keys, by one-use codes.
///
/// Shows a code, which is entered at the device (flashmob node --enroll). The device and the gateway prove to each other that they know
/// it, and exchange their keys over TLS. Then the devices are listed, and you confirm them once. With --token-out the secret is written to a
/// file instead, for devices without a screen (flashmob node --token-file); such devices are accepted without confirmation.
///
/// Codes exist only while this command runs. A running gateway uses enrolled nodes within a second.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob join cluster.toml                      # one device: type the code there
  flashmob join cluster.toml --nodes 8            # eight, each with its own code, confirmed together
  flashmob join cluster.toml --qr                 # scan the code with the device
  flashmob join cluster.toml --token-out t --uses 4 --for 1h
                                                  # copy t to four boards: flashmob node ... --token-file t

At the device:
  flashmob node --data extent.bin --size 10GiB --listen 0.0.0.0:7411 --enroll 192.168.1.10:7413

Exit status: 0 all are enrolled, 1 some are not, 2 wrong arguments, 130 stopped by Ctrl-C.")]
pub struct JoinArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// How many devices to enroll, each with a code of its own.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "token_out")]
    nodes: u16,
    /// Show each code as a QR code too, with a link that also names the cluster.
    #[arg(long, conflicts_with = "token_out")]
    qr: bool,
    /// Write a token (a link with a secret) to this new file.
    #[arg(long, value_name = "FILE")]
    token_out: Option<PathBuf>,
    /// How many devices may use the token.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), requires = "token_out")]
    uses: u16,
    /// How long each code, or the token, is valid [default: 10m, a token 1h].
    #[arg(long = "for", value_name = "TIME", value_parser = super::time)]
    valid_for: Option<Duration>,
    /// Address and port for devices to connect to.
    #[arg(long, value_name = "ADDR:PORT", value_parser = super::address, default_value_t = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), JOIN_PORT))]
    listen: SocketAddr,
    /// Host or address that devices are told, instead of this machine's own address.
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Accept devices whose extent is known with another key, which is then replaced.
    #[arg(long)]
    replace: bool,
    /// Confirm all devices without asking. Anyone who has seen a code can then enroll a device.
    #[arg(long)]
    yes: bool,
    /// Output format: text, or at the end JSON (codes then go to stderr).
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &JoinArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let folder = folder_of(&config, &args.config)?;
    let in_use = extents_in_use(&config, &args.config)?;
    let stop = tell::on_signal()?;
    let (port, events) = JoinPort::open(folder, args.listen, in_use, args.replace)?;
    let place = place(args, port.address())?;
    let valid_for = args.valid_for.unwrap_or(if args.token_out.is_some() { TOKEN_FOR } else { CODE_FOR });
    let mut session = Session::new(&port, events, stop, args.yes, args.output);
    session.say(&format!("the cluster's key: {}", port.cluster()))?;
    let outcome = match &args.token_out {
        None => desk::with_codes(&mut session, &place, args.nodes.into(), valid_for, args.qr)?,
        Some(path) => {
            let secret = Secret::draw_link()?;
            let until = Instant::now() + valid_for;
            let uses = args.uses.into();
            // Before anybody can have it.
            port.issue(vec![secret.clone()], Terms { uses, until, needs_confirmation: false });
            let _token = invite::Token::write(path, &place, port.cluster(), secret)?;
            session.say(&format!(
                "the token is in {}, for {} device{} within {}: flashmob node ... --token-file {}",
                path.display(),
                args.uses,
                if args.uses == 1 { "" } else { "s" },
                invite::in_words(valid_for),
                path.display()
            ))?;
            desk::with_token(&mut session, uses, until, valid_for)?
        }
    };
    people::report(&config, &args.config.display().to_string(), &port, args.output)?;
    Ok(match outcome {
        Outcome::All => ExitCode::SUCCESS,
        Outcome::Interrupted => ExitCode::from(STATUS_INTERRUPTED),
        Outcome::Some(why) => {
            log::error!("{why}");
            ExitCode::FAILURE
        }
    })
}

/// `HOST:PORT` for devices.
fn place(args: &JoinArgs, listen: SocketAddr) -> anyhow::Result<String> {
    if let Some(host) = &args.advertise {
        let place = match host.parse::<IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, listen.port()).to_string(),
            Err(_) => format!("{host}:{}", listen.port()),
        };
        let target: flashmob_server::discovery::join::Target = place
            .parse()
            .map_err(|_| super::WrongValue(format!("--advertise: '{host}' is no host name or address")))?;
        return Ok(target.to_string());
    }
    let own = reachable(listen).map(|place| place.to_string());
    own.context("this device has no address that others can reach: no network is up; name one with --advertise")
}

impl Session<'_> {
    /// Tells a person something: on stdout, unless that is for a program.
    fn say(&self, line: &str) -> anyhow::Result<()> {
        match self.output {
            Form::Table => writeln!(std::io::stdout(), "{line}")?,
            Form::Json => writeln!(std::io::stderr(), "{line}")?,
        }
        Ok(())
    }
}
