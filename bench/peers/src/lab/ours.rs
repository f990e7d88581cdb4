//! flashmob: nodes on modelled flash, and the load of `flashmob bench cluster`.

use anyhow::Context;
use flashmob_results::Document;
use flashmob_results::cluster::{Point, Repetition};

use crate::{Figures, Lab, printed};

/// One round: all modes, all sizes of reads.
pub fn measure(lab: &Lab) -> anyhow::Result<Vec<Figures>> {
    let args = lab.args;
    let mut command = lab.command();
    // The benchmark is a gateway itself.
    command.args(["--flash", "nexus7-emmc", "--no-gateway", "--", "flashmob", "--quiet", "bench", "cluster"]);
    let sizes: Vec<String> = args.block_size.iter().map(u32::to_string).collect();
    command.args(["--batch", &args.batch.join(","), "--block-size", &sizes.join(",")]);
    command.args(["--outstanding", &lab.outstanding.to_string(), "--time", &args.time.to_string()]);
    command.args(["--warmup", &args.warmup().as_secs_f64().to_string(), "--output", "json"]);
    let document: Document =
        serde_json::from_slice(&printed(&mut command)?).context("bench cluster did not print a result")?;
    let cluster = document.cluster().context("the result is not one of a cluster")?;
    Ok(cluster.points.iter().flat_map(|p| p.repetitions.iter().map(|r| figures(lab, p, r))).collect())
}

fn figures(lab: &Lab, point: &Point, repetition: &Repetition) -> Figures {
    let reads = repetition.requests.max(1) as f64;
    let latency = &repetition.latency_ns;
    let ms = |percent: f64| {
        let found = latency.percentiles.iter().find(|p| (p.percent - percent).abs() < 1e-9);
        found.map_or(f64::NAN, |p| p.ns as f64 / 1e6)
    };
    let (air, lateness) = (repetition.air.unwrap_or_default(), repetition.lateness.unwrap_or_default());
    Figures {
        case: lab.case(point.parameters.block_bytes),
        server: format!("flashmob {}", point.parameters.batch),
        reads_per_s: repetition.requests_per_second,
        p50_ms: ms(50.0),
        p99_ms: ms(99.0),
        frames_per_read: air.frames as f64 / reads,
        packets_per_read: repetition.packets.map(|p| (p.sent + p.received) as f64 / reads),
        busy_fraction: air.busy_fraction,
        late_p99_us: lateness.p99_us,
        late_fraction: lateness.late_fraction,
        is_void: repetition.is_void || repetition.errors > 0,
    }
}
