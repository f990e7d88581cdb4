//! Stacks: how a whole is made up of parts, a bar from left to right for each whole.

use super::axes::Scale;
use super::canvas::{About, Anchor, draw, text_px};
use super::colours::Ink;
use super::{Figure, WIDTH};
use crate::Error;
use crate::words::short;

const LEFT: i32 = 8;
const RIGHT: i32 = 16;
const TOP: i32 = 8;
/// A name and the bar below it.
const ROW: i32 = 44;
const BAR: i32 = 20;
const BELOW: i32 = 46;
const LEGEND_ROW: i32 = 20;

/// One bar.
#[derive(Clone, Debug)]
pub struct Stack {
    pub name: String,
    /// Indices into [`Stacks::parts`] with values.
    pub values: Vec<(usize, f64)>,
}

/// A figure of stacks.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// The accessible name.
    pub title: String,
    /// The accessible description: a sentence with figures.
    pub description: String,
    pub caption: String,
    /// Title of the horizontal axis, with its unit.
    pub x_title: String,
    /// Names of parts with their hues; grey without a hue.
    pub parts: Vec<(String, Option<usize>)>,
    pub stacks: Vec<Stack>,
}

impl Stacks {
    /// Draws it; `nth` must be unique on the page.
    ///
    /// # Errors
    /// The drawing library failed.
    pub fn draw(&self, nth: usize) -> Result<Figure, Error> {
        let sum = |stack: &Stack| stack.values.iter().map(|(_, value)| sound(*value)).sum::<f64>();
        let scale = Scale::linear(self.stacks.iter().map(sum).fold(0.0, f64::max));
        let bottom = TOP + self.stacks.len() as i32 * ROW;
        let legend = self.legend();
        let height = bottom + BELOW + legend.last().map_or(0, |(_, _, row)| row + 1) * LEGEND_ROW + 4;
        let about = About { nth, title: &self.title, description: &self.description, caption: self.caption.clone() };
        draw(height, about, |canvas| {
            for (value, label) in scale.ticks() {
                let x = across(&scale, value);
                canvas.path(&[(x, TOP), (x, bottom)], Ink::Grid, 1);
                let half = text_px(&label) / 2 + 1;
                canvas.text(&label, (x.clamp(half, WIDTH - half), bottom + 12), Anchor::Middle, Ink::Muted);
            }
            for (row, stack) in (0..).zip(&self.stacks) {
                let top = TOP + row * ROW;
                canvas.text(
                    &format!("{}: {}", stack.name, short(sum(stack))),
                    (LEFT, top + 9),
                    Anchor::Left,
                    Ink::Text,
                );
                let mut before = 0.0;
                for (part, value) in &stack.values {
                    let (from, to) = (across(&scale, before), across(&scale, before + sound(*value)));
                    before += sound(*value);
                    if to > from {
                        canvas.bar((from, top + 19), (to, top + 19 + BAR), self.ink(*part), 0.85);
                    }
                }
            }
            canvas.path(&[(LEFT, bottom), (WIDTH - RIGHT, bottom)], Ink::Axis, 1);
            canvas.text(&self.x_title, ((LEFT + WIDTH - RIGHT) / 2, bottom + 30), Anchor::Middle, Ink::Text);
            for (part, x, row) in &legend {
                let y = bottom + BELOW + row * LEGEND_ROW;
                canvas.bar((*x, y), (x + 12, y + 12), self.ink(*part), 0.85);
                canvas.text(&self.parts[*part].0, (x + 17, y + 6), Anchor::Left, Ink::Text);
            }
        })
    }

    fn ink(&self, part: usize) -> Ink {
        self.parts.get(part).and_then(|(_, hue)| *hue).map_or(Ink::Axis, Ink::Whole)
    }

    /// Parts that occur, each with its left edge and row.
    fn legend(&self) -> Vec<(usize, i32, i32)> {
        let (mut x, mut row, mut placed) = (LEFT, 0, Vec::new());
        let occurs = |part: &usize| {
            self.stacks.iter().flat_map(|stack| &stack.values).any(|(of, value)| of == part && sound(*value) > 0.0)
        };
        for part in (0..self.parts.len()).filter(occurs) {
            let width = 17 + text_px(&self.parts[part].0) + 12;
            if x + width > WIDTH && x > LEFT {
                (x, row) = (LEFT, row + 1);
            }
            placed.push((part, x, row));
            x += width;
        }
        placed
    }
}

fn sound(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, 1e200) } else { 0.0 }
}

fn across(scale: &Scale, value: f64) -> i32 {
    LEFT + (scale.part(value) * f64::from(WIDTH - RIGHT - LEFT)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_one_after_the_other() {
        let stack = |name: &str, values: &[(usize, f64)]| Stack { name: name.into(), values: values.to_vec() };
        let figure = Stacks {
            title: "t".into(),
            description: "d".into(),
            caption: String::new(),
            x_title: "us".into(),
            parts: vec![("driver".into(), Some(3)), ("block".into(), Some(6)), ("never".into(), None)],
            stacks: vec![stack("a", &[(0, 50.0), (1, 50.0)]), stack("b", &[(1, f64::NAN), (9, 10.0)])],
        };
        let svg = figure.draw(0).unwrap().svg;
        let parsed = roxmltree::Document::parse(&svg).unwrap();
        let bars: Vec<(i32, i32)> = (parsed.descendants())
            .filter(|node| node.has_tag_name("rect") && node.attribute("height") == Some("20"))
            .map(|bar| ["x", "width"].map(|name| bar.attribute(name).unwrap().parse().unwrap()))
            .map(|[x, width]: [i32; 2]| (x, x + width))
            .collect();
        assert_eq!(bars.len(), 3, "{svg}");
        assert_eq!((bars[0].0, bars[0].1, bars[1].1), (LEFT, bars[1].0, WIDTH - RIGHT));
        // The last label is as wide as it is, and ends at the edge.
        let wide = Stacks { stacks: vec![stack("a", &[(0, 8_000.0)])], ..figure };
        let drawn = wide.draw(0).unwrap().svg;
        let parsed = roxmltree::Document::parse(&drawn).unwrap();
        let last = parsed.descendants().find(|node| node.text().is_some_and(|text| text.trim() == "8000")).unwrap();
        assert!(last.attribute("x").unwrap().parse::<i32>().unwrap() + text_px("8000") / 2 <= WIDTH, "{drawn}");
        assert!(svg.contains("a: 100") && !svg.contains("never"), "{svg}");
    }
}
