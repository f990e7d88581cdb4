//! Figures as separate SVG files, for documents: they include the page's colours.

pub use crate::figure::axes::Scale;
pub use crate::figure::lines::{Lines, Mark, Series};

use flashmob_results::trace::Run;

use crate::entry::Entry;
use crate::figure::{CSS, Figure, WIDTH};
use crate::page::{WIDE_NS, WINDOW_NS, window};
use crate::plots::Place;
use crate::{Error, words};

/// Room between two figures.
const GAP: i32 = 16;

/// The figures in one SVG with this number of columns. It is light or dark as the reader prefers.
///
/// # Errors
/// The drawing library failed.
pub fn tiled(figures: &[Lines], columns: usize) -> Result<String, Error> {
    let columns = columns.max(1);
    let mut body = String::new();
    let mut top = GAP;
    for (row, of_row) in figures.chunks(columns).enumerate() {
        let mut tallest = 0;
        for (column, lines) in of_row.iter().enumerate() {
            let figure = lines.draw(row * columns + column)?;
            let left = GAP + column as i32 * (WIDTH + GAP);
            let height = figure.height;
            // A nested element keeps its coordinates.
            let placed = format!("<svg x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{height}\" ");
            body.push_str(&figure.svg.replacen("<svg ", &placed, 1));
            tallest = tallest.max(height);
        }
        top += tallest + GAP;
    }
    let width = GAP + columns.min(figures.len().max(1)) as i32 * (WIDTH + GAP);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {top}\" width=\"{width}\" height=\"{top}\">\
         <style>{CSS}text{{font-family:system-ui,sans-serif}}</style>\
         <rect width=\"{width}\" height=\"{top}\" style=\"fill:var(--page)\"/>{body}</svg>\n"
    ))
}

/// A figure of the page, as a file of its own.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The paper whose figure it is like, or that it is beyond them.
    pub paper: &'static str,
    /// The heading of its section.
    pub section: &'static str,
    /// The text below that heading.
    pub words: &'static str,
    /// What tells it from others of its section.
    pub name: String,
    /// The text below it.
    pub caption: String,
    /// Light or dark as the reader prefers.
    pub svg: String,
}

/// All figures of a page in the order of the papers; of traces the operations in turn, not each by itself.
///
/// # Errors
/// The drawing library failed.
pub(crate) fn pictures(entries: &[Entry]) -> Result<Vec<Picture>, Error> {
    let mut pictures: Vec<(Place, Picture)> = Vec::new();
    for section in crate::plots::sections(entries) {
        for (name, draw) in &section.figures {
            let figure = draw(pictures.len())?;
            let svg = without_tooltips(&alone(&figure, WIDTH));
            let (paper, heading, words) = (section.place.title(), section.heading, section.words);
            let picture = Picture { paper, section: heading, words, name: name.clone(), caption: figure.caption, svg };
            pictures.push((section.place, picture));
        }
    }
    let runs = entries.iter().flat_map(|e| e.trace().into_iter().flat_map(move |t| t.runs.iter().map(move |r| (e, r))));
    let runs: Vec<(&Entry, &Run)> = runs.collect();
    for (place, time_ns, section, words) in [
        (
            Place::paper(5, 2),
            WINDOW_NS,
            "Consecutive operations",
            "P5, figures 2 to 4: time across, layers down, several INSERTs one after the other.",
        ),
        (
            Place::paper(5, 5),
            WIDE_NS,
            "Consecutive operations, longer",
            "P5, figure 5: the same over a longer time, in which dense and sparse phases show.",
        ),
    ] {
        for (entry, run) in &runs {
            let Some(figure) = window(run, time_ns, pictures.len()) else { continue };
            let name = format!("{} · {}", entry.name, words::plain(&run.name, 60));
            let svg = without_tooltips(&alone(&figure, crate::figure::timeline::WIDTH));
            pictures
                .push((place, Picture { paper: place.title(), section, words, name, svg, caption: figure.caption }));
        }
    }
    pictures.sort_by_key(|(place, _)| *place);
    Ok(pictures.into_iter().map(|(_, picture)| picture).collect())
}

/// The timeline of the operation with this number as one SVG, light or dark as the reader prefers; `None` if the run does not have it in full.
#[must_use]
pub fn timeline(run: &Run, operation: u64) -> Option<String> {
    let operation = run.timeline.operations.iter().find(|of| of.number == operation)?;
    Some(alone(&crate::page::timeline(run, operation, 0), crate::figure::timeline::WIDTH))
}

/// The drawing without the titles of its marks: a document shows it as an image, which has no tooltips. The title of the whole, which has an id, stays.
fn without_tooltips(svg: &str) -> String {
    let mut parts = svg.split("<title>");
    let mut text = parts.next().unwrap_or_default().to_string();
    text.extend(parts.filter_map(|part| part.split_once("</title>")).map(|(_, rest)| rest));
    text
}

/// A figure with the page's colours and background.
fn alone(figure: &Figure, width: i32) -> String {
    let height = figure.height;
    let style = format!(
        "</desc><style>{CSS}text{{font-family:system-ui,sans-serif}}.marks>*{{vector-effect:non-scaling-stroke}}</style>\
         <path d=\"M0 0h{width}v{height}H0z\" style=\"fill:var(--page)\"/>"
    );
    format!("{}\n", figure.svg.replacen("</desc>", &style, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_stands_alone() {
        let document = crate::tests::trace_page::sample();
        let run = &document.trace().unwrap().runs[0];
        let text = timeline(run, 1).unwrap();
        let parsed = roxmltree::Document::parse(&text).unwrap();
        assert!(text.contains("--s0:") && parsed.descendants().filter(|node| node.has_tag_name("rect")).count() > 50);
        assert_eq!(timeline(run, 7), None, "it is not in the result in full");
    }

    #[test]
    fn every_figure_of_a_page_stands_alone() {
        let report = crate::tests::builder::report(vec![crate::tests::trace_page::sample()]);
        let pictures = report.pictures().unwrap();
        assert!(pictures.len() > 1);
        for picture in &pictures {
            let parsed = roxmltree::Document::parse(&picture.svg).unwrap();
            assert!(
                parsed.root_element().attribute("width").is_some()
                    || parsed.root_element().attribute("viewBox").is_some()
            );
            assert!(!picture.svg.contains("<title>") && picture.svg.contains("<title id="));
            assert!(picture.svg.contains("--s0:") && !picture.section.is_empty() && !picture.name.is_empty());
        }
    }

    fn lines(title: &str) -> Lines {
        let point = |x: f64| Mark { x, y: 10.0 * x, range: None, doubtful: false };
        Lines {
            title: title.to_string(),
            description: "it grows".to_string(),
            caption: String::new(),
            y_title: "so many".to_string(),
            x_title: "nodes".to_string(),
            legend: String::new(),
            scale: Scale::linear(10.0),
            limits: Vec::new(),
            x_ticks: vec![(0.0, "1".to_string()), (1.0, "10".to_string())],
            series: vec![Series { name: "all".to_string(), look: 0, points: vec![point(0.0), point(1.0)] }],
        }
    }

    #[test]
    fn tiles_are_one_drawing_and_do_not_overlap() {
        let text = tiled(&[lines("a"), lines("b"), lines("c")], 2).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let root = document.root_element();
        let tiles: Vec<[i32; 4]> = (root.children().filter(|node| node.has_tag_name("svg")))
            .map(|tile| ["x", "y", "width", "height"].map(|name| tile.attribute(name).unwrap().parse().unwrap()))
            .collect();
        assert_eq!(tiles.len(), 3);
        for (nth, [x, y, width, height]) in tiles.iter().enumerate() {
            for [other_x, other_y, ..] in &tiles[nth + 1..] {
                assert!(x + width <= *other_x || y + height <= *other_y, "{tiles:?}");
            }
        }
        let bottom = tiles[2][1] + tiles[2][3];
        assert!(root.attribute("height").unwrap().parse::<i32>().unwrap() >= bottom);
    }

    #[test]
    fn colours_are_not_left_to_a_page() {
        let text = tiled(&[lines("a")], 1).unwrap();
        assert!(text.contains("--s0:") && text.contains("var(--s0)") && text.contains("prefers-color-scheme:dark"));
    }
}
