//! `flashmob bench`: loads with a result that says how it came about.

mod cluster;
pub mod disk;
mod nbd;
pub mod net;
mod record;
mod table;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Measure.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure one device: how fast a file on it is read or written.
    Disk(Box<disk::DiskArgs>),
    /// Measure a cluster: a load inside a gateway of its own, over the links to its nodes.
    Cluster(Box<cluster::ClusterArgs>),
    /// Measure the network between two devices: TCP, datagrams, messages. Either end may be an iperf3.
    Net(Box<net::NetArgs>),
    /// Put a load on an export of any NBD server.
    Nbd(Box<nbd::NbdArgs>),
}

/// Runs the benchmark that the arguments name.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Disk(args) => disk::run(args),
        What::Cluster(args) => cluster::run(args),
        What::Net(args) => net::run(args),
        What::Nbd(args) => nbd::run(args),
    }
}
