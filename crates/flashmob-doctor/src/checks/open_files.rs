//! How many files and connections a program may have open.

use super::Finding;
use crate::view::View;

/// A node has up to 64 links and 64 files of its own; a gateway 64 clients and links to every node.
const ENOUGH: u64 = 256;

pub(super) fn look(view: &View) -> Finding {
    let text = view.text("proc/self/limits").unwrap_or_default();
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("Max open files")) else {
        return Finding::unknown("/proc/self/limits does not say how many files may be open");
    };
    let mut words = line.split_whitespace();
    let (Some(soft), Some(hard)) = (words.next(), words.next()) else {
        return Finding::unknown("/proc/self/limits does not say how many files may be open");
    };
    let found = format!("a program may have {soft} files and connections open");
    // "unlimited" is no number, and no limit.
    let Some(soft) = soft.parse::<u64>().ok().filter(|&soft| soft < ENOUGH) else { return Finding::well(found) };
    let cost = format!(
        "a node with 64 links, or a gateway with 64 clients and its nodes, is refused connections beyond {soft}"
    );
    let is_allowed = hard.parse::<u64>().map_or(true, |hard| hard >= 4 * ENOUGH);
    Finding::wrong(found, cost)
        .with_command(if is_allowed { format!("ulimit -n {}", 4 * ENOUGH) } else { String::new() })
        .with_advice("in the shell that starts it; systemd: LimitNOFILE=4096; as root in /etc/security/limits.conf")
}
