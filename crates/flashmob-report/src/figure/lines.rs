//! Lines: rates over threads, and latencies over percentiles.

use super::axes::Scale;
use super::canvas::{About, Anchor, Canvas, TEXT_PX, draw, text_px};
use super::colours::Ink;
use super::legend::{Item, Legend, Sample};
use super::{Figure, WIDTH};
use crate::Error;

const LEFT: i32 = 50;
const RIGHT: i32 = 14;
/// To the right of the plot where limits have their names there, and before a name.
const RIGHT_NAMED: i32 = 50;
const NAME_GAP: i32 = 3;
/// So much is left to the plot whatever names limits have.
const PLOT_WIDTH_MIN: i32 = 200;
const TOP: i32 = 30;
const PLOT_HEIGHT: i32 = 200;
const BELOW: i32 = 48;

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// Number of its colour, marker and dash: the same thing looks the same in every figure of a section.
    pub look: usize,
    /// From left to right.
    pub points: Vec<Mark>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Where on the horizontal axis, between 0 and 1.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Least and most over the repetitions.
    pub range: Option<(f64, f64)>,
    /// Drawn hollow.
    pub doubtful: bool,
}

/// A limit: a dashed line without markers, with its name at its right end.
#[derive(Clone, Debug)]
pub struct Limit {
    /// A few letters.
    pub name: String,
    /// From left to right: where across (0 to 1), and the value.
    pub points: Vec<(f64, f64)>,
}

/// A figure of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    /// For those who cannot see it.
    pub title: String,
    /// What it shows, in a sentence with figures.
    pub description: String,
    /// Below it.
    pub caption: String,
    /// What is up, with its unit.
    pub y_title: String,
    /// What is across, with its unit.
    pub x_title: String,
    /// What belongs to the legend as a whole, such as `block size`.
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
    /// Draws it; `nth` is no other figure's of the page.
    ///
    /// # Errors
    /// The drawing library refused.
    pub fn draw(&self, nth: usize) -> Result<Figure, Error> {
        let items = self.series.iter().map(|s| Item { name: &s.name, look: s.look, sample: Sample::Marked });
        let legend = Legend::new(&self.legend, items.collect());
        let height = TOP + PLOT_HEIGHT + BELOW + legend.height() + 6;
        let about = About { nth, title: &self.title, description: &self.description, caption: self.caption.clone() };
        draw(height, about, |canvas| {
            self.axes(canvas);
            self.limits(canvas);
            for series in &self.series {
                self.line(canvas, series);
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
        // Room to both sides, so that markers stay clear of the axis.
        LEFT + 10 + (part * f64::from(self.right() - LEFT - 20)).round() as i32
    }

    fn y(&self, value: f64) -> i32 {
        TOP + PLOT_HEIGHT - (self.scale.part(value) * f64::from(PLOT_HEIGHT)).round() as i32
    }

    fn axes(&self, canvas: &mut Canvas) {
        for (value, label) in self.scale.ticks() {
            let y = self.y(value);
            canvas.path(&[(LEFT, y), (self.right(), y)], Ink::Grid, 1);
            canvas.text(&label, (LEFT - 6, y), Anchor::Right, Ink::Muted);
        }
        let bottom = TOP + PLOT_HEIGHT;
        canvas.path(&[(LEFT, bottom), (self.right(), bottom)], Ink::Axis, 1);
        for (part, label) in &self.x_ticks {
            let x = self.x(*part);
            canvas.path(&[(x, bottom), (x, bottom + 4)], Ink::Axis, 1);
            canvas.text(label, (x, bottom + 14), Anchor::Middle, Ink::Muted);
        }
        canvas.text(&self.y_title, (4, 12), Anchor::Left, Ink::Text);
        canvas.text(&self.x_title, ((LEFT + self.right()) / 2, bottom + 33), Anchor::Middle, Ink::Text);
    }

    fn limits(&self, canvas: &mut Canvas) {
        let mut named: Vec<i32> = Vec::new();
        for limit in &self.limits {
            let path: Vec<_> = limit.points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
            let Some(&(_, end)) = path.last() else { continue };
            // A limit for all of the width takes all of it.
            let flat = path.iter().all(|(_, y)| *y == end);
            let path = if flat { vec![(LEFT, end), (self.right(), end)] } else { path };
            canvas.path(&path, Ink::Limit, 1);
            if named.iter().all(|y| (y - end).abs() >= TEXT_PX) {
                canvas.text(&limit.name, (self.right() + NAME_GAP, end), Anchor::Left, Ink::Muted);
                named.push(end);
            }
        }
    }

    fn line(&self, canvas: &mut Canvas, series: &Series) {
        let n = series.look;
        for mark in &series.points {
            let Some((min, max)) = mark.range else { continue };
            let (x, low, high) = (self.x(mark.x), self.y(min), self.y(max));
            // What hides behind the marker need not be drawn.
            if low - high > 8 {
                let whisker = [(x - 3, low), (x + 3, low), (x, low), (x, high), (x - 3, high), (x + 3, high)];
                canvas.path(&whisker, Ink::Whole(n), 1);
            }
        }
        let path: Vec<_> = series.points.iter().map(|m| (self.x(m.x), self.y(m.y))).collect();
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
