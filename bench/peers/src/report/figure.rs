//! The figure: bars, one group below the other, our own in colour. An SVG that follows the reader's choice of light or dark.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::markdown::count;
use super::{Report, RowReport};
use crate::rows::{Class, Group};

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

/// The groups that are drawn.
const GROUPS: [Group; 4] = [Group::Blocks1, Group::Blocks4, Group::Bytes4, Group::Writes];

/// Draws the figure; `None` if nothing that belongs into it was measured.
pub fn svg(report: &Report) -> anyhow::Result<Option<String>> {
    let groups: Vec<(Group, Vec<&RowReport>)> = GROUPS
        .into_iter()
        .map(|group| {
            (group, report.rows.iter().filter(|row| row.group == group && row.class != Class::CrossCheck).collect())
        })
        .filter(|(_, rows): &(_, Vec<_>)| !rows.is_empty())
        .collect();
    if groups.is_empty() {
        return Ok(None);
    }
    let height: i32 =
        groups.iter().map(|(_, rows)| TITLE_PX + STEP_PX * rows.len() as i32).sum::<i32>() + 2 * MARGIN_PX + STEP_PX;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH_PX as u32, height as u32)).into_drawing_area();
        area.fill(&BACKGROUND)?;
        let mut top = MARGIN_PX;
        for (group, rows) in &groups {
            draw_group(&area, *group, rows, top)?;
            top += TITLE_PX + STEP_PX * rows.len() as i32;
        }
        let header = &report.header;
        let how = format!(
            "{}, {} cores, Linux {}; medians of {} rounds, thin lines from least to greatest; requests per second",
            header.cpu, header.cpus, header.kernel, header.rounds
        );
        area.draw(&Text::new(how, (MARGIN_PX, top + STEP_PX / 2), style(11, HPos::Left)))?;
        area.present()?;
    }
    // Behind the first tag's end.
    let at = text.find("<svg").and_then(|svg| text[svg..].find('>').map(|end| svg + end + 1)).unwrap_or(0);
    text.insert_str(at, DARK);
    Ok(Some(text))
}

fn style(size_px: i32, anchor: HPos) -> TextStyle<'static> {
    // The backend writes sizes that look a fifth smaller than asked for.
    ("sans-serif", size_px * 5 / 4).into_font().color(&TEXT).pos(Pos::new(anchor, VPos::Center))
}

fn draw_group(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    group: Group,
    rows: &[&RowReport],
    top: i32,
) -> anyhow::Result<()> {
    let heading =
        TextStyle { font: ("sans-serif", 14 * 5 / 4).into_font().style(FontStyle::Bold), ..style(14, HPos::Left) };
    area.draw(&Text::new(group.title(), (MARGIN_PX, top + TITLE_PX / 2), heading))?;
    let longest = rows.iter().map(|row| row.per_second.max).fold(1.0, f64::max);
    let scale = f64::from(WIDTH_PX - MARGIN_PX - LABEL_PX - VALUE_PX) / longest;
    let px = |value: f64| LABEL_PX + (value * scale).round() as i32;
    for (nth, row) in rows.iter().enumerate() {
        let middle = top + TITLE_PX + STEP_PX * nth as i32 + STEP_PX / 2;
        area.draw(&Text::new(row.name.clone(), (LABEL_PX - 8, middle), style(12, HPos::Right)))?;
        let color = match row.class {
            Class::Ours => OURS,
            Class::Peer => PEER,
            Class::Anchor | Class::CrossCheck => ANCHOR,
        };
        let (least, median, greatest) = (px(row.per_second.min), px(row.per_second.median), px(row.per_second.max));
        let bar = [(LABEL_PX, middle - BAR_PX / 2), (median.max(LABEL_PX + 1), middle + BAR_PX / 2)];
        area.draw(&Rectangle::new(bar, color.filled()))?;
        area.draw(&PathElement::new(vec![(least, middle), (greatest, middle)], RANGE.stroke_width(1)))?;
        let behind = greatest.max(median) + 6;
        area.draw(&Text::new(count(row.per_second.median), (behind, middle), style(12, HPos::Left)))?;
    }
    Ok(())
}
