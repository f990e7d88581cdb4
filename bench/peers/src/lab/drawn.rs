//! The figure: each contender's share of the limit, case by case.

use flashmob_peers::bars::{self, Bar, Group, Look};

use crate::rows::Row;

/// Draws it. A case whose rounds are all void is not in it.
pub fn svg(rows: &[Row]) -> anyhow::Result<String> {
    let (mut groups, mut last) = (Vec::<Group>::new(), None);
    for row in rows.iter().filter(|row| row.rounds > 0) {
        let title = row.case.words();
        if last.replace((&row.case, row.outstanding)) != Some((&row.case, row.outstanding)) {
            groups.push(Group { title, bars: Vec::new(), full: Some(100.0) });
        }
        if let Some(group) = groups.last_mut() {
            group.bars.push(bar(row));
        }
    }
    let counted = rows.iter().map(|row| row.rounds).filter(|&rounds| rounds > 0);
    let how = format!(
        "Share of what air and flash can do, and requests per second; medians of {} to {} rounds, thin lines from least to greatest",
        counted.clone().min().unwrap_or(0),
        counted.max().unwrap_or(0),
    );
    bars::svg(&groups, &how)
}

fn bar(row: &Row) -> Bar {
    let look = match row.server.as_str() {
        "flashmob" => Look::Ours,
        server if server.starts_with("flashmob") => Look::Anchor,
        _ => Look::Peer,
    };
    let share = &row.share;
    Bar {
        name: row.server.clone(),
        look,
        min: 100.0 * share.min,
        median: 100.0 * share.median,
        max: 100.0 * share.max,
        value: format!("{:.0} %, {:.0}/s", 100.0 * share.median, row.requests_per_s.median),
    }
}
