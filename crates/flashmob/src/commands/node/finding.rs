//! How a node announces itself, and what it announces.

use clap::{Args, ValueEnum};

use flashmob_server::discovery::announcement::{NAME_BYTES_MAX, fitting};
use flashmob_server::discovery::announcer::{Advertise, Announcer, Facts, Wishes, announce};
use flashmob_server::discovery::join::Target;
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
    #[arg(long, value_name = "HOST:PORT", value_parser = receiver)]
    join: Vec<Receiver>,
    /// Address to announce, instead of those of this device's interfaces.
    #[arg(long, value_name = "ADDR[:PORT]")]
    advertise: Option<Advertise>,
}

impl FindingArgs {
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

/// Who is told of this node.
#[derive(Debug, Clone)]
struct Receiver {
    target: Target,
    /// It was written as a link of `flashmob join`, whose secret has no place among arguments.
    had_secret: bool,
}

/// Takes a link with a secret, too: an error would show it.
fn receiver(text: &str) -> Result<Receiver, String> {
    let (place, secret) = text.split_once('#').map_or((text, None), |(place, secret)| (place, Some(secret)));
    let target = place.parse().map_err(|bad: flashmob_server::discovery::join::BadTarget| bad.to_string())?;
    Ok(Receiver { target, had_secret: secret.is_some() })
}

fn name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && fitting(text, NAME_BYTES_MAX) == text;
    fits.then(|| text.to_string())
        .ok_or_else(|| format!("a name must have 1 to {NAME_BYTES_MAX} bytes, none of them control characters"))
}

/// Starts to announce `server`, which will run.
pub fn start(args: FindingArgs, server: &NodeServer) -> anyhow::Result<Option<Announcer>> {
    if args.join.iter().any(|receiver| receiver.had_secret) {
        log::warn!(
            "the secret in the link at --join was ignored, and other users may have seen it: to enroll this node, get another code from 'flashmob join', \
             and put the link into a file for --token-file"
        );
    }
    let ListenAddr::Tcp(listen) = server.local_addr()? else { return Ok(None) };
    let identity = server.extent().identity();
    let store = server.store();
    let facts = Facts {
        extent: identity.extent_id(),
        size_bytes: identity.size_bytes(),
        listen,
        // The speed of a model or of answers without I/O is not that of this device's flash.
        measured: (!store.no_io && store.model.is_none()).then(|| store.path.clone()),
    };
    let wishes = Wishes {
        name: args.name,
        advertise: args.advertise,
        joins: args.join.into_iter().map(|receiver| receiver.target).collect(),
        mdns: matches!(args.announce, AnnounceArg::Auto),
    };
    Ok(Some(announce(wishes, facts, server.reporter())?))
}
