//! What the command lines of both programs share: common options, reading arguments, telling an error.

use std::io::Write;
use std::process::ExitCode;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use flashmob_server::config::ConfigError;
use flashmob_text::{harmless, message_lines};

use crate::{WrongValue, discover, log_lines, node, status};

/// The options of every command stand below its own.
pub const EVERYWHERE: &str = "Common options";

/// The exit status for wrong arguments, as clap has it.
pub const STATUS_USAGE: u8 = 2;

/// Options of every command.
#[derive(Debug, Args)]
pub struct CommonArgs {
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
}

impl CommonArgs {
    /// Begins to log as they say.
    pub fn start_log(&self) {
        log_lines::start(self.verbose, self.quiet);
    }
}

/// The part of flashmob that a device needs to serve.
///
/// These commands are those of the program `flashmob`, which has all others too (gateway, join, bench and more) and runs
/// on the same devices.
#[derive(Debug, Parser)]
#[command(name = "flashmob-node", version, propagate_version = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct NodeCli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    // Each is described by its arguments.
    Node(Box<node::NodeArgs>),
    Discover(discover::DiscoverArgs),
    Status(status::StatusArgs),
}

/// The commands of `flashmob` that `flashmob-node` does not have.
pub const ELSEWHERE: [&str; 16] = [
    "gateway",
    "key",
    "join",
    "client",
    "volume",
    "bench",
    "net",
    "doctor",
    "trace",
    "simulate",
    "plan",
    "push",
    "report",
    "reproduce",
    "demo",
    "lab",
];

impl NodeCli {
    /// The arguments of this process; ends it where they are help, a version or wrong.
    #[must_use]
    pub fn of_process() -> NodeCli {
        let found = matches_of(NodeCli::command(), std::env::args_os());
        found.and_then(|matches| NodeCli::from_arg_matches(&matches)).unwrap_or_else(|error| {
            if let Some(text) = told_elsewhere(&error) {
                let _ = writeln!(std::io::stderr(), "error: {text}");
                std::process::exit(i32::from(STATUS_USAGE));
            }
            error.exit()
        })
    }

    /// Runs the command that the arguments name.
    #[must_use]
    pub fn run(self) -> ExitCode {
        self.common.start_log();
        let result = match self.command {
            NodeCommand::Node(args) => node::run(*args),
            NodeCommand::Discover(args) => discover::run(&args),
            NodeCommand::Status(args) => status::run(&args),
        };
        exit_code(result.map(|()| ExitCode::SUCCESS))
    }
}

/// The error for a command that is in `flashmob` only.
fn told_elsewhere(error: &clap::Error) -> Option<String> {
    let Some(clap::error::ContextValue::String(name)) = error.get(clap::error::ContextKind::InvalidSubcommand) else {
        return None;
    };
    ELSEWHERE.contains(&&**name).then(|| {
        format!(
            "'{name}' is not in flashmob-node, which has only what a device needs to serve: run 'flashmob {name}', on a computer, \
             or on this device with the whole program (flashmob-aarch64 or flashmob-armv7 of 'make cross')"
        )
    })
}

/// Reads a command line.
///
/// # Errors
/// Help, a version, or wrong arguments.
pub fn matches_of(
    command: clap::Command,
    words: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
) -> Result<clap::ArgMatches, clap::Error> {
    reading_signs(command).try_get_matches_from(words)
}

/// Lets `--size -5` be a wrong value of --size instead of an unknown option.
fn reading_signs(command: clap::Command) -> clap::Command {
    let read = |arg: clap::Arg| match arg.get_action() {
        ArgAction::Set | ArgAction::Append => arg.allow_negative_numbers(true),
        _ => arg,
    };
    command.mut_args(read).mut_subcommands(reading_signs)
}

/// The exit status of a command, after its error is told.
#[must_use]
pub fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        tell_error(&error);
        if error.is::<WrongValue>() { ExitCode::from(STATUS_USAGE) } else { ExitCode::FAILURE }
    })
}

/// Writes an error to standard error. Parts of it may be anybody's text, such as a node's.
pub fn tell_error(error: &anyhow::Error) {
    // If this fails, the exit status still shows the failure.
    let _ = writeln!(std::io::stderr(), "{}", told_error(error));
}

fn told_error(error: &anyhow::Error) -> String {
    let text = words(error);
    // A report on a configuration begins so already, and its blanks show where something is.
    if error.downcast_ref::<ConfigError>().is_some() && text.starts_with("error") {
        return text.split('\n').map(harmless).collect::<Vec<_>>().join("\n");
    }
    format!("error: {}", message_lines(&text).collect::<Vec<_>>().join("\n"))
}

/// The error and its causes, each text once: many errors contain their cause's.
#[must_use]
pub fn words(error: &anyhow::Error) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(), clap::Error> {
        matches_of(NodeCli::command(), line.split(' ')).map(|_| ())
    }

    #[test]
    fn a_command_of_the_whole_program_is_named_with_the_remedy() {
        for name in ELSEWHERE {
            for line in [
                format!("flashmob-node {name}"),
                format!("flashmob-node help {name}"),
                format!("flashmob-node -v {name} x --y"),
            ] {
                let text = told_elsewhere(&read(&line).unwrap_err()).expect(&line);
                assert!(text.contains(&format!("run 'flashmob {name}'")), "{text}");
            }
        }
    }

    #[test]
    fn any_other_word_is_an_unknown_command() {
        let error = read("flashmob-node nodes").unwrap_err();
        assert!(told_elsewhere(&error).is_none() && error.to_string().contains("'node'"), "{error}");
        assert!(told_elsewhere(&read("flashmob-node node --nothing").unwrap_err()).is_none());
        assert!(read("flashmob-node node --data x").is_ok());
    }

    #[test]
    fn a_search_for_no_node_is_refused() {
        let error = read("flashmob-node discover --nodes 0").unwrap_err();
        assert_eq!(error.exit_code(), i32::from(STATUS_USAGE));
        assert!(error.to_string().contains("invalid value '0' for '--nodes"), "{error}");
        assert!(read("flashmob-node discover --nodes 1").is_ok());
    }

    #[test]
    fn no_error_steers_a_terminal_or_looks_like_two() {
        let stranger = "refused: no\n\u{1b}[2Jerror: all is well\r\u{9b}1A";
        let told = told_error(&anyhow::anyhow!("{stranger}").context("node tablet"));
        assert_eq!(told.lines().filter(|line| line.starts_with("error")).count(), 1, "{told}");
        assert!(!told.contains(['\u{1b}', '\r', '\u{9b}']), "{told}");
        // Also if a stranger's text is all there is, or begins so itself.
        let told = told_error(&anyhow::anyhow!("error: x\nerror: y"));
        assert_eq!(told, "error: error: x\n  error: y");
        // The report on a file shows where something is.
        let here = std::path::Path::new("/");
        let report = flashmob_server::config::Config::parse("nonsense = 1\n", "x.toml", here).unwrap_err();
        let told = told_error(&report.into());
        assert!(told.starts_with("error") && told.lines().any(|line| line.starts_with(' ')), "{told}");
        assert!(told.contains("^^^"), "{told}");
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
