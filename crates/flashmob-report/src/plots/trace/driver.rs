//! The driver's view (P3's figure 4): the step from the end of the previous command, with its sign, against the service time.

use flashmob_results::trace::{Command, Commands, Steps};
use flashmob_text::MIB;

use super::super::{Figures, Place, Section};
use crate::entry::Entry;
use crate::figure::axes::Scale;
use crate::figure::traces::{Kind, Trace, Traces};
use crate::words;

/// Figures of the section.
const FIGURES_MAX: usize = 16;

pub fn section(entries: &[Entry]) -> Option<Section> {
    let mut figures = Figures::new();
    for (name, commands) in all(entries).into_iter().take(FIGURES_MAX) {
        if let Some(figure) = figure(&name, commands) {
            figures.push((name, Box::new(move |nth| figure.draw(nth))));
        }
    }
    (!figures.is_empty()).then_some(Section {
        place: Place::paper(3, 4),
        heading: "Steps of the driver's commands",
        words: "P3, figure 4: each dot a command; across, how far it begins from the end of the one before, backward to the left and forward to the right. Where the order matters, the left half stands higher.",
        figures,
        command: "",
    })
}

/// Commands of traces and of points of disks, each with a name.
fn all(entries: &[Entry]) -> Vec<(String, &Commands)> {
    let mut all = Vec::new();
    for entry in entries {
        for run in entry.trace().into_iter().flat_map(|trace| &trace.runs) {
            all.extend(run.commands.as_ref().map(|c| (format!("{} · {}", entry.name, words::plain(&run.name, 40)), c)));
        }
        for point in entry.points() {
            let name = || format!("{} · {}", entry.name, words::plain(&words::parameters(&point.parameters), 80));
            all.extend(point.commands.as_ref().map(|commands| (name(), commands)));
        }
    }
    all
}

fn figure(name: &str, commands: &Commands) -> Option<Traces> {
    let points = |belongs: fn(i64) -> bool| -> Vec<(f64, f64)> {
        let of = |command: &Command| {
            let step = command.step_bytes.filter(|step| belongs(*step))?;
            let sound = command.service_us.is_finite() && command.service_us >= 0.0;
            sound.then_some((step as f64 / MIB as f64, command.service_us))
        };
        commands.list.iter().filter_map(of).collect()
    };
    let (forward, backward) = (points(|step| step >= 0), points(|step| step < 0));
    let most = |of: fn(&(f64, f64)) -> f64| forward.iter().chain(&backward).map(of).fold(0.0, f64::max);
    if forward.len() + backward.len() < 2 {
        return None;
    }
    let words_of = |way: &str, steps: Option<Steps>| {
        steps.map(|s| format!("{way}: {}, median {}", words::count(s.count), words::time_ns(s.p50_us * 1e3)))
    };
    let parts = [words_of("forward", commands.forward), words_of("backward", commands.backward)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let caption = format!("Of {}: {}.", words::plural(commands.count, "command"), parts.join("; "));
    Some(Traces {
        title: format!("{name}: steps of addresses against service times"),
        description: caption.clone(),
        caption,
        y_title: "us from issue to completion".into(),
        x_title: "step from the command before, MiB".into(),
        across: Scale::signed(most(|p| p.0.abs())),
        scale: Scale::linear(most(|p| p.1)),
        traces: vec![
            Trace { name: "backward".into(), look: 1, kind: Kind::Dots, points: backward },
            Trace { name: "forward".into(), look: 0, kind: Kind::Dots, points: forward },
        ],
    })
}
