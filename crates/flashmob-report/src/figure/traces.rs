//! Traces: values over time or over bytes, with too many points for markers.
//!
//! Dots on one pixel are drawn once, and a line shows the minimum and maximum of each column of pixels: the size of a drawing is bounded,
//! however long the trace.

use std::collections::BTreeSet;

use super::axes::Scale;
use super::canvas::{About, At, Canvas, draw};
use super::colours::Ink;
use super::frame::{Frame, LEFT, TOP};
use super::legend::{Item, Legend, Sample};
use super::{Figure, WIDTH};
use crate::Error;

/// Half of the last tick's label extends beyond the plot.
const RIGHT: i32 = 24;
const PLOT_HEIGHT: i32 = 200;
const BELOW: i32 = 48;
/// Dots of one trace; more would overlap.
const DOTS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Line,
    /// A dot per point.
    Dots,
}

/// One trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its name in the legend; empty if an earlier trace of the same look has one.
    pub name: String,
    pub look: usize,
    pub kind: Kind,
    /// Position and value.
    pub points: Vec<(f64, f64)>,
}

/// A figure of traces.
#[derive(Clone, Debug)]
pub struct Traces {
    /// The accessible name.
    pub title: String,
    /// The accessible description: a sentence with figures.
    pub description: String,
    pub caption: String,
    /// Title of the vertical axis, with its unit.
    pub y_title: String,
    /// Title of the horizontal axis, with its unit.
    pub x_title: String,
    /// Horizontal axis.
    pub across: Scale,
    /// Vertical axis, from 0.
    pub scale: Scale,
    pub traces: Vec<Trace>,
}

impl Traces {
    /// Draws it; `nth` must be unique on the page.
    ///
    /// # Errors
    /// The drawing library failed.
    pub fn draw(&self, nth: usize) -> Result<Figure, Error> {
        let named = self.traces.iter().filter(|trace| !trace.name.is_empty());
        let items = named.map(|trace| Item {
            name: &trace.name,
            look: trace.look,
            sample: if trace.kind == Kind::Line { Sample::Bare } else { Sample::Dots },
        });
        let legend = Legend::new("", items.collect());
        let height = TOP + PLOT_HEIGHT + BELOW + legend.height() + 6;
        let about = About { nth, title: &self.title, description: &self.description, caption: self.caption.clone() };
        draw(height, about, |canvas| {
            let frame = Frame { right: WIDTH - RIGHT, bottom: TOP + PLOT_HEIGHT, scale: self.scale };
            frame.grid(canvas);
            let ticks = self.across.ticks();
            let ticks = ticks.iter().map(|(value, label)| (self.x(*value), label.as_str()));
            frame.axes(canvas, ticks, &self.y_title, (&self.x_title, 33));
            for trace in &self.traces {
                let places: Vec<At> = trace.points.iter().map(|(x, y)| (self.x(*x), frame.y(*y))).collect();
                match trace.kind {
                    Kind::Dots => dots(canvas, &places, trace.look),
                    Kind::Line => {
                        let path = columns(&places);
                        if path.len() > 1 {
                            canvas.path(&path, Ink::Series(trace.look), 1);
                        }
                    }
                }
            }
            legend.draw(canvas, TOP + PLOT_HEIGHT + BELOW);
        })
    }

    fn x(&self, value: f64) -> i32 {
        LEFT + (self.across.part(value) * f64::from(WIDTH - RIGHT - LEFT)).round() as i32
    }
}

fn dots(canvas: &mut Canvas, places: &[At], look: usize) {
    let distinct: Vec<At> = places.iter().copied().collect::<BTreeSet<At>>().into_iter().collect();
    let every = distinct.len().div_ceil(DOTS_MAX).max(1);
    for at in distinct.iter().step_by(every) {
        canvas.dot(*at, 2, Ink::Whole(look), 1.0);
    }
}

/// A path with at most four points per column of pixels: first, minimum, maximum, last.
fn columns(places: &[At]) -> Vec<At> {
    let mut path: Vec<At> = Vec::new();
    let mut rest = places;
    while let Some((x, _)) = rest.first() {
        let many = rest.iter().take_while(|at| at.0 == *x).count();
        let (column, after) = rest.split_at(many);
        let (first, last) = (column[0].1, column[many - 1].1);
        let low = column.iter().map(|at| at.1).min().unwrap_or(first);
        let high = column.iter().map(|at| at.1).max().unwrap_or(first);
        for y in [first, low, high, last] {
            if path.last() != Some(&(*x, y)) {
                path.push((*x, y));
            }
        }
        rest = after;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_what_stands_out() {
        assert_eq!(columns(&[(1, 5), (1, 9), (1, 2), (1, 6), (2, 6)]), [(1, 5), (1, 2), (1, 9), (1, 6), (2, 6)]);
        assert_eq!(columns(&[(1, 5), (2, 5), (2, 5)]), [(1, 5), (2, 5)]);
        assert!(columns(&[]).is_empty());
        let long: Vec<At> = (0..100_000).map(|n| (n / 400, n * 7919 % 200)).collect();
        assert!(columns(&long).len() <= 4 * 250);
    }

    #[test]
    fn a_drawing_has_an_end_and_takes_anything() {
        let points = (0..50_000).map(|n| (f64::from(n), f64::from(n * 7_919 % 10_007))).collect();
        let wild = vec![(f64::NAN, 1.0), (-1e300, f64::INFINITY), (1e300, -1.0)];
        let trace = |kind, points| Trace { name: "a".into(), look: 1, kind, points };
        let figure = Traces {
            title: "t".into(),
            description: "d".into(),
            caption: String::new(),
            y_title: "bytes".into(),
            x_title: "s".into(),
            across: Scale::linear(50_000.0),
            scale: Scale::linear(10_007.0),
            traces: vec![trace(Kind::Dots, points), trace(Kind::Line, wild), trace(Kind::Line, Vec::new())],
        };
        let svg = figure.draw(0).unwrap().svg;
        assert!(svg.len() < 80_000, "{} bytes", svg.len());
        assert!(!svg.contains("NaN"));
    }
}
