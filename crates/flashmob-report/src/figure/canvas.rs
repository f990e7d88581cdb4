//! Drawing: a thin layer over the drawing library, in whole pixels from the top left.

use plotters::coord::Shift;
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::colours::{Ink, coloured, sentinel};
use super::{Figure, WIDTH, labelled};
use crate::Error;

/// Size of text.
pub(super) const TEXT_PX: i32 = 13;

/// Markers. Not a divisor of the number of hues, so that a look of the same hue has another marker.
const SHAPES: usize = 7;

/// A position in pixels.
pub(super) type At = (i32, i32);

/// The end of a text that is at its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    failed: Option<String>,
}

/// The texts of a figure.
pub(super) struct About<'a> {
    pub nth: usize,
    pub title: &'a str,
    pub description: &'a str,
    pub caption: String,
}

/// Draws a figure of this height.
pub(super) fn draw(height: i32, about: About, paint: impl FnOnce(&mut Canvas)) -> Result<Figure, Error> {
    let mut drawing = String::new();
    let failed = {
        let area = SVGBackend::with_string(&mut drawing, (WIDTH as u32, height.max(1) as u32)).into_drawing_area();
        let mut canvas = Canvas { area, failed: None };
        paint(&mut canvas);
        let ended = canvas.area.present().err().map(|e| e.to_string());
        canvas.failed.or(ended)
    };
    match failed {
        Some(what) => Err(Error::Figure(what)),
        None => Ok(Figure {
            svg: labelled(&coloured(&drawing), height, about.nth, about.title, about.description),
            height,
            caption: about.caption,
        }),
    }
}

fn colour(ink: Ink) -> RGBColor {
    let (r, g, b) = sentinel(ink);
    RGBColor(r, g, b)
}

impl<'a> Canvas<'a> {
    fn add<E>(&mut self, element: &E)
    where
        for<'b> &'b E: PointCollection<'b, At>,
        E: Drawable<SVGBackend<'a>>,
    {
        if let Err(error) = self.area.draw(element) {
            self.failed.get_or_insert(error.to_string());
        }
    }

    pub fn path(&mut self, points: &[At], ink: Ink, width: u32) {
        self.add(&PathElement::new(points.to_vec(), colour(ink).stroke_width(width)));
    }

    pub fn bar(&mut self, from: At, to: At, ink: Ink, opacity: f64) {
        self.add(&Rectangle::new([from, to], colour(ink).mix(opacity).filled()));
    }

    pub fn dot(&mut self, at: At, radius: i32, ink: Ink, opacity: f64) {
        self.add(&Circle::new(at, radius, colour(ink).mix(opacity).filled()));
    }

    /// From `low` to `high`, with a cross bar of `half` to each side at both ends.
    pub fn whisker(&mut self, x: i32, (low, high): (i32, i32), half: i32, ink: Ink) {
        let corners = [(x - half, low), (x + half, low), (x, low), (x, high), (x - half, high), (x + half, high)];
        self.path(&corners, ink, 1);
    }

    /// The marker of a series, its shape chosen by number; hollow for doubtful values.
    pub fn marker(&mut self, (x, y): At, series: usize, hollow: bool) {
        let ink = Ink::Whole(series);
        let corners: &[At] = match series % SHAPES {
            0 => {
                self.dot((x, y), 4, ink, 1.0);
                if hollow {
                    self.dot((x, y), 2, Ink::Page, 1.0);
                }
                return;
            }
            1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
            2 => &[(0, -5), (5, 4), (-5, 4)],
            3 => &[(0, -5), (5, 0), (0, 5), (-5, 0)],
            4 => &[(0, 5), (5, -4), (-5, -4)],
            5 => &[(-5, 0), (4, -5), (4, 5)],
            _ => &[
                (-2, -5),
                (2, -5),
                (2, -2),
                (5, -2),
                (5, 2),
                (2, 2),
                (2, 5),
                (-2, 5),
                (-2, 2),
                (-5, 2),
                (-5, -2),
                (-2, -2),
            ],
        };
        let outline: Vec<At> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        self.add(&Polygon::new(outline, colour(ink)));
        if hollow {
            let inner: Vec<At> = corners.iter().map(|(dx, dy)| (x + dx / 2, y + dy / 2)).collect();
            self.add(&Polygon::new(inner, colour(Ink::Page)));
        }
    }

    pub fn text(&mut self, text: &str, at: At, anchor: Anchor, ink: Ink) {
        let h = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        // The library divides sizes by 1.24.
        let size = f64::from(TEXT_PX) * 1.24;
        let colour = colour(ink);
        let style = TextStyle::from(("sans-serif", size).into_font()).color(&colour).pos(Pos::new(h, VPos::Center));
        self.add(&Text::new(text.to_string(), at, style));
    }
}

/// Estimated maximum width of a text: 0.6 em per ASCII character, 1 em per other one.
pub(super) fn text_px(text: &str) -> i32 {
    let tenths: i32 = text.chars().map(|c| if c.is_ascii() { 6 } else { 10 }).sum();
    tenths * TEXT_PX / 10
}
