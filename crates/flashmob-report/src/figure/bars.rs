//! Bars: medians side by side with minimum and maximum, and a dot per repetition unless there are many.

use super::axes::Scale;
use super::canvas::{About, Anchor, Canvas, draw};
use super::colours::Ink;
use super::frame::{Frame, LEFT, TOP};
use super::{Figure, WIDTH};
use crate::Error;

const RIGHT: i32 = 14;
const PLOT_HEIGHT: i32 = 190;
const BELOW: i32 = 34;
const BAR_MAX: i32 = 64;
/// With more repetitions, dots would overlap.
pub const DOTS_MAX: usize = 100;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    pub median: f64,
    /// Minimum and maximum, drawn as a whisker.
    pub range: (f64, f64),
    /// The value of each repetition.
    pub values: Vec<f64>,
    /// Marked with ⚠.
    pub doubtful: bool,
}

/// A figure of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The accessible name.
    pub title: String,
    /// The accessible description: a sentence with figures.
    pub description: String,
    pub caption: String,
    /// Title of the vertical axis, with its unit.
    pub y_title: String,
    /// Title of the horizontal axis; empty if the bars are named.
    pub x_title: String,
    pub scale: Scale,
    pub bars: Vec<Bar>,
}

impl Bars {
    /// Draws it; `nth` must be unique on the page.
    ///
    /// # Errors
    /// The drawing library failed.
    pub fn draw(&self, nth: usize) -> Result<Figure, Error> {
        let about = About { nth, title: &self.title, description: &self.description, caption: self.caption.clone() };
        let below = if self.x_title.is_empty() { BELOW } else { BELOW + 16 };
        draw(TOP + PLOT_HEIGHT + below, about, |canvas| self.paint(canvas))
    }

    fn paint(&self, canvas: &mut Canvas) {
        let frame = Frame { right: WIDTH - RIGHT, bottom: TOP + PLOT_HEIGHT, scale: self.scale };
        frame.grid(canvas);
        let slot = (WIDTH - LEFT - RIGHT) / (self.bars.len().max(1) as i32);
        for (n, bar) in self.bars.iter().enumerate() {
            // Different hues for different things; bars along an axis are one thing.
            let hue = if self.x_title.is_empty() { n } else { 0 };
            bar.paint(canvas, &frame, hue, LEFT + slot * n as i32 + slot / 2, (slot * 6 / 10).clamp(2, BAR_MAX));
        }
        frame.axes(canvas, [], &self.y_title, (&self.x_title, 36));
    }
}

impl Bar {
    fn paint(&self, canvas: &mut Canvas, frame: &Frame, hue: usize, middle: i32, width: i32) {
        let (top, ink) = (frame.y(self.median), Ink::Whole(hue));
        canvas.bar((middle - width / 2, top), (middle + width / 2, frame.bottom), ink, 0.35);
        canvas.path(&[(middle - width / 2, top), (middle + width / 2, top)], ink, 3);
        if self.values.len() <= DOTS_MAX {
            for (nth, value) in self.values.iter().enumerate() {
                // Side by side in a fixed order, so that equal values do not hide each other and pages can be compared.
                let aside = (nth * 7 % 11) as i32 - 5;
                canvas.dot((middle + aside * width / 16, frame.y(*value)), 2, ink, 0.7);
            }
        }
        let (low, high) = (frame.y(self.range.0), frame.y(self.range.1));
        if low - high > 3 {
            canvas.whisker(middle, (low, high), 5, Ink::Text);
        }
        let mark = if self.doubtful { " ⚠" } else { "" };
        canvas.text(&format!("{}{mark}", self.name), (middle, frame.bottom + 16), Anchor::Middle, Ink::Text);
        canvas.text(&crate::words::short(self.median), (middle, high.min(top) - 10), Anchor::Middle, Ink::Text);
    }
}
