//! `flashmob bench cluster`: its arguments.
//!
//! - [`volume`]: the configuration's volume, and the facts that its nodes report
//! - [`load`]: the load inside the gateway's loop, and the counters around it
//! - [`runner`]: one repetition: its own gateway, the load, the difference of the counters

mod load;
mod runner;
mod volume;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use flashmob_lab::flash::Profile;
use flashmob_results::cluster::Setting;
use flashmob_results::warning::{Code, Warning};

use crate::commands::cluster::{self, Subject, Sweep, figures};
use crate::commands::cluster_args::LoadArgs;
use crate::commands::result_args::ResultArgs;
use crate::commands::tell;
use crate::lab::status::{self as lab, CONFIG_VARIABLE};
use runner::GatewayRunner;
use volume::Facts;

/// Measure a cluster: issue random requests inside a gateway of its own, as P1's master does, over any number of
/// links.
///
/// The configuration names the nodes; its 'links' and 'batch' settings are replaced by the values to compare. The
/// gateway does not listen, and no other gateway may use the volume at the same time. The result has requests/s,
/// latency and TCP packet counts; inside a lab also the frames on the modelled air and the lab's lateness.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob bench cluster --config cluster.toml --links 1,2,4,8 --batch auto
  flashmob bench cluster --config cluster.toml --nodes 1,2,4,8 --links 8 --aggregate 1,10,100 --save p1.json
  flashmob bench cluster --config cluster.toml --no-io --aggregate 1,10 --time 10 --repeat 3
  flashmob bench cluster --config scratch.toml -b 4KiB --read-percent 0 --allow-writes   # DESTROYS data
  flashmob report p1.json -o report.html

Exit status: 0 done, 1 failed, 2 wrong arguments, 3 requests failed, 5 all repetitions of a point are void (the lab was
late), 130 stopped by Ctrl-C (the result so far is printed and saved).")]
pub struct ClusterArgs {
    /// Gateway configuration. Inside a lab it defaults to the lab's.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Volume to measure [default: the first in the configuration].
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Number of nodes to load: the first N of a linear volume [default: all].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: Vec<u32>,
    #[command(flatten)]
    load: LoadArgs,
    /// Measure the network alone: all nodes must run with --no-io.
    #[arg(long)]
    no_io: bool,
    /// Allow overwriting the volume's data. Not needed inside a lab.
    #[arg(long)]
    allow_writes: bool,
    /// Random seed for offsets; equal seeds give equal offsets.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    result: ResultArgs,
}

/// Measures according to the arguments.
pub fn run(args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let lab = lab::socket();
    let config_path = args.config.clone().or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from));
    let config_path = config_path.with_context(|| {
        format!("no configuration: name the gateway's with --config FILE (inside a lab {CONFIG_VARIABLE} names it)")
    })?;
    let config = volume::config(&config_path, args.volume.as_deref())?;
    let nodes = volume::nodes(&config, &args.nodes)?;
    let writes = args.load.read_percent.iter().any(|&percent| percent < 100.0);
    anyhow::ensure!(
        !writes || args.allow_writes || lab.is_some(),
        "this load would overwrite the data of volume '{}'; if that data can be lost, add --allow-writes",
        config.volumes[0].name
    );
    anyhow::ensure!(!writes || !config.volumes[0].read_only, "volume '{}' is read-only", config.volumes[0].name);
    args.result.check(None)?;
    let cancel = tell::on_signal()?;
    let asked = nodes.iter().copied().max().unwrap_or(1) as usize;
    let Some(facts) = volume::learn(&config, asked, &cancel)? else {
        log::info!("stopped before anything was measured");
        return Ok(ExitCode::from(crate::commands::tell::STATUS_INTERRUPTED));
    };
    let no_io = facts.is_no_io(asked, args.no_io)?;
    let mut sweep = Sweep::new(&args.load, &nodes, no_io, args.seed);
    facts.check(&sweep)?;
    let subject = subject(lab.as_deref(), &facts, asked, &mut sweep, no_io && !args.no_io)?;
    say_less(no_io);
    let mut runner = GatewayRunner::new(config, facts, lab);
    cluster::measure(&mut runner, &sweep, &args.result, &cancel, || Ok(subject))
}

/// The first gateway has logged the nodes that linked; those of the repetitions need not repeat it.
fn say_less(no_io: bool) {
    if log::max_level() == log::LevelFilter::Info {
        log::set_max_level(if no_io { log::LevelFilter::Error } else { log::LevelFilter::Warn });
    }
}

fn subject(
    lab: Option<&std::path::Path>,
    facts: &Facts,
    asked: usize,
    sweep: &mut Sweep,
    is_unsaid_no_io: bool,
) -> anyhow::Result<Subject> {
    let mut subject = Subject {
        setting: Setting::Network,
        air: None,
        flash: None,
        extent_bytes: facts.extent_bytes(),
        disk_ids: facts.disk_ids(asked),
        copies: None,
        weak: None,
        rebuild: None,
        warnings: Vec::new(),
    };
    if is_unsaid_no_io {
        let text = "the nodes run without I/O (--no-io), so they return no real data; add --no-io to measure the network alone";
        subject.warnings.push(Warning::new(Code::Changed, text));
    }
    let reads = sweep.points.iter().any(|point| point.read_percent > 0.0);
    let holes = facts.holes(asked).filter(|_| reads && lab.is_none());
    subject.warnings.extend(holes.map(|text| Warning::new(Code::NotAllocated, text)));
    let shared = facts.shared_disks(asked);
    subject.warnings.extend(shared.map(|text| Warning::new(Code::SharedDisk, text)));
    if let Some(socket) = lab {
        let status = lab::ask(socket, false)?;
        let extent_bytes = status.extent_bytes;
        let modelled = |flash: flashmob_results::cluster::FlashModel| -> anyhow::Result<_> {
            Ok(figures::flash_model(&Profile::named(&flash.profile)?, extent_bytes, &sweep.points)?)
        };
        subject.setting = Setting::Lab;
        subject.air = Some(status.air);
        subject.flash = status.flash.map(modelled).transpose()?;
        subject.weak = status.weak;
        subject.extent_bytes = extent_bytes;
        if let Some(order) = status.order {
            sweep.set_order(order);
        }
    } else if let count @ 1.. = facts.modelled(asked) {
        let text = format!(
            "modelled: {count} of {asked} nodes answer with the timing of a modelled flash (--model), not of their own"
        );
        subject.warnings.push(Warning::new(Code::Modelled, text));
    }
    Ok(subject)
}

#[cfg(test)]
mod tests;
