//! `flashmob lab`: its arguments.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flashmob_core::copies::COPIES_MAX;
use flashmob_core::gateway::BatchMode;
use flashmob_lab::air::Medium;
use flashmob_lab::cluster::{Weak, Weakness};

use super::cluster_args::{ModelArgs, batch};
use super::{command_line, weak};
use crate::lab::{self, NODES_MAX, Plan};

/// Run real processes and real TCP over a modelled air on this machine.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Run(RunArgs),
    Shell(ShellArgs),
}

/// Run a command next to a gateway whose nodes are reached over a modelled air.
///
/// Gateway and nodes are real processes, each with its own TCP stack; the network between them is modelled: each
/// Ethernet frame is delivered at the time that the model gives, or dropped. Everything is removed when the command
/// exits. Needs root, or a system that allows user namespaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob lab run --nodes 8 --air 11n-2014 -- flashmob bench cluster --links 1,2,4 --batch 1,10,auto
  flashmob lab run --air 11n -- sh -c 'flashmob bench nbd $FLASHMOB_URI --block-size 1'
  flashmob lab run --nodes 2 --air ideal -- flashmob status 127.0.0.1:10810
  flashmob lab run --gateway wireless --no-io -- ./my-benchmark.sh
  flashmob lab run --copies 2 --weak 1:flash=50 -- sh -c 'flashmob bench nbd $FLASHMOB_URI -o 8'
  flashmob lab run --keys -- sh -c 'flashmob bench nbd $FLASHMOB_URI'
  flashmob lab run --air wan,delay=20ms --extent 8MiB -- sh -c 'nbdcopy $FLASHMOB_URI copy.img'
  flashmob lab run --nodes 1 --node-command 'exec nbdkit -f -i $ADDRESS memory 1G' -- \\
      sh -c 'until nbdinfo nbd://10.77.0.2; do sleep 0.1; done'

The environment of the command:
  FLASHMOB_URI     the volume, for NBD clients
  FLASHMOB_ADMIN   the gateway's address for 'flashmob status'
  FLASHMOB_CONFIG  a configuration for gateways over the nodes
  FLASHMOB_NODES   the nodes' addresses
  FLASHMOB_LAB     the lab's socket: statistics of the air and the lab's lateness

Exit status: that of the command; 75 if the command succeeded but the lab was LATE (this
machine could not keep up with the modelled air: discard the figures and try again); 125 the lab could
not be created, 126 the command could not be run, 127 command not found, 2 wrong arguments.")]
struct RunArgs {
    #[command(flatten)]
    lab: LabOptions,
    /// Command to run in the gateway's network, with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Run a shell in the lab.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob lab shell --nodes 4 --air 11ac
  flashmob lab shell --no-io --gateway wireless

In it, for example:
  flashmob status $FLASHMOB_ADMIN
  nbdinfo $FLASHMOB_URI
  ping -c 3 10.77.0.2
  tcpdump -ni air0")]
struct ShellArgs {
    #[command(flatten)]
    lab: LabOptions,
}

#[derive(Debug, Args)]
struct LabOptions {
    #[command(flatten)]
    model: ModelArgs,
    /// Links per node (P1's m).
    #[arg(long, default_value_t = 1, value_name = "M", value_parser = clap::value_parser!(u16).range(1..=256))]
    links: u16,
    /// Batch size: auto (self-clocked), or a fixed maximum with one batch in flight per link (P1's k).
    #[arg(long, visible_alias = "aggregate", default_value = "auto", value_name = "K", value_parser = batch)]
    batch: BatchMode,
    /// Copies of each chunk: a volume with copies in place of a linear one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=COPIES_MAX as i64))]
    copies: Option<u32>,
    /// The last N nodes are weaker than the others: N:flash=FACTOR (so many times slower), N:loss=PERCENT (of
    /// frames, on the way to them), or N:delay=TIME (so much longer each way; with --air wan alone).
    #[arg(long, value_name = "N:HOW", value_parser = weak::parse)]
    weak: Option<Weak>,
    /// Give the cluster keys: links are encrypted and authenticated. FLASHMOB_URI is a unix socket then.
    #[arg(long, conflicts_with_all = ["node_command", "no_gateway"])]
    keys: bool,
    /// TCP congestion control over the air: any that this kernel has.
    #[arg(long, default_value = "cubic", value_name = "NAME", value_parser = congestion)]
    congestion: String,
    /// Run this shell command line in each node's network instead of a node, to compare other servers. NODE is its
    /// number from 0, ADDRESS its address. No gateway is started unless --with-gateway is given.
    #[arg(long, value_name = "LINE")]
    node_command: Option<String>,
    /// Start nodes only, without a gateway.
    #[arg(long, conflicts_with = "with_gateway")]
    no_gateway: bool,
    /// Start a gateway despite --node-command.
    #[arg(long)]
    with_gateway: bool,
}

impl LabOptions {
    fn plan(self, command: Vec<OsString>) -> anyhow::Result<Plan> {
        if let Some(weak) = self.weak {
            self.check_weak(weak)?;
        }
        let model = self.model;
        ensure_value!(
            model.nodes <= NODES_MAX,
            "--nodes {} is too many to run in real time on one machine; give at most {NODES_MAX}, or use 'flashmob simulate'",
            model.nodes
        );
        ensure_value!(
            self.copies.is_none_or(|copies| copies <= model.nodes),
            "--copies {}: there are {} nodes, and each has one copy of a chunk; give fewer, or more --nodes",
            self.copies.unwrap_or_default(),
            model.nodes
        );
        Ok(Plan {
            nodes: model.nodes,
            air: model.parts.air,
            gateway: model.parts.gateway.into(),
            flash: (!model.parts.no_io).then_some(model.parts.flash),
            order: model.parts.order.into(),
            extent_bytes: model.parts.extent,
            seed: model.parts.seed,
            links: self.links,
            batch: self.batch,
            copies: self.copies,
            keys: self.keys,
            weak: self.weak,
            congestion: self.congestion,
            has_gateway: !self.no_gateway && (self.with_gateway || self.node_command.is_none()),
            node_command: self.node_command,
            command,
            command_line: Some(command_line::recorded()),
        })
    }
}

impl LabOptions {
    /// Refuses weak nodes that a lab cannot have.
    fn check_weak(&self, weak: Weak) -> anyhow::Result<()> {
        let model = &self.model;
        if let Err(error) = weak.check(model.nodes) {
            bail_value!("--weak {}: {error}", weak::text(weak));
        }
        let lacks = match weak.by {
            Weakness::Flash(_) if model.parts.no_io || self.node_command.is_some() => {
                "these nodes have no modelled flash"
            }
            Weakness::Lossy(_) if matches!(model.parts.air.medium, Medium::Ideal { .. }) => {
                "an ideal air loses nothing; choose another --air"
            }
            Weakness::Far(_) if !matches!(model.parts.air.medium, Medium::Lines(_)) => {
                "only lines have a delay of their own; choose --air wan"
            }
            Weakness::Throttled(_) | Weakness::Dozes { .. } => {
                "the processors of a lab are those of this machine; use 'flashmob simulate', or stop a node with 'kill -STOP'"
            }
            Weakness::Flash(_) | Weakness::Lossy(_) | Weakness::Far(_) => return Ok(()),
        };
        bail_value!("--weak {}: {lacks}", weak::text(weak));
    }
}

fn congestion(name: &str) -> Result<String, String> {
    // The kernel's limit, including the terminating byte.
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if (1..16).contains(&name.len()) && name.chars().all(plain) {
        Ok(name.to_string())
    } else {
        Err("must be a name such as cubic, bbr or reno".to_string())
    }
}

/// Runs the requested command.
pub fn run(args: LabArgs) -> anyhow::Result<ExitCode> {
    let plan = match args.command {
        LabCommand::Run(args) => args.lab.plan(args.command)?,
        LabCommand::Shell(args) => {
            let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
            let plan = Plan { command_line: None, ..args.lab.plan(vec![shell])? };
            log::info!(
                "{} nodes behind the modelled air {}; 'exit' ends the lab; 'flashmob lab shell --help' lists commands to try",
                plan.nodes,
                plan.air.name
            );
            plan
        }
    };
    match lab::run(plan) {
        Ok(status) => Ok(ExitCode::from(status)),
        Err(error) => {
            super::tell_error(&error);
            Ok(ExitCode::from(lab::STATUS_IMPOSSIBLE))
        }
    }
}
