//! Lines: rates over threads, and latencies over percentiles.

use super::axes::Scale;
use super::canvas::{About, Anchor, Canvas, TEXT_PX, draw, text_px};
use super::colours::Ink;
use super::frame::{Frame, LEFT, TOP};
use super::legend::{Item, Legend, Sample};
use super::{Figure, WIDTH};
use crate::Error;

const RIGHT: i32 = 14;
/// Right margin with the names of limits, and the gap before a name.
const RIGHT_NAMED: i32 = 50;
const NAME_GAP: i32 = 3;
/// Minimum width of the plot, however long the names of limits are.
const PLOT_WIDTH_MIN: i32 = 200;
const PLOT_HEIGHT: i32 = 200;
const BELOW: i32 = 48;

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Number of its colour, marker and dash.
    pub look: usize,
    /// From left to right.
    pub points: Vec<Mark>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Position on the horizontal axis, from 0 to 1.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Minimum and maximum over the repetitions.
    pub range: Option<(f64, f64)>,
    /// Drawn hollow: its value is doubtful.
    pub doubtful: bool,
}

/// A dashed line without markers, with its name at the right end.
#[derive(Clone, Debug)]
pub struct Limit {
    pub name: String,
    /// From left to right: position (0 to 1) and value.
    pub points: Vec<(f64, f64)>,
}

/// A figure of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The accessible name.
    pub title: String,
    /// The accessible description: a sentence with figures.
    pub description: String,
    /// The text below it.
    pub caption: String,
    /// Title of the vertical axis, with its unit.
    pub y_title: String,
    /// Title of the horizontal axis, with its unit.
    pub x_title: String,
    /// Title of the legend, such as `block size`.
    pub legend: String,
    /// Vertical axis.
    pub scale: Scale,
    /// Ticks across, between 0 and 1.
    pub x_ticks: Vec<(f64, String)>,
    /// The lines.
    pub series: Vec<Series>,
    /// Limits, drawn behind them; the caption says what they are.
    pub limits: Vec<Limit>,
}

impl Lines {
    /// Draws it; `nth` must be unique on the page.
    ///
    /// # Errors
    /// The drawing library failed.
    pub fn draw(&self, nth: usize) -> Result<Figure, Error> {
        let items = self.series.iter().map(|s| Item { name: &s.name, look: s.look, sample: Sample::Marked });
        let legend = Legend::new(&self.legend, items.collect());
        let height = TOP + PLOT_HEIGHT + BELOW + legend.height() + 6;
        let about = About { nth, title: &self.title, description: &self.description, caption: self.caption.clone() };
        draw(height, about, |canvas| {
            let frame = Frame { right: self.right(), bottom: TOP + PLOT_HEIGHT, scale: self.scale };
            frame.grid(canvas);
            let ticks = self.x_ticks.iter().map(|(part, label)| (self.x(*part), label.as_str()));
            frame.axes(canvas, ticks, &self.y_title, (&self.x_title, 33));
            self.limits(canvas, &frame);
            for series in &self.series {
                self.line(canvas, &frame, series);
            }
            legend.draw(canvas, TOP + PLOT_HEIGHT + BELOW);
        })
    }

    /// Right end of the plot.
    fn right(&self) -> i32 {
        let longest = self.limits.iter().map(|limit| text_px(&limit.name)).max();
        WIDTH - longest.map_or(RIGHT, |px| (NAME_GAP + px).clamp(RIGHT_NAMED, WIDTH - LEFT - PLOT_WIDTH_MIN))
    }

    fn x(&self, part: f64) -> i32 {
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        // Margins keep markers clear of the axis.
        LEFT + 10 + (part * f64::from(self.right() - LEFT - 20)).round() as i32
    }

    fn limits(&self, canvas: &mut Canvas, frame: &Frame) {
        let mut named: Vec<i32> = Vec::new();
        for limit in &self.limits {
            let path: Vec<_> = limit.points.iter().map(|(x, y)| (self.x(*x), frame.y(*y))).collect();
            let Some(&(_, end)) = path.last() else { continue };
            // A constant limit spans the whole width.
            let flat = path.iter().all(|(_, y)| *y == end);
            let path = if flat { vec![(LEFT, end), (frame.right, end)] } else { path };
            canvas.path(&path, Ink::Limit, 1);
            if named.iter().all(|y| (y - end).abs() >= TEXT_PX) {
                canvas.text(&limit.name, (frame.right + NAME_GAP, end), Anchor::Left, Ink::Muted);
                named.push(end);
            }
        }
    }

    fn line(&self, canvas: &mut Canvas, frame: &Frame, series: &Series) {
        let n = series.look;
        for mark in &series.points {
            let Some((min, max)) = mark.range else { continue };
            let (low, high) = (frame.y(min), frame.y(max));
            // The marker hides shorter ones.
            if low - high > 8 {
                canvas.whisker(self.x(mark.x), (low, high), 3, Ink::Whole(n));
            }
        }
        let path: Vec<_> = series.points.iter().map(|m| (self.x(m.x), frame.y(m.y))).collect();
        if path.len() > 1 {
            canvas.path(&path, Ink::Series(n), 2);
        }
        for (mark, at) in series.points.iter().zip(path) {
            canvas.marker(at, n, mark.doubtful);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_limits_stay_within_the_figure() {
        for name in ["n=8", "flash", "240 KiB", "2,000 KiB"] {
            let lines = Lines {
                title: "t".into(),
                description: "d".into(),
                caption: String::new(),
                y_title: "up".into(),
                x_title: "across".into(),
                legend: String::new(),
                scale: Scale::linear(10.0),
                x_ticks: Vec::new(),
                series: Vec::new(),
                limits: vec![Limit { name: name.into(), points: vec![(0.0, 5.0), (1.0, 6.0)] }],
            };
            let right = lines.right();
            assert!(right + NAME_GAP + text_px(name) <= WIDTH && right <= WIDTH - RIGHT_NAMED, "{name}: {right}");
            assert!(lines.draw(0).unwrap().svg.contains(name));
        }
    }
}
