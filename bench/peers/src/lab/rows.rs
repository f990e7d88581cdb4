//! Rounds become rows: medians and ranges of what is not void, how many rounds were, and the share of what air and flash can do.

use flashmob_peers::limit::Limits;
use flashmob_results::disk::Spread;
use serde::Serialize;

use crate::Figures;
use crate::case::Case;

/// One contender in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub case: Case,
    pub outstanding: u32,
    pub server: String,
    limits: Limits,
    /// Of the smaller limit.
    pub share: Spread,
    pub requests_per_s: Spread,
    p50_ms: Spread,
    p99_ms: Spread,
    frames_per_request: Spread,
    packets_per_request: Option<Spread>,
    busy_fraction: Spread,
    late_p99_us: Spread,
    /// Rounds that count, and that do not.
    pub rounds: usize,
    void: usize,
}

/// The limits of cases, each found once.
#[derive(Debug, Default)]
pub struct Known(Vec<(Case, u32, Limits)>);

impl Known {
    /// With so many outstanding for each node.
    fn limits(&mut self, case: &Case, outstanding: u32) -> anyhow::Result<Limits> {
        if let Some((_, _, limits)) = self.0.iter().find(|known| (&known.0, known.1) == (case, outstanding)) {
            return Ok(*limits);
        }
        let limits = case.limits(outstanding)?;
        self.0.push((case.clone(), outstanding, limits));
        Ok(limits)
    }
}

/// In the order in which they were measured first.
pub fn of(figures: &[Figures], known: &mut Known) -> anyhow::Result<Vec<Row>> {
    let mut cases: Vec<(&Case, u32)> = Vec::new();
    for f in figures {
        if !cases.contains(&(&f.case, f.outstanding)) {
            cases.push((&f.case, f.outstanding));
        }
    }
    let mut rows = Vec::new();
    for (case, outstanding) in cases {
        let limits = known.limits(case, outstanding)?;
        let own: Vec<&Figures> = figures.iter().filter(|f| f.case == *case && f.outstanding == outstanding).collect();
        let mut servers: Vec<&str> = Vec::new();
        for f in &own {
            if !servers.contains(&f.server.as_str()) {
                servers.push(&f.server);
            }
        }
        rows.extend(servers.into_iter().map(|server| row(case, outstanding, server, limits, &own)));
    }
    Ok(rows)
}

fn row(case: &Case, outstanding: u32, server: &str, limits: Limits, figures: &[&Figures]) -> Row {
    let own = || figures.iter().filter(|f| f.server == server);
    let valid: Vec<&&Figures> = own().filter(|f| !f.is_void).collect();
    let spread = |of: fn(&Figures) -> f64| Spread::of(valid.iter().map(|f| of(f)));
    let packets: Vec<f64> = valid.iter().filter_map(|f| f.packets_per_request).collect();
    let limit = limits.least_per_s();
    Row {
        case: case.clone(),
        outstanding,
        server: server.to_string(),
        limits,
        share: Spread::of(valid.iter().map(|f| f.requests_per_s / limit)),
        requests_per_s: spread(|f| f.requests_per_s),
        p50_ms: spread(|f| f.p50_ms),
        p99_ms: spread(|f| f.p99_ms),
        frames_per_request: spread(|f| f.frames_per_request),
        packets_per_request: (!packets.is_empty()).then(|| Spread::of(packets)),
        busy_fraction: spread(|f| f.busy_fraction),
        late_p99_us: spread(|f| f.late_p99_us),
        rounds: valid.len(),
        void: own().count() - valid.len(),
    }
}

/// As Markdown, a table for each case.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut last: Option<(&Case, u32)> = None;
    for row in rows {
        let case = (&row.case, row.outstanding);
        if last != Some(case) {
            text.push_str(&format!(
                "\n{}, {} outstanding for each node; the limit is {:.0}/s ({}):\n\n\
                 | server | requests/s (range) | share of the limit | frames per request | packets per request | p50 ms | p99 ms (range) | air busy | rounds |\n\
                 |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
                row.case.words(),
                row.outstanding,
                row.limits.least_per_s(),
                row.limits.name(),
            ));
            last = Some(case);
        }
        text.push_str(&line(row));
    }
    text
}

fn line(row: &Row) -> String {
    let void = if row.void > 0 { format!(", {} void", row.void) } else { String::new() };
    if row.rounds == 0 {
        return format!("| {} | | | | | | | | 0{void} |\n", row.server);
    }
    let (rate, p99) = (&row.requests_per_s, &row.p99_ms);
    format!(
        "| {} | {:.0} ({:.0} to {:.0}) | {:.2} | {:.2} | {} | {:.1} | {:.1} ({:.1} to {:.1}) | {:.0} % | {}{void} |\n",
        row.server,
        rate.median,
        rate.min,
        rate.max,
        row.share.median,
        row.frames_per_request.median,
        row.packets_per_request.map_or_else(|| "-".to_string(), |p| format!("{:.2}", p.median)),
        row.p50_ms.median,
        p99.median,
        p99.min,
        p99.max,
        row.busy_fraction.median * 100.0,
        row.rounds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(server: &str, requests_per_s: f64, is_void: bool) -> Figures {
        Figures {
            case: "read-1:1:ideal:wired".parse().unwrap(),
            outstanding: 64,
            server: server.to_string(),
            requests_per_s,
            p50_ms: 1.0,
            p99_ms: 2.0,
            frames_per_request: 0.5,
            packets_per_request: None,
            busy_fraction: 0.1,
            late_p99_us: 10.0,
            late_fraction: 0.0,
            is_void,
        }
    }

    #[test]
    fn what_is_void_does_not_count_and_is_named() {
        let rounds =
            [figures("a", 100.0, false), figures("b", 7.0, true), figures("a", 9e9, true), figures("a", 300.0, false)];
        let rows = of(&rounds, &mut Known::default()).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].requests_per_s.median, rows[0].rounds, rows[0].void), (200.0, 2, 1));
        // One node of the modelled flash does about 2,400 reads of 1 B a second.
        assert!((0.07..0.1).contains(&rows[0].share.median), "{:?}", rows[0].share);
        let text = table(&rows);
        assert!(text.contains("| a | 200 (100 to 300) | 0.08 |") && text.contains("| 2, 1 void |"), "{text}");
        assert!(text.contains("| b | | | | | | | | 0, 1 void |"), "{text}");
    }

    #[test]
    fn each_case_has_a_table_of_its_own() {
        let mut other = figures("a", 1.0, false);
        other.outstanding = 8;
        let rounds = [figures("a", 1.0, false), other, figures("nbdkit", 1.0, false)];
        let text = table(&of(&rounds, &mut Known::default()).unwrap());
        assert_eq!(text.matches("| server |").count(), 2, "{text}");
    }
}
