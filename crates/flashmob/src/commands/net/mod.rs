//! `flashmob net`: analysis of packets.

mod analyze;

pub use analyze::live::check_tcpdump;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Analyze network traffic.
#[derive(Debug, Args)]
pub struct NetArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Analyze captured packets: what limited each TCP connection.
    Analyze(Box<analyze::AnalyzeArgs>),
}

/// Runs the command of the arguments.
pub fn run(args: &NetArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Analyze(args) => analyze::run(args),
    }
}
