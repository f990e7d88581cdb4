//! `flashmob simulate`: a cluster in virtual time, with the same measurements as `bench cluster` in the lab.

mod rebuild;
mod runner;

use std::process::ExitCode;

use clap::Args;
use flashmob_core::copies::COPIES_MAX;
use flashmob_core::units::Bytes;
use flashmob_lab::air::Attachment as Modelled;
use flashmob_lab::cluster::{NODES_MAX, OUTSTANDING_BYTES_MAX, Weak};
use flashmob_results::cluster::{AirModel, Attachment, CopiesModel, Parameters, Setting};

use super::cluster::{self, Subject, Sweep, figures};
use super::cluster_args::{LoadArgs, PartsArgs};
use super::result_args::ResultArgs;
use super::{tell, weak};
use crate::lab::status::order_of;
use runner::Simulator;

/// Forecast the speed of a cluster of any size, in virtual time.
///
/// Runs the real gateway and node code over modelled air, flash and TCP. Gives the speed of clusters of any size within seconds, without devices. Nothing is measured: docs/models.md says
/// what the models leave out, docs/lab.md how well they agree with real processes and TCP stacks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob simulate --nodes 1,2,4,8 --links 1,4,32 --batch 1,10,100,auto
        the sweep of P1's section 3: tablets and a router of 2013
  flashmob simulate --nodes 8 --air 11ac --flash ufs --block-size 4KiB --gateway wireless
        eight phones, one of them the gateway
  flashmob simulate --copies 2 --weak 1:doze=200ms/2s --outstanding 2
        one of eight tablets dozes: what the choice of a copy does for the slowest reads; with --home-only, without it
  flashmob simulate --copies 2 --rebuild 7 --air-load 25,50,75,90 --air 11n --flash emmc --extent 256MiB -b 4KiB --time 60
        node 7 returns with other data, and its copies are made again: latency of clients at four loads of the air
  flashmob simulate --nodes 1000 --cells 20 --air 11ac --flash emmc --time 1
  flashmob simulate --nodes 8 --no-io --batch 1,10 --save p1-network.json && flashmob report p1-network.json

Exit status: 0 done, 1 failed, 2 wrong arguments, 3 requests failed, 130 stopped by Ctrl-C (the result so far is
printed).")]
pub struct SimulateArgs {
    /// Number of nodes; a list forecasts a cluster of each size.
    #[arg(long, default_value = "8", value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    nodes: Vec<u32>,
    /// Cells, each with its own access point and channel; the nodes are divided among them.
    #[arg(long, default_value_t = 1, value_name = "N")]
    cells: u32,
    #[command(flatten)]
    copies: CopiesArgs,
    /// Part of the air that clients take while the node is away: requests come by time, as many a second as take so much,
    /// whenever they are answered. Without it, each answer is followed by the next request.
    #[arg(long, requires = "rebuild", value_name = "PERCENT,...", value_delimiter = ',', value_parser = rebuild::parse_load)]
    air_load: Vec<f64>,
    #[command(flatten)]
    parts: PartsArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    result: ResultArgs,
}

/// Copies, and nodes that are not alike.
#[derive(Clone, Copy, Debug, Args)]
pub struct CopiesArgs {
    /// Copies of each chunk: a volume with copies in place of a linear one. Reads choose between them.
    #[arg(long = "copies", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=COPIES_MAX as i64))]
    model: Option<u32>,
    /// Read each chunk from one of its copies, however slow that is: shows what the choice is worth.
    #[arg(long, requires = "model")]
    home_only: bool,
    /// Scrub the volume all the time, as `volume scrub --now` would: shows what that costs.
    #[arg(long, requires = "model", conflicts_with = "rebuild")]
    scrub: bool,
    /// The last N nodes are weaker than the others: N:flash=FACTOR (so many times slower), N:throttle=FACTOR (flash and
    /// processor), N:doze=TIME/PERIOD (pauses), N:loss=PERCENT (of frames, on the way to them),
    /// N:delay=TIME (so much longer each way; with --air wan alone).
    #[arg(long, value_name = "N:HOW", value_parser = weak::parse)]
    weak: Option<Weak>,
    /// A node, counted from 0, that is away during --time and then returns: N, or N:PERCENT if only that part of its blocks
    /// differs. The rebuild is watched for at most twenty times --time.
    #[arg(long, requires = "model", value_name = "N", value_parser = rebuild::parse)]
    rebuild: Option<rebuild::Lacking>,
}

/// Simulates all points of the arguments.
pub fn run(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    args.result.check(None)?;
    let mut sweep = Sweep::new(&args.load, &args.nodes, args.parts.no_io, args.parts.seed);
    sweep.set_order(order_of(args.parts.order.into()));
    sweep.points = sweep.points.iter().flat_map(|point| under_loads(point, &args.air_load)).collect();
    let mut simulator = Simulator::new(&args.parts, args.copies, args.cells);
    for point in &sweep.points {
        // All combinations, before the first is simulated. Checked here as well, because the remedy names an option.
        ensure_value!(
            u64::from(point.outstanding) * u64::from(point.block_bytes) <= OUTSTANDING_BYTES_MAX,
            "{} outstanding requests of {} are more bytes than can be simulated ({}); reduce --outstanding or the request size",
            point.outstanding,
            Bytes(point.block_bytes.into()),
            Bytes(OUTSTANDING_BYTES_MAX)
        );
        simulator.settings(point, sweep.times, sweep.seed).check()?;
    }
    let cancel = tell::on_signal()?;
    cluster::measure(&mut simulator, &sweep, &args.result, &cancel, || subject(args, &sweep))
}

/// The same point under each load.
fn under_loads(point: &Parameters, air_load: &[f64]) -> Vec<Parameters> {
    if air_load.is_empty() {
        return vec![point.clone()];
    }
    let with = |&percent: &f64| Parameters { air_load_percent: Some(percent), ..point.clone() };
    air_load.iter().map(with).collect()
}

fn subject(args: &SimulateArgs, sweep: &Sweep) -> anyhow::Result<Subject> {
    let parts = &args.parts;
    let flash = match parts.no_io {
        true => None,
        false => Some(figures::flash_model(&parts.flash, parts.extent, &sweep.points)?),
    };
    let gateway = match Modelled::from(parts.gateway) {
        Modelled::Wireless => Attachment::Wireless,
        Modelled::Wired => Attachment::Wired,
    };
    Ok(Subject {
        setting: Setting::Simulator,
        air: Some(AirModel {
            profile: parts.air.name.clone(),
            description: parts.air.description.clone(),
            gateway,
            cells: args.cells,
        }),
        flash,
        extent_bytes: parts.extent,
        disk_ids: Vec::new(),
        copies: args.copies.model.map(|copies| CopiesModel {
            copies,
            home_only: args.copies.home_only,
            scrub: args.copies.scrub,
        }),
        weak: args.copies.weak.map(weak::text),
        rebuild: args.copies.rebuild.map(rebuild::text),
        warnings: Vec::new(),
    })
}
