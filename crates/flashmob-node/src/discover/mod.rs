//! `flashmob discover`: lists nodes, and writes a configuration from them.

mod advice;
mod listing;
mod probe;
mod search;
#[cfg(test)]
mod tests;
mod watch;
mod write;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::RangedU64ValueParser;

use self::search::Search;
use crate::form::Form;
use flashmob_server::discovery::DISCOVER_PORT;
use flashmob_server::discovery::here::reachable;
use flashmob_server::discovery::join::URL_PREFIX;

/// Default duration of a search.
const WAIT: Duration = Duration::from_secs(3);
/// The same if a user has to scan a code with a tablet.
const WAIT_FOR_SCAN: Duration = Duration::from_secs(120);

/// List nodes on the network, and write a gateway configuration.
///
/// Finds nodes without keys, by multicast DNS and by their announcements with --join at the same time, and shows the properties that they
/// announce; 'flashmob join' adds nodes with keys. It reads and writes no data on any node.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob discover
  flashmob discover --nodes 8 --write cluster.toml && flashmob gateway cluster.toml --insecure
  flashmob discover --qr                  # for the app: scan the code on each tablet; Ctrl-C ends
  flashmob discover --watch               # print nodes as they appear and disappear
  flashmob discover --output json | jq -r '.nodes[].address'")]
pub struct DiscoverArgs {
    /// Search time [default: 3s, with --qr 2m]. Ctrl-C ends the search early.
    #[arg(long, value_name = "TIME", value_parser = crate::values::time_or_none, conflicts_with = "watch")]
    wait: Option<Duration>,
    /// Exit as soon as N nodes are found; fail if there are fewer.
    #[arg(long, value_name = "N", conflicts_with = "watch", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    nodes: Option<usize>,
    /// Address to receive announcements of nodes started with --join. Anyone who can reach it can add a list entry.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::values::address)]
    listen: Option<SocketAddr>,
    /// Write a gateway configuration with the nodes found.
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    write: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, requires = "write")]
    force: bool,
    /// Volume name for nodes that do not belong to a volume yet.
    #[arg(long, value_name = "NAME", default_value = "pool", requires = "write")]
    volume: String,
    /// Print a line whenever a node appears or disappears, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Show a QR code that the app scans to join.
    #[arg(long)]
    qr: bool,
    /// Output format: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

/// Runs it.
///
/// # Errors
/// What kept it from listening or writing, or there are fewer nodes than wanted.
pub fn run(args: &DiscoverArgs) -> anyhow::Result<()> {
    if let Some(path) = args.write.as_ref().filter(|path| !args.force && path.exists()) {
        anyhow::bail!("{} already exists; use --force to replace it", path.display());
    }
    let mut search = Search::start(args.listen)?;
    let join = reachable(search.listens_at());
    tell_where_to_join(args, join);
    if args.watch {
        return watch::watch(&mut search, args.output == Form::Json, join);
    }
    let until = Instant::now() + args.wait.unwrap_or(if args.qr { WAIT_FOR_SCAN } else { WAIT });
    let is_enough = |count: usize| args.nodes.is_some_and(|wanted| count >= wanted);
    while Instant::now() < until && !is_enough(search.found.len()) && !search.is_asked_to_end() {
        search.turn(until);
    }
    search.try_all();
    let notes = advice::notes(&search, join);
    match args.output {
        Form::Table => print!("{}", listing::table(&search.found)),
        Form::Json => println!("{}", listing::document(&search, join, &notes)?),
    }
    notes.iter().for_each(|note| log::warn!("{note}"));
    if let Some(path) = &args.write {
        write::write(path, args.force, &args.volume, &search, join)?;
    }
    if let Some(wanted) = args.nodes.filter(|_| !is_enough(search.found.len())) {
        anyhow::bail!("found {} of {wanted} nodes; use --wait 10s to search longer", search.found.len());
    }
    Ok(())
}

fn tell_where_to_join(args: &DiscoverArgs, join: Option<SocketAddr>) {
    let Some(join) = join else {
        return log::warn!("this device has no address that others can reach: no network is up");
    };
    log::info!(
        "nodes can join here: flashmob node ... --join {join} (default port: {DISCOVER_PORT}; --listen changes it)"
    );
    if args.qr {
        let url = format!("{URL_PREFIX}{join}");
        match crate::qr::draw(&url, std::env::var_os("NO_COLOR").is_none()) {
            // Not on stdout, which may be JSON or redirected.
            Some(code) => eprintln!("{code}\n{url}"),
            None => log::warn!("{url} does not fit a code"),
        }
    }
}
