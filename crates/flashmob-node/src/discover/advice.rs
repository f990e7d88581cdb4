//! Notes about a search beside its list: above all, that multicast does not get through, and the
//! alternatives.

use std::net::SocketAddr;

use super::search::Search;
use flashmob_server::discovery::found::FOUND_MAX;

/// The notes about a search.
pub fn notes(search: &Search, join: Option<SocketAddr>) -> Vec<String> {
    let mut notes = Vec::new();
    let count = search.found.len();
    notes.extend(multicast_note(search.no_multicast.as_ref().map(ToString::to_string), search.heard_any, count, join));
    for node in search.found.listed().iter().filter(|node| !node.is_reached()) {
        notes.push(format!(
            "{} announces itself at {} but does not answer there: check for a firewall, client isolation on the access point, or a wrong \
            --advertise",
            node.about.shown_name(),
            node.about.address
        ));
    }
    if !search.with_keys.is_empty() {
        let addrs: Vec<String> = search.with_keys.values().map(ToString::to_string).collect();
        notes.push(format!(
            "{} node{} of clusters with keys announced: {}; only their gateways recognize them, and `flashmob join` adds nodes to such a cluster",
            addrs.len(),
            if addrs.len() == 1 { "" } else { "s" },
            addrs.join(", ")
        ));
    }
    if !search.far.is_empty() {
        let addrs: Vec<String> = search.far.values().flatten().map(ToString::to_string).collect();
        notes.push(format!(
            "nodes announce addresses in other networks, which are not tried: {}; to use them, write the addresses into the configuration",
            addrs.join(", ")
        ));
    }
    if search.found.turned_away() > 0 {
        notes.push(format!("more than {FOUND_MAX} nodes announce themselves: the list is incomplete"));
    }
    notes
}

/// The note about multicast DNS; none if any node was heard by it.
pub fn multicast_note(
    impossible: Option<String>,
    heard_any: bool,
    count: usize,
    join: Option<SocketAddr>,
) -> Option<String> {
    if heard_any {
        return None;
    }
    let join = join.map_or("HOST:PORT".to_string(), |addr| addr.to_string());
    let remedy = format!(
        "start nodes with --join {join}, which needs no multicast, or write their addresses into the configuration"
    );
    Some(match (impossible, count) {
        (Some(why), _) => format!("multicast DNS does not work here: {why}; {remedy}"),
        (None, 0) => format!(
            "no node found: multicast DNS queries got no answer. Either no node runs with --listen 0.0.0.0:7411 in this network, or \
            multicast is blocked on the way (many access points do this, and every router does); {remedy}"
        ),
        (None, _) => format!(
            "nodes were found by --join only, none by multicast DNS: multicast is blocked on the way, or the nodes run with \
            --announce off; to find missing nodes: {remedy}"
        ),
    })
}
