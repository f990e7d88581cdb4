//! `flashmob trace`: where the time goes, from the application to the flash driver.

mod cluster;
mod compare;
mod loop_fs;
mod outputs;
mod run;
mod sqlite;
mod surroundings;
mod table;
mod text;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Show where the time of operations goes, in every layer from the application to the flash driver.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a command and show what its I/O does in every layer.
    Run(Box<run::RunArgs>),
    /// INSERTs into SQLite, each its own transaction, and what they do in every layer.
    Sqlite(Box<sqlite::SqliteArgs>),
    /// Requests of a volume through gateway, link, node and store, as a running gateway sampled them.
    Cluster(Box<cluster::ClusterArgs>),
    /// Lay traces side by side: operations/s, counts per layer and file, where the time differs.
    Compare(compare::CompareArgs),
}

/// Does what the arguments name.
pub fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Run(args) => run::run(args),
        What::Sqlite(args) => sqlite::run(args),
        What::Cluster(args) => cluster::run(args),
        What::Compare(args) => compare::run(args),
    }
}
