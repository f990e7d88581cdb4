//! The one binary: reads the command line and hands over to the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    flashmob::commands::run(flashmob::commands::Cli::parse())
}
