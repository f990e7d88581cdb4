//! `flashmob client`: who may use volumes over NBD, and who may administer, in a cluster with keys.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use flashmob_server::config::Config;
use flashmob_server::keys::authority::Purpose;
use flashmob_server::keys::clients::{draw_token, fingerprint, token_digest};
use flashmob_server::keys::{AdminRight, Client};
use flashmob_text::{Side, Table};
use serde::Serialize;

use super::key::folder_of;
use super::tell::Form;

const WIDTH: usize = 120;

/// Add, list and revoke clients of a cluster with keys.
///
/// In a cluster with keys, NBD over TCP and the admin port require TLS and a client certificate, which this command issues. A
/// running gateway applies changes within a second.
#[derive(Debug, Args)]
pub struct ClientArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(AddArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Issue a certificate for a client, and grant it access to volumes or to the admin port.
///
/// Writes ca-cert.pem, client-cert.pem and client-key.pem, the names that libnbd and QEMU expect; with --admin also token, for programs that
/// show no certificates. Copy the folder to the client over a secure channel; the gateway stores neither private key nor token.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flashmob client add cluster.toml alice --volume pool --read-only --out alice
  nbdinfo 'nbds://192.168.1.10/pool?tls-certificates=/home/alice/alice'
  nbdcopy 'nbds://192.168.1.10/pool?tls-certificates=/home/alice/alice' pool.img
  qemu-img info --object tls-creds-x509,id=tls0,endpoint=client,sanity-check=off,dir=/home/alice/alice \\
    --image-opts driver=nbd,host=192.168.1.10,port=10809,export=pool,tls-creds=tls0
  flashmob client add cluster.toml laptop --admin read --out laptop
  flashmob status https://192.168.1.10:10810 --credentials laptop
  flashmob client add cluster.toml prometheus --admin metrics --out prometheus
  curl --cacert prometheus/ca-cert.pem --cert prometheus/client-cert.pem --key prometheus/client-key.pem https://192.168.1.10:10810/metrics")]
struct AddArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The client's name, for lists and logs: letters, digits, '-', '_' and '.'.
    #[arg(value_name = "NAME")]
    name: String,
    /// Volume that the client may use; may be repeated. Other volumes are hidden from it.
    #[arg(long, value_name = "VOLUME", required_unless_present = "admin")]
    volume: Vec<String>,
    /// Read-only access: changes fail with EPERM.
    #[arg(long)]
    read_only: bool,
    /// What the client may do at the admin port: read /metrics; read everything; or also change something, as 'volume replace'.
    #[arg(long, value_name = "RIGHT", value_enum)]
    admin: Option<AdminArg>,
    /// Folder for the certificates and the key; must not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AdminArg {
    Metrics,
    Read,
    All,
}

impl From<AdminArg> for AdminRight {
    fn from(arg: AdminArg) -> AdminRight {
        match arg {
            AdminArg::Metrics => AdminRight::Metrics,
            AdminArg::Read => AdminRight::Read,
            AdminArg::All => AdminRight::All,
        }
    }
}

/// List the clients, and what they may use.
#[derive(Debug, Args)]
struct ListArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Output format: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

/// Revoke a client's access: its connections are closed within a second, and new ones are refused.
#[derive(Debug, Args)]
struct RevokeArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The client's name.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Runs the subcommand.
pub fn run(args: &ClientArgs) -> anyhow::Result<()> {
    match &args.command {
        Command::Add(args) => add(args),
        Command::List(args) => list(args),
        Command::Revoke(args) => revoke(args),
    }
}

fn add(args: &AddArgs) -> anyhow::Result<()> {
    let config = Config::load(&args.config)?;
    for name in &args.volume {
        let names = || config.volumes.iter().map(|volume| &volume.name[..]).collect::<Vec<_>>().join(", ");
        ensure_value!(
            config.volumes.iter().any(|volume| volume.name == *name),
            "there is no volume '{name}'; there are: {}",
            names()
        );
    }
    let folder = folder_of(&config, &args.config)?;
    let _alone = folder.lock()?;
    let mut clients = folder.clients()?;
    clients.check_new(&args.name)?;
    let (_, gateway_pem) = folder.authority(Purpose::Gateway)?.certificate()?;
    let clients_authority = folder.authority(Purpose::Clients)?;
    // Not a name that a host can have, so that it never passes for a gateway's.
    let issued = clients_authority.issue(&format!("client {}", args.name), &[], &[])?;
    let cannot = || format!("cannot make {}", args.out.display());
    fs::DirBuilder::new().mode(0o700).create(&args.out).with_context(cannot)?;
    let admin = args.admin.map(AdminRight::from);
    let token = admin.map(|_| draw_token()).transpose().context("cannot make a token")?;
    let client = Client {
        name: args.name.clone(),
        certificate: fingerprint(&issued.der),
        volumes: args.volume.clone(),
        read_only: args.read_only,
        admin,
        token: token.as_ref().and_then(|token| token_digest(token)),
    };
    // The gateway's authority alone: who has a certificate of the clients', or its key, is no gateway.
    let made = put(&args.out.join("ca-cert.pem"), &gateway_pem)
        .and_then(|()| put(&args.out.join("client-cert.pem"), &issued.pem))
        .and_then(|()| put(&args.out.join("client-key.pem"), &issued.key_pem))
        .and_then(|()| token.map_or(Ok(()), |token| put(&args.out.join("token"), &token)))
        .and_then(|()| Ok(clients.add(client)?));
    if made.is_err() {
        // What was just made, and is of no use.
        let _ = fs::remove_dir_all(&args.out);
    }
    made?;
    let mut out = std::io::stdout();
    if !args.volume.is_empty() {
        let may = if args.read_only { "read" } else { "read and change" };
        writeln!(out, "{} may {may} {}", args.name, args.volume.join(", "))?;
    }
    if let Some(right) = admin {
        writeln!(out, "{} may use the admin port: {}", args.name, right.name())?;
    }
    writeln!(out, "copy the folder {} to the client over a secure channel, then delete it here", args.out.display())?;
    Ok(())
}

/// A new file that its owner alone may read.
fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        clients: &'a [Client],
    }
    let clients = folder_of(&Config::load(&args.config)?, &args.config)?.clients()?;
    let mut out = std::io::stdout();
    if args.output == Form::Json {
        writeln!(out, "{}", serde_json::to_string(&Report { clients: clients.all() })?)?;
        return Ok(());
    }
    if clients.all().is_empty() {
        writeln!(out, "there are no clients: flashmob client add")?;
        return Ok(());
    }
    let mut table = Table::new(&[Side::Left, Side::Left, Side::Left, Side::Left, Side::Left]);
    table.plain(["client", "volumes", "rights", "admin", "certificate"]);
    for client in clients.all() {
        let may = match (client.volumes.is_empty(), client.read_only) {
            (true, _) => "-",
            (false, true) => "read",
            (false, false) => "read, change",
        };
        let volumes = if client.volumes.is_empty() { "-".to_string() } else { client.volumes.join(", ") };
        let admin = client.admin.map_or("-", AdminRight::name);
        let certificate = client.certificate.short();
        table.plain([client.name.clone(), volumes, may.to_string(), admin.to_string(), certificate]);
    }
    table.lines(WIDTH, false).into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}

fn revoke(args: &RevokeArgs) -> anyhow::Result<()> {
    let folder = folder_of(&Config::load(&args.config)?, &args.config)?;
    let _alone = folder.lock()?;
    folder.clients()?.revoke(&args.name)?;
    writeln!(std::io::stdout(), "{} has no rights any more", args.name)?;
    Ok(())
}
