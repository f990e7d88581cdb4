//! Related figures of lines, on one scale if they are comparable.

use crate::figure::axes::Scale;
use crate::figure::lines::{Limit, Lines, Mark, Series};
use crate::plots::Figures;
use crate::words;

/// Beyond this factor between highest and lowest, small values would lie on the axis.
const LINEAR_RATIO_MAX: f64 = 40.0;

/// A figure before it is drawn.
pub(super) struct Drawing {
    pub name: String,
    pub title: String,
    /// The caption without scale and repetitions.
    pub caption: String,
    pub lines: Vec<Line>,
    pub limits: Vec<Limit>,
    pub x_ticks: Vec<(f64, String)>,
}

pub(super) struct Line {
    pub name: String,
    pub look: usize,
    pub marks: Vec<Mark>,
    /// Valid repetitions of each point.
    pub repetitions: Vec<u32>,
}

/// The axes of all figures of a section.
pub(super) struct Axis {
    pub y_title: &'static str,
    pub x_title: &'static str,
    pub legend: &'static str,
    pub may_be_logarithmic: bool,
}

/// Draws the figures that have a line of two points or more.
pub(super) fn drawn(drawings: Vec<Drawing>, axis: &Axis) -> Figures {
    let has_line = |d: &Drawing| d.lines.iter().any(|l| l.marks.len() > 1);
    let drawings: Vec<Drawing> = drawings.into_iter().filter(has_line).collect();
    let values = |d: &Drawing| -> Vec<f64> {
        let marks = d.lines.iter().flat_map(|l| &l.marks).flat_map(|m| [m.y, m.range.map_or(m.y, |r| r.1)]);
        marks.chain(d.limits.iter().flat_map(|l| l.points.iter().map(|p| p.1))).collect()
    };
    let highest: Vec<f64> = drawings.iter().map(|d| values(d).into_iter().fold(0.0, f64::max)).collect();
    let lowest = drawings.iter().flat_map(&values).fold(f64::INFINITY, f64::min);
    let top = highest.iter().copied().fold(0.0, f64::max);
    let logarithmic = axis.may_be_logarithmic && top > lowest * LINEAR_RATIO_MAX;
    let (scales, note) = if logarithmic {
        (vec![Scale::log(lowest, top); drawings.len()], " Logarithmic.")
    } else {
        super::linear_scales(&highest)
    };
    let mut figures = Figures::new();
    for (drawing, scale) in drawings.into_iter().zip(scales) {
        let doubtful = drawing.lines.iter().flat_map(|l| &l.marks).any(|m| m.doubtful);
        let repetitions = super::how_many(drawing.lines.iter().flat_map(|l| l.repetitions.iter().copied()));
        let lines = Lines {
            description: description(&drawing, axis),
            caption: format!(
                "{}{repetitions}.{note}{}",
                drawing.caption,
                if doubtful { " Hollow: doubtful, see the warnings." } else { "" }
            ),
            title: drawing.title,
            y_title: axis.y_title.into(),
            x_title: axis.x_title.into(),
            legend: axis.legend.into(),
            scale,
            x_ticks: drawing.x_ticks,
            series: drawing.lines.into_iter().map(|l| Series { name: l.name, look: l.look, points: l.marks }).collect(),
            limits: drawing.limits,
        };
        figures.push((drawing.name, Box::new(move |nth| lines.draw(nth))));
    }
    figures
}

/// The last value of each line.
fn description(drawing: &Drawing, axis: &Axis) -> String {
    let last = |l: &Line| Some(format!("{} {}: {}", axis.legend, l.name, words::number(l.marks.last()?.y)));
    let values: Vec<String> = drawing.lines.iter().filter_map(last).collect();
    format!("Lines over {}. Rightmost values in {}: {}.", axis.x_title, axis.y_title, values.join("; "))
}
