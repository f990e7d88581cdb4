//! The frame of a plot: grid, axes and their labels, as bars, lines and traces share it.

use super::axes::Scale;
use super::canvas::{Anchor, Canvas};
use super::colours::Ink;

/// Left edge of a plot.
pub(super) const LEFT: i32 = 50;
/// Top edge of a plot.
pub(super) const TOP: i32 = 30;

/// A plot from ([`LEFT`], [`TOP`]) to (`right`, `bottom`), in pixels.
pub(super) struct Frame {
    pub right: i32,
    pub bottom: i32,
    /// The vertical axis.
    pub scale: Scale,
}

impl Frame {
    /// The vertical position of a value, in pixels from the top of the drawing.
    pub fn y(&self, value: f64) -> i32 {
        self.bottom - (self.scale.part(value) * f64::from(self.bottom - TOP)).round() as i32
    }

    /// A line and a label at each tick of the vertical axis.
    pub fn grid(&self, canvas: &mut Canvas) {
        for (value, label) in self.scale.ticks() {
            let y = self.y(value);
            canvas.path(&[(LEFT, y), (self.right, y)], Ink::Grid, 1);
            canvas.text(&label, (LEFT - 6, y), Anchor::Right, Ink::Muted);
        }
    }

    /// The base line with its ticks, and the titles of both axes. The horizontal one, which may be empty, is `below` the base line.
    pub fn axes<'t>(
        &self,
        canvas: &mut Canvas,
        ticks: impl IntoIterator<Item = (i32, &'t str)>,
        y_title: &str,
        (x_title, below): (&str, i32),
    ) {
        canvas.path(&[(LEFT, self.bottom), (self.right, self.bottom)], Ink::Axis, 1);
        for (x, label) in ticks {
            canvas.path(&[(x, self.bottom), (x, self.bottom + 4)], Ink::Axis, 1);
            canvas.text(label, (x, self.bottom + 14), Anchor::Middle, Ink::Muted);
        }
        canvas.text(y_title, (4, 12), Anchor::Left, Ink::Text);
        if !x_title.is_empty() {
            canvas.text(x_title, ((LEFT + self.right) / 2, self.bottom + below), Anchor::Middle, Ink::Text);
        }
    }
}
