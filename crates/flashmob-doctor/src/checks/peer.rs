//! The peer, and the path to it.

use super::Finding;
use crate::path::{Answer, PathMtu};
use crate::time;
use crate::view::View;

fn without_peer() -> Finding {
    Finding::not_applicable("no peer was named").with_advice("name one with --peer HOST[:PORT]")
}

/// Whether the peer answers.
pub(super) fn answer(view: &View) -> Finding {
    let Some(path) = &view.path else { return without_peer() };
    let (peer, port) = (&path.asked.peer, path.asked.address.port());
    let rtt = path.rtt_s.map(|seconds| format!(" within {}", time(seconds))).unwrap_or_default();
    match &path.answer {
        Answer::Open => Finding::well(format!("{peer} answers{rtt}")),
        Answer::Refused if path.asked.is_port_named => {
            Finding::wrong(format!("{peer} is there, and refuses port {port}{rtt}"), "nothing listens there")
                .with_advice("start the program that should listen, or name another port")
        }
        Answer::Refused => Finding::well(format!("{peer} is there, and refuses port {port}{rtt}")),
        Answer::Silent(waited) => {
            let found = format!("{peer} says nothing at port {port} within {}", time(waited.as_secs_f64()));
            Finding::severe(found, "no connection can be made")
                .with_advice("a firewall drops what is sent to that port, or no device has that address")
        }
        Answer::Failed(why) => Finding::severe(format!("{peer} cannot be reached: {why}"), "no connection can be made")
            .with_advice("see which way leads there: ip route get ADDRESS"),
    }
}

/// Whether the path carries packets of the interface's MTU.
///
/// A router that cannot forward a packet reports that, and the kernel adapts. Where it does not, or a firewall drops the report, large packets
/// vanish: connections are made, small requests are answered, and the first large answer never arrives.
pub(super) fn mtu(view: &View) -> Finding {
    let Some(path) = &view.path else { return without_peer() };
    let peer = &path.asked.peer;
    match path.mtu {
        PathMtu::Unknown => Finding::unknown(format!("{peer} does not say whether large packets arrive"))
            .with_advice("it is asked by UDP, to a port where nobody listens; firewalls drop that as a rule"),
        PathMtu::Whole(bytes) => Finding::well(format!("packets of {bytes} bytes arrive at {peer} whole")),
        PathMtu::Told { sent_bytes, mtu_bytes } => Finding::well(format!(
            "packets of {sent_bytes} bytes are too large on the way to {peer}, and it is said that {mtu_bytes} are not"
        )),
        PathMtu::Lost { sent_bytes, arrived_bytes } => {
            let arrived =
                arrived_bytes.map_or("smaller ones arrive".to_string(), |bytes| format!("those of {bytes} arrive"));
            let found =
                format!("packets of {sent_bytes} bytes vanish on the way to {peer}, and nobody says so; {arrived}");
            let cost =
                "connections that send such packets hang at the first large request or answer, and end by timeout";
            let finding = Finding::severe(found, cost).with_advice(
                "let ICMP's 'fragmentation needed' through the firewalls on the way, or make packets smaller",
            );
            match (arrived_bytes, &path.interface) {
                (Some(bytes), Some(name)) => finding.with_command(format!("ip link set dev {name} mtu {bytes}")),
                _ => finding,
            }
        }
    }
}
