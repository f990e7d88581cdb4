//! The timeline of one operation: time across, layers down, a row for each kind of work on each file.
//!
//! It is wider than other figures and scrolls on narrow pages. It is complete without the page's script ([`SCRIPT`]), which zooms and pans. The
//! number of marks is bounded: with many spans, those that begin close together share a mark, which has a part for each that can be told apart.

use std::fmt::Write;

use flashmob_results::trace::{Cause, Layer};

use super::axes::Scale;
use super::{Figure, escaped};
use crate::words;

/// Makes timelines of a page zoom and pan, by pointer and keyboard.
pub const SCRIPT: &str = include_str!("timeline.js");
/// Of the drawing, and of the names on its left.
pub const WIDTH: i32 = 1_190;
const LEFT: i32 = 256;
const RIGHT: i32 = 12;
const TOP: i32 = 30;
const ROW: i32 = 17;
const BAR: i32 = 11;
/// A layer's name, above its first row.
const HEAD: i32 = 21;
/// Rows of one layer; further kinds of work share the last.
const ROWS_MAX: usize = 18;
/// Marks of one drawing.
const MARKS_MAX: usize = 2_000;
const NAME_MAX: usize = 40;
/// Causes that a span may have.
const CAUSES: usize = 3;

/// One span of the figure.
#[derive(Clone, Debug)]
pub struct Piece {
    pub layer: Layer,
    /// Its row within the layer.
    pub row: String,
    /// From the beginning of the figure.
    pub begin_us: f64,
    pub duration_us: f64,
    pub cause: Cause,
    /// The tooltip.
    pub words: String,
}

/// A timeline before it is drawn.
#[derive(Clone, Debug)]
pub struct TimelineFigure {
    /// The accessible name.
    pub title: String,
    /// The accessible description.
    pub description: String,
    /// What begins at the left: `the operation`.
    pub zero: &'static str,
    pub duration_us: f64,
    /// In the order of their begins.
    pub pieces: Vec<Piece>,
}

/// Pieces of one row and one cause that are drawn as one mark.
struct MarkOf<'a> {
    first: &'a Piece,
    many: usize,
    begin_us: f64,
    /// Begins and ends, in order and apart from each other; never empty.
    parts: Vec<(f64, f64)>,
}

/// The hue of a layer in every figure. Layers of clusters share hues with kernel layers that seldom occur beside them.
pub fn hue(layer: Layer) -> usize {
    match layer {
        Layer::Application => 7,
        Layer::Sqlite => 0,
        Layer::SystemCall => 1,
        Layer::FileSystem | Layer::Gateway => 2,
        Layer::Driver | Layer::Store => 3,
        Layer::Processor | Layer::Link => 4,
        Layer::PageCache => 5,
        Layer::Block | Layer::Node => 6,
    }
}

impl TimelineFigure {
    /// Draws it; `nth` must be unique on the page.
    pub fn draw(&self, nth: usize) -> Figure {
        let duration_us = if self.duration_us.is_finite() && self.duration_us > 0.0 { self.duration_us } else { 1.0 };
        let layers = self.layers();
        let (marks, cell_px) = self.marks(&layers, duration_us);
        let rows: i32 = layers.iter().map(|(_, rows)| rows.len() as i32).sum();
        let height = TOP + rows * ROW + layers.len() as i32 * HEAD + 30;
        let mut body = String::new();
        axis(&mut body, self.zero, duration_us, height);
        let mut drawn = String::new();
        let mut top = TOP;
        // Writing to a String cannot fail.
        for ((layer, rows), of_rows) in layers.iter().zip(&marks) {
            let _ = write!(
                body,
                "<path d=\"M0 {y}H{WIDTH}\" stroke=\"var(--line)\"/><path d=\"M4 {text}h9v-9h-9z\" fill=\"var(--s{hue})\"/><text x=\"18\" y=\"{text}\" font-size=\"12\" font-weight=\"600\" fill=\"var(--text)\">{}</text>",
                escaped(layer.name()),
                y = top + 1,
                text = top + 16,
                hue = hue(*layer)
            );
            top += HEAD;
            for (name, of_row) in rows.iter().zip(of_rows) {
                let _ = write!(
                    body,
                    "<text x=\"{}\" y=\"{}\" font-size=\"12\" text-anchor=\"end\" fill=\"var(--text)\">{}</text>",
                    LEFT - 8,
                    top + 10,
                    escaped(&words::plain(name, NAME_MAX))
                );
                of_row.iter().for_each(|mark| mark.draw(&mut drawn, top, duration_us));
                top += ROW;
            }
        }
        let plot = WIDTH - LEFT - RIGHT;
        let scale = f64::from(plot) / duration_us;
        let svg = format!(
            "<svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" tabindex=\"0\" aria-labelledby=\"f{nth}t f{nth}d\" \
             data-left=\"{LEFT}\" data-plot=\"{plot}\" data-us=\"{duration_us}\" xmlns=\"http://www.w3.org/2000/svg\">\
             <title id=\"f{nth}t\">{}</title><desc id=\"f{nth}d\">{}</desc>{body}\
             <clipPath id=\"f{nth}c\"><path d=\"M{LEFT} 0h{plot}v{height}h-{plot}z\"/></clipPath>\
             <g clip-path=\"url(#f{nth}c)\"><g class=\"marks\" transform=\"translate({LEFT} 0) scale({scale} 1)\">{drawn}</g></g></svg>",
            escaped(&self.title),
            escaped(&self.description),
        );
        Figure { svg, height, caption: self.caption(cell_px) }
    }

    /// Layers with their rows, from the top down, in the order in which rows begin.
    fn layers(&self) -> Vec<(Layer, Vec<String>)> {
        let mut layers: Vec<(Layer, Vec<String>, usize)> = Vec::new();
        for layer in Layer::ALL {
            let mut rows: Vec<&str> = Vec::new();
            let mut known = std::collections::HashSet::new();
            for piece in self.pieces.iter().filter(|piece| piece.layer == layer) {
                if known.insert(piece.row.as_str()) {
                    rows.push(&piece.row);
                }
            }
            let more = rows.len().saturating_sub(ROWS_MAX);
            let mut rows: Vec<String> = rows.into_iter().take(ROWS_MAX).map(String::from).collect();
            if more > 0 {
                // The last one becomes one of those that share it.
                rows.truncate(ROWS_MAX - 1);
                rows.push(format!("{} more kinds", more + 1));
            }
            if !rows.is_empty() {
                layers.push((layer, rows, more));
            }
        }
        layers.into_iter().map(|(layer, rows, _)| (layer, rows)).collect()
    }

    /// The marks of each row of each layer, and over how many pixels pieces were put together; 0 if none were.
    fn marks(&self, layers: &[(Layer, Vec<String>)], duration_us: f64) -> (Vec<Vec<Vec<MarkOf<'_>>>>, u32) {
        let mut pieces: Vec<Vec<Vec<&Piece>>> = layers.iter().map(|(_, rows)| vec![Vec::new(); rows.len()]).collect();
        for piece in &self.pieces {
            let Some(at) = layers.iter().position(|(layer, _)| *layer == piece.layer) else { continue };
            let rows = &layers[at].1;
            let row = rows.iter().position(|row| *row == piece.row).unwrap_or(rows.len().saturating_sub(1));
            if let Some(of_row) = pieces[at].get_mut(row) {
                of_row.push(piece);
            }
        }
        let pixel_us = duration_us / f64::from(WIDTH - LEFT - RIGHT);
        let merged = |cell_px: u32| -> Vec<Vec<Vec<MarkOf>>> {
            let cell_us = (cell_px > 0).then_some(pixel_us * f64::from(cell_px));
            pieces
                .iter()
                .map(|rows| rows.iter().map(|row| together(row, cell_us, pixel_us / 2.0, duration_us)).collect())
                .collect()
        };
        let many = |marks: &Vec<Vec<Vec<MarkOf>>>| marks.iter().flatten().map(Vec::len).sum::<usize>();
        let mut cell_px = 0;
        let mut marks = merged(cell_px);
        // A row has at most as many marks as cells, so this ends.
        while many(&marks) > MARKS_MAX && cell_px < 1_024 {
            cell_px = if cell_px == 0 { 1 } else { cell_px * 2 };
            marks = merged(cell_px);
        }
        (marks, cell_px)
    }

    fn caption(&self, cell_px: u32) -> String {
        let mut text = format!("{} in all. ", words::plural(self.pieces.len() as u64, "span"));
        if self.pieces.iter().any(|piece| piece.cause == Cause::Waited) {
            text.push_str("Outlined: done by others while the operation waited for it. ");
        }
        if self.pieces.iter().any(|piece| piece.cause == Cause::Unknown) {
            text.push_str("Grey: of an unknown operation. ");
        }
        if cell_px > 0 {
            text.push_str("Gaps below half a pixel are closed; the exports for Perfetto and as CSV have each span. ");
        }
        text
    }
}

/// Pieces of one row as marks: those of one cause that begin within one cell of this width become one, with a part for each that is at least
/// `gap_us` after the one before.
fn together<'a>(pieces: &[&'a Piece], cell_us: Option<f64>, gap_us: f64, duration_us: f64) -> Vec<MarkOf<'a>> {
    let mut marks: Vec<MarkOf> = Vec::new();
    for piece in pieces {
        let within = |value: f64| if value.is_finite() { value.clamp(0.0, duration_us) } else { 0.0 };
        let begin_us = within(piece.begin_us);
        let end_us = within(piece.begin_us + piece.duration_us.max(0.0)).max(begin_us);
        // Cells that do not move, so that rows thin out evenly; a cell has at most a mark for each cause.
        let is_near = |mark: &&mut MarkOf| {
            let same_cell =
                cell_us.is_some_and(|cell_us| (begin_us / cell_us).floor() == (mark.begin_us / cell_us).floor());
            same_cell && mark.first.cause == piece.cause
        };
        match marks.iter_mut().rev().take(CAUSES).find(is_near) {
            Some(mark) => {
                mark.many += 1;
                match mark.parts.last_mut().filter(|last| begin_us < last.1 + gap_us) {
                    Some(last) => last.1 = last.1.max(end_us),
                    None => mark.parts.push((begin_us, end_us)),
                }
            }
            None => marks.push(MarkOf { first: piece, many: 1, begin_us, parts: vec![(begin_us, end_us)] }),
        }
    }
    marks
}

impl MarkOf<'_> {
    fn draw(&self, to: &mut String, top: i32, duration_us: f64) {
        let colour = match self.first.cause {
            Cause::Unknown => "var(--axis)".to_string(),
            Cause::Direct | Cause::Waited => format!("var(--s{})", hue(self.first.layer)),
        };
        let faint = if self.first.cause == Cause::Waited { " fill-opacity=\".35\"" } else { "" };
        let words = if self.many > 1 {
            format!("{} × {} and the like, first: {}", self.many, self.first.row, self.first.words)
        } else {
            self.first.words.clone()
        };
        let words = escaped(&words);
        let _ = match self.parts.as_slice() {
            // A rectangle without width is not drawn, but a line is.
            [(begin_us, end_us)] if end_us - begin_us < duration_us / 1e6 => {
                write!(to, "<path d=\"M{begin_us:.3} {top}v{BAR}\" stroke=\"{colour}\"><title>{words}</title></path>")
            }
            [(begin_us, end_us)] => write!(
                to,
                "<rect x=\"{begin_us:.3}\" y=\"{top}\" width=\"{:.3}\" height=\"{BAR}\" fill=\"{colour}\" stroke=\"{colour}\"{faint}><title>{words}</title></rect>",
                end_us - begin_us
            ),
            parts => {
                let _ = write!(to, "<path fill=\"{colour}\" stroke=\"{colour}\"{faint} d=\"");
                for (begin_us, end_us) in parts {
                    let _ = write!(to, "M{begin_us:.1} {top}h{:.1}v{BAR}H{begin_us:.1}z", end_us - begin_us);
                }
                write!(to, "\"><title>{words}</title></path>")
            }
        };
    }
}

/// Ticks, which the script replaces when it zooms.
fn axis(to: &mut String, zero: &str, duration_us: f64, height: i32) {
    let plot = f64::from(WIDTH - LEFT - RIGHT);
    to.push_str("<g class=\"ticks\">");
    for (value, label) in Scale::linear(duration_us).ticks() {
        let x = f64::from(LEFT) + value / duration_us * plot;
        if x > f64::from(WIDTH - RIGHT) + 0.5 {
            continue;
        }
        // The last label must not stand out of the drawing.
        let anchor = if x > f64::from(WIDTH) - 40.0 { "end" } else { "middle" };
        let _ = write!(
            to,
            "<path d=\"M{x:.1} {}V{}\" stroke=\"var(--grid)\"/><text x=\"{x:.1}\" y=\"14\" font-size=\"12\" text-anchor=\"{anchor}\" fill=\"var(--muted)\">{label}</text>",
            TOP - 8,
            height - 22
        );
    }
    let _ = write!(
        to,
        "</g><text x=\"{}\" y=\"{}\" font-size=\"12\" text-anchor=\"middle\" fill=\"var(--text)\">microseconds since {zero} began</text>",
        LEFT + (WIDTH - LEFT - RIGHT) / 2,
        height - 6
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(layer: Layer, row: &str, begin_us: f64, duration_us: f64) -> Piece {
        Piece { layer, row: row.into(), begin_us, duration_us, cause: Cause::Direct, words: "<&\"".into() }
    }

    fn drawn(duration_us: f64, pieces: Vec<Piece>) -> Figure {
        TimelineFigure { title: "t".into(), description: "d".into(), zero: "it", duration_us, pieces }.draw(0)
    }

    fn marks(figure: &Figure) -> usize {
        let parsed = roxmltree::Document::parse(&figure.svg).unwrap();
        parsed.descendants().filter(|node| node.has_tag_name("title")).count() - 1
    }

    #[test]
    fn every_span_is_a_mark_while_there_are_few() {
        let figure =
            drawn(100.0, (0..1_000).map(|n| piece(Layer::Driver, "write", f64::from(n) / 10.0, 0.01)).collect());
        assert_eq!(marks(&figure), 1_000);
        assert!(!figure.caption.contains("pixel"), "{}", figure.caption);
    }

    #[test]
    fn ten_thousand_spans_are_fewer_marks_and_it_is_said() {
        let rows: Vec<String> = (0..60).map(|n| format!("row {n}")).collect();
        let layer = |n: usize| Layer::ALL[n % 12];
        let pieces = (0..10_000).map(|n| piece(layer(n), &rows[n % 60], n as f64, 0.5)).collect();
        let figure = drawn(10_000.0, pieces);
        assert!((100..=MARKS_MAX).contains(&marks(&figure)), "{}", marks(&figure));
        assert!(
            figure.caption.contains("10,000 spans") && figure.caption.contains("half a pixel"),
            "{}",
            figure.caption
        );
        assert!(figure.svg.len() < 800_000, "{}", figure.svg.len());
    }

    #[test]
    fn spans_that_share_a_mark_stay_apart_and_causes_do_not_mix() {
        let mut pieces: Vec<Piece> =
            (0..2_500).map(|n| piece(Layer::Driver, "write", f64::from(n) * 4.0, 0.5)).collect();
        pieces.iter_mut().step_by(5).for_each(|piece| piece.cause = Cause::Waited);
        let pieces: Vec<&Piece> = pieces.iter().collect();
        let marks = together(&pieces, Some(100.0), 1.0, 10_000.0);
        assert_eq!(marks.len(), 2 * 100, "one for each cause in each cell");
        assert!(marks.iter().all(|mark| mark.parts.len() == mark.many && [5, 20].contains(&mark.many)));
        // Closer than the gap: one part.
        let closed = together(&pieces, Some(100.0), 20.0, 10_000.0);
        assert!(closed.iter().all(|mark| mark.parts.len() == 1 || mark.first.cause == Cause::Waited));
        // Without cells each is a mark.
        assert_eq!(together(&pieces, None, 20.0, 10_000.0).len(), 2_500);
    }

    #[test]
    fn kinds_beyond_the_rows_share_one() {
        let figure =
            drawn(50.0, (0..40).map(|n| piece(Layer::SystemCall, &format!("call {n}"), f64::from(n), 1.0)).collect());
        assert!(figure.svg.contains(">23 more kinds<") && figure.svg.contains(">call 16<"), "{}", figure.svg);
        assert!(!figure.svg.contains(">call 17<"));
        assert_eq!(marks(&figure), 40);
    }

    #[test]
    fn it_takes_anything() {
        for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            for other in [f64::NAN, -5.0, 7.0, 1e300] {
                let figure = drawn(value, vec![piece(Layer::Block, "\u{0}<script>", other, value)]);
                assert!(roxmltree::Document::parse(&figure.svg).is_ok(), "{}", figure.svg);
                assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf") && !figure.svg.contains("<script"));
            }
        }
    }
}
