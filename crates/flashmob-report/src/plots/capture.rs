//! Captured packets: packets over time (P4's figures 11 and 12), round trips of acknowledgements over the sequence (13 and 14), bytes in flight against the
//! window. Directions with most data are drawn.

use flashmob_results::capture::Series;

use super::{Place, Section, comparable};
use crate::entry::Entry;
use crate::figure::axes::Scale;
use crate::figure::traces::{Kind, Trace, Traces};
use crate::flows::{self, CapturedWay};
use crate::plots::Figures;
use crate::words;

/// Directions drawn of each capture, and of all.
const WAYS_MAX: usize = 3;
const ALL_MAX: usize = 12;

/// One direction with its name.
struct Shown<'a> {
    name: String,
    main: CapturedWay<'a>,
}

/// One section's view of a direction.
struct View {
    y_title: &'static str,
    x_title: &'static str,
    what: &'static str,
    caption: fn(&CapturedWay) -> String,
    traces: fn(&Series) -> Vec<Trace>,
}

pub(super) fn sections(entries: &[Entry]) -> Vec<Section> {
    let shown = shown(entries);
    let packets = View {
        y_title: "packets with data",
        x_title: "time, s",
        what: "packets over time",
        caption: |m| {
            let (sent, again) = (m.way.data_packets, m.way.resent);
            format!("{} packets with data, {} of them sent again.", words::count(sent), words::count(again))
        },
        traces: |s| vec![trace("packets", 0, Kind::Line, &s.packets, 1.0)],
    };
    let round_trips = View {
        y_title: "ms to the acknowledgement",
        x_title: "bytes since the beginning",
        what: "acknowledgements' round trips",
        caption: |m| {
            let quantiles = m.way.rtt_ms.map_or(String::new(), |q| {
                format!("Median {}, 99 of 100 within {}. ", words::time_ms(q.median), words::time_ms(q.p99))
            });
            let clump = words::number(m.way.segments_per_acknowledgement);
            format!("{quantiles}An acknowledgement for every {clump} packets.")
        },
        traces: |s| vec![trace("round trip", 0, Kind::Dots, &s.rtt_ms, 1.0)],
    };
    let flight = View {
        y_title: "KiB",
        x_title: "time, s",
        what: "bytes under way against the window",
        caption: |m| {
            let of = |q: Option<flashmob_results::capture::Quantiles>| {
                q.map_or("not known".to_string(), |q| words::bytes(q.max as u64))
            };
            format!("Most under way: {}; largest window: {}.", of(m.way.flight_bytes), of(m.way.window_bytes))
        },
        traces: |s| {
            vec![
                trace("under way", 0, Kind::Line, &s.flight_bytes, 1024.0),
                trace("window offered", 1, Kind::Line, &s.window_bytes, 1024.0),
            ]
        },
    };
    let section = |place, heading, words, figures| Section { place, heading, words, figures, command: "" };
    vec![
        section(
            Place::paper(4, 11),
            "Packets over time",
            "P4, figures 11 and 12: the steeper, the more packets arrive; steps are pauses.",
            drawn(&shown, &packets),
        ),
        section(
            Place::paper(4, 13),
            "Round trips of acknowledgements",
            "P4, figures 13 and 14: from data to its acknowledgement, over the sequence of bytes.",
            drawn(&shown, &round_trips),
        ),
        section(
            Place::BEYOND,
            "Under way against the window",
            "Where what is under way touches the window, the receiver holds the sender back.",
            drawn(&shown, &flight),
        ),
    ]
}

fn shown(entries: &[Entry]) -> Vec<Shown<'_>> {
    let mut all = Vec::new();
    for entry in entries {
        let Some(capture) = entry.capture() else { continue };
        let ways = flows::ways(capture);
        let several = ways.len() > 1;
        for main in ways.into_iter().take(WAYS_MAX) {
            let (from, to) = main.ends();
            let ends = format!(" · {} → {}", words::plain(from, 50), words::plain(to, 50));
            let cause = main.way.verdict.as_ref().map_or(String::new(), |v| format!(" · {}", flows::cause(v.cause)));
            all.push(Shown { name: format!("{}{}{cause}", entry.name, if several { &ends } else { "" }), main });
        }
    }
    all.truncate(ALL_MAX);
    all
}

/// A trace of the finite, non-negative points.
fn trace(name: &str, look: usize, kind: Kind, points: &[(f64, f64)], unit: f64) -> Trace {
    let sound = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite() && *x >= 0.0 && *y >= 0.0);
    Trace { name: name.into(), look, kind, points: sound.map(|(x, y)| (*x, y / unit)).collect() }
}

fn drawn(shown: &[Shown], view: &View) -> Figures {
    let all: Vec<(&Shown, Vec<Trace>)> = (shown.iter())
        .map(|s| (s, (view.traces)(&s.main.way.series)))
        .filter(|(_, traces)| traces.first().is_some_and(|trace| trace.points.len() > 1))
        .collect();
    let most = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let points = |traces: &Vec<Trace>| traces.iter().flat_map(|t| &t.points).map(of).fold(0.0, f64::max);
        all.iter().map(|(_, traces)| points(traces)).collect()
    };
    let (widest, highest) = (most(|p| p.0), most(|p| p.1));
    let note = if comparable(&widest) && comparable(&highest) { "" } else { " The scales of these figures differ." };
    let (across, up) = (scales(&widest), scales(&highest));
    let mut figures = Figures::new();
    for (((shown, mut traces), across), scale) in all.into_iter().zip(across).zip(up) {
        if traces.len() == 1 {
            // The heading says what it is.
            traces[0].name.clear();
        }
        let last = traces.first().and_then(|t| t.points.last()).map_or(0.0, |p| p.1);
        let figure = Traces {
            title: format!("{}: {}", shown.name, view.what),
            description: format!("{} over {}; the last value is {}.", view.y_title, view.x_title, words::number(last)),
            caption: format!("{}{note}{}", (view.caption)(&shown.main), doubt(&shown.main)),
            y_title: view.y_title.into(),
            x_title: view.x_title.into(),
            across,
            scale,
            traces,
        };
        figures.push((shown.name.clone(), Box::new(move |nth| figure.draw(nth))));
    }
    figures
}

/// Follows the caption of a figure of which values are doubtful.
fn doubt(main: &CapturedWay) -> &'static str {
    if main.way.is_doubtful("series") { " ⚠: doubtful, see the table of connections." } else { "" }
}

/// One scale for all figures if they are comparable, so that slopes are comparable as well.
fn scales(highest: &[f64]) -> Vec<Scale> {
    let top = highest.iter().copied().fold(0.0, f64::max);
    let own = highest.iter().map(|max| Scale::linear(if comparable(highest) { top } else { *max }));
    own.collect()
}
