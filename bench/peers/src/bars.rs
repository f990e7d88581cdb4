//! A figure of bars, one group below the other, our own in colour. An SVG that follows the reader's choice of light or dark.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH_PX: i32 = 900;
const LABEL_PX: i32 = 300;
const BAR_PX: i32 = 16;
const STEP_PX: i32 = 22;
const TITLE_PX: i32 = 34;
const MARGIN_PX: i32 = 12;
/// Room for the figure behind the longest bar.
const VALUE_PX: i32 = 90;

const BACKGROUND: RGBColor = RGBColor(255, 255, 255);
const TEXT: RGBColor = RGBColor(31, 35, 40);
const OURS: RGBColor = RGBColor(9, 105, 218);
const PEER: RGBColor = RGBColor(140, 149, 159);
const ANCHOR: RGBColor = RGBColor(208, 215, 222);
const RANGE: RGBColor = RGBColor(80, 90, 100);

/// What a viewer that prefers dark sees instead; the colours above, as the SVG writes them, are what is replaced.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) {\
    [fill=\"#FFFFFF\"] { fill: #0d1117 } [fill=\"#1F2328\"] { fill: #e6edf3 } [fill=\"#0969DA\"] { fill: #4493f8 } \
    [fill=\"#8C959F\"] { fill: #7d8590 } [fill=\"#D0D7DE\"] { fill: #3d444d } [stroke=\"#505A64\"] { stroke: #c9d1d9 } }</style>";

/// In which colour a bar is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// flashmob.
    Ours,
    /// What a user would take instead.
    Peer,
    /// A reference: neither ours nor a peer.
    Anchor,
}

/// A bar, from 0 to the median.
#[derive(Clone, Debug)]
pub struct Bar {
    /// In front of it.
    pub name: String,
    /// Its colour.
    pub look: Look,
    /// Where the thin line begins.
    pub min: f64,
    /// Where the bar ends.
    pub median: f64,
    /// Where the thin line ends.
    pub max: f64,
    /// What is written behind it.
    pub value: String,
}

/// Bars of one scale, below a heading.
#[derive(Clone, Debug)]
pub struct Group {
    /// The heading.
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
    /// A value that the scale reaches, whatever the bars' values are.
    pub full: Option<f64>,
}

/// Draws groups, and a line below them.
pub fn svg(groups: &[Group], caption: &str) -> anyhow::Result<String> {
    let height: i32 =
        groups.iter().map(|group| TITLE_PX + STEP_PX * group.bars.len() as i32).sum::<i32>() + 2 * MARGIN_PX + STEP_PX;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH_PX as u32, height as u32)).into_drawing_area();
        area.fill(&BACKGROUND)?;
        let mut top = MARGIN_PX;
        for group in groups {
            draw(&area, group, top)?;
            top += TITLE_PX + STEP_PX * group.bars.len() as i32;
        }
        area.draw(&Text::new(caption.to_string(), (MARGIN_PX, top + STEP_PX / 2), style(11, HPos::Left)))?;
        area.present()?;
    }
    // Behind the first tag's end.
    let at = text.find("<svg").and_then(|svg| text[svg..].find('>').map(|end| svg + end + 1)).unwrap_or(0);
    text.insert_str(at, DARK);
    Ok(text)
}

fn style(size_px: i32, anchor: HPos) -> TextStyle<'static> {
    // The backend writes sizes that look a fifth smaller than asked for.
    ("sans-serif", size_px * 5 / 4).into_font().color(&TEXT).pos(Pos::new(anchor, VPos::Center))
}

fn draw(area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, group: &Group, top: i32) -> anyhow::Result<()> {
    let heading =
        TextStyle { font: ("sans-serif", 14 * 5 / 4).into_font().style(FontStyle::Bold), ..style(14, HPos::Left) };
    area.draw(&Text::new(group.title.clone(), (MARGIN_PX, top + TITLE_PX / 2), heading))?;
    let longest = group.bars.iter().map(|bar| bar.max).chain(group.full).fold(f64::MIN_POSITIVE, f64::max);
    let scale = f64::from(WIDTH_PX - MARGIN_PX - LABEL_PX - VALUE_PX) / longest;
    let px = |value: f64| LABEL_PX + (value * scale).round() as i32;
    for (nth, bar) in group.bars.iter().enumerate() {
        let middle = top + TITLE_PX + STEP_PX * nth as i32 + STEP_PX / 2;
        area.draw(&Text::new(bar.name.clone(), (LABEL_PX - 8, middle), style(12, HPos::Right)))?;
        let color = match bar.look {
            Look::Ours => OURS,
            Look::Peer => PEER,
            Look::Anchor => ANCHOR,
        };
        let (least, median, greatest) = (px(bar.min), px(bar.median), px(bar.max));
        let place = [(LABEL_PX, middle - BAR_PX / 2), (median.max(LABEL_PX + 1), middle + BAR_PX / 2)];
        area.draw(&Rectangle::new(place, color.filled()))?;
        area.draw(&PathElement::new(vec![(least, middle), (greatest, middle)], RANGE.stroke_width(1)))?;
        let behind = greatest.max(median) + 6;
        area.draw(&Text::new(bar.value.clone(), (behind, middle), style(12, HPos::Left)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_nothing_and_beyond_the_scale_are_drawn() {
        let bar = |median: f64| Bar {
            name: "<a>".to_string(),
            look: Look::Ours,
            min: 0.0,
            median,
            max: 2.0 * median,
            value: median.to_string(),
        };
        let group = |bars, full| Group { title: "t".to_string(), bars, full };
        let drawn = svg(&[group(vec![bar(0.0), bar(0.0)], None), group(vec![bar(90.0)], Some(100.0))], "how").unwrap();
        assert!(drawn.contains("&lt;a&gt;") && !drawn.contains("NaN") && drawn.contains("prefers-color-scheme"));
        assert!(svg(&[], "nothing").unwrap().contains("nothing"));
    }
}
