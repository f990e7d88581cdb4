//! Whether the path to the peer carries packets as large as the interface sends.
//!
//! A router that cannot pass a packet on says so, and then all is well: the kernel remembers it. Where it is silent, or what it says is
//! dropped by a firewall, large packets vanish: connections are made, small requests are answered, and the first large answer never comes.

use super::Finding;
use crate::path::PathMtu;
use crate::view::View;

pub(super) fn look(view: &View) -> Finding {
    let Some(path) = &view.path else {
        return Finding::not_applicable("no peer was named").with_advice("name one with --peer HOST[:PORT]");
    };
    let peer = &path.peer;
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
