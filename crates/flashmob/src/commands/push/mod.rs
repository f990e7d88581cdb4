//! `flashmob push`: brings the program to devices on adb, for trials, and runs a node or a benchmark there.
//!
//! What it starts there ends when it is asked to (Ctrl-C, `push stop`). It installs nothing for good: a device that is to stay in a
//! cluster gets Termux's package or the app.

mod adb;
mod binary;
mod devices;
mod list;
mod node;
mod program;
mod session;
mod trouble;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand, ValueEnum};

use adb::Adb;
use session::{Session, Stopped};

use super::tell::STATUS_INTERRUPTED;

/// Try it on Android devices over adb: copy the right binary, run a node or a benchmark, bring results back.
///
/// Needs `adb`, and USB debugging on the device (Settings, Developer options). No root. A gateway reaches the nodes over the cable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob push list
  flashmob push node --size 2GiB                         # until Ctrl-C; prints the address for cluster.toml
  flashmob push --all node --size 2GiB --background      # on every device; ends with: flashmob push --all stop
  flashmob push node --listen 0.0.0.0:7411 -- --threads 8   # over Wi-Fi as well, with further options of 'flashmob node'
  flashmob push bench disk --preset p1 --scale 0.1 --save tablet.json
  flashmob push --serial 0a1b2c3d run -- doctor --data /data/local/tmp

Binaries are looked for beside this program, in target/cross ('make cross') and in share/flashmob, as flashmob-aarch64 and
flashmob-armv7. For more than a trial use Termux (docs/termux.md) or the app: what adb starts may end with it.

Exit status: 0 done, 1 not possible, 2 wrong arguments, 130 stopped by Ctrl-C; of 'run' and 'bench' what the program on the
device ended with.")]
pub struct PushArgs {
    /// The device, if several are attached.
    #[arg(long, value_name = "SERIAL", conflicts_with = "all")]
    serial: Option<String>,
    /// Every device that is attached.
    #[arg(long)]
    all: bool,
    /// The binary for the device, in place of the one that is found.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Where the binary and what it writes go on the device.
    #[arg(long, value_name = "FOLDER", default_value = "/data/local/tmp", value_parser = folder)]
    folder: String,
    /// The program adb.
    #[arg(long, value_name = "PATH", default_value = "adb")]
    adb: String,
    #[command(subcommand)]
    command: PushCommand,
}

#[derive(Debug, Subcommand)]
enum PushCommand {
    /// Run a node, and forward a port of this machine to it.
    Node(PushNode),
    /// Measure there, as 'flashmob bench' does, and bring the results here.
    Bench(Words),
    /// Run any command of flashmob there.
    Run(Words),
    /// End the node that 'push node' started.
    Stop,
    /// Show the devices on adb: model, processor, Android, free space.
    List {
        /// A table for people, or JSON.
        #[arg(long, value_enum, default_value = "text")]
        output: Form,
    },
}

/// A node on a device.
/// A size that the device's own program is given as it stands.
fn passed_size(text: &str) -> Result<String, String> {
    flashmob_text::parse_size(text).map(|_| text.to_string()).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
struct PushNode {
    /// Size of the extent, such as 2GiB; needed the first time.
    #[arg(long, value_name = "SIZE", value_parser = passed_size)]
    size: Option<String>,
    /// Where it listens there. As it is only this machine reaches it, over adb.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7411")]
    listen: String,
    /// Let it run on when this command has ended.
    #[arg(long)]
    background: bool,
    /// How its address is said.
    #[arg(long, value_enum, default_value = "text")]
    output: Form,
    /// Further options of 'flashmob node'.
    #[arg(last = true, value_name = "OPTIONS")]
    extra: Vec<String>,
}

/// What the program there is given.
#[derive(Debug, Args)]
struct Words {
    /// Its arguments.
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
        Err("write a whole path on the device, such as /data/local/tmp".into())
    }
}

pub fn run(args: &PushArgs) -> anyhow::Result<ExitCode> {
    let adb = Adb::new(&args.adb);
    if let PushCommand::List { output } = &args.command {
        list::run(&adb, &args.folder, *output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Arc::new(AtomicBool::new(false));
    super::on_signal({
        let stop = Arc::clone(&stop);
        move || stop.store(true, Ordering::Relaxed)
    })?;
    let chosen = devices::choose(devices::attached(&adb)?, args.serial.as_deref(), args.all)?;
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
                if !node::stop(session)? {
                    log::info!("{}: no node runs", session.name());
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        PushCommand::List { .. } => Ok(ExitCode::SUCCESS),
    }
}
