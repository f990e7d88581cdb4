//! The figure: the share of the limit over the number of nodes, a panel for each air and gateway.

use flashmob_peers::limit::Load;
use flashmob_report::standalone::{Lines, Mark, Scale, Series, tiled};

use crate::case::Row;

/// Draws it. Of several kinds of acknowledgements the first is shown.
pub fn svg(rows: &[Row]) -> anyhow::Result<String> {
    let acks = rows.first().map(|row| row.acks.clone()).unwrap_or_default();
    let shown: Vec<&Row> = rows.iter().filter(|row| row.acks == acks).collect();
    let mut places: Vec<(&str, &str)> = Vec::new();
    for row in &shown {
        let place = (row.air.as_str(), row.gateway.as_str());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let panels: Vec<Lines> = places.iter().map(|place| panel(&shown, *place)).collect();
    Ok(tiled(&panels, 2)?)
}

fn panel(rows: &[&Row], (air, gateway): (&str, &str)) -> Lines {
    let of_place: Vec<&&Row> = rows.iter().filter(|row| row.air == air && row.gateway == gateway).collect();
    let mut loads: Vec<&str> = Vec::new();
    let mut nodes: Vec<u32> = of_place.iter().map(|row| row.nodes).collect();
    for row in &of_place {
        if !loads.contains(&row.load.as_str()) {
            loads.push(&row.load);
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    let across = |count: u32| {
        let at = nodes.iter().position(|other| *other == count).unwrap_or(0);
        if nodes.len() > 1 { at as f64 / (nodes.len() - 1) as f64 } else { 0.5 }
    };
    let series = loads.iter().enumerate().map(|(look, load)| Series {
        name: words(load),
        look,
        points: of_place
            .iter()
            .filter(|row| row.load == *load)
            .map(|row| Mark { x: across(row.nodes), y: 100.0 * row.share, range: None, doubtful: false })
            .collect(),
    });
    let top = of_place.iter().map(|row| 100.0 * row.share).fold(100.0, f64::max);
    let told: Vec<String> = of_place
        .iter()
        .map(|row| format!("{:.0} % with {} and {} nodes", 100.0 * row.share, words(&row.load), row.nodes))
        .collect();
    Lines {
        title: format!("{air}, {gateway} gateway"),
        description: format!("{}.", told.join("; ")),
        caption: String::new(),
        y_title: format!("{air}, {gateway} gateway: share of the limit, %"),
        x_title: "nodes".to_string(),
        legend: "requests".to_string(),
        scale: Scale::linear(top),
        limits: Vec::new(),
        x_ticks: nodes.iter().map(|&count| (across(count), count.to_string())).collect(),
        series: series.collect(),
    }
}

fn words(load: &str) -> String {
    load.parse().map_or_else(|_| load.to_string(), |load: Load| load.words())
}
