//! The paths of links as a table: the state of the socket at each end.

use super::units::{bytes, count, printable, seconds};
use flashmob_server::status::report::{NodeReport, PathReport, TcpReport, VolumeReport};
use flashmob_text::Side::{Left, Right};
use flashmob_text::{Colour, Row, Table};

/// If there are more links than this, only limited ones are shown.
const ROWS_MAX: usize = 16;
/// What the columns mean.
pub(super) const LEGEND: &str = "paths: cwnd in segments; out and in are from this end, over the last second or more";

/// The links of a volume; `None` if there is nothing to show.
pub(super) fn of_volume(volume: &VolumeReport) -> Option<Table> {
    let links = volume.nodes.iter().flat_map(|node| {
        let name =
            |number: usize| if node.links.len() > 1 { format!("{}/{number}", node.name) } else { node.name.clone() };
        node.links.iter().filter_map(move |l| Some((name(l.number), l.tcp.as_ref()?, l.path.as_ref()?)))
    });
    table("path to", links.collect())
}

/// The links of a node; `None` if there is nothing to show.
pub(super) fn of_node(node: &NodeReport) -> Option<Table> {
    table("path to", node.paths.iter().map(|link| (link.peer.clone(), &link.tcp, &link.path)).collect())
}

fn table(heading: &str, mut links: Vec<(String, &TcpReport, &PathReport)>) -> Option<Table> {
    if links.len() > ROWS_MAX {
        links.retain(|(_, _, path)| path.held_back() != "-");
        links.truncate(ROWS_MAX);
    }
    if links.is_empty() {
        return None;
    }
    let mut table = Table::new(&[Left, Left, Right, Right, Right, Right, Right, Right, Right, Left]);
    table.plain(["", "", "", "", "", "", "", "window", "window", ""]);
    table.plain([heading, "congestion", "cwnd", "min rtt", "delivery/s", "out/s", "in/s", "out", "in", "limited by"]);
    links.into_iter().for_each(|(name, tcp, path)| table.row(row(&name, tcp, path)));
    Some(table)
}

fn row(name: &str, tcp: &TcpReport, path: &PathReport) -> Row {
    let plain = |text: String| (text, Colour::Plain);
    // Before the first round trip the kernel reports 0.
    let min_rtt = if tcp.min_rtt_us == 0 { f64::NAN } else { tcp.min_rtt_us as f64 / 1e6 };
    let cells = [
        printable(name),
        path.congestion.as_deref().map_or("-".to_string(), printable),
        count(tcp.congestion_window_segments),
        seconds(min_rtt),
        bytes(path.delivery_rate_bytes_per_second),
        bytes(path.out_bytes_per_second as u64),
        bytes(path.in_bytes_per_second as u64),
        bytes(path.send_window_bytes),
        bytes(path.receive_window_bytes),
    ];
    let held_back = path.held_back();
    let colour = if held_back == "-" { Colour::Good } else { Colour::Doubtful };
    cells.map(plain).into_iter().chain([(held_back, colour)]).collect()
}
