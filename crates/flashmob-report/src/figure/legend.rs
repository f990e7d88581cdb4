//! The legend below a figure, in as many rows as needed.

use super::WIDTH;
use super::canvas::{Anchor, Canvas, TEXT_PX, text_px};
use super::colours::Ink;

const ROW: i32 = 20;
/// Line and marker.
const SAMPLE: i32 = 26;

/// The sample of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    Marked,
    Bare,
    Dots,
}

pub(super) struct Item<'a> {
    pub name: &'a str,
    pub look: usize,
    pub sample: Sample,
}

pub(super) struct Legend<'a> {
    /// Such as `block size`.
    title: &'a str,
    /// With left edge and row.
    items: Vec<(Item<'a>, i32, i32)>,
}

impl<'a> Legend<'a> {
    pub fn new(title: &'a str, items: Vec<Item<'a>>) -> Legend<'a> {
        let (mut x, mut row) = (4 + if title.is_empty() { 0 } else { text_px(title) + 10 }, 0);
        let mut placed = Vec::new();
        for item in items {
            let width = SAMPLE + 5 + text_px(item.name) + 12;
            if x + width > WIDTH + 8 && x > 4 {
                (x, row) = (4, row + 1);
            }
            placed.push((item, x, row));
            x += width;
        }
        Legend { title, items: placed }
    }

    pub fn height(&self) -> i32 {
        self.items.last().map_or(0, |(_, _, row)| row + 1) * ROW
    }

    pub fn draw(&self, canvas: &mut Canvas, above: i32) {
        let top = above + TEXT_PX / 2 + 2;
        if !self.title.is_empty() {
            canvas.text(self.title, (4, top), Anchor::Left, Ink::Muted);
        }
        for (item, x, row) in &self.items {
            let (n, y) = (item.look, top + row * ROW);
            let middle = x + SAMPLE / 2;
            match item.sample {
                Sample::Marked => {
                    canvas.path(&[(*x, y), (x + SAMPLE, y)], Ink::Series(n), 2);
                    canvas.marker((middle, y), n, false);
                }
                Sample::Bare => canvas.path(&[(*x, y), (x + SAMPLE, y)], Ink::Series(n), 2),
                Sample::Dots => {
                    [-8, 0, 8].iter().for_each(|aside| canvas.dot((middle + aside, y), 2, Ink::Whole(n), 1.0))
                }
            }
            canvas.text(item.name, (x + SAMPLE + 5, y), Anchor::Left, Ink::Text);
        }
    }
}
