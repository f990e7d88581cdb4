//! The command line: arguments of each command, and running it.

/// Refuses an option's value; formats as `anyhow::bail`, and the exit status is that of wrong arguments.
macro_rules! bail_value {
    ($($text:tt)*) => {
        return Err(crate::commands::WrongValue(format!($($text)*)).into())
    };
}

/// As `bail_value`, unless the condition holds.
macro_rules! ensure_value {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            bail_value!($($text)*);
        }
    };
}

mod admin_target;
pub mod bench;
mod client;
mod cluster;
mod cluster_args;
pub(crate) mod command_line;
mod demo;
mod discover;
#[cfg(target_os = "linux")]
mod doctor;
mod gateway;
mod join;
mod key;
#[cfg(target_os = "linux")]
mod lab;
mod log_lines;
mod net;
mod node;
#[cfg(target_os = "linux")]
mod own_runs;
mod plan;
#[cfg(target_os = "linux")]
mod push;
mod qr;
mod report;
#[cfg(target_os = "linux")]
mod reproduce;
mod result_args;
mod simulate;
mod status;
mod tell;
#[cfg(test)]
mod times;
#[cfg(target_os = "linux")]
mod trace;
mod volume;
pub(crate) mod weak;
mod whole_file;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(target_os = "linux")]
use flashmob_text::Bytes;

/// The options of every command stand below its own.
const EVERYWHERE: &str = "Common options";

/// Pool the flash of spare tablets, phones and boards into one fast random-access volume.
///
/// Start `flashmob node` on every device and `flashmob gateway` on one machine, and use the volume with any NBD
/// client (nbdinfo, nbdcopy, qemu-img, fio, nbdfuse, the kernel). `flashmob demo` shows all of it on this machine.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Cli {
    /// More log messages (-v: connections; -vv: everything).
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = EVERYWHERE)]
    verbose: u8,
    /// Only warnings and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = EVERYWHERE)]
    quiet: bool,
    /// Print help: -h in short, --help in full.
    #[arg(short, long, action = ArgAction::Help, global = true, help_heading = EVERYWHERE)]
    help: Option<bool>,
    /// Print the version.
    #[arg(short = 'V', long, action = ArgAction::Version, global = true, help_heading = EVERYWHERE)]
    version: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The arguments of this process; ends it where they are help, a version or wrong.
    #[must_use]
    pub fn of_process() -> Cli {
        let matches = reading_signs(Cli::command()).get_matches();
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// Lets `--size -5` be a wrong value of --size instead of an unknown option.
fn reading_signs(command: clap::Command) -> clap::Command {
    let read = |arg: clap::Arg| match arg.get_action() {
        ArgAction::Set | ArgAction::Append => arg.allow_negative_numbers(true),
        _ => arg,
    };
    command.mut_args(read).mut_subcommands(reading_signs)
}

#[derive(Debug, Subcommand)]
enum Command {
    // Each is described by its arguments: a description here would take the place of the longer one there.
    Node(Box<node::NodeArgs>),
    Gateway(gateway::GatewayArgs),
    Key(key::KeyArgs),
    Join(join::JoinArgs),
    Client(client::ClientArgs),
    Discover(discover::DiscoverArgs),
    Status(status::StatusArgs),
    Volume(volume::VolumeArgs),
    Bench(bench::BenchArgs),
    Net(net::NetArgs),
    #[cfg(target_os = "linux")]
    Doctor(Box<doctor::DoctorArgs>),
    #[cfg(target_os = "linux")]
    Trace(trace::TraceArgs),
    Simulate(Box<simulate::SimulateArgs>),
    Plan(Box<plan::PlanArgs>),
    #[cfg(target_os = "linux")]
    Push(push::PushArgs),
    Report(report::ReportArgs),
    #[cfg(target_os = "linux")]
    Reproduce(reproduce::ReproduceArgs),
    Demo(demo::DemoArgs),
    #[cfg(target_os = "linux")]
    Lab(Box<lab::LabArgs>),
}

/// The exit status for wrong arguments, as clap has it.
const STATUS_USAGE: u8 = 2;

/// A value that is wrong beside others, or for this device.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongValue(String);

/// Runs the command that the arguments name.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    log_lines::start(cli.verbose, cli.quiet);
    let result = match cli.command {
        Command::Node(args) => node::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Gateway(args) => gateway::run(args).map(|()| ExitCode::SUCCESS),
        Command::Key(args) => key::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Join(args) => join::run(&args),
        Command::Client(args) => client::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Discover(args) => discover::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Status(args) => status::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Volume(args) => volume::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Bench(args) => bench::run(&args),
        Command::Net(args) => net::run(&args),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(target_os = "linux")]
        Command::Trace(args) => trace::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Plan(args) => plan::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(target_os = "linux")]
        Command::Push(args) => push::run(&args),
        Command::Report(args) => report::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(target_os = "linux")]
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Demo(args) => demo::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(target_os = "linux")]
        Command::Lab(args) => lab::run(*args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let text = words(&error);
            // A report on a configuration begins so already.
            let begin = if text.starts_with("error") { "" } else { "error: " };
            // If this fails, the exit status still shows the failure.
            let _ = writeln!(std::io::stderr(), "{begin}{text}");
            if error.is::<WrongValue>() { ExitCode::from(STATUS_USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// The error and its causes, each text once: many errors contain their cause's.
fn words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for reason in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = reason;
        } else if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
    }
    text
}

/// Calls `stop` on SIGTERM and SIGINT; ends the process at once on a second one. SIGHUP is left unchanged, so that
/// `nohup` works.
fn on_signal(stop: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let mut asked = false;
    each_signal(move || {
        if asked {
            std::process::exit(130);
        }
        asked = true;
        log::info!("stopping: completing requests in progress; signal again to stop at once");
        stop();
    })
}

/// Calls `handle`, on a thread of its own, for each SIGTERM and SIGINT.
fn each_signal(mut handle: impl FnMut() + Send + 'static) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_string()).stack_size(128 * 1024).spawn(move || {
        for _ in signals.forever() {
            handle();
        }
    })?;
    Ok(())
}

/// The shortest time above 0.
const MOMENT: Duration = Duration::from_nanos(1);
/// The longest time of most options.
const DAY: Duration = Duration::from_secs(86_400);

/// Reads a time within limits from the command line; a bare number means seconds.
fn time_in(limits: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| flashmob_text::parse_duration_in(text, &limits).map_err(|error| error.to_string())
}

/// Reads a time above 0 and up to a day from the command line.
fn time(text: &str) -> Result<Duration, String> {
    time_in(MOMENT..=DAY)(text)
}

/// Reads a time from 0 up to a day from the command line.
fn time_or_none(text: &str) -> Result<Duration, String> {
    time_in(Duration::ZERO..=DAY)(text)
}

/// Reads an address and a port from the command line.
fn address(text: &str) -> Result<SocketAddr, String> {
    let remedy = "give an IP address and a port, such as 127.0.0.1:7411, 0.0.0.0:7411 or [::1]:7411";
    text.parse().map_err(|_| match text.rsplit_once(':') {
        _ if text.parse::<IpAddr>().is_ok() => format!("there is no port; {remedy}"),
        Some((host, port)) if port.parse::<u16>().is_ok() => format!("'{host}' is not an IP address; {remedy}"),
        _ => remedy.to_string(),
    })
}

/// Reads a size from the command line.
fn size(text: &str) -> Result<u64, String> {
    flashmob_text::parse_size(text).map_err(|error| error.to_string())
}

/// Reads a size within limits from the command line. The message shows limits in bytes, or with three digits where they are multiples of 1 KiB.
#[cfg(target_os = "linux")]
fn size_in(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
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
fn flash_profile(text: &str) -> Result<flashmob_lab::flash::Profile, String> {
    flashmob_lab::flash::Profile::named(text).map_err(|error| error.to_string())
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
    fn a_negative_value_is_a_wrong_value_and_no_option() {
        let read = |line: &str| {
            let matches = reading_signs(Cli::command()).try_get_matches_from(line.split(' '));
            matches.map(|_| ()).map_err(|error| error.to_string())
        };
        let error = read("flashmob node --data x --size -5").unwrap_err();
        assert!(error.contains("invalid value '-5' for '--size"), "{error}");
        assert!(read("flashmob trace run -- sh -5").is_ok());
    }

    #[test]
    fn a_search_for_no_node_is_refused() {
        let read = |line: &str| reading_signs(Cli::command()).try_get_matches_from(line.split(' ')).map(|_| ());
        let error = read("flashmob discover --nodes 0").unwrap_err();
        assert_eq!(error.exit_code(), i32::from(STATUS_USAGE));
        assert!(error.to_string().contains("invalid value '0' for '--nodes"), "{error}");
        assert!(read("flashmob discover --nodes 1").is_ok());
    }

    #[test]
    fn options_of_every_command_stand_last_in_its_help() {
        fn each(command: &mut clap::Command, see: &mut impl FnMut(String)) {
            see(command.render_long_help().to_string());
            command.get_subcommands_mut().filter(|one| one.get_name() != "help").for_each(|one| each(one, see));
        }
        let mut root = Cli::command();
        root.build();
        each(&mut root, &mut |help| {
            let (_, common) = help.split_once(EVERYWHERE).expect(&help);
            let section = common.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with(' '));
            let options = section.filter_map(|line| line.trim_start().get(..2).filter(|word| word.starts_with('-')));
            assert_eq!(options.collect::<Vec<_>>(), ["-v", "-q", "-h", "-V"], "{help}");
        });
    }

    #[test]
    fn each_reason_is_told_once() {
        let reason = || std::io::Error::other("it burns");
        assert_eq!(
            words(&anyhow::Error::from(reason()).context("x: cannot read: it burns")),
            "x: cannot read: it burns"
        );
        assert_eq!(words(&anyhow::Error::from(reason()).context("cannot read x")), "cannot read x: it burns");
    }
}
