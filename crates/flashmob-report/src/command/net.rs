//! The command line that measures a network again, or looks at captured packets again.

use flashmob_results::capture::Capture;
use flashmob_results::cluster::Setting;
use flashmob_results::net::{Direction, Net, Parameters, Point, Protocol, Repetition};

use super::{quoted, size};
use crate::entry::Entry;

/// What one run measures: all combinations of its lists, and no others.
#[derive(Clone, Debug)]
struct Part {
    /// What a run has one value of; path and congestion control are made equal here.
    common: Parameters,
    path_rate: Option<u64>,
    congestions: Vec<Option<String>>,
    losses: Vec<f64>,
    /// Of modelled paths.
    rtts: Vec<f64>,
    repeat: usize,
    time_s: f64,
    /// Whole seconds that were left out at the begin.
    omit_s: u32,
    /// Packets that wait at the path's entry, if the air says so.
    queue_packets: Option<u32>,
}

/// One command for each part that one run can measure.
pub(super) fn lines(entry: &Entry, net: &Net) -> Vec<String> {
    let mut parts: Vec<Part> = Vec::new();
    for point in &net.points {
        let part = Part::of(point);
        let same = |p: &&mut Part| p.is_like(&part) && p.congestions == part.congestions && p.losses == part.losses;
        match parts.iter_mut().find(same) {
            Some(known) => known.take(part),
            None => parts.push(part),
        }
    }
    for part in &mut parts {
        part.rtts.sort_by(f64::total_cmp);
        part.rtts.dedup();
    }
    // What was measured over the same round-trip times is one sweep over losses, and what has the same of both one over congestion controls.
    let parts = joined(parts, |a, b| a.congestions == b.congestions && a.rtts == b.rtts);
    let parts = joined(parts, |a, b| a.losses == b.losses && a.rtts == b.rtts);
    parts.iter().filter_map(|part| part.line(entry, net)).collect()
}

fn joined(parts: Vec<Part>, same: impl Fn(&Part, &Part) -> bool) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for part in parts {
        match all.iter_mut().find(|p| p.is_like(&part) && same(p, &part)) {
            Some(known) => known.take(part),
            None => all.push(part),
        }
    }
    all
}

impl Part {
    fn of(point: &Point) -> Part {
        let p = &point.parameters;
        let path = p.path.as_ref();
        let longest = point.repetitions.iter().map(|r| r.elapsed_s).filter(|s| s.is_finite());
        Part {
            common: Parameters { path: None, congestion: None, ..p.clone() },
            path_rate: path.and_then(|path| path.rate_bits_per_second),
            congestions: vec![p.congestion.clone()],
            losses: path.map(|path| path.loss_percent).into_iter().collect(),
            rtts: path.map(|path| path.rtt_ms).into_iter().collect(),
            repeat: point.repetitions.len(),
            time_s: longest.fold(0.0, f64::max),
            omit_s: point.repetitions.iter().map(omitted_s).max().unwrap_or(0),
            queue_packets: path
                .and_then(|path| path.air.split(',').find_map(|part| part.strip_prefix("queue=")?.parse().ok())),
        }
    }

    fn is_like(&self, other: &Part) -> bool {
        // What the system chose is no part of a list.
        let chosen = |p: &Part| p.congestions.iter().all(Option::is_some);
        self.common == other.common
            && self.path_rate == other.path_rate
            && self.queue_packets == other.queue_packets
            && chosen(self) == chosen(other)
    }

    fn take(&mut self, other: Part) {
        let new: Vec<Option<String>> =
            other.congestions.into_iter().filter(|c| !self.congestions.contains(c)).collect();
        self.congestions.extend(new);
        self.losses.extend(other.losses);
        self.rtts.extend(other.rtts);
        for list in [&mut self.losses, &mut self.rtts] {
            list.sort_by(f64::total_cmp);
            list.dedup();
        }
        self.repeat = self.repeat.max(other.repeat);
        self.time_s = self.time_s.max(other.time_s);
        self.omit_s = self.omit_s.max(other.omit_s);
    }

    fn line(&self, entry: &Entry, net: &Net) -> Option<String> {
        let p = &self.common;
        let list = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        let mut words = vec!["flashmob bench net".to_string()];
        if net.setting == Setting::Network {
            words.push(format!("--connect {}", quoted(&net.server)?));
        } else {
            words.push(format!("--rtt {} --loss {}", list(&self.rtts), list(&self.losses)));
            words.extend(self.path_rate.map(|bits| format!("--path-rate {}", rate(bits))));
            words.extend(self.queue_packets.map(|packets| format!("--path-queue {packets}")));
            words.extend(p.client_receive_max_bytes.map(|max| format!("--client-receive-max {}", size(max))));
            words.extend(p.server_receive_max_bytes.map(|max| format!("--server-receive-max {}", size(max))));
        }
        match (p.protocol, p.messages) {
            (Protocol::Tcp, _) => {}
            (Protocol::Udp, _) => words.push("--udp".into()),
            (Protocol::Messages, Some(m)) => {
                words.push(format!("--messages {}:{}:{}", m.request_bytes, m.answer_bytes, m.depth));
            }
            (Protocol::Messages, None) => return None,
        }
        if p.protocol != Protocol::Messages {
            let direction = match p.direction {
                Direction::Up => "up",
                Direction::Down => "down",
                Direction::Both => "both",
            };
            words.push(format!("--direction {direction} --length {}", size(u64::from(p.block_bytes))));
        }
        words.push(format!("--streams {}", p.streams));
        let controls: Vec<String> = self.congestions.iter().flatten().cloned().collect();
        if !controls.is_empty() {
            words.push(format!("--congestion {}", quoted(&controls.join(","))?));
        }
        words.extend(p.rate_bits_per_second.map(|bits| format!("--rate {}", rate(bits))));
        words.extend(p.window_bytes.map(|bytes| format!("--window {}", size(bytes))));
        // What was measured ends with the last thing that was under way: tenths are enough.
        words.push(format!("--time {}", (self.time_s * 10.0).round().max(1.0) / 10.0));
        if self.omit_s > 0 {
            words.push(format!("--omit {}", self.omit_s));
        }
        words.push(format!("--repeat {} --seed {}", self.repeat.max(1), entry.document.seed));
        if let Some(label) = &entry.document.label {
            words.push(format!("--label={}", quoted(label)?));
        }
        Some(words.join(" "))
    }
}

/// How long the intervals go on that are marked as left out.
fn omitted_s(repetition: &Repetition) -> u32 {
    let begin = repetition.intervals.iter().map(|i| i.begin_s).fold(f64::INFINITY, f64::min);
    let end = repetition.intervals.iter().filter(|i| i.omitted).map(|i| i.end_s).fold(f64::NEG_INFINITY, f64::max);
    // A cast of what is no number, or too large a one, stays within bounds.
    (end - begin).round().clamp(0.0, 3_600.0) as u32
}

/// The line that looks at a capture again, or listens again.
pub(super) fn analysis(entry: &Entry, capture: &Capture) -> Vec<String> {
    let words = || {
        let file =
            if capture.source.starts_with('-') { format!("./{}", capture.source) } else { capture.source.clone() };
        let mut words = vec!["flashmob net analyze".to_string()];
        if capture.form == "interface" {
            let time_s = (capture.elapsed_s.max(1.0) * 10.0).round() / 10.0;
            words.push(format!("--capture {} --time {time_s}", quoted(&capture.source)?));
        } else {
            words.push(quoted(&file)?);
        }
        if let Some(label) = &entry.document.label {
            words.push(format!("--label={}", quoted(label)?));
        }
        Some(words.join(" "))
    };
    words().into_iter().collect()
}

/// Exactly, in the largest unit that it is a whole number of.
fn rate(bits: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")];
    let whole = units.into_iter().find(|(unit, _)| bits > 0 && bits.is_multiple_of(*unit));
    whole.map_or_else(|| bits.to_string(), |(unit, name)| format!("{}{name}", bits / unit))
}
