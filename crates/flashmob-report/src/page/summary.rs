//! The summary of all results in words.

use std::collections::BTreeSet;

use flashmob_results::cluster::{self, Attachment, Batch, Cluster, Setting};
use flashmob_results::disk::Point;
use flashmob_results::warning::Warning;
use flashmob_results::{Document, Measurement};
use maud::{Markup, html};

use super::claims::overall;
use super::{captures, networks, tags, traces};
use crate::claims::{Claim, Finding};
use crate::entry::{self, Entry, Medium};
use crate::sweep;
use crate::words::{self, capital, percent};

/// Kinds of requests in the summary of a result.
const KINDS_MAX: usize = 4;
/// More results than this follow the verdicts in a line each, so that these stay on the first screen.
const WHOLE_MAX: usize = 3;

/// Title of the page.
pub fn title(entries: &[Entry]) -> String {
    let what = match entries {
        all if all.iter().all(|e| e.cluster().is_some()) => "Clusters",
        all if all.iter().all(Entry::is_network) => "Networks",
        all if all.iter().all(|e| e.trace().is_some()) => "Traces",
        some if some.iter().any(Entry::is_network) => "Storage and networks",
        _ => "Storage",
    };
    let measured = if what == "Traces" { "" } else { " measured" };
    match entries {
        [] => "No results".into(),
        few if few.len() <= 3 => {
            let names: Vec<String> = few.iter().map(|e| e.name.clone()).collect();
            format!("{what}{measured}: {}", words::list(&names))
        }
        many => format!("{what}{measured}: {} results", many.len()),
    }
}

pub fn section(entries: &[Entry], claims: &[Claim]) -> Markup {
    let modelled: Vec<String> = entries.iter().filter(|e| e.document.is_modelled()).map(|e| e.name.clone()).collect();
    let emulated: Vec<String> = entries.iter().filter(|e| e.document.is_emulated()).map(|e| e.name.clone()).collect();
    let judged = claims.iter().filter(|claim| claim.is_judged()).count();
    html! {
        @if entries.is_empty() { p.lead { "There are no results here." } }
        @if entries.len() <= WHOLE_MAX {
            @for entry in entries {
                div.lead { p { strong { (entry.name) } ": " (found(entry)) "." } p.muted { (paragraph(entry)) } }
            }
        }
        @if !modelled.is_empty() {
            div.note {
                p { strong { "Modelled: " } (words::list(&modelled)) ". " (what_was_modelled(entries)) ": these figures say how the program and the models behave, and nothing about real hardware." }
                @let real = on_real_hardware(entries);
                @if !real.is_empty() { p { "On real hardware: " (super::with_code(&real)) "; each claim names its own command." } }
            }
        }
        @let wired: Vec<String> = entries.iter().filter(|e| is_wired(e)).map(|e| e.name.clone()).collect();
        @if !wired.is_empty() {
            div.note { p { strong { "Departs from P1: " } (words::list(&wired)) ". The gateway was wired, so each frame crossed the air once; P1's master was a tablet on the same Wi-Fi, and each frame crossed it twice." } }
        }
        @if !emulated.is_empty() {
            div.note.emulated {
                p { strong { "Emulated: " } (words::list(&emulated)) ". " (emulators(entries)) ": counts hold, times do not. Rates, latencies and every claim that rests on them say nothing about a real processor." }
            }
        }
        @if !entries.is_empty() {
            @if !claims.is_empty() { p {
                (judged) " of " (claims.len()) " claims of " (papers(claims)) " could be judged" (if judged < claims.len() { "; the others say what would measure them." } else { "." })
                @let warnings = entries.iter().map(warnings).sum::<usize>();
                @if warnings > 0 { " There " (if warnings == 1 { "is" } else { "are" }) " " a href="#warnings" { (words::plural(warnings as u64, "warning")) } "; what they concern is marked ⚠." }
            } }
            ul.tally {
                @for claim in claims {
                    li { a href=(format!("#{}", claim.id)) { b { (claim.id) } span.short { (claim.short) } (badge(entries, claim)) } }
                }
            }
            @if entries.len() > WHOLE_MAX {
                ul.leads { @for entry in entries { li { strong { (entry.name) } (tags(entry)) ": " (found(entry)) "." } } }
            }
        }
    }
}

/// The papers that the claims are from.
fn papers(claims: &[Claim]) -> String {
    let names: BTreeSet<&str> = claims.iter().filter_map(|c| c.source.split(',').next()).collect();
    let names: Vec<String> = names.into_iter().map(str::to_string).collect();
    format!("the {} {}", if names.len() == 1 { "paper" } else { "papers" }, words::list(&names))
}

/// The emulators and the emulated processors.
fn emulators(entries: &[Entry]) -> String {
    let emulated = entries.iter().filter(|e| e.document.is_emulated()).map(|e| &e.document.device);
    let parts: BTreeSet<String> = emulated
        .map(|device| {
            let architecture = device.architecture.as_deref().unwrap_or("an unknown processor");
            let emulator = device.emulated.as_deref().unwrap_or("a program");
            format!("the processor ({}) was imitated by {}", words::plain(architecture, 40), words::plain(emulator, 60))
        })
        .collect();
    capital(&words::list(&parts.into_iter().collect::<Vec<_>>()))
}

/// The modelled parts in words.
fn what_was_modelled(entries: &[Entry]) -> String {
    let modelled: Vec<&Entry> = entries.iter().filter(|e| e.document.is_modelled()).collect();
    let has = |setting: Setting| modelled.iter().filter_map(|e| e.cluster()).any(|c| c.setting == setting);
    let parts = [
        (
            modelled.iter().any(|e| e.net().is_some()),
            "networks in the lab are real programs and TCP over a modelled path",
        ),
        (modelled.iter().any(|e| e.capture().is_some()), "captured packets crossed a modelled path"),
        (entries.iter().any(|e| e.model().is_some()), "a model answered in the place of a device"),
        (
            has(Setting::Simulator),
            "simulated clusters are gateway and nodes as state machines in virtual time, all else modelled",
        ),
        (has(Setting::Lab), "clusters in the lab are real processes over modelled air and flash"),
        (has(Setting::Network), "nodes on a real network answered as slowly as a modelled flash"),
    ];
    let parts: Vec<String> = parts.iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_string()).collect();
    capital(&words::list(&parts))
}

/// The commands that measure real devices in place of the models, between backticks.
fn on_real_hardware(entries: &[Entry]) -> String {
    let any = |is: fn(&Entry) -> bool| entries.iter().any(|e| e.document.is_modelled() && is(e));
    let parts = [
        (any(|e| e.cluster().is_some()), "`flashmob bench cluster --config FILE` measures a cluster of tablets"),
        (any(Entry::is_device), "`flashmob push reproduce` measures a phone's or tablet's flash over adb"),
        (
            any(Entry::is_network),
            "`flashmob push reproduce --papers p4` measures a phone's TCP and UDP over its Wi-Fi, without delay, loss or buffers to choose",
        ),
    ];
    words::list(&parts.iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_string()).collect::<Vec<_>>())
}

/// A cluster over a modelled air whose gateway has a cable, unlike P1's.
fn is_wired(entry: &Entry) -> bool {
    let air = entry.cluster().and_then(|cluster| cluster.air.as_ref());
    air.is_some_and(|air| air.gateway == Attachment::Wired)
}

fn badge(entries: &[Entry], claim: &Claim) -> Markup {
    // A verdict that depends on models is marked beside it.
    let rests_on = |is: fn(&Document) -> bool| {
        let any = |finding: &Finding| finding.entries.iter().filter_map(|at| entries.get(*at)).any(|e| is(&e.document));
        !claim.findings.is_empty() && claim.findings.iter().all(any)
    };
    let (class, text) = overall(claim);
    let doubtful = claim.findings.iter().any(|f| !f.doubts.is_empty());
    html! { span class=(format!("verdict {class}")) { (text) @if rests_on(Document::is_modelled) { " (modelled)" } @if rests_on(Document::is_emulated) { " (emulated)" } @if doubtful { " ⚠" } } }
}

/// Warnings of the document and of its points.
fn warnings(entry: &Entry) -> usize {
    entry.document.warnings.len() + entry.point_warnings().len()
}

/// The main finding.
fn found(entry: &Entry) -> String {
    match &entry.document.measurement {
        Measurement::Disk(_) => found_of_device(entry),
        Measurement::Cluster(cluster) => found_of_cluster(cluster),
        Measurement::Net(net) => networks::found(net),
        Measurement::Capture(capture) => captures::found(capture),
        Measurement::Trace(trace) => traces::found(trace),
    }
}

fn found_of_device(entry: &Entry) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(point) = entry.one_thread() {
        let times =
            words::p50_and_p99(&point.summary.latency_ns).map_or_else(String::new, |times| format!(" ({times})"));
        let rate = words::number(rate(point));
        parts.push(format!("{rate}{} random 4 KiB reads/s with 1 thread{times}", doubt_words(&point.warnings)));
    }
    let mut best: Vec<&Point> = Vec::new();
    let kind = |p: &Point| (p.parameters.operation, p.parameters.pattern, p.parameters.cache, p.parameters.engine);
    for point in entry.points().iter().filter(|p| entry::has_rate(p)) {
        match best.iter_mut().find(|b| kind(b) == kind(point)) {
            Some(known) if rate(known) < rate(point) => *known = point,
            Some(_) => {}
            None => best.push(point),
        }
    }
    best.retain(|point| entry.one_thread().is_none_or(|one| !std::ptr::eq(one, *point)));
    let left_out = best.len().saturating_sub(KINDS_MAX);
    parts.extend(best.iter().take(KINDS_MAX).map(|point| {
        let what = words::plain(&words::parameters(&point.parameters), 120);
        format!("up to {}/s{} ({what})", words::number(rate(point)), doubt_words(&point.warnings))
    }));
    if left_out > 0 {
        parts.push(format!("and {left_out} more kinds of requests"));
    }
    if parts.is_empty() { "nothing was answered".into() } else { parts.join("; ") }
}

/// For each kind of load: the maximum of all, and the maximum without aggregation.
fn found_of_cluster(cluster: &Cluster) -> String {
    let mut parts: Vec<String> = Vec::new();
    for sweep in sweep::sweeps(cluster).iter().take(KINDS_MAX) {
        let words = |p: &cluster::Point| {
            let share = p.summary.flash_fraction.map(|s| format!(", {} of what their flash does", percent(s.median)));
            let (n, m) = (u64::from(p.parameters.nodes), u64::from(p.parameters.links));
            let rate = words::number(sweep::rate(p));
            let (nodes, links) = (words::plural(n, "node"), words::plural(m, "link"));
            format!(
                "{rate}/s{} ({nodes}, {links}, {}{})",
                doubt_words(&p.warnings),
                words::batch(p.parameters.batch),
                share.unwrap_or_default()
            )
        };
        let Some(best) = sweep::fastest(sweep.points.iter().copied()) else { continue };
        let alone = Batch::Fixed(1);
        let single = sweep::fastest(sweep.points.iter().copied().filter(|p| p.parameters.batch == alone));
        let single = single.filter(|p| p.parameters.batch != best.parameters.batch);
        let beside = single.map_or_else(String::new, |p| format!(", without aggregation {}", words(p)));
        parts.push(format!("{}: up to {}{beside}", sweep.words(), words(best)));
    }
    if parts.is_empty() { "nothing was answered".into() } else { parts.join("; ") }
}

/// Follows a figure that is doubtful: no headline shows one bare.
pub fn doubt_words(warnings: &[Warning]) -> &'static str {
    if entry::is_doubtful(warnings) { " ⚠ (doubtful)" } else { "" }
}

fn rate(point: &Point) -> f64 {
    point.summary.requests_per_second.median
}

/// The measurement in a sentence.
fn paragraph(entry: &Entry) -> Markup {
    match &entry.document.measurement {
        Measurement::Disk(_) => paragraph_of_device(entry),
        Measurement::Cluster(cluster) => paragraph_of_cluster(entry, cluster),
        Measurement::Net(net) => networks::paragraph(entry, net),
        Measurement::Capture(capture) => captures::paragraph(entry, capture),
        Measurement::Trace(trace) => traces::paragraph(entry, trace),
    }
}

fn paragraph_of_device(entry: &Entry) -> Markup {
    let document = &entry.document;
    let points = entry.points();
    let repetitions: u64 = points.iter().map(|p| p.repetitions.len() as u64).sum();
    let patterns: BTreeSet<String> =
        points.iter().map(|p| format!("{} {}s", p.parameters.pattern, p.parameters.operation)).collect();
    html! {
        @if points.is_empty() { "Nothing was measured" } @else {
            (capital(&words::list(&patterns.into_iter().collect::<Vec<_>>()))) " at " (words::plural(points.len() as u64, "point"))
            ", " (words::plural(repetitions, "repetition")) " in all,"
        }
        " on " (medium(entry)) ", " (words::date(document.started_unix_s))
        @if let Some(preset) = &document.preset { ", preset " (words::plain(preset, 40)) }
        @if document.scale < 1.0 { ", " strong { "shortened to " (words::number(document.scale * 100.0)) " % of the preset" } }
        @if document.interrupted { ", " strong { "interrupted before its end" } }
        "."
    }
}

fn paragraph_of_cluster(entry: &Entry, cluster: &Cluster) -> Markup {
    let document = &entry.document;
    let repetitions = cluster.points.iter().map(|p| p.repetitions.len() as u64).sum();
    let void = cluster.points.iter().flat_map(|p| &p.repetitions).filter(|r| r.is_void).count() as u64;
    html! {
        (words::plural(cluster.points.len() as u64, "point")) ", " (words::plural(repetitions, "repetition")) " in all"
        @if void > 0 { ", " strong { (words::count(void)) " of them void and not counted" } }
        "; real were " (super::clusters::setting(cluster.setting))
        @if let Some(air) = &cluster.air { "; air " (words::plain(&air.profile, 60)) }
        @if let Some(flash) = &cluster.flash { "; flash " (words::plain(&flash.profile, 60)) }
        "; " (words::date(document.started_unix_s))
        @if let Some(preset) = &document.preset { ", preset " (words::plain(preset, 40)) }
        @if document.interrupted { ", " strong { "interrupted before its end" } }
        "."
    }
}

/// The medium in words.
fn medium(entry: &Entry) -> String {
    if let Some(model) = entry.model() {
        return format!(
            "a model ({}: {})",
            words::plain(&model.profile, 40),
            words::plain(model.description.trim_end_matches('.'), 160)
        );
    }
    let place = entry.file().map(|file| &file.place);
    let kind = match entry.medium() {
        Medium::Flash => "a non-rotating disk",
        Medium::Rotational => "a rotating disk",
        Medium::Unknown if entry.is_virtual() => "a virtual disk",
        Medium::Unknown => "a disk of unknown kind",
    };
    let of = |text: Option<&String>| text.map(|t| words::plain(t, 60));
    let parts: Vec<String> = [
        place.and_then(|p| of(p.disk_model.as_ref().or(p.disk.as_ref()))),
        place.and_then(|p| of(p.filesystem.as_ref())),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { kind.into() } else { format!("{kind} ({})", parts.join(", ")) }
}
