//! The answer as text: a sentence, the figures, the bottleneck, the remedies.

use std::fmt::Write;

use flashmob_core::units::Bytes;
use flashmob_results::cluster::Attachment;
use flashmob_results::plan::{Gain, Plan, Resource};
use flashmob_text::{sentence, time};

/// Spread from which a figure is reported as uncertain.
const SPREAD_MAX: f64 = 0.05;

/// The whole text.
pub fn render(plan: &Plan) -> String {
    let mut text = format!("{}\n", headline(plan));
    for (title, line) in lines(plan) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {title:<12}{line}");
    }
    text
}

fn headline(plan: &Plan) -> String {
    let p = &plan.parameters;
    let devices = match &plan.flash {
        Some(flash) => format!("with flash '{}'", flash.profile),
        None => "without I/O".to_string(),
    };
    let gateway = match plan.air.gateway {
        Attachment::Wireless => "a wireless gateway",
        Attachment::Wired => "a wired gateway",
    };
    let cells = if plan.air.cells > 1 { format!(" in {} cells", plan.air.cells) } else { String::new() };
    let nodes = if p.nodes == 1 { "1 node".to_string() } else { format!("{} nodes", p.nodes) };
    format!(
        "{nodes} {devices} over '{}'{cells}, {gateway}: {} {} of {} a second (MODELLED).",
        plan.air.profile,
        rate(plan.requests_per_second),
        what(plan),
        Bytes(p.block_bytes.into()),
    )
}

fn what(plan: &Plan) -> &'static str {
    if plan.parameters.read_percent > 0.0 { "reads" } else { "writes" }
}

fn lines(plan: &Plan) -> Vec<(&'static str, String)> {
    let p = &plan.parameters;
    let mut lines = Vec::new();
    let out = if p.outstanding == 1 { "1 request".to_string() } else { format!("{} requests", p.outstanding) };
    let (p50, p99) = (time(plan.p50_ns as f64 / 1e9), time(plan.p99_ns as f64 / 1e9));
    lines.push(("latency", format!("p50 {p50}, p99 {p99}, with {out} outstanding")));
    let frames = plan.frames_per_request;
    let per_frame = if frames > 0.0 { sentence(1.0 / frames) } else { "no".to_string() };
    let links = if p.links == 1 { "1 link".to_string() } else { format!("{} links", p.links) };
    let batch = sentence(plan.requests_per_batch);
    lines.push((
        "air",
        format!(
            "{per_frame} requests per frame; {batch} requests in a batch (batch = {}, {links} to each node)",
            p.batch
        ),
    ));
    if let (Some(fraction), Some(flash)) = (plan.flash_fraction, &plan.flash) {
        let limit = flash.limits.first().map_or(0.0, |l| l.requests_per_second);
        let sorted = if fraction > 1.0 { "; sorting raises it" } else { "" };
        let share = format!("{} % of the nodes' own flash limit", sentence(100.0 * fraction));
        lines.push(("flash", format!("{share} ({}/s each alone, unsorted{sorted})", rate(limit))));
    }
    lines.push(("busy", busy(plan)));
    lines.push(("bottleneck", bottleneck(plan)));
    let mut title = "would help";
    for remedy in &plan.remedies {
        lines.push((title, format!("{}: x{}", remedy.what, sentence(remedy.factor))));
        title = "";
    }
    if plan.remedies.is_empty() {
        lines.push((title, "no known change gains 5 % or more".to_string()));
    }
    lines.push(("how", method(plan)));
    if plan.spread > SPREAD_MAX {
        let percent = 100.0 * plan.spread;
        let why = "TCP over a saturated air has no steady rate";
        lines.push(("note", format!("intervals of the simulation differ by {percent:.0} %: {why}")));
    }
    lines
}

fn busy(plan: &Plan) -> String {
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let flash = plan.busy.flash.map(|part| format!("a node's flash {}, ", percent(part))).unwrap_or_default();
    format!("air {}, {flash}the gateway's CPU {}", percent(plan.busy.air), percent(plan.busy.gateway_processor))
}

fn bottleneck(plan: &Plan) -> String {
    let gain = |resource: Resource| plan.gains.iter().find(|g| g.resource == resource).map_or(1.0, |g| g.factor);
    let one = |resource: &Resource| format!("{} (twice as much: x{})", name(*resource), sentence(gain(*resource)));
    match plan.bottleneck.as_slice() {
        [] => "no single resource: doubling any one gains less than 8 %".to_string(),
        [only] => {
            let rest = plan.gains.iter().find(|Gain { resource, .. }| resource != only);
            let rest = rest.map_or(1.0, |g| g.factor);
            let rest = if rest < 1.02 {
                "doubling anything else: no gain".to_string()
            } else {
                format!("doubling anything else: x{} at most", sentence(rest))
            };
            format!("{}; {rest}", one(only))
        }
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(one).collect();
            format!("shared between {} and {}", first.join(", "), one(last))
        }
    }
}

fn name(resource: Resource) -> &'static str {
    match resource {
        Resource::Flash => "flash",
        Resource::Air => "air",
        Resource::GatewayProcessor => "gateway CPU",
        Resource::NodeProcessors => "the nodes' CPUs",
        Resource::Outstanding => "too few outstanding requests",
    }
}

fn method(plan: &Plan) -> String {
    match &plan.formula {
        Some(formula) => format!("rate by formula ({formula}), the rest simulated in virtual time"),
        None => "simulated in virtual time".to_string(),
    }
}

/// With only as many digits as a model justifies.
fn rate(value: f64) -> String {
    let unit = 10f64.powf(value.max(1_000.0).log10().floor() - 2.0);
    sentence(if value < 1_000.0 { value } else { (value / unit).round() * unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_the_digits_that_they_deserve() {
        let rates = [0.5, 42.0, 999.4, 1000.0, 2098.0, 109_372.7, 1_234_567.0].map(rate);
        assert_eq!(rates, ["0.5", "42", "999", "1,000", "2,100", "109,000", "1,230,000"]);
    }
}
