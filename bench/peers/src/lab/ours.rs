//! flashmob: nodes on modelled flash, and the load of `flashmob bench cluster`.

use anyhow::Context;
use flashmob_peers::limit;
use flashmob_results::Document;
use flashmob_results::cluster::Repetition;

use crate::{Figures, Lab, printed};

/// One round, with nodes started with `nodes`, in one mode.
pub fn measure(lab: &Lab, name: &str, nodes: &[&str], batch: &str) -> anyhow::Result<Figures> {
    let (args, load) = (lab.args, lab.case.load);
    let mut command = lab.command();
    // The benchmark is a gateway itself.
    command.args(["--flash", limit::FLASH, "--no-gateway"]).args(nodes);
    command.args(["--", "flashmob", "--quiet", "bench", "cluster"]);
    command.args(["--batch", batch, "--block-size", &load.block_bytes.to_string()]);
    command.args(["--read-percent", if load.is_read { "100" } else { "0" }]);
    command.args(["--outstanding", &args.outstanding(lab.case).to_string(), "--time", &args.time.to_string()]);
    command.args(["--warmup", &args.warmup().as_secs_f64().to_string(), "--output", "json"]);
    let document: Document =
        serde_json::from_slice(&printed(&mut command)?).context("bench cluster did not print a result")?;
    let cluster = document.cluster().context("the result is not one of a cluster")?;
    let point = cluster.points.first().context("the result has no point")?;
    let repetition = point.repetitions.first().context("the result has no repetition")?;
    Ok(figures(lab, name, repetition))
}

fn figures(lab: &Lab, name: &str, repetition: &Repetition) -> Figures {
    let requests = repetition.requests.max(1) as f64;
    let latency = &repetition.latency_ns;
    let ms = |percent: f64| {
        let found = latency.percentiles.iter().find(|p| (p.percent - percent).abs() < 1e-9);
        found.map_or(f64::NAN, |p| p.ns as f64 / 1e6)
    };
    let (air, lateness) = (repetition.air.unwrap_or_default(), repetition.lateness.unwrap_or_default());
    Figures {
        case: lab.case.clone(),
        outstanding: lab.args.outstanding(lab.case),
        server: name.to_string(),
        requests_per_s: repetition.requests_per_second,
        p50_ms: ms(50.0),
        p99_ms: ms(99.0),
        frames_per_request: air.frames as f64 / requests,
        packets_per_request: repetition.packets.map(|p| (p.sent + p.received) as f64 / requests),
        busy_fraction: air.busy_fraction,
        late_p99_us: lateness.p99_us,
        late_fraction: lateness.late_fraction,
        is_void: repetition.is_void || repetition.errors > 0,
    }
}
