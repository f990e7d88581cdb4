//! Figures as separate SVG files, for documents: they include the page's colours.

pub use crate::figure::axes::Scale;
pub use crate::figure::lines::{Lines, Mark, Series};

use flashmob_results::trace::Run;

use crate::Error;
use crate::figure::{CSS, WIDTH};

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

/// The timeline of the operation with this number as one SVG, light or dark as the reader prefers; `None` if the run does not have it in full.
#[must_use]
pub fn timeline(run: &Run, operation: u64) -> Option<String> {
    let operation = run.timeline.operations.iter().find(|of| of.number == operation)?;
    let figure = crate::page::timeline(run, operation, 0);
    let (width, height) = (crate::figure::timeline::WIDTH, figure.height);
    let style = format!(
        "</desc><style>{CSS}text{{font-family:system-ui,sans-serif}}.marks>*{{vector-effect:non-scaling-stroke}}</style>\
         <path d=\"M0 0h{width}v{height}H0z\" style=\"fill:var(--page)\"/>"
    );
    Some(format!("{}\n", figure.svg.replacen("</desc>", &style, 1)))
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
