//! `flashmob node`.

mod care;
mod finding;
mod joining;
mod memory;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use flashmob_core::device_model::DeviceModel;
use flashmob_core::units::Bytes;
use flashmob_lab::flash::{Model, Profile};

use flashmob_server::admin;
use flashmob_server::admin::http::{AdminServer, Hosts};
use flashmob_server::android;
use flashmob_server::discovery::announcer::{Announcer, device_name};
use flashmob_server::keys::{AdminKeys, NodeCredentials, PublicKey};
use flashmob_server::net::{ListenAddr, Sizing};
use flashmob_server::node::{ExtentConfig, NodeOptions, NodeServer};
use flashmob_server::store::identity::{names_cluster, sidecar_path};
use flashmob_server::store::{Engine, Mapping, StoreConfig, THREADS_DEFAULT};

/// Serve a file or partition of this device to gateways.
///
/// The data file holds the raw bytes of the extent; its metadata (identity, size, volume) is in PATH.flashmob. The
/// first gateway to connect assigns the extent its place in a volume, which it keeps.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob node --data extent.bin --size 10GiB --listen 0.0.0.0:7411 --enroll 192.168.1.10:7413
                                                # asks for the code that 'flashmob join' shows at the gateway
  flashmob node --data /dev/mmcblk0p3 --threads 8
  flashmob node --data extent.bin --listen 0.0.0.0:7411 --insecure --name nexus7-a
                                                # 'flashmob discover' lists it, by multicast DNS
  flashmob node --data extent.bin --listen 0.0.0.0:7411 --insecure --join 192.168.1.10:7410
                                                # also where multicast is blocked
  flashmob node --data extent.bin --no-io       # to measure the network alone
  flashmob node --data extent.bin --size 10GB --model nexus7-emmc
                                                # with the timing of a tablet's flash, on any machine")]
pub struct NodeArgs {
    /// File (created sparse if it does not exist) or block device to serve.
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Size of the extent, such as 10GiB; required if the file does not exist.
    #[arg(long, value_parser = crate::values::size)]
    size: Option<u64>,
    /// Address and port for gateways. One that others can reach requires keys (--enroll), or --insecure.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::values::address, default_value = "127.0.0.1:7411")]
    listen: SocketAddr,
    /// Threads for reads and writes that the page cache cannot serve.
    #[arg(long, default_value_t = THREADS_DEFAULT, value_name = "N")]
    threads: usize,
    /// I/O interface of these threads. io_uring needs Linux on x86_64 or aarch64.
    #[arg(long, value_enum, default_value = "threads")]
    engine: EngineArg,
    /// Bypass the page cache (O_DIRECT).
    #[arg(long)]
    direct: bool,
    /// Serve small reads of cached data from a memory mapping, without a system call: auto (where it is safe; not in
    /// volumes with copies, where each read is verified by its checksum), on (there, too: data that comes back from the
    /// flash may be served for a second without being verified), or off.
    #[arg(long, value_enum, default_value = "auto")]
    mapped: MappedArg,
    /// Order in which reads and writes go to the flash: sorted (ascending offsets, neighbours merged), or arrival (as P1's nodes did).
    #[arg(long, value_enum, default_value = "sorted")]
    order: crate::values::OrderArg,
    /// Do not access the data: reads return NO DATA, writes are DROPPED.
    #[arg(long)]
    no_io: bool,
    /// Add the delays of a modelled flash: a profile, as for 'bench disk --model'. Disables immediate replies from
    /// memory. The data is real, the timing is modelled.
    #[arg(long, value_name = "PROFILE", conflicts_with = "no_io", value_parser = crate::values::flash_profile)]
    model: Option<Profile>,
    /// Random seed for the modelled flash's service times.
    #[arg(long, default_value_t = 1, value_name = "N", requires = "model")]
    model_seed: u64,
    /// The modelled flash takes so many times as long.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", requires = "model", value_parser = crate::values::factor)]
    model_slower: f64,
    #[command(flatten)]
    memory: memory::MemoryArgs,
    /// Maximum number of links.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    links: u32,
    /// Congestion control for data that the node sends, such as cubic or bbr; must be available in this kernel.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// How link buffers are sized: path (by the kernel, and by the node where the kernel's maximum is too small for the path), or kernel (by the kernel alone).
    #[arg(long, value_enum, default_value = "path")]
    buffers: BuffersArg,
    /// Address and port for /metrics (Prometheus) and /status (JSON). With keys, others use HTTPS and the token in DATA.admin.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::values::address)]
    admin: Option<SocketAddr>,
    /// A name by which the admin port may be reached, such as node.example.org; may be repeated. Addresses, localhost, and the
    /// machine's name (NAME, NAME.local) are always accepted.
    #[arg(long, value_name = "NAME", requires = "admin")]
    admin_host: Vec<String>,
    #[command(flatten)]
    care: care::CareArgs,
    /// Folder for the identity file of a block device.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The data has become larger, as a partition that has grown: use all of it. A file gets the size that --size says. For nodes of volumes with copies,
    /// whose gateway gives the new room to the volume.
    #[arg(long, conflicts_with = "forget")]
    grow: bool,
    /// Forget the volume that the extent belongs to, so that another can take it. The old volume loses this data.
    #[arg(long)]
    forget: bool,
    /// Accept only gateways of the cluster with this public key, as `flashmob key show` prints it. The node remembers it; later
    /// starts do not need the option. Requires `keys` in the gateway's configuration.
    #[arg(long, value_name = "KEY", group = "assignment")]
    cluster: Option<PublicKey>,
    /// Assign the extent, with its data, to the cluster of --cluster, --enroll or --token-file even if it belongs to another one.
    #[arg(long, requires = "assignment")]
    repin: bool,
    /// Replace the key of this node, which was lost or stolen; give the option once. Pin the new key at the gateway with --replace.
    #[arg(long)]
    new_key: bool,
    /// Listen without keys at an address that others can reach: anyone who can reach it can read and write all data.
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    joining: joining::JoiningArgs,
    #[command(flatten)]
    finding: finding::FindingArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EngineArg {
    Threads,
    #[value(name = "io_uring", alias = "io-uring")]
    IoUring,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BuffersArg {
    Path,
    Kernel,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MappedArg {
    Auto,
    On,
    Off,
}

/// Serves until a signal.
///
/// # Errors
/// Wrong options, or the file or the ports cannot be opened.
pub fn run(args: NodeArgs) -> anyhow::Result<()> {
    let memory_bytes = args.memory.settle()?;
    let engine = match args.engine {
        EngineArg::Threads => Engine::Threads,
        EngineArg::IoUring => Engine::IoUring,
    };
    let store = StoreConfig {
        path: args.data,
        size_bytes: args.size,
        grow: args.grow,
        gives_up: args.forget,
        threads: args.threads,
        engine,
        direct: args.direct,
        mapped: match args.mapped {
            MappedArg::Auto => Mapping::Auto,
            MappedArg::On => Mapping::On,
            MappedArg::Off => Mapping::Off,
        },
        no_io: args.no_io,
        model: args
            .model
            .map(|profile| Arc::new(Model::new(profile, args.model_slower, args.model_seed)) as Arc<dyn DeviceModel>),
    };
    let name = device_name(args.finding.name());
    let enroll = args.joining.enrollment(args.cluster.is_some(), name)?;
    let joins = args.finding.joins()?;
    let sidecar = sidecar_path(&store.path, args.state_dir.as_deref());
    let is_enrolled = enroll.is_some();
    let extent = ExtentConfig {
        store,
        state_dir: args.state_dir,
        forget: args.forget,
        cluster: args.cluster,
        repin: args.repin,
        new_key: args.new_key,
        enroll,
        memory_bytes,
        links_max: args.links as usize,
        order: args.order.into(),
    };
    // Before it is said that there are no keys: that of an extent whose identity was lost may be there.
    flashmob_server::node::check(&extent)?;
    let has_keys = is_enrolled || args.cluster.is_some() || names_cluster(&sidecar);
    let is_refused = |addr: &SocketAddr| !has_keys && !args.insecure && ListenAddr::Tcp(*addr).is_for_others();
    ensure_value!(
        !is_refused(&args.listen),
        "without keys anyone who can reach {} could read and write the whole extent: enroll this node in a cluster with keys (--enroll, with \
         `flashmob join` at the gateway), or use a network that you trust and --insecure",
        args.listen
    );
    if let Some(addr) = args.admin.filter(is_refused) {
        bail_value!(
            "without keys anyone who can reach {addr} could read the status of this node: enroll it in a cluster with keys (--enroll), or use a network \
             that you trust and --insecure"
        );
    }
    let sizing = match args.buffers {
        BuffersArg::Path => Sizing::Path,
        BuffersArg::Kernel => Sizing::Kernel,
    };
    // Before a new extent is made, which would stay behind if the port is taken.
    let admin = args.admin.map(admin::Bound::at).transpose()?;
    let mut server = NodeServer::open(NodeOptions {
        extent,
        listen: args.listen,
        congestion: args.congestion,
        sizing,
        device: args.care.options(),
    })?;
    let _admin = admin.map(|bound| serve_admin(bound, &args.admin_host, &server)).transpose()?;
    crate::signals::on_signal(server.stopper())?;
    let identity = server.extent().identity();
    log::info!("extent {}: {} ({} bytes)", identity.extent_id(), Bytes(identity.size_bytes()), identity.size_bytes());
    match server.extent().keys() {
        Some(keys) => log::info!(
            "only gateways of cluster {} are accepted; to pin this node: flashmob key pin CONFIG.toml {} {}",
            keys.cluster.short(),
            identity.extent_id(),
            keys.public
        ),
        None => warn_if_open(args.listen),
    }
    log::info!("ready, listening on {}", server.local_addr()?);
    let announcer = finding::start(args.finding, joins, &server)?;
    if let Some(announcer) = announcer.as_ref().filter(|_| server.extent().keys().is_some()) {
        // What the gateway tells there counts before anybody is let in.
        announcer.await_first();
    }
    let told = android::tell_forbidden_calls(0);
    server.run()?;
    announcer.into_iter().for_each(Announcer::end);
    android::tell_forbidden_calls(told);
    log::info!("stopped");
    Ok(())
}

/// Serves the administrative port; with keys, to others inside TLS to who has the node's token.
fn serve_admin(bound: admin::Bound, names: &[String], server: &NodeServer) -> anyhow::Result<AdminServer> {
    let mut keys = None;
    if let Some(own) = server.extent().keys().filter(|_| bound.is_for_others()) {
        let credentials = NodeCredentials::at(server.extent().identity().admin_path());
        log::info!(
            "for the admin port others need ca-cert.pem and token of {}: flashmob status https://HOST:PORT --credentials DIR",
            credentials.path().display()
        );
        keys = Some(AdminKeys::of_node(&credentials, own, names, bound.ip())?.remembering(server.known()));
    }
    bound.serve(server.reporter(), None, Hosts::named(names), keys)
}

fn warn_if_open(listen: SocketAddr) {
    if !ListenAddr::Tcp(listen).is_for_others() {
        log::info!("only this machine can connect; use --listen ADDR:PORT to accept others");
    } else {
        log::warn!(
            "insecure: anyone who can reach {listen} can read and write the whole extent; flashmob key init gives the cluster keys"
        );
    }
}
