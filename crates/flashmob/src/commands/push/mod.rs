//! `flashmob push`: copies the program to devices on adb, for trials, and runs a node, a benchmark or the papers' measurements there.
//!
//! Programs that it starts there exit on request (Ctrl-C, `push stop`). It installs nothing permanently: a device that is to stay in a
//! cluster gets Termux's package or the app.

mod adb;
mod binary;
mod devices;
mod list;
mod node;
mod program;
mod reproduce;
mod session;
mod trouble;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

use adb::Adb;
use session::{Session, Stopped};

use super::tell::{self, STATUS_INTERRUPTED};

/// Run a node or a benchmark on Android devices over adb, without installing anything.
///
/// Copies the right binary, runs it, and fetches the results. Needs `adb`, and USB debugging on the device (Settings, Developer options). Needs no root. A gateway reaches the
/// nodes over the cable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob push list
  flashmob push node --size 2GiB                         # until Ctrl-C; prints the address for cluster.toml
  flashmob push --all node --size 2GiB --background      # on every device; ends with: flashmob push --all stop
  flashmob push node --size 2GiB --listen 0.0.0.0:7411 --token-file t    # over Wi-Fi, in a cluster with keys (flashmob join)
  flashmob push node --listen 0.0.0.0:7411 -- --insecure    # also over Wi-Fi; with options of 'flashmob node'
  flashmob push bench disk --preset p1 --scale 0.1 --save tablet.json
  flashmob push reproduce --quick                        # what a phone can measure of the papers, as one page; see --help there
  flashmob push --serial 0a1b2c3d run -- doctor --data /data/local/tmp

The binaries flashmob-aarch64 and flashmob-armv7 are searched beside this program, in target/cross ('make cross') and in
share/flashmob. For permanent use prefer Termux (docs/termux.md) or the app: programs started by adb may end with it.

Exit status: 0 done, 1 failed, 2 wrong arguments, 130 stopped by Ctrl-C; for 'run' and 'bench' that of the program on the
device.")]
pub struct PushArgs {
    /// Device to use, if several are attached.
    #[arg(long, value_name = "SERIAL", conflicts_with = "all")]
    serial: Option<String>,
    /// Use all attached devices.
    #[arg(long)]
    all: bool,
    /// Binary for the device, instead of the one found.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Folder on the device for the binary and its files.
    #[arg(long, value_name = "FOLDER", default_value = "/data/local/tmp", value_parser = folder)]
    folder: String,
    /// The adb program.
    #[arg(long, value_name = "PATH", default_value = "adb")]
    adb: String,
    #[command(subcommand)]
    command: PushCommand,
}

#[derive(Debug, Subcommand)]
enum PushCommand {
    /// Run a node, and forward a local port to it.
    Node(PushNode),
    /// Run 'flashmob bench' on the device, and fetch the results.
    Bench(Words),
    Reproduce(Box<reproduce::PushReproduce>),
    /// Run any flashmob command on the device.
    Run(Words),
    /// Stop the node that 'push node' started; end and remove what a broken connection left of 'push bench', 'run' and 'reproduce'.
    Stop,
    /// List the devices on adb: model, processor, Android version, free space.
    List {
        /// Output format: a table, or JSON.
        #[arg(long, value_enum, default_value = "text")]
        output: Form,
    },
}

/// A size that is passed unchanged to the device's program.
fn passed_size(text: &str) -> Result<String, String> {
    flashmob_text::parse_size(text).map(|_| text.to_string()).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
struct PushNode {
    /// Size of the extent, such as 2GiB; required the first time.
    #[arg(long, value_name = "SIZE", value_parser = passed_size)]
    size: Option<String>,
    /// Address on the device to listen on. With the default, only this machine can reach the node, over adb.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7411")]
    listen: String,
    /// Enroll the node in a cluster with keys, with a token that 'flashmob join --token-out' wrote. The device must reach the address in it.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Leave the node running after this command exits.
    #[arg(long)]
    background: bool,
    /// Output format for the node's address.
    #[arg(long, value_enum, default_value = "text")]
    output: Form,
    /// Further options of 'flashmob node'.
    #[arg(last = true, value_name = "OPTIONS")]
    extra: Vec<String>,
}

/// Arguments of the program on the device.
#[derive(Debug, Args)]
struct Words {
    /// Arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "ARGS")]
    args: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

fn folder(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    if text.starts_with('/') {
        Ok(text.to_string())
    } else {
        Err("must be an absolute path on the device, such as /data/local/tmp".into())
    }
}

pub fn run(args: &PushArgs) -> anyhow::Result<ExitCode> {
    let adb = Adb::new(&args.adb);
    if let PushCommand::List { output } = &args.command {
        list::run(&adb, &args.folder, *output)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Also when the terminal is closed: what runs on the device would go on, and its files stay.
    let stop = tell::on_signal()?;
    let chosen = devices::choose(devices::attached(&adb)?, args.serial.as_deref(), args.all)?;
    if let PushCommand::Reproduce(reproduce) = &args.command {
        reproduce.check(&chosen)?;
    }
    let begin = |device| Session::begin(&adb, device, &args.folder, &stop);
    let sessions = chosen.into_iter().map(begin).collect::<anyhow::Result<Vec<_>>>()?;
    match act(args, &sessions) {
        Err(error) if error.is::<Stopped>() => Ok(ExitCode::from(STATUS_INTERRUPTED)),
        outcome => outcome,
    }
}

fn act(args: &PushArgs, sessions: &[Session]) -> anyhow::Result<ExitCode> {
    if !matches!(args.command, PushCommand::Stop) {
        for session in sessions {
            session.install(args.binary.as_deref())?;
        }
    }
    match &args.command {
        PushCommand::Node(node) => node::run(sessions, node).map(|()| ExitCode::SUCCESS),
        PushCommand::Bench(words) => program::bench(sessions, &words.args),
        // One device, as was checked.
        PushCommand::Reproduce(reproduce) => {
            sessions.first().map_or(Ok(ExitCode::SUCCESS), |session| reproduce::run(session, reproduce))
        }
        PushCommand::Run(words) => {
            let mut code = 0;
            for session in sessions {
                let status = program::run(session, &words.args)?;
                code = if code == 0 { status } else { code };
            }
            Ok(ExitCode::from(code))
        }
        PushCommand::Stop => {
            for session in sessions {
                let (node, program) = (node::stop(session)?, program::stop(session)?);
                reproduce::clean(session)?;
                if !node && !program {
                    log::info!("{}: no node is running", session.name());
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        PushCommand::List { .. } => Ok(ExitCode::SUCCESS),
    }
}
