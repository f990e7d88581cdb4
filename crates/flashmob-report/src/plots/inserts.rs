//! P5's figure 1, INSERTs each second, over systems, journal modes and synchronous levels.

use flashmob_results::trace::Run;

use super::{Place, Section, linear_scales};
use crate::entry::{Entry, is_doubtful};
use crate::figure::bars::{Bar, Bars};
use crate::inserts::{self, LEVEL, MODE};
use crate::plots::Figures;
use crate::words;

/// Longest name below a bar.
const NAME_CHARACTERS_MAX: usize = 14;
/// More bars would be too narrow for their names.
const BARS_MAX: usize = 6;

/// One figure.
struct Set<'a> {
    name: String,
    caption: String,
    bars: Vec<(String, &'a Run)>,
}

pub(super) fn rates(entries: &[Entry]) -> Section {
    let systems: Vec<(String, &Run)> = entries
        .iter()
        .filter_map(|entry| Some((short(&entry.name), inserts::find(entry, MODE, LEVEL)?)))
        .take(BARS_MAX)
        .collect();
    let mut sets = Vec::new();
    if systems.len() > 1 {
        let caption = format!("Journal mode {MODE}, synchronous {LEVEL}");
        sets.push(Set { name: "Systems".into(), caption, bars: systems });
    }
    for entry in entries {
        let over =
            |by_mode: bool| -> Vec<(String, &Run)> {
                let runs = inserts::runs(entry).filter_map(|run| Some((inserts::setting(run)?, run)));
                let of = runs.filter(|((mode, level), _)| {
                    if by_mode { level.eq_ignore_ascii_case(LEVEL) } else { mode.eq_ignore_ascii_case(MODE) }
                });
                of.map(|((mode, level), run)| (short(if by_mode { mode } else { level }), run)).take(BARS_MAX).collect()
            };
        for (bars, caption) in [
            (over(true), format!("Journal modes, synchronous {LEVEL}")),
            (over(false), format!("Synchronous levels, journal mode {MODE}")),
        ] {
            if bars.len() > 1 {
                sets.push(Set { name: entry.name.clone(), caption, bars });
            }
        }
    }
    Section {
        place: Place::paper(5, 1),
        heading: "INSERTs each second",
        words: "P5, figure 1: INSERTs, each a transaction of its own, over systems and settings.",
        figures: drawn(&sets),
        command: "flashmob reproduce p5",
    }
}

fn short(name: &str) -> String {
    words::plain(name, NAME_CHARACTERS_MAX)
}

fn drawn(sets: &[Set]) -> Figures {
    let most = |run: &Run| inserts::rates(run).into_iter().fold(0.0, f64::max);
    let highest: Vec<f64> = sets.iter().map(|set| set.bars.iter().map(|b| most(b.1)).fold(0.0, f64::max)).collect();
    let (scales, note) = linear_scales(&highest);
    let mut figures = Figures::new();
    for (set, scale) in sets.iter().zip(scales) {
        let bars: Vec<Bar> = set.bars.iter().map(|(name, run)| bar(name, run)).collect();
        let values: Vec<String> = bars.iter().map(|b| format!("{} {}", b.name, words::number(b.median))).collect();
        let paired = set.bars.iter().all(|(_, run)| run.overhead.is_some());
        let how = if paired { "Without tracing, median and each repetition" } else { "Some rates are of traced runs" };
        let figure = Bars {
            title: format!("{}: inserts/s", set.name),
            description: format!("Bars of INSERTs each second: {}.", words::list(&values)),
            caption: format!("{}. {how}.{note}", set.caption),
            y_title: "inserts/s".into(),
            x_title: String::new(),
            scale,
            bars,
        };
        figures.push((set.name.clone(), Box::new(move |nth| figure.draw(nth))));
    }
    figures
}

fn bar(name: &str, run: &Run) -> Bar {
    let values = inserts::rates(run);
    let range = values.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), v| (min.min(*v), max.max(*v)));
    let doubtful = is_doubtful(&run.warnings);
    Bar { name: name.into(), median: inserts::rate(run), range, values, doubtful }
}
