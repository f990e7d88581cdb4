//! A gateway's configuration from the nodes found.
//!
//! Nodes that belong to a volume keep their place in it: an incomplete volume is left out and named, never
//! reassembled. Free nodes form a new volume, ordered by name. The text is parsed before it is written.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use flashmob_core::layout::LayoutKind;

use super::search::Search;
use crate::status::units::bytes;
use crate::whole_file;
use flashmob_server::config::Config;
use flashmob_server::config::quantity::Size;
use flashmob_server::discovery::Announcement;
use flashmob_server::discovery::txt::CUT;

/// Writes the file, and reports what is in it and what is not.
pub fn write(
    path: &Path,
    force: bool,
    free_name: &str,
    search: &Search,
    join: Option<SocketAddr>,
) -> anyhow::Result<()> {
    let found = search.found.listed();
    let (there, silent): (Vec<_>, Vec<_>) = found.into_iter().partition(|node| node.is_reached());
    for node in silent {
        log::warn!("not included: {} at {} does not answer", node.about.shown_name(), node.about.address);
    }
    let nodes: Vec<&Announcement> = there.iter().map(|node| &node.about).collect();
    let (volumes, left_out) = volumes(&nodes, free_name);
    left_out.iter().for_each(|why| log::warn!("not included: {why}"));
    anyhow::ensure!(!volumes.is_empty(), "{} was not written: the nodes found do not make up a volume", path.display());
    let text = text(&volumes, join.map(|_| search.listens_at()));
    Config::parse(&text, &path.display().to_string(), Path::new("/"))
        .with_context(|| format!("{} was not written: this is a bug in flashmob", path.display()))?;
    put(path, &text, force).with_context(|| format!("cannot write {}", path.display()))?;
    let count: usize = volumes.iter().map(|volume| volume.nodes.len()).sum();
    log::info!(
        "wrote {}: {count} nodes; they have no keys: flashmob gateway {} --insecure",
        path.display(),
        path.display()
    );
    Ok(())
}

/// Writes the whole file or nothing. Without `force` no file is replaced, not even one created meanwhile.
fn put(path: &Path, text: &str, force: bool) -> io::Result<()> {
    if force {
        return whole_file::write(path, text);
    }
    let mut file = whole_file::create_beside(path)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists || path.exists() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file already exists; use --force to replace it"))
        }
        // The file system does not support that.
        Err(error) => error.file.persist(path).map(drop).map_err(|error| error.error),
    }
}

/// A volume to write.
#[derive(Debug, PartialEq, Eq)]
pub struct Volume<'a> {
    pub name: String,
    /// As its nodes store it; `None` for a new one.
    pub layout: Option<LayoutKind>,
    /// In order.
    pub nodes: Vec<&'a Announcement>,
}

/// The volumes that can be formed, and why others cannot. `nodes` are in the order for new volumes.
pub fn volumes<'a>(nodes: &[&'a Announcement], free_name: &str) -> (Vec<Volume<'a>>, Vec<String>) {
    let mut taken: BTreeMap<&str, Vec<&'a Announcement>> = BTreeMap::new();
    let mut free = Vec::new();
    for node in nodes {
        match &node.volume {
            Some(volume) => taken.entry(volume).or_default().push(node),
            None => free.push(*node),
        }
    }
    let (mut volumes, mut left_out) = (Vec::new(), Vec::new());
    for (name, members) in taken {
        match whole(name, members) {
            Ok(volume) => volumes.push(volume),
            Err(why) => left_out.push(why),
        }
    }
    if !free.is_empty() {
        // Nodes store their volume's name: a new volume must not have a name in use.
        let is_used = |name: &str| nodes.iter().any(|node| node.volume.as_deref() == Some(name));
        let numbered = (2..).map(|n| format!("{free_name}-{n}"));
        let name = std::iter::once(free_name.to_string()).chain(numbered).find(|name| !is_used(name));
        volumes.push(Volume { name: name.unwrap_or_default(), layout: None, nodes: free });
    }
    (volumes, left_out)
}

/// The volume that `members` belong to, if they are complete.
fn whole<'a>(name: &str, mut members: Vec<&'a Announcement>) -> Result<Volume<'a>, String> {
    let names = |members: &[&Announcement]| members.iter().map(|m| m.shown_name()).collect::<Vec<_>>().join(", ");
    if name.ends_with(CUT) {
        return Err(format!(
            "the id of volume '{name}' is too long for multicast DNS: write it by hand, or start its nodes with --join"
        ));
    }
    let place = members.iter().find_map(|member| member.place.clone());
    let Some(place) = place else {
        let names = names(&members);
        return Err(format!(
            "{names} belong to volume '{name}' but do not report their position in it; write them by hand"
        ));
    };
    if place.has_copies() {
        let (found, names) = (members.len(), names(&members));
        return Err(format!(
            "volume '{name}' has copies, and {found} of its nodes were found ({names}): start its gateway with its own \
             configuration and the map beside it; nodes alone do not tell where its data is"
        ));
    }
    members.sort_by_key(|member| member.place.as_ref().map(|place| place.index));
    let agrees = |(number, member): (usize, &&Announcement)| {
        let index = u32::try_from(number).unwrap_or(u32::MAX);
        member.place.as_ref().is_some_and(|p| (p.index, p.count, &p.layout) == (index, place.count, &place.layout))
    };
    let count = place.count as usize;
    if members.len() != count || !members.iter().enumerate().all(agrees) {
        return Err(format!(
            "volume '{name}' has {count} nodes, and not all of them were found exactly once: found {} ({})",
            members.len(),
            names(&members)
        ));
    }
    let layout = layout(&place.layout).ok_or_else(|| {
        format!("volume '{name}' has an unknown layout ({}): write it by hand, or use a newer version", place.layout)
    })?;
    Ok(Volume { name: name.to_string(), layout: Some(layout), nodes: members })
}

/// Parses a layout from a gateway's configuration.
fn layout(text: &str) -> Option<LayoutKind> {
    match text.split_once(':') {
        None if text == "linear" => Some(LayoutKind::Linear),
        Some(("striped", bytes)) => bytes.parse().ok().map(|stripe_bytes| LayoutKind::Striped { stripe_bytes }),
        _ => None,
    }
}

/// The file's text. `admin`: the address that nodes were told to join, where the gateway must listen.
pub fn text(volumes: &[Volume<'_>], admin: Option<SocketAddr>) -> String {
    let mut out = String::from(
        "# Written by 'flashmob discover'. After a change, validate it with 'flashmob gateway --check'.\n\
         #\n\
         # NBD clients can connect from this machine only; to allow others: listen = \"0.0.0.0:10809\"\n\
         # Whoever reaches the nodes can read and write everything: use a network that you trust, or\n\
         # give the cluster keys: flashmob key init\n\n",
    );
    // Writing to a string cannot fail.
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    if let Some(admin) = admin {
        line("# For /status, /metrics and announcements: nodes started with --join to this port are followed when\n# their address changes.".to_string());
        line(format!("admin = {}", quoted(&admin.to_string())));
    }
    for volume in volumes {
        line("\n[[volume]]".to_string());
        line(format!("name = {} # export name for NBD clients; stored on the nodes", quoted(&volume.name)));
        match volume.layout {
            None => line("layout = \"linear\" # or \"striped\": see examples/striped.toml. Do not change it once the volume has data.".to_string()),
            Some(LayoutKind::Linear) => line("layout = \"linear\"".to_string()),
            // `discover` writes none of these: copies need sizes and a choice.
            Some(LayoutKind::Mapped { .. }) => {}
            Some(LayoutKind::Striped { stripe_bytes }) => {
                line("layout = \"striped\"".to_string());
                line(format!("stripe = {}", Size(stripe_bytes).to_toml()));
            }
        }
        line(format!(
            "# {} nodes. Their order is the order of the volume's addresses: do not change it later.",
            volume.nodes.len()
        ));
        for node in &volume.nodes {
            line(format!("\n[[volume.node]] # {}", remark(node)));
            line(format!("address = {}", quoted(&node.address)));
            line(format!(
                "extent = {} # only this extent is accepted, wherever its address",
                quoted(&node.extent.to_string())
            ));
            line(format!("size = {}", Size(node.size_bytes).to_toml()));
        }
    }
    out
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn remark(node: &Announcement) -> String {
    let mut words = vec![node.shown_name()];
    words.extend(node.model.clone().filter(|model| *model != node.name));
    words.push(bytes(node.size_bytes));
    words.extend(node.reads_per_s.map(|reads| format!("{reads} reads/s measured on its flash, one at a time")));
    words.join(", ")
}
