//! `flashmob trace`: the time spent in each layer, from the application to the flash driver.

mod cluster;
mod compare;
pub mod loop_fs;
mod outputs;
mod run;
mod sqlite;
mod surroundings;
mod table;
mod text;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Trace I/O from the application to the flash driver.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a command and trace its I/O in every layer.
    Run(Box<run::RunArgs>),
    /// Trace INSERTs into SQLite, each in its own transaction, in every layer.
    Sqlite(Box<sqlite::SqliteArgs>),
    /// Trace requests of a volume through gateway, link, node and store, as sampled by a running gateway.
    Cluster(Box<cluster::ClusterArgs>),
    /// Compare traces: operations/s, counts per layer and file, and time per layer.
    Compare(compare::CompareArgs),
}

/// Runs the command of the arguments.
pub fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Run(args) => run::run(args),
        What::Sqlite(args) => sqlite::run(args),
        What::Cluster(args) => cluster::run(args),
        What::Compare(args) => compare::run(args),
    }
}
