//! The command line: arguments of each command, and running it.

pub mod bench;
mod client;
mod cluster;
mod cluster_args;
pub(crate) mod command_line;
mod demo;
#[cfg(target_os = "linux")]
mod doctor;
mod gateway;
mod join;
mod key;
#[cfg(target_os = "linux")]
mod lab;
mod net;
#[cfg(target_os = "linux")]
mod own_runs;
mod plan;
#[cfg(target_os = "linux")]
mod push;
mod report;
#[cfg(target_os = "linux")]
mod reproduce;
mod result_args;
mod simulate;
mod tell;
#[cfg(test)]
mod times;
#[cfg(target_os = "linux")]
mod trace;
mod volume;
mod watch;
pub(crate) mod weak;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use flashmob_node::command_line::{CommonArgs, exit_code, matches_of, tell_error, words};
use flashmob_node::signals::on_signal;
use flashmob_node::values::{address, flash_profile, size, size_in, time, time_or_none};
use flashmob_node::{WrongValue, admin_target, discover, node, qr, status, whole_file};

/// Pool the flash of spare tablets, phones and boards into one fast random-access volume.
///
/// Start `flashmob node` on every device and `flashmob gateway` on one machine, and use the volume with any NBD
/// client (nbdinfo, nbdcopy, qemu-img, fio, nbdfuse, the kernel). `flashmob demo` shows all of it on this machine.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Cli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The arguments of this process; ends it where they are help, a version or wrong.
    #[must_use]
    pub fn of_process() -> Cli {
        let found = matches_of(Cli::command(), std::env::args_os());
        found.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|error| error.exit())
    }
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

/// Runs the command that the arguments name.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    cli.common.start_log();
    let result = match cli.command {
        Command::Node(args) => node::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Gateway(args) => gateway::run(args).map(|()| ExitCode::SUCCESS),
        Command::Key(args) => key::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Join(args) => join::run(&args),
        Command::Client(args) => client::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Discover(args) => discover::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Status(args) => watch::status(&args).map(|()| ExitCode::SUCCESS),
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
    exit_code(result)
}

#[cfg(test)]
mod tests {
    use flashmob_node::command_line::{ELSEWHERE, EVERYWHERE, NodeCli};

    use super::*;

    #[test]
    fn a_negative_value_is_a_wrong_value_and_no_option() {
        let read =
            |line: &str| matches_of(Cli::command(), line.split(' ')).map(|_| ()).map_err(|error| error.to_string());
        let error = read("flashmob node --data x --size -5").unwrap_err();
        assert!(error.contains("invalid value '-5' for '--size"), "{error}");
        assert!(read("flashmob trace run -- sh -5").is_ok());
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
    fn the_program_for_nodes_knows_the_commands_that_it_lacks() {
        let names = |command: clap::Command| -> std::collections::BTreeSet<String> {
            command.get_subcommands().map(|command| command.get_name().to_string()).collect()
        };
        let of_node = names(NodeCli::command());
        assert!(of_node.iter().all(|name| !ELSEWHERE.contains(&&**name)));
        let all: std::collections::BTreeSet<String> = of_node.into_iter().chain(ELSEWHERE.map(String::from)).collect();
        assert_eq!(names(Cli::command()), all);
    }
}
