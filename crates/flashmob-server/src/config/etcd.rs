//! The section of etcd: where the maps are, if not in files.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::address::{parse_node_address_at, tidy};
use super::limits::{ETCD_ENDPOINTS_MAX, ETCD_LEASE, ETCD_PORT, ETCD_VOLUMES_MAX, NAME_BYTES_MAX};
use super::report::quoted;
use super::section::Section;
use super::types::{Config, EtcdConfig, LayoutKind, NodeSource};
use crate::etcd::{Etcd, Tls};
use crate::net::fetch::Target;

/// What keys begin with, if nothing else is configured.
const PREFIX: &str = "/flashmob/";

impl EtcdConfig {
    /// The members in `etcd://HOST:PORT,...`, with every default.
    ///
    /// # Errors
    /// It is something else; the text says what to write.
    pub fn parse(text: &str) -> Result<EtcdConfig, String> {
        let members = text.strip_prefix("etcd://").ok_or("write etcd://HOST:PORT,HOST:PORT,...")?;
        EtcdConfig::at(members.trim_end_matches('/').split(','))
    }

    /// With every default. An endpoint without a port has that of etcd.
    ///
    /// # Errors
    /// An endpoint is none; the text says which and why.
    pub fn at<'a>(endpoints: impl IntoIterator<Item = &'a str>) -> Result<EtcdConfig, String> {
        let endpoints: Vec<String> = endpoints.into_iter().map(endpoint).collect::<Result<_, _>>()?;
        if endpoints.is_empty() || endpoints.len() > ETCD_ENDPOINTS_MAX {
            return Err(format!(
                "write 1 to {ETCD_ENDPOINTS_MAX} members of etcd, such as etcd://10.0.0.2:2379,10.0.0.3:2379,10.0.0.4:2379"
            ));
        }
        Ok(EtcdConfig { endpoints, tls: None, prefix: PREFIX.to_string(), lease: ETCD_LEASE.default.0 })
    }
}

impl EtcdConfig {
    /// A client of that cluster. Nothing is connected to yet.
    ///
    /// # Errors
    /// A file of `tls` cannot be used.
    pub fn client(&self) -> anyhow::Result<Etcd> {
        Etcd::new(&self.endpoints, self.tls.as_ref())
    }

    /// Whether somebody on another machine may get in between, or may use etcd as this gateway does: a member is elsewhere, and connections have no TLS,
    /// or the gateway no certificate.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let has_certificate = self.tls.as_ref().is_some_and(|tls| tls.cert.is_some());
        !has_certificate && self.endpoints.iter().any(|endpoint| !is_local(endpoint))
    }
}

impl Config {
    /// Why the volumes cannot have their maps in etcd, if they cannot.
    #[must_use]
    pub fn unfit_for_etcd(&self) -> Option<String> {
        let volume = |volume: &super::VolumeConfig| {
            if !matches!(volume.layout, LayoutKind::Mapped { .. }) {
                return Some(format!(
                    "volume '{}' has no copies, and so no map: another gateway could not take it over. Serve it with a gateway of its own",
                    volume.name
                ));
            }
            let is_local = |source: &NodeSource| matches!(source, NodeSource::Local { .. });
            let local = volume.nodes.iter().find(|node| is_local(&node.source))?;
            Some(format!(
                "volume '{}' has a node inside the gateway, {}, which another gateway could not reach: run `flashmob node`",
                volume.name,
                local.source.name()
            ))
        };
        if self.etcd.is_some() && self.volumes.len() > ETCD_VOLUMES_MAX {
            return Some(format!(
                "a gateway takes charge of at most {ETCD_VOLUMES_MAX} volumes at once: use another one for the rest"
            ));
        }
        self.etcd.as_ref().and_then(|_| self.volumes.iter().find_map(volume))
    }
}

/// Whether a member is on this machine.
fn is_local(endpoint: &str) -> bool {
    let Ok(host) = Target::host(endpoint) else { return false };
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

fn endpoint(text: &str) -> Result<String, String> {
    parse_node_address_at(text, ETCD_PORT).map_err(|why| format!("{} is not a member of etcd: {why}", quoted(text)))
}

/// Reads the section.
pub(super) fn read_etcd(section: &Section<'_>, base_dir: &Path) -> Option<EtcdConfig> {
    let texts =
        section.texts("endpoints", "[\"10.0.0.2:2379\", \"10.0.0.3:2379\", \"10.0.0.4:2379\"]").unwrap_or_default();
    let found = EtcdConfig::at(texts.iter().map(|(text, _)| *text));
    let (tls, lease) = (read_tls(section, base_dir), section.get("lease", &ETCD_LEASE).0);
    if lease.subsec_nanos() > 0 {
        section.wrong(
            "lease",
            "`lease` must be a number of whole seconds",
            "write such as \"10s\": etcd counts seconds",
        );
    }
    let mut prefix =
        section.printable("prefix", NAME_BYTES_MAX).map_or_else(|| PREFIX.to_string(), |(text, _)| text.to_string());
    if !prefix.ends_with('/') {
        prefix.push('/');
    }
    match found {
        Ok(etcd) => Some(EtcdConfig { tls, lease, prefix, ..etcd }),
        Err(why) => {
            section.wrong("endpoints", "`endpoints` are not the members of an etcd cluster", why);
            None
        }
    }
}

fn read_tls(section: &Section<'_>, base_dir: &Path) -> Option<Tls> {
    let path = |key: &'static str| -> Option<PathBuf> {
        let (text, _) = section.text(key)?;
        if text.is_empty() || text.contains('\0') || text.starts_with('~') {
            section.wrong(
                key,
                format!("`{key}` is {}, which is not the path of a file", quoted(text)),
                "write the path of a PEM file",
            );
        }
        Some(tidy(&base_dir.join(text)))
    };
    let (ca, cert, key) = (path("ca"), path("cert"), path("key"));
    if cert.is_some() != key.is_some() {
        let (has, lacks) = if cert.is_some() { ("cert", "key") } else { ("key", "cert") };
        section.wrong(has, format!("`{has}` needs `{lacks}`"), format!("add {lacks} = \"...\", or remove `{has}`"));
    }
    if ca.is_none() && cert.is_some() {
        section.wrong(
            "cert",
            "`cert` needs `ca`",
            "add ca = \"...\", the certificate of the authority that has signed etcd's",
        );
    }
    Some(Tls { ca: ca?, cert, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_elsewhere_has_to_show_a_certificate() {
        let of = |endpoints: &[&str]| EtcdConfig::at(endpoints.iter().copied()).unwrap();
        for local in ["127.0.0.1:2379", "127.9.9.9", "[::1]:2379", "localhost:2379", "[::ffff:127.0.0.1]:2379"] {
            assert!(!of(&[local]).is_open(), "{local}");
            assert!(of(&[local, "10.0.0.2:2379"]).is_open(), "{local} and another one");
        }
        for elsewhere in
            ["10.0.0.2:2379", "128.0.0.1:2379", "[2001:db8::1]:2379", "etcd:2379", "localhost.example:2379"]
        {
            let plain = of(&[elsewhere]);
            let with = |cert: Option<&str>| {
                let cert = cert.map(PathBuf::from);
                EtcdConfig { tls: Some(Tls { ca: "ca.pem".into(), key: cert.clone(), cert }), ..plain.clone() }
            };
            assert!(plain.is_open() && with(None).is_open() && !with(Some("gateway.pem")).is_open(), "{elsewhere}");
        }
    }
}
