//! `flashmob volume show`.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use flashmob_core::units::Bytes;
use flashmob_server::status::report::REMOVED;
use flashmob_server::status::volumes::{
    BadPlace, CopiesDetails, MemberDetails, MovesDetails, NodeDetails, PassDetails, VolumeDetails,
};
use flashmob_text::Side::{Left, Right};
use flashmob_text::{Colour, Row, Side, Table};

use super::moves::why;
use super::{named, volumes};
use crate::commands::admin_target::AdminArgs;
use crate::commands::status::units::{held_up, left, printable, shortened, uptime};
use crate::commands::tell::Form;

const WIDTH: usize = 120;
/// More places that cannot be mended are counted.
const BAD_LINES_MAX: usize = 20;
const SIDES: [Side; 10] = [Right, Left, Left, Left, Right, Right, Right, Right, Right, Right];
const HEADINGS: [&str; 10] =
    ["node", "address", "state", "domain", "size", "copies", "room", "behind", "doubtful", "only"];

/// Show the volumes of a running gateway, and the copies that each node has.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume show 127.0.0.1:10810
  flashmob volume show 127.0.0.1:10810 pool --output json | jq '.volumes[].nodes[].member'

Columns:
  copies    copies of chunks on the node
  room      chunks that the node could have a copy of besides
  behind    of these: lack something, and are made equal while the node is there
  doubtful  of these: the device restarted, and it is not known yet whether they lack something
  only      of these: the only current copy of their chunk; if it is lost, data is lost")]
pub struct ShowArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Only this volume.
    #[arg(value_name = "VOLUME")]
    volume: Option<String>,
    /// Show the extent of each node as well, which `flashmob key unpin` takes.
    #[arg(long)]
    extents: bool,
    /// Output format: a table, or the JSON of /volumes (schema/volumes-1.json).
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &ShowArgs) -> anyhow::Result<()> {
    let (mut report, _) = volumes(&args.admin.open()?)?;
    if let Some(name) = &args.volume {
        report.volumes = vec![named(&report, name)?.clone()];
    }
    let mut out = io::stdout();
    if args.output == Form::Json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
        return Ok(());
    }
    let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let page =
        |volume: &VolumeDetails| page(volume, colour) + &if args.extents { extents(volume) } else { String::new() };
    let texts: Vec<String> = report.volumes.iter().map(page).collect();
    out.write_all(texts.join("\n").as_bytes())?;
    Ok(())
}

/// One volume as text.
pub(super) fn page(volume: &VolumeDetails, colour: bool) -> String {
    let mut text = String::new();
    let mut line = |line: String| text.push_str(&(line + "\n"));
    let size = volume.size_bytes.map_or("size unknown".to_string(), |bytes| Bytes(bytes).to_string());
    let present = || volume.nodes.iter().filter(|node| node.state != REMOVED);
    line(format!("volume {}, {size}, {} nodes", printable(&volume.name), present().count()));
    if let Some(copies) = &volume.copies {
        copies_lines(copies, &held_up_by(&volume.nodes)).into_iter().for_each(&mut line);
    }
    let has_copies = volume.copies.is_some();
    let columns = if has_copies { SIDES.len() } else { 3 };
    let mut table = Table::new(&SIDES[..columns]);
    table.plain(HEADINGS[..columns].iter().copied());
    present().for_each(|node| table.row(row(node, has_copies)));
    table.lines(WIDTH, colour).into_iter().for_each(&mut line);
    for node in present() {
        notes(&volume.name, node).into_iter().for_each(&mut line);
    }
    text
}

/// Why copies are not made current.
fn held_up_by(nodes: &[NodeDetails]) -> String {
    let behind = nodes.iter().filter(|node| node.member.as_ref().is_some_and(|member| member.behind > 0));
    let is_away = |node: &&NodeDetails| {
        node.state != "ready"
            || node.member.as_ref().is_some_and(|member| member.is_paused || member.out_seconds.is_some())
    };
    let away = behind.clone().filter(|node| node.device_fails.is_none()).any(|node| is_away(&node));
    let failing = |node: &NodeDetails| Some(format!("node {} {}", node.number, printable(node.device_fails.as_ref()?)));
    held_up(away, &behind.filter_map(failing).collect::<Vec<_>>())
}

/// The extents that nodes have.
fn extents(volume: &VolumeDetails) -> String {
    let mut table = Table::new(&[Right, Left, Left]);
    table.plain(["node", "address", "extent"]);
    for node in volume.nodes.iter().filter(|node| node.state != REMOVED) {
        let extent = node.member.as_ref().and_then(|member| member.extent.as_deref()).unwrap_or("not known");
        table.plain([node.number.to_string(), printable(&node.name), printable(extent)]);
    }
    table.lines(WIDTH, false).into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

fn copies_lines(copies: &CopiesDetails, held_up: &str) -> Vec<String> {
    let CopiesDetails { copies: wanted, fewest_current, chunks, chunk_bytes, .. } = *copies;
    let mut lines = Vec::new();
    if fewest_current < wanted {
        lines.push(format!("some chunks have {fewest_current} of {wanted} copies left"));
    }
    let s = if wanted == 1 { "copy" } else { "copies" };
    lines.push(format!("{wanted} {s} of {chunks} chunks of {}", Bytes(chunk_bytes)));
    lines.extend(left(&copies.rebuild, held_up));
    lines.extend(moves_line(&copies.moves));
    lines.push(scrub_line(&copies.scrub.compare));
    if copies.scrub.mending_chunks > 0 {
        lines.push(format!("{} chunks have blocks that are to be written again", copies.scrub.mending_chunks));
    }
    lines.extend(bad_lines(&copies.scrub.bad, copies.scrub.unlisted_blocks));
    let trouble = copies.map_trouble.iter().map(|why| format!("its map cannot be written: {}", printable(why)));
    let deposed =
        copies.deposed.iter().map(|why| format!("this gateway does not serve it any more: {}", printable(why)));
    let waits = copies.waits_for.iter().map(|why| format!("it is not served yet: {}", printable(why)));
    lines.extend(trouble.chain(waits).chain(deposed));
    lines
}

/// What moves, if anything does or should.
fn moves_line(moves: &MovesDetails) -> Option<String> {
    let MovesDetails { is_balancing, left_copies, left_bytes, .. } = *moves;
    let waits = why(moves).map(|why| format!("; waiting: {why}")).unwrap_or_default();
    let why_moved = if is_balancing { ", to fill nodes evenly" } else { "" };
    if left_copies == 0 && (waits.is_empty() || is_balancing) {
        return is_balancing.then(|| format!("nodes are to be filled evenly{waits}"));
    }
    let speed = moves.bytes_per_second.map(|rate| format!(", {}/s", Bytes(rate as u64)));
    let left = moves.eta_seconds.map(|eta| format!(", {} left", uptime(eta)));
    Some(format!(
        "{left_copies} copies ({}) are to be moved{why_moved}{}{}{waits}",
        Bytes(left_bytes),
        speed.unwrap_or_default(),
        left.unwrap_or_default()
    ))
}

/// When all copies were compared, or how far that is.
fn scrub_line(compare: &PassDetails) -> String {
    if compare.is_running {
        let done =
            format!("all copies are being compared: {} of {}", Bytes(compare.done_bytes), Bytes(compare.total_bytes));
        return match (&compare.waits, compare.eta_seconds) {
            (Some(why), _) => format!("{done}; waiting: {}", printable(why)),
            (None, Some(eta)) => format!("{done}, {} left", uptime(eta)),
            (None, None) => done,
        };
    }
    let next = compare.due_in_seconds.map(|due| format!("in {}", uptime(due)));
    match (compare.done_seconds_ago, next) {
        (Some(ago), Some(next)) => format!("all copies were compared {} ago, and will be again {next}", uptime(ago)),
        (Some(ago), None) => format!("all copies were compared {} ago", uptime(ago)),
        (None, Some(next)) => format!("all copies will be compared for the first time {next}"),
        (None, None) => "the copies were never compared by a scrub, and none is planned".to_string(),
    }
}

/// The places of what cannot be mended, if there are any.
pub(super) fn bad_lines(bad: &[BadPlace], unlisted_blocks: u64) -> Vec<String> {
    if bad.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["cannot be mended; a write of all of a block heals it:".to_string()];
    lines.extend(bad.iter().take(BAD_LINES_MAX).map(|place| {
        let BadPlace { offset_bytes, bytes, flaw, nodes } = place;
        let what = match &**flaw {
            "unreadable" => "no copy matches its checksum".to_string(),
            "differs" => "copies differ, though each matches its checksum".to_string(),
            other => printable(other),
        };
        let nodes: Vec<String> = nodes.iter().map(usize::to_string).collect();
        format!(
            "  bytes {offset_bytes} to {} ({}): {what}; nodes {}",
            offset_bytes + bytes - 1,
            Bytes(*bytes),
            nodes.join(", ")
        )
    }));
    let more = bad.len().saturating_sub(BAD_LINES_MAX);
    if more > 0 {
        lines.push(format!("  and {more} more places; --output json has them all"));
    }
    if unlisted_blocks > 0 {
        lines.push(format!("  and at least {unlisted_blocks} more blocks, for which the list had no room"));
    }
    if bad.iter().any(|place| place.flaw == "differs") {
        lines.push(
            "if copies differ because those on one node are wrong, `flashmob volume resync ADDR:PORT VOLUME NODE` makes them equal to others"
                .to_string(),
        );
    }
    lines
}

fn row(node: &NodeDetails, has_copies: bool) -> Row {
    let is = |what: fn(&MemberDetails) -> bool| node.member.as_ref().is_some_and(what);
    let state = match &*node.state {
        _ if is(|member| member.holds_data) => "holds data",
        "ready" if is(|member| member.is_joining) => "joining",
        _ if is(|member| member.is_paused) => "paused",
        _ if is(|member| member.is_drained) => "drained",
        "ready" if is(|member| member.is_leaving) => "leaving",
        state => state,
    };
    let colour = match state {
        "ready" | "drained" => Colour::Good,
        "refused" | "holds data" => Colour::Bad,
        _ => Colour::Doubtful,
    };
    let plain = |text: String| (text, Colour::Plain);
    let name = shortened(&printable(&node.name), 40);
    let mut row = vec![plain(node.number.to_string()), plain(name), (printable(state), colour)];
    if has_copies {
        let member = node.member.as_ref();
        let count = |of: fn(&MemberDetails) -> u32| member.map_or("-".to_string(), |member| of(member).to_string());
        row.extend(
            [
                member.map_or("-".to_string(), |member| shortened(&printable(&member.domain), 24)),
                node.size_bytes.map_or("-".to_string(), |bytes| Bytes(bytes).to_string()),
                count(|member| member.copies),
                count(|member| member.slots.saturating_sub(member.copies)),
                count(|member| member.behind),
                count(|member| member.doubtful),
                count(|member| member.only),
            ]
            .map(plain),
        );
    }
    row
}

fn notes(volume: &str, node: &NodeDetails) -> Vec<String> {
    let mut notes = Vec::new();
    let number = node.number;
    if let Some(fails) = &node.device_fails {
        notes.push(format!("node {number}: its device {}; `flashmob status` has the remedy", printable(fails)));
    }
    if let Some(scrub) = node.member.as_ref().map(|member| &member.scrub).filter(|scrub| scrub.is_running) {
        let waits = scrub.waits.as_ref().map(|why| format!("; waiting: {}", printable(why))).unwrap_or_default();
        let (done, total) = (Bytes(scrub.done_bytes), Bytes(scrub.total_bytes));
        notes.push(format!("node {number}: its copies are being verified, {done} of {total}{waits}"));
    }
    let member = node.member.as_ref();
    if let Some(member) = member.filter(|member| member.is_leaving) {
        notes.push(match member.is_drained {
            true => format!("node {number} has no copies any more: it can be switched off"),
            false => format!("node {number} is being drained: {} copies are left", member.copies),
        });
    }
    if member.is_some_and(|member| member.holds_data) {
        notes.push(format!(
            "node {number} is not used: its extent holds data, or cannot show that it does not; `flashmob volume add ADDR:PORT {} {} \
             --overwrite` gives that data up",
            printable(volume),
            printable(&node.name)
        ));
    }
    if member.is_some_and(|member| member.is_paused) {
        notes.push(format!(
            "node {number} is paused: `flashmob volume resume ADDR:PORT {} {number}` uses it again",
            printable(volume)
        ));
    } else if let Some(out) = member.and_then(|member| member.out_seconds).filter(|_| node.refusal.is_none()) {
        notes.push(format!("node {number} has not answered for {}", uptime(out)));
    }
    let accept = match member.map(|member| (member.acceptable_chunks, &member.not_acceptable)) {
        Some((Some(chunks), _)) => Some(Ok(chunks)),
        Some((None, Some(why))) => Some(Err(printable(why))),
        _ => None,
    };
    let only = member.map_or(0, |member| member.only);
    match (member.and_then(|member| member.offered.as_ref()), &accept) {
        (Some(offered), None) => notes.push(format!(
            "node {number} serves another extent ({}): `flashmob volume replace ADDR:PORT {} {number}` gives up the one \
             that was lost, and takes this one",
            printable(offered),
            printable(volume)
        )),
        (Some(offered), Some(_)) => notes.push(format!("node {number} serves another extent ({})", printable(offered))),
        (None, _) => notes.extend(node.refusal.iter().map(|why| format!("node {number} is refused: {}", printable(why)))),
    }
    if let Some(accept) = accept {
        notes.push(format!(
            "node {number} has the only current copy of {only} chunks, which cannot be used without it: bring its extent back, and do not give its \
             data up"
        ));
        let offers = member.is_some_and(|member| member.offered.is_some());
        let command = match offers {
            true => format!("`flashmob volume replace ADDR:PORT {} {number} --accept-loss`", printable(volume)),
            false => format!("`flashmob volume accept-loss ADDR:PORT {} {number}`", printable(volume)),
        };
        notes.push(match accept {
            // Of some there may be no other copy at all.
            Ok(chunks) if !offers || chunks == only => format!(
                "  if it is gone for good, {command} makes the best other copy of {chunks} chunks current, and what that lacks is lost"
            ),
            Ok(chunks) => format!("  {} of them have no copy on another node: the extent cannot be replaced", only - chunks),
            Err(why) => format!("  the loss cannot be accepted now: {why}"),
        });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nodes_extent_is_told() {
        let node = super::super::tests::details(1);
        let volume = VolumeDetails { name: "pool".to_string(), size_bytes: None, copies: None, nodes: vec![node] };
        let text = extents(&volume);
        assert!(text.contains(&format!("1  192.168.1.11:7411  {}", "0f".repeat(16))), "{text}");
    }
}
