//! Rounds become rows: medians and ranges of what is not void, and how many rounds were.

use flashmob_results::disk::Spread;
use serde::Serialize;

use crate::{Case, Figures};

/// One contender in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    case: Case,
    server: String,
    reads_per_s: Spread,
    p50_ms: Spread,
    p99_ms: Spread,
    frames_per_read: Spread,
    packets_per_read: Option<Spread>,
    busy_fraction: Spread,
    late_p99_us: Spread,
    /// Rounds that count, and that do not.
    rounds: usize,
    void: usize,
}

/// In the order in which they were measured first.
pub fn of(figures: &[Figures]) -> Vec<Row> {
    let mut places: Vec<(&Case, &str)> = Vec::new();
    for f in figures {
        if !places.contains(&(&f.case, &f.server)) {
            places.push((&f.case, &f.server));
        }
    }
    places.into_iter().map(|(case, server)| row(case, server, figures)).collect()
}

fn row(case: &Case, server: &str, figures: &[Figures]) -> Row {
    let own = || figures.iter().filter(|f| f.case == *case && f.server == server);
    let valid: Vec<&Figures> = own().filter(|f| !f.is_void).collect();
    let spread = |of: fn(&Figures) -> f64| Spread::of(valid.iter().map(|f| of(f)));
    let packets: Vec<f64> = valid.iter().filter_map(|f| f.packets_per_read).collect();
    Row {
        case: case.clone(),
        server: server.to_string(),
        reads_per_s: spread(|f| f.reads_per_s),
        p50_ms: spread(|f| f.p50_ms),
        p99_ms: spread(|f| f.p99_ms),
        frames_per_read: spread(|f| f.frames_per_read),
        packets_per_read: (!packets.is_empty()).then(|| Spread::of(packets)),
        busy_fraction: spread(|f| f.busy_fraction),
        late_p99_us: spread(|f| f.late_p99_us),
        rounds: valid.len(),
        void: own().count() - valid.len(),
    }
}

/// As Markdown, a table for each case.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut last: Option<&Case> = None;
    // Cases stay together whoever was measured first.
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| {
        let case = &row.case;
        (case.air != "ideal", case.nodes, case.block_bytes, case.outstanding, row.server == "nbdkit")
    });
    for row in sorted {
        let case = &row.case;
        if last != Some(case) {
            let nodes = if case.nodes == 1 { "1 node" } else { &format!("{} nodes", case.nodes) };
            text.push_str(&format!(
                "\n{nodes}, reads of {} B, {} outstanding for each node, air {}:\n\n\
                 | server | reads/s (range) | frames per read | packets per read | p50 ms | p99 ms (range) | air busy | rounds |\n\
                 |---|--:|--:|--:|--:|--:|--:|--:|\n",
                case.block_bytes, case.outstanding, case.air
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
        return format!("| {} | | | | | | | 0{void} |\n", row.server);
    }
    let (reads, p99) = (&row.reads_per_s, &row.p99_ms);
    format!(
        "| {} | {:.0} ({:.0} to {:.0}) | {:.2} | {} | {:.1} | {:.1} ({:.1} to {:.1}) | {:.0} % | {}{void} |\n",
        row.server,
        reads.median,
        reads.min,
        reads.max,
        row.frames_per_read.median,
        row.packets_per_read.map_or_else(|| "-".to_string(), |p| format!("{:.2}", p.median)),
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

    fn figures(server: &str, reads_per_s: f64, is_void: bool) -> Figures {
        Figures {
            case: Case { air: "11n".to_string(), nodes: 1, block_bytes: 1, outstanding: 64 },
            server: server.to_string(),
            reads_per_s,
            p50_ms: 1.0,
            p99_ms: 2.0,
            frames_per_read: 0.5,
            packets_per_read: None,
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
        let rows = of(&rounds);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].reads_per_s.median, rows[0].rounds, rows[0].void), (200.0, 2, 1));
        let text = table(&rows);
        assert!(text.contains("| a | 200 (100 to 300) |") && text.contains("| 2, 1 void |"), "{text}");
        assert!(text.contains("| b | | | | | | | 0, 1 void |"), "{text}");
    }

    #[test]
    fn each_case_has_a_table_of_its_own() {
        let mut other = figures("a", 1.0, false);
        other.case.nodes = 8;
        let text = table(&of(&[figures("a", 1.0, false), other, figures("nbdkit", 1.0, false)]));
        assert_eq!(text.matches("| server |").count(), 2, "{text}");
    }
}
