//! Bars: medians side by side, with least and most, and a dot for every repetition while they are few.

use super::axes::Scale;
use super::canvas::{About, Anchor, Canvas, draw};
use super::colours::Ink;
use super::{Figure, WIDTH};
use crate::Error;

const LEFT: i32 = 50;
const RIGHT: i32 = 14;
const TOP: i32 = 30;
const PLOT_HEIGHT: i32 = 190;
const BELOW: i32 = 34;
const BAR_MAX: i32 = 64;
/// More repetitions than this are a smear, not dots.
pub const DOTS_MAX: usize = 100;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Below it.
    pub name: String,
    /// Its height.
    pub median: f64,
    /// Its whisker: least and most.
    pub range: (f64, f64),
    /// Every repetition.
    pub values: Vec<f64>,
    /// Drawn paler, with a mark.
    pub doubtful: bool,
}

/// A figure of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// For those who cannot see it.
    pub title: String,
    /// What it shows, in a sentence with figures.
    pub description: String,
    /// Below it.
    pub caption: String,
    /// What is up, with its unit.
    pub y_title: String,
    /// What is across; empty if the bars' names say it.
    pub x_title: String,
    /// Vertical axis, from 0.
    pub scale: Scale,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// Draws it; `nth` is no other figure's of the page.
    ///
    /// # Errors
    /// The drawing library refused.
    pub fn draw(&self, nth: usize) -> Result<Figure, Error> {
        let about = About { nth, title: &self.title, description: &self.description, caption: self.caption.clone() };
        let below = if self.x_title.is_empty() { BELOW } else { BELOW + 16 };
        draw(TOP + PLOT_HEIGHT + below, about, |canvas| self.paint(canvas))
    }

    fn y(&self, value: f64) -> i32 {
        TOP + PLOT_HEIGHT - (self.scale.part(value) * f64::from(PLOT_HEIGHT)).round() as i32
    }

    fn paint(&self, canvas: &mut Canvas) {
        for (value, label) in self.scale.ticks() {
            let y = self.y(value);
            canvas.path(&[(LEFT, y), (WIDTH - RIGHT, y)], Ink::Grid, 1);
            canvas.text(&label, (LEFT - 6, y), Anchor::Right, Ink::Muted);
        }
        let slot = (WIDTH - LEFT - RIGHT) / (self.bars.len().max(1) as i32);
        for (n, bar) in self.bars.iter().enumerate() {
            // Different hues for different things; what goes along an axis is one thing.
            let hue = if self.x_title.is_empty() { n } else { 0 };
            self.bar(canvas, hue, bar, LEFT + slot * n as i32 + slot / 2, (slot * 6 / 10).clamp(2, BAR_MAX));
        }
        let bottom = TOP + PLOT_HEIGHT;
        canvas.path(&[(LEFT, bottom), (WIDTH - RIGHT, bottom)], Ink::Axis, 1);
        canvas.text(&self.y_title, (4, 12), Anchor::Left, Ink::Text);
        if !self.x_title.is_empty() {
            canvas.text(&self.x_title, ((LEFT + WIDTH - RIGHT) / 2, bottom + 36), Anchor::Middle, Ink::Text);
        }
    }

    fn bar(&self, canvas: &mut Canvas, n: usize, bar: &Bar, middle: i32, width: i32) {
        let (top, bottom) = (self.y(bar.median), TOP + PLOT_HEIGHT);
        canvas.bar((middle - width / 2, top), (middle + width / 2, bottom), Ink::Whole(n), 0.35);
        canvas.path(&[(middle - width / 2, top), (middle + width / 2, top)], Ink::Whole(n), 3);
        if bar.values.len() <= DOTS_MAX {
            for (nth, value) in bar.values.iter().enumerate() {
                // Side by side in a fixed order, so that equal values do not hide each other and pages can be compared.
                let aside = (nth * 7 % 11) as i32 - 5;
                canvas.dot((middle + aside * width / 16, self.y(*value)), 2, Ink::Whole(n), 0.7);
            }
        }
        let (low, high) = (self.y(bar.range.0), self.y(bar.range.1));
        if low - high > 3 {
            let whisker = [
                (middle - 5, low),
                (middle + 5, low),
                (middle, low),
                (middle, high),
                (middle - 5, high),
                (middle + 5, high),
            ];
            canvas.path(&whisker, Ink::Text, 1);
        }
        let mark = if bar.doubtful { " ⚠" } else { "" };
        canvas.text(&format!("{}{mark}", bar.name), (middle, bottom + 16), Anchor::Middle, Ink::Text);
        canvas.text(&crate::words::short(bar.median), (middle, high.min(top) - 10), Anchor::Middle, Ink::Text);
    }
}
