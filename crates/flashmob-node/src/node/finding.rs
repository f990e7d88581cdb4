//! How a node announces itself, and what it announces.

use clap::{Args, ValueEnum};

use flashmob_server::discovery::announcement::{NAME_BYTES_MAX, fitting};
use flashmob_server::discovery::announcer::{Advertise, Announcer, Facts, Keyed, Wishes, announce};
use flashmob_server::discovery::join::{Place, Target};
use flashmob_server::net::ListenAddr;
use flashmob_server::node::NodeServer;

/// The options of `flashmob node` that say how it is found.
#[derive(Debug, Args)]
#[command(next_help_heading = "Discovery")]
pub struct FindingArgs {
    /// Name of this device [default: its host name or model].
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Announce this node by multicast DNS: auto (unless --listen is limited to this machine), or off.
    #[arg(long, value_enum, default_value = "auto")]
    announce: AnnounceArg,
    /// Announce this node periodically to 'flashmob discover' or to a gateway's admin port; can be repeated. Works
    /// without multicast. Also accepts the text of a join QR code.
    #[arg(long, value_name = "HOST:PORT")]
    join: Vec<Place>,
    /// Address to announce, instead of those of this device's interfaces.
    #[arg(long, value_name = "ADDR[:PORT]")]
    advertise: Option<Advertise>,
}

impl FindingArgs {
    /// Who is told of this node.
    pub fn joins(&self) -> anyhow::Result<Vec<Target>> {
        let targets = self.join.iter().cloned().map(Place::target).collect::<Result<_, _>>();
        Ok(targets.map_err(|why| crate::WrongValue(format!("--join: {why}")))?)
    }

    /// The name that was given to this device.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AnnounceArg {
    Auto,
    Off,
}

fn name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && fitting(text, NAME_BYTES_MAX) == text;
    fits.then(|| text.to_string())
        .ok_or_else(|| format!("a name must have 1 to {NAME_BYTES_MAX} bytes, none of them control characters"))
}

/// Starts to announce `server`, which will run.
pub fn start(args: FindingArgs, joins: Vec<Target>, server: &NodeServer) -> anyhow::Result<Option<Announcer>> {
    let ListenAddr::Tcp(listen) = server.local_addr()? else { return Ok(None) };
    let identity = server.extent().identity();
    let store = server.store();
    let facts = Facts {
        extent: identity.extent_id(),
        size_bytes: identity.size_bytes(),
        listen,
        // The speed of a model or of answers without I/O is not that of this device's flash.
        measured: (!store.no_io && store.model.is_none()).then(|| store.path.clone()),
        keyed: server
            .extent()
            .keys()
            .zip(server.grants())
            .map(|(keys, grants)| Keyed::new(keys, identity.extent_id(), grants)),
    };
    let wishes =
        Wishes { name: args.name, advertise: args.advertise, joins, mdns: matches!(args.announce, AnnounceArg::Auto) };
    Ok(Some(announce(wishes, facts, server.reporter())?))
}
