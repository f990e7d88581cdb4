//! How to repeat each measurement.

use std::collections::BTreeSet;

use flashmob_results::cluster::{self, Cluster};
use flashmob_results::disk::{Operation, Parameters};
use maud::{Markup, html};

use crate::entry::Entry;
use crate::{sweep, words};

/// Longest command line that is shown.
const COMMAND_CHARACTERS_MAX: usize = 4_000;

pub fn section(entries: &[Entry]) -> Markup {
    html! {
        @for entry in entries {
            h3 { (entry.name) }
            @match &entry.document.command {
                Some(line) => pre tabindex="0" aria-label="Command that measures it again" { code { (words::plain(line, COMMAND_CHARACTERS_MAX)) } },
                None => p.muted { "The command line was not recorded: an older version of flashmob measured this." },
            }
            @for remark in remarks(entry) { p.muted { (remark) } }
            dl { @for (name, value) in facts(entry) { dt { (name) } dd { (words::plain(&value, 400)) } } }
        }
        @if !entries.is_empty() {
            p.muted { "Each command measures its result again, on the same device and in the same folder: with the same version and seed the same offsets are asked for, and the same packets are lost in a modelled path. Add --save FILE to keep what it finds. The result files hold every repetition with its whole histogram." }
        }
    }
}

/// Conditions beside the command.
fn remarks(entry: &Entry) -> Vec<&'static str> {
    let any = |of: fn(&Parameters) -> bool| entry.points().iter().any(|p| of(&p.parameters));
    let foreign = entry.file().is_some_and(|file| !file.made_by_benchmark);
    let mut remarks = Vec::new();
    if entry.document.interrupted {
        remarks.push("It was interrupted: the command measures the missing points and repetitions as well.");
    }
    if entry.file().is_some() && any(|p| p.scheduler.is_some()) {
        remarks.push("Setting a scheduler needs root.");
    }
    if entry.net().is_some_and(|net| net.setting == cluster::Setting::Network) {
        remarks.push("At the other end 'flashmob bench net --server --bind 0.0.0.0' or 'iperf3 -s' must be running.");
    }
    if foreign && any(|p| p.operation == Operation::Write) {
        remarks.push("The command overwrites a file that the benchmark did not make.");
    }
    remarks
}

fn facts(entry: &Entry) -> Vec<(&'static str, String)> {
    let document = &entry.document;
    // Captures and traces have neither presets nor seeds.
    let is_watched = entry.capture().is_some() || entry.trace().is_some();
    let mut facts = vec![
        ("Result", entry.file.clone()),
        ("Version", format!("flashmob {}", document.program_version)),
        ("Begun", format!("{}, took {} s", words::date(document.started_unix_s), words::number(document.elapsed_s))),
        ("Preset", if is_watched { String::new() } else { preset(entry) }),
        ("Seed", if is_watched { String::new() } else { document.seed.to_string() }),
    ];
    if let Some(file) = entry.file() {
        let made = if file.made_by_benchmark { "made by the benchmark" } else { "found there" };
        facts.push((
            "File",
            format!(
                "{}, {} ({} bytes), {made}",
                file.path,
                words::bytes(file.size_bytes),
                words::count(file.size_bytes)
            ),
        ));
        let place = &file.place;
        let parts = [
            place.filesystem.clone(),
            place.mount_options.clone(),
            place.disk.as_ref().map(|d| format!("disk {d}")),
            place.scheduler.as_ref().map(|s| format!("scheduler {s}")),
            (!place.schedulers.is_empty()).then(|| format!("of {}", words::list(&place.schedulers))),
        ];
        facts.push(("Place", parts.into_iter().flatten().collect::<Vec<_>>().join(", ")));
    }
    if let Some(model) = entry.model() {
        facts.push((
            "Model",
            format!(
                "{}: {} {} at once, {}",
                model.profile,
                model.description,
                words::plural(u64::from(model.slots), "request"),
                words::bytes(model.size_bytes)
            ),
        ));
    }
    if let Some(cluster) = entry.cluster() {
        facts.push(("Extent", format!("{} on each node", words::bytes(cluster.extent_bytes))));
        facts
            .push(("Air", cluster.air.as_ref().map_or(String::new(), |a| format!("{}: {}", a.profile, a.description))));
        facts.push((
            "Flash",
            cluster.flash.as_ref().map_or(String::new(), |f| format!("{}: {}", f.profile, f.description)),
        ));
        facts.push(("Parameters", combinations(cluster)));
    }
    if let Some(net) = entry.net() {
        facts.push(("Server", net.server.clone()));
        facts.push(("Parameters", super::networks::parameters(net)));
    }
    if let Some(capture) = entry.capture() {
        facts.push(("Packets", format!("{}, {}", capture.source, capture.form)));
        let begun = capture.begun_unix_s;
        let known = begun.is_finite() && begun > 0.0;
        facts.push(("Captured", if known { words::date(begun as u64) } else { String::new() }));
    }
    facts.push(("Parameters", parameters(entry)));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

fn preset(entry: &Entry) -> String {
    let name = entry.document.preset.clone().unwrap_or_else(|| "none: parameters were chosen one by one".into());
    if entry.document.scale < 1.0 {
        format!("{name}, shortened to {} of its size and its reads or time", words::number(entry.document.scale))
    } else {
        name
    }
}

/// Every value that each parameter took, over all points of a cluster.
fn combinations(cluster: &Cluster) -> String {
    let all = || cluster.points.iter().map(|p| &p.parameters);
    let numbers = |of: fn(&cluster::Parameters) -> u32| {
        let values: BTreeSet<u32> = all().map(of).collect();
        values.into_iter().map(|v| words::count(u64::from(v))).collect::<Vec<_>>().join(", ")
    };
    let batches: BTreeSet<(u32, String)> = all().map(|p| (sweep::order(p.batch), p.batch.to_string())).collect();
    let batches: Vec<String> = batches.into_iter().map(|(_, name)| name).collect();
    let repetitions: BTreeSet<usize> = cluster.points.iter().map(|p| p.repetitions.len()).collect();
    let seconds = cluster.points.iter().flat_map(|p| &p.repetitions).map(|r| r.elapsed_s);
    let (least, most) = seconds.fold((f64::INFINITY, 0.0_f64), |(min, max), s| (min.min(s), max.max(s)));
    if cluster.points.is_empty() {
        return String::new();
    }
    format!(
        "nodes {}; links {}; k {}; bytes {}; outstanding {}; repetitions {} of {} to {} s",
        numbers(|p| p.nodes),
        numbers(|p| p.links),
        batches.join(", "),
        numbers(|p| p.block_bytes),
        numbers(|p| p.outstanding),
        repetitions.into_iter().map(|r| r.to_string()).collect::<Vec<_>>().join(", "),
        words::number(least),
        words::number(most),
    )
}

/// Every value that each parameter took, over all points.
fn parameters(entry: &Entry) -> String {
    let all = || entry.points().iter().map(|p| &p.parameters);
    let joined = |name: &str, values: BTreeSet<String>| {
        (!values.is_empty()).then(|| format!("{name} {}", values.into_iter().collect::<Vec<_>>().join(", ")))
    };
    let ordered =
        |values: BTreeSet<u64>, text: fn(u64) -> String| values.into_iter().map(text).collect::<Vec<_>>().join(", ");
    if all().next().is_none() {
        return String::new();
    }
    let repetitions: BTreeSet<u64> = entry.points().iter().map(|p| p.repetitions.len() as u64).collect();
    let parts = [
        joined("patterns", all().map(|p| format!("{} {}", p.operation, p.pattern)).collect()),
        Some(format!("block sizes {}", ordered(all().map(|p| p.block_bytes).collect(), words::bytes))),
        Some(format!("threads {}", ordered(all().map(|p| u64::from(p.threads)).collect(), words::count))),
        Some(format!("depth {}", ordered(all().map(|p| u64::from(p.depth)).collect(), words::count))),
        joined("engine", all().map(|p| p.engine.to_string()).collect()),
        joined("page cache", all().map(|p| p.cache.to_string()).collect()),
        joined("sync", all().filter_map(|p| p.sync).map(|s| s.to_string()).collect()),
        joined("scheduler", all().filter_map(|p| p.scheduler.clone()).collect()),
        Some(format!("range {}", ordered(all().map(|p| p.range_bytes).collect(), words::bytes))),
        joined("requests of a repetition", all().filter_map(|p| p.requests).map(words::count).collect()),
        joined("seconds of a repetition", all().filter_map(|p| p.time_s).map(words::number).collect()),
        Some(format!("repetitions {}", ordered(repetitions, words::count))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
