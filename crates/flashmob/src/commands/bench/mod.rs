//! `flashmob bench`: loads, with results that record how they were measured.

mod cluster;
pub mod disk;
mod nbd;
pub(crate) mod net;
mod record;
mod table;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Measure a device's flash, a network, a cluster, or any NBD server.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure one device: read or write a file on it.
    Disk(Box<disk::DiskArgs>),
    /// Measure a cluster: run a load inside a gateway, over the links to its nodes.
    Cluster(Box<cluster::ClusterArgs>),
    /// Measure the network between two devices: TCP, UDP, messages. Interoperates with iperf3.
    Net(Box<net::NetArgs>),
    /// Measure an export of any NBD server.
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
