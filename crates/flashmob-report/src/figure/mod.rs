//! Figures as SVG for a page: axes with units, the page's colours (light or dark), accessible name and description.
//!
//! - `canvas`: drawing
//! - `axes`: scales and their ticks
//! - `frame`: grid and axes of a plot
//! - [`lines`]: rates over threads, and percentiles
//! - [`bars`]: medians side by side with every repetition
//! - [`traces`]: values over time or over bytes
//! - [`stacks`]: wholes and their parts
//! - [`timeline`]: one operation, layer by layer
//! - `colours`, `legend`: appearance of series

pub mod axes;
pub mod bars;
mod canvas;
mod colours;
mod frame;
mod legend;
pub mod lines;
pub mod stacks;
pub mod timeline;
pub mod traces;

pub(crate) use colours::{CSS, HUES};

use crate::words::plain;

/// Width of every figure: a phone's, so that text drawn at 13 stays above 11 pixels when 336 of 360 are left for it.
pub const WIDTH: i32 = 360;

/// A finished figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The `<svg>` element.
    pub svg: String,
    /// Its height at a width of [`WIDTH`].
    pub height: i32,
    /// The text below it.
    pub caption: String,
}

/// Adds accessible name and description to a drawing. `nth` makes their ids unique on the page.
fn labelled(drawing: &str, height: i32, nth: usize, title: &str, description: &str) -> String {
    let body = drawing
        .find("<svg")
        .and_then(|at| drawing[at..].find('>').map(|end| &drawing[at + end + 1..]))
        .unwrap_or_default();
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"f{nth}t f{nth}d\" xmlns=\"http://www.w3.org/2000/svg\">\
         <title id=\"f{nth}t\">{}</title><desc id=\"f{nth}d\">{}</desc>{body}",
        escaped(title),
        escaped(description),
    )
}

fn escaped(text: &str) -> String {
    let text = plain(text, 2_000);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
