//! `flashmob key`: the keys of a cluster, on the gateway's machine.

mod init;
mod show;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use flashmob_server::config::{Config, ExtentId};
use flashmob_server::keys::{Folder, PublicKey};

/// Give a cluster keys, show them, pin the keys of nodes, and replace the gateway's key.
///
/// Without keys, anyone who can reach a node's port can read and write its data. With keys, links between gateway and nodes are encrypted
/// and mutually authenticated (TLS 1.3): a node accepts only gateways of its cluster, and the gateway uses only nodes whose key is pinned.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flashmob key init cluster.toml              # gateway: prints the cluster's key
  flashmob join cluster.toml --nodes 2        # gateway: shows a code for each node, to enter there
  flashmob gateway cluster.toml

The same without codes:
  flashmob node --data e.bin --cluster KEY    # each node: prints its extent and key
  flashmob key pin cluster.toml EXTENT KEY    # gateway: once for each node")]
pub struct KeyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Show(show::ShowArgs),
    Pin(PinArgs),
    Unpin(UnpinArgs),
    Rotate(RotateArgs),
}

/// Pin the key of a node: the gateway uses the node with this extent only if it proves this key.
///
/// The node prints both when it starts with --cluster. A running gateway applies changes within a second. `flashmob join` pins keys
/// without copying them by hand.
#[derive(Debug, Args)]
struct PinArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The extent that the node serves: 32 hexadecimal digits.
    #[arg(value_name = "EXTENT")]
    extent: ExtentId,
    /// The node's public key: 64 hexadecimal digits.
    #[arg(value_name = "KEY")]
    key: PublicKey,
    /// Pin it although another key is pinned for the extent, which is refused from then on.
    #[arg(long)]
    replace: bool,
}

/// Remove the key of a node, so that the gateway no longer uses it.
///
/// A running gateway closes its links to the node within a second. A code or token of a `flashmob join` that still runs lets a device enroll a new extent: end
/// that command first, which takes it back.
#[derive(Debug, Args)]
struct UnpinArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The extent that the node serves: 32 hexadecimal digits.
    #[arg(value_name = "EXTENT")]
    extent: ExtentId,
}

/// Replace the gateway's key, and revoke the old one; or replace the cluster's key.
///
/// The new key has the next generation number; a running gateway uses it within a second, and makes its links again. Once a node has accepted a link of that generation, it closes the links of
/// earlier generations and refuses them from then on. A node that is offline learns of it when the new gateway connects.
///
/// With --cluster, the cluster's key is replaced, for example after cluster.key was stolen or lost. A node changes its cluster only at the
/// device: restart each node with --cluster KEY --repin. Meanwhile the gateway uses nodes of both clusters; --end completes the rotation.
#[derive(Debug, Args)]
struct RotateArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Replace the cluster's key instead.
    #[arg(long, conflicts_with = "generation")]
    cluster: bool,
    /// Complete the rotation of the cluster's key: refuse nodes of the previous cluster, and replace the gateway's key.
    #[arg(long, requires = "cluster")]
    end: bool,
    /// File with the cluster's private key [default: cluster.key in the folder of the keys].
    #[arg(long, value_name = "FILE")]
    cluster_key: Option<PathBuf>,
    /// Minimum generation number, for when the folder of the keys was restored from a backup or its grant is lost.
    /// `flashmob status` shows the latest generation that a node has accepted.
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
}

/// Runs the subcommand.
pub fn run(args: &KeyArgs) -> anyhow::Result<()> {
    match &args.command {
        Command::Init(args) => init::run(args),
        Command::Show(args) => show::run(args),
        Command::Pin(args) => pin(args),
        Command::Unpin(args) => unpin(args),
        Command::Rotate(args) => rotate(args),
    }
}

/// The keys that a configuration names.
pub(super) fn folder_of(config: &Config, path: &std::path::Path) -> anyhow::Result<Folder> {
    let keys = config.keys.as_ref().with_context(|| {
        let path = path.display();
        format!("the cluster has no keys: {path} has no `keys`; make them with `flashmob key init {path}`")
    })?;
    Ok(Folder::at(keys))
}

fn pin(args: &PinArgs) -> anyhow::Result<()> {
    let folder = folder_of(&Config::load(&args.config)?, &args.config)?;
    let _alone = folder.lock()?;
    let mut pins = folder.pins()?;
    pins.pin(args.extent, args.key, args.replace)?;
    writeln!(
        std::io::stdout(),
        "extent {} has key {}; a running gateway uses it within a second",
        args.extent,
        args.key.short()
    )?;
    Ok(())
}

fn unpin(args: &UnpinArgs) -> anyhow::Result<()> {
    let folder = folder_of(&Config::load(&args.config)?, &args.config)?;
    let _alone = folder.lock()?;
    // It would be written anew, and what others have put in would look right.
    let mut pins = folder
        .pins()
        .context("nothing was unpinned: first, the list of nodes has to be one that nobody else can have changed")?;
    pins.unpin(args.extent)?;
    writeln!(
        std::io::stdout(),
        "extent {} has no key any more; a running gateway closes its links within a second. Whoever has the code or token of a `flashmob join` that still \
         runs can enroll a new extent with it: end that command, which takes it back",
        args.extent
    )?;
    Ok(())
}

fn rotate(args: &RotateArgs) -> anyhow::Result<()> {
    let folder = folder_of(&Config::load(&args.config)?, &args.config)?;
    let _alone = folder.lock()?;
    let mut out = std::io::stdout();
    if args.end {
        return Ok(match folder.end_rotation(args.cluster_key.as_deref())? {
            Some(generation) => writeln!(
                out,
                "nodes of the previous cluster are refused, and the gateway has a new key, generation {generation}; a running gateway uses it within a second"
            ),
            None => writeln!(out, "there is no previous cluster"),
        }?);
    }
    if args.cluster {
        anyhow::ensure!(args.cluster_key.is_none(), "the key of a new cluster is drawn; --cluster-key is for --end");
        let (cluster, generation) = folder.rotate_cluster()?;
        writeln!(
            out,
            "the cluster's key: {cluster}, generation {generation}; a running gateway uses it within a second"
        )?;
        writeln!(
            out,
            "its private half is cluster.key in the folder of the keys; keep a copy of the folder elsewhere"
        )?;
        writeln!(out, "next: restart each node with --cluster {cluster} --repin")?;
        writeln!(out, "last: flashmob key rotate {} --cluster --end", args.config.display())?;
        return Ok(());
    }
    let (key, generation) = folder.rotate_gateway(args.cluster_key.as_deref(), args.generation)?;
    writeln!(
        out,
        "the gateway has key {}, generation {generation}; a running gateway uses it within a second, and each node refuses the old key once it has accepted the new one",
        key.short()
    )?;
    Ok(())
}
