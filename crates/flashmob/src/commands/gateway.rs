//! `flashmob gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use flashmob_server::admin;
use flashmob_server::admin::http::{AdminServer, Hosts};
use flashmob_server::config::{Config, EtcdConfig, Listen};
use flashmob_server::discovery::follow::{self, Follower};
use flashmob_server::gateway::from_nodes::catch_up::catch_up;
use flashmob_server::gateway::{Deposed, GatewayServer, Start, Stopper};
use flashmob_server::keys::{AdminKeys, Folder};
use flashmob_server::net::ListenAddr;

/// Present volumes over nodes to NBD clients.
///
/// The configuration names the volumes, their layout and their nodes; the folder examples/ has samples.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob gateway cluster.toml
  flashmob gateway cluster.toml --admin 127.0.0.1:10810 &
  flashmob gateway cluster.toml --take-over         # the machine with the former gateway is gone
  flashmob gateway cluster.toml --standby           # on two machines, with [etcd] in cluster.toml
  flashmob status 127.0.0.1:10810
  nbdinfo --list nbd://127.0.0.1")]
pub struct GatewayArgs {
    /// Configuration file.
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,
    /// Address and port for the live page (in a browser), /metrics (Prometheus) and /status (JSON). Overrides 'admin' in the file. In a cluster with keys others
    /// use HTTPS, and need a certificate or token (flashmob client add ... --admin).
    #[arg(long, value_name = "ADDR:PORT", value_parser = super::address)]
    admin: Option<SocketAddr>,
    /// Forget the recorded extents of the volumes (CONFIG.toml.extents), and accept those that the nodes have now.
    #[arg(long)]
    forget: bool,
    /// Take over volumes with copies from a gateway on another machine, or at another path, which is stopped for good. Without a map
    /// here (CONFIG.toml.*.map), it is made from the nodes: all of them have to be there. With one, it has to be the last that
    /// gateway had: a copy from before lacks changes.
    #[arg(long)]
    take_over: bool,
    /// Keep the maps in etcd, so that another gateway can take over: the members of a cluster, or some. Overrides
    /// 'endpoints' of [etcd] in the file. All volumes need copies, and nodes of their own.
    #[arg(long, value_name = "etcd://HOST:PORT,...", value_parser = EtcdConfig::parse)]
    map: Option<EtcdConfig>,
    /// Wait while another gateway is in charge, and take over when its lease is over. Needs etcd.
    #[arg(long)]
    standby: bool,
    /// In a cluster with keys: use this volume's map in etcd though it is not signed, or with a key that was replaced or is another cluster's, and sign it. Give
    /// it once, when the cluster has got keys, and never if somebody else may have written to etcd. For several volumes several times.
    #[arg(long, value_name = "VOLUME", conflicts_with = "standby")]
    accept_unsigned: Vec<String>,
    /// Listen without keys at addresses that others can reach: anyone who can reach them can read and write every volume, and administer. With keys: use
    /// an etcd on other machines without TLS, or without a certificate.
    #[arg(long)]
    insecure: bool,
    /// Check the configuration and the keys that it names, print it with every default, and exit.
    #[arg(long)]
    check: bool,
    /// Follow nodes whose address changes, by multicast DNS: auto (if a node has a network address), or off. Nodes
    /// that join the admin port are always followed.
    #[arg(long, value_enum, default_value = "auto")]
    follow: FollowArg,
}

/// The pause of a standby after an attempt to take over that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FollowArg {
    Auto,
    Off,
}

pub fn run(args: GatewayArgs) -> anyhow::Result<()> {
    let mut config = Config::load(&args.config)?;
    let beside = args.config.with_extension("keys");
    anyhow::ensure!(
        config.keys.is_some() || !beside.join("cluster.pub").exists(),
        "{} has the keys of a cluster, and {} does not name it: add the line keys = \"{}\" at its top, or move the folder away",
        beside.display(),
        args.config.display(),
        beside.file_name().unwrap_or_default().to_string_lossy()
    );
    if args.check {
        if let Some(keys) = &config.keys {
            Folder::at(keys).load().context("a gateway with this configuration would not start")?;
        }
        print!("{}", config.to_toml()?);
        return Ok(());
    }
    if let Some(given) = &args.map {
        config.etcd = Some(match config.etcd.take() {
            Some(known) => EtcdConfig { endpoints: given.endpoints.clone(), ..known },
            None => given.clone(),
        });
    }
    if let Some(why) = config.unfit_for_etcd() {
        bail_value!("{why}");
    }
    if args.standby && config.etcd.is_none() {
        bail_value!(
            "--standby needs etcd, which says which gateway is in charge: give --map etcd://HOST:PORT,... or an [etcd] section"
        );
    }
    if !args.accept_unsigned.is_empty() && (config.etcd.is_none() || config.keys.is_none()) {
        bail_value!("--accept-unsigned is for maps in etcd, in a cluster with keys: others are not signed");
    }
    let is_known = |name: &&String| config.volumes.iter().any(|volume| volume.name == **name);
    if let Some(name) = args.accept_unsigned.iter().find(|name| !is_known(name)) {
        bail_value!("--accept-unsigned {name}: {} has no volume with that name", args.config.display());
    }
    if let Some(etcd) = config.etcd.as_ref().filter(|etcd| etcd.is_open())
        && config.keys.is_some()
        && !args.insecure
    {
        bail_value!(
            "anyone who can reach etcd at {} could stop this cluster, and read where its data is: give [etcd] in {} the files ca, cert and key for TLS on \
             both sides, or use a network that you trust and --insecure",
            etcd.endpoints.join(", "),
            args.config.display()
        );
    }
    config.admin = args.admin.or(config.admin);
    let is_refused =
        |addr: &SocketAddr| config.keys.is_none() && !args.insecure && ListenAddr::Tcp(*addr).is_for_others();
    if let Some(Listen::Tcp(addr)) =
        config.listen.iter().find(|listen| matches!(listen, Listen::Tcp(addr) if is_refused(addr)))
    {
        bail_value!(
            "without keys anyone who can reach {addr} could read and write every volume: give the cluster keys (flashmob key init {}), or use a network \
             that you trust and --insecure",
            args.config.display()
        );
    }
    if let Some(addr) = config.admin.filter(is_refused) {
        bail_value!(
            "without keys anyone who can reach {addr} could read the status of all nodes, and replace extents: give the cluster keys (flashmob key init {}), \
             or use a network that you trust and --insecure",
            args.config.display()
        );
    }
    let stop = Stop::default();
    super::on_signal({
        let stop = stop.clone();
        move || stop.stop()
    })?;
    let (mut forget, mut stays_behind) = (args.forget, false);
    let mut accept_unsigned: &[String] = &args.accept_unsigned;
    loop {
        let start = Start {
            forget,
            take_over: args.take_over,
            accept_unsigned,
            stays_behind,
            stand_by: args.standby,
            stop: Some(&stop.is_wanted),
        };
        let server = match GatewayServer::open(&config, &args.config, start) {
            Err(error) if args.standby && GatewayServer::may_pass(&error) => {
                log::error!("{error:#}; trying again");
                std::thread::sleep(AGAIN_AFTER);
                continue;
            }
            server => server?,
        };
        let Some(server) = server else { break };
        // The maps are signed now, and the extents known.
        (forget, accept_unsigned) = (false, &[]);
        match serve(&args, &config, server, &stop)? {
            None => break,
            Some(Deposed::InEtcd(why)) => {
                anyhow::ensure!(
                    args.standby,
                    "another gateway is in charge: {why}; with --standby this one waits until that is gone"
                );
                log::warn!("another gateway is in charge: {why}");
            }
            Some(Deposed::AgainstEtcd(why)) => anyhow::bail!(
                "nodes serve this gateway no longer, though it is in charge in etcd: {why}. If etcd was restored from a backup, or the map was \
                 recovered into a file, remove the volume's keys from etcd (`etcdctl del --prefix`, see docs/copies.md), and recover the map: `flashmob volume recover`"
            ),
            Some(Deposed::ByNodes(why)) => anyhow::bail!("nodes serve this gateway no longer: {why}"),
            Some(Deposed::Behind(volumes, why)) => {
                log::warn!("nodes do not serve this gateway: {why}");
                if let Err(error) = catch_up(&config, &args.config, &volumes, &stop.is_wanted) {
                    if stop.is_wanted.load(Ordering::SeqCst) {
                        break;
                    }
                    anyhow::ensure!(
                        volumes.len() < config.volumes.len(),
                        "nodes serve this gateway no longer: {why} ({error:#})"
                    );
                    log::error!("{error:#}");
                    stays_behind = true;
                }
            }
        }
    }
    log::info!("stopped");
    Ok(())
}

/// Ends the gateway that runs, or the wait for its turn.
#[derive(Clone, Default)]
struct Stop {
    is_wanted: Arc<AtomicBool>,
    running: Arc<Mutex<Option<Stopper>>>,
}

impl Stop {
    fn stop(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
        self.tell();
    }

    fn begin(&self, stopper: Stopper) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(stopper);
        if self.is_wanted.load(Ordering::SeqCst) {
            self.tell();
        }
    }

    fn tell(&self) {
        if let Some(stopper) = &*self.running.lock().unwrap_or_else(PoisonError::into_inner) {
            stopper.stop();
        }
    }
}

/// Serves until it is stopped, or another gateway is in charge: then the result says why.
fn serve(
    args: &GatewayArgs,
    config: &Config,
    mut server: GatewayServer,
    stop: &Stop,
) -> anyhow::Result<Option<Deposed>> {
    let _admin = config.admin.map(|addr| serve_admin(addr, config, &server)).transpose()?;
    let follows = args.follow == FollowArg::Auto && server.has_nodes_elsewhere();
    let _follower = follows.then(|| Follower::start(server.whereabouts(), config.keys.is_some())).flatten();
    stop.begin(server.stopper());
    for addr in server.local_addrs()? {
        match &addr {
            ListenAddr::Tcp(addr) if config.keys.is_some() => log::info!("listening on nbds://{addr}"),
            ListenAddr::Tcp(addr) => {
                if !addr.ip().is_loopback() {
                    log::warn!(
                        "insecure: anyone who can reach {addr} can read and write every volume; flashmob key init gives the cluster keys"
                    );
                }
                log::info!("listening on nbd://{addr}");
            }
            ListenAddr::Unix(path) => log::info!("listening on nbd+unix:///?socket={}", path.display()),
        }
    }
    server.run()?;
    Ok(server.deposed().cloned())
}

/// Serves the administrative port; in a cluster with keys, to who has proven what it may do.
fn serve_admin(addr: SocketAddr, config: &Config, server: &GatewayServer) -> anyhow::Result<AdminServer> {
    let keys = config.keys.as_ref().map(|folder| {
        AdminKeys::of_gateway(&Folder::at(folder), &config.admin_hosts, addr.ip())
            .map(|keys| keys.remembering(server.known()))
            .context("the keys for the admin port cannot be used")
    });
    let ear = follow::ear(server.whereabouts(), config.keys.as_ref().map(|_| server.grant_in_use()));
    admin::Bound::at(addr)?.serve(server.reporter(), Some(ear), Hosts::named(&config.admin_hosts), keys.transpose()?)
}
