//! The top of a configuration: listeners, resources, and volumes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::address::{parse_ip_address, parse_listen, tidy};
use super::etcd::read_etcd;
use super::limits::{
    ADMIN_PORT, BUSY_POLL_US, CONNECTIONS, HOST_BYTES_MAX, MEMORY, NAME_BYTES_MAX, NBD_PORT, TRACE_ONE_IN,
};
use super::report::{Findings, Note, quoted};
use super::section::{ETCD, Section, VOLUME};
use super::types::{Config, Listen, VolumeConfig};
use super::volume::{read_congestion, read_volume};

/// State that reading needs besides the current section.
pub(super) struct Reader<'a> {
    /// Relative paths start there.
    pub base_dir: &'a Path,
    /// Whether a local extent exists.
    pub exists: fn(&Path) -> bool,
    /// Names of volumes so far.
    pub names: Unique,
    /// Ids of volumes so far.
    pub ids: Unique,
    /// Names of the files of volumes with copies so far.
    pub files: Unique,
    /// Addresses, paths and extents of nodes so far.
    pub sources: Unique,
    /// Nodes of all volumes so far.
    pub nodes: usize,
}

/// Things that may occur only once, each with its place.
#[derive(Default)]
pub(super) struct Unique(HashMap<String, Range<usize>>);

impl Unique {
    /// Adds `thing` and returns whether it is new; reports it if it is not.
    pub fn claim(
        &mut self,
        thing: String,
        span: &Range<usize>,
        findings: &Findings<'_>,
        message: impl FnOnce() -> String,
        help: &str,
    ) -> bool {
        if let Some(first) = self.0.get(&thing) {
            findings.add_noted(span, message(), help, Note::Line("the first is", first.clone()));
            return false;
        }
        self.0.insert(thing, span.clone());
        true
    }
}

/// Reads everything from the top on. The result is valid only if no problem was found.
pub(super) fn read_config(top: &Section<'_>, reader: &mut Reader<'_>) -> Config {
    let listen = read_listen(top, reader.base_dir);
    let congestion = read_congestion(top);
    let sections = top.sections("volume", &VOLUME);
    if top.lacks("volume") {
        top.findings.add_missing(
            "the configuration has no volume",
            "add one: a line [[volume]] with a name = \"...\" below it, then a line [[volume.node]] \
             with an address = \"host:port\" below it, once for each node",
        );
    }
    let mut volumes: Vec<VolumeConfig> = sections.iter().map(|section| read_volume(section, reader)).collect();
    for volume in &mut volumes {
        volume.socket.congestion = volume.socket.congestion.take().or_else(|| congestion.clone());
    }
    let config = Config {
        admin: read_admin(top, &listen),
        etcd: top.section("etcd", &ETCD).and_then(|section| read_etcd(&section, reader.base_dir)),
        admin_hosts: read_admin_hosts(top),
        keys: read_keys(top, reader.base_dir),
        listen,
        connections: top.get("connections", &CONNECTIONS).0 as usize,
        busy_poll_us: top.get("busy_poll_us", &BUSY_POLL_US).0,
        trace_one_in: top.get("trace_one_in", &TRACE_ONE_IN).0,
        memory_bytes: top.get("memory", &MEMORY).0,
        name: top.printable("name", NAME_BYTES_MAX).map(|(name, _)| name.to_string()),
        volumes,
    };
    if let Some(why) = config.unfit_for_etcd() {
        top.wrong("etcd", "the maps of these volumes cannot be in etcd", why);
    }
    config
}

fn read_listen(top: &Section<'_>, base_dir: &Path) -> Vec<Listen> {
    let Some(texts) = top.texts("listen", "[\"127.0.0.1:10809\", \"unix:/run/flashmob/nbd.sock\"]") else {
        return vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], NBD_PORT)))];
    };
    if matches!(top.value("listen"), Some((DeValue::Array(items), _)) if items.is_empty()) {
        top.wrong(
            "listen",
            "`listen` is empty, so no client can connect",
            "write at least one address, or remove the line for 127.0.0.1:10809",
        );
    }

    let mut seen = Unique::default();
    let mut listeners = Vec::new();
    for (text, span) in texts {
        match parse_listen(text, NBD_PORT, base_dir) {
            Ok(listen) => {
                if !matches!(listen, Listen::Tcp(address) if address.port() == 0) {
                    let message = || format!("{} is given twice in `listen`", quoted(text));
                    seen.claim(listen.to_string(), &span, top.findings, message, "remove one of the two");
                }
                listeners.push(listen);
            }
            Err(why) => {
                let message = format!("`listen` has {}, which is not an address to listen on", quoted(text));
                top.findings.add(&span, message, why.to_string());
            }
        }
    }
    listeners
}

/// Names by which the admin port may be reached besides addresses and the machine's own name.
fn read_admin_hosts(top: &Section<'_>) -> Vec<String> {
    let is_host = |text: &str| {
        (1..=HOST_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let mut names = Vec::new();
    for (text, span) in top.texts("admin_hosts", "[\"gateway.example.org\"]").unwrap_or_default() {
        if is_host(text) {
            names.push(text.to_string());
        } else {
            let message = format!("`admin_hosts` has {}, which is not the name of a host", quoted(text));
            top.findings.add(&span, message, "write the name alone, such as gateway.example.org, without a port");
        }
    }
    names
}

/// The folder with the cluster's keys.
fn read_keys(top: &Section<'_>, base_dir: &Path) -> Option<PathBuf> {
    let (text, _) = top.text("keys")?;
    let help = if text.starts_with('~') {
        "write the full path: only a shell expands ~"
    } else if text.is_empty() || text.contains('\0') {
        "write the path of the folder that `flashmob key init` made; a relative path starts at the folder of this configuration"
    } else {
        return Some(tidy(&base_dir.join(text)));
    };
    top.wrong("keys", format!("`keys` is {}, which is not the path of a folder", quoted(text)), help);
    None
}

fn read_admin(top: &Section<'_>, listen: &[Listen]) -> Option<SocketAddr> {
    let (text, _) = top.text("admin")?;
    match parse_ip_address(text, ADMIN_PORT) {
        Ok(admin) => {
            if admin.port() != 0 && listen.contains(&Listen::Tcp(admin)) {
                let message = format!("`admin` is {}, which is already used for NBD", quoted(text));
                top.wrong("admin", message, format!("use another port, such as {ADMIN_PORT}"));
            }
            Some(admin)
        }
        Err(why) => {
            let message = format!("`admin` is {}, which is not an address to listen on", quoted(text));
            top.wrong("admin", message, why.to_string());
            None
        }
    }
}
