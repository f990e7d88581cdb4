//! Where figures for a document come from: for each result what was real, when and by which command, what is void, and what is doubtful.

use std::collections::BTreeSet;

use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Measurement, cluster, net};

use crate::entry::{Entry, doubts};
use crate::page::{cluster_setting, net_setting};
use crate::{sweep, ways, words};

/// Names of points in one sentence.
const NAMED_MAX: usize = 8;

/// A sentence or two for each result, with commands between backticks.
pub(crate) fn sources(entries: &[Entry]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.name.clone(), source(entry))).collect()
}

fn source(entry: &Entry) -> String {
    let document = &entry.document;
    let command = document
        .command
        .as_deref()
        .map_or(String::new(), |command| format!(", by `{}`", words::plain(command, 200).replace('`', "'")));
    let mut text = format!("{}; {}{command}.", what(entry), words::date(document.started_unix_s));
    if document.interrupted {
        text.push_str(" Interrupted before its end.");
    }
    text.push_str(&void(entry));
    text.push_str(&doubtful(entry));
    text
}

/// What was real, and on which machine.
fn what(entry: &Entry) -> String {
    let device = &entry.document.device;
    let cpu = device.model.as_ref().or(device.cpu.as_ref()).or(device.architecture.as_ref());
    let machine = cpu.map_or("an unknown machine".into(), |name| words::plain(name, 60));
    let processors = words::plural(u64::from(device.cpus), "processor");
    let of = |text: &Option<String>| text.as_ref().map(|text| words::plain(text, 40));
    match &entry.document.measurement {
        Measurement::Disk(_) => match entry.model() {
            Some(model) => format!("a model, {}, answered in the place of a device", words::plain(&model.profile, 40)),
            None => format!("measured on {machine}, {processors}"),
        },
        Measurement::Cluster(cluster) => format!("real were {}", cluster_setting(cluster.setting)),
        Measurement::Net(net) => format!("real were {}, on {machine}, {processors}", net_setting(net.setting)),
        Measurement::Capture(_) if entry.document.is_modelled() => {
            format!("packets captured in the lab: TCP was real, on {machine}, {processors}; the path was modelled")
        }
        Measurement::Capture(_) => format!("packets captured on {machine}, {processors}"),
        Measurement::Trace(trace) => {
            let system = trace.runs.first().map(|run| &run.system);
            let place: Vec<String> = system
                .and_then(|s| of(&s.filesystem))
                .into_iter()
                .chain(system.and_then(|s| of(&s.driver)).map(|driver| format!("driver {driver}")))
                .collect();
            let place = if place.is_empty() { String::new() } else { format!(", {}", place.join(" over the ")) };
            format!("traced on {machine}, {processors}{place}: all was real")
        }
    }
}

/// How many repetitions are void, and which points are missing for that reason.
fn void(entry: &Entry) -> String {
    let of_cluster = entry.cluster().into_iter().flat_map(|cluster: &cluster::Cluster| &cluster.points);
    let of_cluster =
        of_cluster.map(|p| (words::combination(&p.parameters), p.repetitions.len(), sweep::valid(p).count()));
    let of_net = entry.net().into_iter().flat_map(|net: &net::Net| &net.points);
    let of_net = of_net.map(|p| (words::crossing(&p.parameters), p.repetitions.len(), ways::valid(p).count()));
    let points: Vec<(String, usize, usize)> = of_cluster.chain(of_net).collect();
    let (all, valid) = points.iter().fold((0, 0), |(all, valid), point| (all + point.1, valid + point.2));
    if all == valid {
        return String::new();
    }
    let gone: Vec<&str> =
        points.iter().filter(|point| point.1 > 0 && point.2 == 0).map(|point| point.0.as_str()).collect();
    let void = words::count((all - valid) as u64);
    let mut text = format!(
        " **{void} of {} are void** and left out: the lab was late, or they were stopped.",
        words::plural(all as u64, "repetition")
    );
    if !gone.is_empty() {
        let named: Vec<String> = gone.iter().take(NAMED_MAX).map(|name| words::plain(name, 160)).collect();
        let more = gone.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        text.push_str(&format!(
            " So {} of {} are missing in the figures: {}{more}.",
            gone.len(),
            words::plural(points.len() as u64, "point"),
            named.join("; ")
        ));
    }
    text
}

/// What makes points or the whole result doubtful: hollow marks and ⚠ in the figures.
fn doubtful(entry: &Entry) -> String {
    let of_points = entry.point_warnings();
    let mut parts: Vec<String> = Vec::new();
    let own: Vec<Code> = doubts(&entry.document.warnings).collect();
    // Without I/O is a choice.
    let own = entry.document.warnings.iter().filter(|w| own.contains(&w.code) && w.code != Code::Changed);
    parts.extend(own.map(|warning| words::plain(&warning.message, 300)));
    let codes: BTreeSet<String> = of_points.iter().map(|(_, warning)| code(warning)).collect();
    for name in codes {
        let alike: Vec<&&Warning> = of_points.iter().map(|(_, w)| w).filter(|w| code(w) == name).collect();
        let Some(first) = alike.first().filter(|w| doubts(std::slice::from_ref(**w)).next().is_some()) else {
            continue;
        };
        let points = words::plural(alike.len() as u64, "point");
        parts.push(format!("{points}, such as: {}", words::plain(&first.message, 300)));
    }
    if parts.is_empty() { String::new() } else { format!(" Warnings (⚠ or hollow): {}.", parts.join("; ")) }
}

fn code(warning: &Warning) -> String {
    words::snake(&format!("{:?}", warning.code))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_trace_says_its_machine_command_and_date() {
        let report = crate::tests::builder::report(vec![crate::tests::trace_page::sample()]);
        let sources = report.sources();
        let (_, text) = &sources[0];
        assert!(text.starts_with("traced on ") && text.contains(" UTC"), "{text}");
        assert!(!text.contains("void") && !text.contains("Warnings"), "{text}");
    }
}
