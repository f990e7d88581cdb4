//! The picture: one sentence, the nodes, their latency over time, where the slowest one's time goes, copies.

use flashmob_node::status::units::{HELD_UP, count, left, printable, seconds, uptime};
use flashmob_server::status::finding::{Finding, Severity};
use flashmob_server::status::live::{LiveNode, LiveReport};
use flashmob_server::status::report::REMOVED;
use flashmob_text::Bytes;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};

use super::history::{History, LATELY_S, Lately};

/// Seconds of a column of the map of latency.
const COLUMN_SECONDS: [u64; 4] = [1, 2, 5, 10];
/// The steps of that map: a time up to which a cell is drawn so, and how. Shades say the same without colour.
const SHADES: [(u64, &str, &str, Color); 6] = [
    (1_000, "·", "1 ms", Color::Blue),
    (4_000, "░", "4 ms", Color::Cyan),
    (16_000, "▒", "16 ms", Color::Green),
    (63_000, "▓", "63 ms", Color::Yellow),
    (250_000, "█", "250 ms", Color::LightRed),
    (u64::MAX, "#", "more", Color::Red),
];
const NAME_COLUMNS: u16 = 22;

/// What is shown, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    /// Which of [`COLUMN_SECONDS`].
    pub zoom: usize,
    /// The first node that is shown.
    pub first: usize,
    pub colour: bool,
}

impl View {
    /// The next length of a column.
    pub fn zoom_on(&mut self) {
        self.zoom = (self.zoom + 1) % COLUMN_SECONDS.len();
    }

    fn style(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Draws all of it. `trouble` is why there is no newer report.
    pub fn draw(&mut self, frame: &mut Frame<'_>, history: &History, trouble: Option<&str>) {
        let nodes = history.last.nodes.len();
        let present = |node: &usize| history.last.nodes.get(*node).is_some_and(|node| node.state != REMOVED);
        let lately: Vec<Lately> = (0..nodes).map(|node| history.lately(node)).collect();
        let sentence = self.sentence(&history.last, trouble);
        let told = wrapped_height(&sentence, frame.area().width);
        let copies = self.copies(&history.last);
        let left = frame.area().height.saturating_sub(2 + told + copies.len() as u16 + 6);
        // The table and the map have the same rows.
        let rows = (left / 2).max(1).min(nodes.max(1) as u16);
        let [head, say, table, map, slowest, below, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(told + 1),
            Constraint::Length(rows + 2),
            Constraint::Length(rows + 1),
            Constraint::Length(1),
            Constraint::Length(copies.len() as u16),
            Constraint::Min(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head(&history.last, &lately)), head);
        frame.render_widget(Paragraph::new(sentence).wrap(Wrap { trim: false }), say);
        self.first = self.first.min(nodes.saturating_sub(usize::from(rows)));
        let shown: Vec<usize> = (self.first..nodes).filter(present).take(usize::from(rows)).collect();
        frame.render_widget(self.table(&history.last, &lately, &shown), table);
        self.map(frame, map, history, &shown);
        frame.render_widget(Paragraph::new(self.slowest(&history.last, &lately)), slowest);
        frame.render_widget(Paragraph::new(copies), below);
        let [_, keys] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(keys);
        let all = (0..nodes).filter(present).count();
        let more =
            if shown.len() < all { format!("up/down: {} more nodes   ", all - shown.len()) } else { String::new() };
        frame.render_widget(Line::styled(format!("q: quit   z: zoom   {more}"), Modifier::DIM), keys);
    }

    fn head(self, report: &LiveReport, lately: &[Lately]) -> Line<'static> {
        let ready = report.nodes.iter().filter(|node| node.state == "ready").count();
        let volumes: Vec<String> = report
            .volumes
            .iter()
            .map(|volume| match volume.size_bytes {
                Some(size) => format!("{} {}", printable(&volume.name), Bytes(size)),
                None => printable(&volume.name),
            })
            .collect();
        let rate: f64 = lately.iter().map(|lately| lately.answered_per_s).sum();
        Line::from(vec![
            Span::styled(volumes.join(", "), Modifier::BOLD),
            Span::raw(format!(
                "   {ready} of {} nodes   {} pieces/s   {} clients, {} requests   up {}",
                report.nodes.iter().filter(|node| node.state != REMOVED).count(),
                count(rate as u64),
                report.clients,
                report.in_hand,
                uptime(report.uptime_seconds),
            )),
        ])
    }

    /// Whether all is well, or the first thing that is not, with its remedy.
    fn sentence(self, report: &LiveReport, trouble: Option<&str>) -> Line<'static> {
        // They are sorted, and notes are last. Gateways of before have warnings alone.
        let is_wrong = |finding: &&Finding| finding.severity != Severity::Note;
        let wrong = match report.findings.len() {
            0 => report.warnings.len(),
            _ => report.findings.iter().take_while(is_wrong).count(),
        };
        let (mark, colour, text) = match (trouble, report.warnings.first().filter(|_| wrong > 0)) {
            (Some(trouble), _) => ("? out of date: ", Color::Red, printable(trouble)),
            (None, Some(first)) => {
                let more = match (wrong - 1).saturating_add(report.more_warnings) {
                    0 => String::new(),
                    n => format!(" (and {n} more: flashmob status)"),
                };
                ("! ", Color::Yellow, format!("{}{more}", printable(first)))
            }
            (None, None) => ("+ ", Color::Green, "all is well".to_string()),
        };
        Line::from(vec![Span::styled(mark, self.style(colour).add_modifier(Modifier::BOLD)), Span::raw(text)])
    }

    fn table(self, report: &LiveReport, lately: &[Lately], shown: &[usize]) -> Table<'static> {
        let us = |us: Option<u64>| us.map_or("-".to_string(), |us| seconds(us as f64 / 1e6));
        let rows = shown.iter().map(|&n| {
            let (node, lately) = (&report.nodes[n], &lately[n]);
            let (mark, colour) = mark_of(node);
            Row::new(vec![
                Cell::from(printable(&node.name)),
                Cell::from(format!("{mark} {}", printable(node.word()))).style(self.style(colour)),
                right(count(lately.answered_per_s.round() as u64)),
                right(us(lately.p50_us)),
                right(us(lately.p99_us)),
                right(count(node.queue as u64)),
                right(lately.pieces_per_batch.map_or("-".to_string(), |n| format!("{n:.1}"))),
                right(lately.at_once.map_or("-".to_string(), |share| format!("{:.0} %", 100.0 * share))),
                right(us(node.rtt_us)),
                right(node.battery_percent.map_or("-".to_string(), |percent| {
                    format!("{percent} %{}", if node.charging == Some(true) { "+" } else { "" })
                })),
                right(node.celsius.map_or("-".to_string(), |celsius| format!("{celsius:.0} °C"))),
                right(node.free_bytes.map_or("-".to_string(), |bytes| Bytes(bytes).to_string())),
            ])
        });
        let widths = [NAME_COLUMNS, 12, 8, 7, 7, 6, 6, 7, 7, 7, 6, 9].map(Constraint::Length);
        let names =
            ["node", "state", "pieces/s", "p50", "p99", "queue", "/frame", "at once", "rtt", "battery", "heat", "free"];
        let header = names
            .iter()
            .enumerate()
            .map(|(at, name)| if at < 2 { Cell::from(*name) } else { right((*name).to_string()) });
        Table::new(rows, widths).header(Row::new(header).style(Modifier::DIM)).column_spacing(1)
    }

    /// The p99 of each node, a column for some seconds, the newest on the right.
    fn map(self, frame: &mut Frame<'_>, area: Rect, history: &History, shown: &[usize]) {
        let step = COLUMN_SECONDS[self.zoom % COLUMN_SECONDS.len()];
        let columns = usize::from(area.width.saturating_sub(NAME_COLUMNS + 1));
        let mut legend = vec![Span::styled(
            format!("{:<1$}", format!("p99, {step} s a column"), usize::from(NAME_COLUMNS + 1)),
            Modifier::DIM,
        )];
        for (_, shade, text, colour) in SHADES {
            legend.push(Span::styled(shade, self.style(colour)));
            legend.push(Span::styled(format!(" {text}  "), Modifier::DIM));
        }
        let mut lines = vec![Line::from(legend)];
        for &node in shown {
            let name: String =
                printable(&history.last.nodes[node].name).chars().take(usize::from(NAME_COLUMNS)).collect();
            let mut cells = vec![Span::raw(format!("{name:<width$} ", width = usize::from(NAME_COLUMNS)))];
            cells.extend(history.p99_us(node, columns, step).into_iter().map(|p99| match p99 {
                Some(us) => {
                    let (_, shade, _, colour) = SHADES[SHADES.partition_point(|(most, ..)| *most < us)];
                    Span::styled(shade, self.style(colour))
                }
                None => Span::raw(" "),
            }));
            lines.push(Line::from(cells));
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// The node whose pieces take longest, and where.
    fn slowest(self, report: &LiveReport, lately: &[Lately]) -> Line<'static> {
        let spent = lately.iter().enumerate().filter(|(_, lately)| lately.spent.total_us() > 0.0);
        let slowest = spent.max_by(|a, b| a.1.spent.total_us().total_cmp(&b.1.spent.total_us()));
        let Some((node, lately)) = slowest else {
            return Line::styled(format!("no answers in the last {LATELY_S} s"), Modifier::DIM);
        };
        let total = lately.spent.total_us();
        let parts: Vec<String> =
            lately.spent.parts().into_iter().map(|(name, us)| format!("{name} {:.0} %", 100.0 * us / total)).collect();
        let starved = match lately.starved_permille {
            Some(permille @ 100..) => format!("; its loop waited for a processor for {} % of the time", permille / 10),
            _ => String::new(),
        };
        let largest = lately.spent.largest().map_or(String::new(), |(name, _)| format!(", most of it in {name}"));
        Line::from(vec![
            Span::styled("slowest: ", Modifier::BOLD),
            Span::raw(format!(
                "{}, {} a piece{largest} ({}){starved}",
                printable(&report.nodes[node].name),
                seconds(total / 1e6),
                parts.join(", ")
            )),
        ])
    }

    fn copies(self, report: &LiveReport) -> Vec<Line<'static>> {
        let volumes = report.volumes.iter().filter_map(|volume| Some((volume, volume.copies.as_ref()?)));
        volumes
            .map(|(volume, copies)| {
                let scrub = if copies.is_scrubbing { "; scrubbing" } else { "" };
                let rebuild = left(&copies.rebuild, HELD_UP).unwrap_or_else(|| "none behind".to_string());
                let colour = if copies.fewest_current < copies.copies { Color::Yellow } else { Color::Green };
                Line::from(vec![
                    Span::styled("copies:  ", Modifier::BOLD),
                    Span::raw(format!("{} has at least ", printable(&volume.name))),
                    Span::styled(format!("{} of {}", copies.fewest_current, copies.copies), self.style(colour)),
                    Span::raw(format!(" of each chunk; {rebuild}{scrub}")),
                ])
            })
            .collect()
    }
}

/// A sign for a node's state, beside the word.
fn mark_of(node: &LiveNode) -> (&'static str, Color) {
    match node.word() {
        "ready" if node.is_hot || node.is_battery_low || node.is_space_little => ("!", Color::Yellow),
        "ready" => ("+", Color::Green),
        "connecting" | "paused" => ("~", Color::Yellow),
        // It may be off.
        "drained" => ("-", Color::Reset),
        _ => ("x", Color::Red),
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn wrapped_height(line: &Line<'_>, width: u16) -> u16 {
    (line.width() as u16).div_ceil(width.max(1)).clamp(1, 4)
}
