//! `flashmob volume measure`: how fast a node's flash is, and the way to it.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, Target, post};
use flashmob_server::status::measure::{AspectName, MeasureRequest, MeasurementReport, StepReport};
use flashmob_text::Side::{Left, Right};
use flashmob_text::{Colour, Row, Side, Table, short, time};

use super::{NodeArgs, named, node, volumes};
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// How often the gateway is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How much longer than it said it may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// Nothing is known of the measurement.
const LOST: &str = "another measurement has begun meanwhile, or the gateway was started again";
const WIDTH: usize = 120;
const SIDES: [Side; 6] = [Left, Right, Right, Right, Right, Right];

/// Measure a node of a running volume: its flash, and the way to it.
///
/// The gateway itself asks the node, for five seconds each: one request at a time first, then several. The way is measured by
/// reads that the node's page cache answers: of 1 B, and of 64 KiB. The flash is measured by reading blocks of 4 KiB from random
/// places of the extent, past the page cache; blocks of zeros are not counted, as a hole is not on the flash. Nothing is
/// changed. Clients go on, and share the node with the measurement as with one more client.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume measure 127.0.0.1:10810 pool 3
  flashmob volume measure 127.0.0.1:10810 pool 192.168.1.13:7411 --only way
  flashmob volume measure 127.0.0.1:10810 pool 3 --output json | jq '.[].steps[1].per_second'

Compare it with another node of the same kind: a node that is slow by itself has a slow flash, one whose way is slow has
bad reception or saves power. Times are from the gateway's queue to the answer, so those of the flash have the way in them.")]
pub struct MeasureArgs {
    #[command(flatten)]
    which: NodeArgs,
    /// Measure only this.
    #[arg(long, value_enum, value_name = "WHAT")]
    only: Option<What>,
    /// Output format: a table, or JSON, as `measurement` in schema/volumes-1.json.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Its flash.
    Flash,
    /// The way to it and back.
    Way,
}

pub fn run(args: &MeasureArgs) -> anyhow::Result<()> {
    let target = args.which.admin.open()?;
    let (report, _) = volumes(&target)?;
    let node = node(named(&report, &args.which.volume)?, &args.which.node)?;
    let aspects = match args.only {
        Some(What::Flash) => vec![AspectName::Flash],
        Some(What::Way) => vec![AspectName::Way],
        None => vec![AspectName::Way, AspectName::Flash],
    };
    let mut measured = Vec::new();
    for aspect in aspects {
        measured.push(measure(args, &target, node.number, aspect)?);
    }
    let mut out = io::stdout();
    if args.output == Form::Json {
        writeln!(out, "{}", serde_json::to_string(&measured)?)?;
    } else {
        writeln!(out, "node {} ({}) of volume {}", node.number, printable(&node.name), printable(&args.which.volume))?;
        lines(&measured).into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if let Some(trouble) = measured.iter().find_map(|measurement| measurement.trouble.as_deref()) {
        bail!("{}", printable(trouble));
    }
    Ok(())
}

/// Has it measured, and waits for the end.
fn measure(args: &MeasureArgs, target: &Target, node: usize, aspect: AspectName) -> anyhow::Result<MeasurementReport> {
    let request = MeasureRequest { volume: args.which.volume.clone(), node, aspect };
    let begun = Instant::now();
    post(target, "/volumes/measure", &serde_json::to_vec(&request)?, TIMEOUT)?;
    let mut line =
        ProgressLine::new(if aspect == AspectName::Flash { "measuring its flash" } else { "measuring its way" });
    loop {
        let (report, _) = volumes(target).context("the gateway does not answer any more")?;
        let volume = report.volumes.iter().position(|volume| volume.name == args.which.volume);
        let is_it = |m: &MeasurementReport| Some(m.volume) == volume && m.node == node && m.aspect == aspect;
        let measurement = report.measurement.filter(is_it).context(LOST)?;
        let Some(left) = measurement.ends_in_seconds else {
            anyhow::ensure!(measurement.begun_seconds_ago <= begun.elapsed().as_secs_f64() + 1.0, LOST);
            return Ok(measurement);
        };
        let total = measurement.begun_seconds_ago + left;
        anyhow::ensure!(begun.elapsed() <= Duration::from_secs_f64(total) + PATIENCE, "the measurement does not end");
        let millis = |seconds: f64| (seconds * 1000.0) as u64;
        line.show(&Progress {
            done: millis(measurement.begun_seconds_ago),
            total: millis(total),
            unit: Unit::Milliseconds,
        });
        std::thread::sleep(LOOK_EVERY);
    }
}

fn lines(measured: &[MeasurementReport]) -> Vec<String> {
    let mut table = Table::new(&SIDES);
    table.plain(["what", "at a time", "a second", "p50", "p99", "bytes a second"]);
    for measurement in measured {
        measurement.steps.iter().for_each(|step| table.row(row(measurement.aspect, step)));
    }
    table.lines(WIDTH, false)
}

fn row(aspect: AspectName, step: &StepReport) -> Row {
    let micros = |micros: u64| time(micros as f64 / 1e6);
    let what = if aspect == AspectName::Flash { "flash, reads of" } else { "way, reads of" };
    let rate = step.per_second * f64::from(step.request_bytes);
    [
        format!("{what} {}", Bytes(step.request_bytes.into())),
        step.outstanding.to_string(),
        short(step.per_second),
        micros(step.p50_us),
        micros(step.p99_us),
        Bytes(rate as u64).to_string(),
    ]
    .into_iter()
    .map(|text| (text, Colour::Plain))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_a_line() {
        let step = |request_bytes| StepReport {
            outstanding: 8,
            request_bytes,
            answers: 3000,
            per_second: 1000.0,
            p50_us: 1_250,
            p99_us: 12_500,
        };
        let measurement = MeasurementReport {
            volume: 0,
            node: 3,
            aspect: AspectName::Way,
            begun_seconds_ago: 5.0,
            ends_in_seconds: None,
            trouble: None,
            steps: vec![step(1), step(65_536)],
            empty_blocks: 0,
        };
        let text = lines(&[measurement]);
        assert_eq!(text.len(), 3, "{text:#?}");
        assert!(text[2].starts_with("way, reads of 64 KiB") && text[2].contains("12.5"), "{:?}", text[2]);
    }
}
