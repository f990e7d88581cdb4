//! Which administrative port a command asks, and what it proves there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flashmob_server::config::Config;
use flashmob_server::keys::Folder;
use flashmob_server::keys::credentials::{target_of_gateway, target_with};
use flashmob_server::net::fetch::Target;

/// The address of a gateway or a node, and the proof.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// Admin address (its --admin option, or 'admin' in the gateway's configuration), with https:// if others can reach it and
    /// the cluster has keys; or, on the gateway's machine, its configuration file.
    #[arg(value_name = "ADDR:PORT|CONFIG")]
    target: String,
    /// Folder with the certificates or the token for an https:// address: from 'flashmob client add ... --admin', or
    /// DATA.admin of a node.
    #[arg(long, value_name = "DIR")]
    credentials: Option<PathBuf>,
}

impl AdminArgs {
    /// How another command names it: as this one did.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.credentials {
            Some(folder) => format!("{} --credentials {}", self.target, word(&folder.to_string_lossy())),
            None => self.target.clone(),
        }
    }

    /// The port to ask.
    ///
    /// # Errors
    /// Neither an address nor a configuration with one, or the keys cannot be read.
    pub fn open(&self) -> anyhow::Result<Target> {
        open(&self.target, self.credentials.as_deref())
    }

    /// For tests: without a proof.
    #[cfg(test)]
    pub fn plain(target: &str) -> AdminArgs {
        AdminArgs { target: target.to_string(), credentials: None }
    }
}

/// A word for a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+".contains(c);
    if text.chars().all(is_plain) { text.to_string() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The port that a text names.
///
/// # Errors
/// See [`AdminArgs::open`].
pub fn open(text: &str, credentials: Option<&Path>) -> anyhow::Result<Target> {
    let is_file = Path::new(text).is_file();
    match credentials {
        Some(_) if is_file => {
            bail_value!("--credentials is for an https:// address; {text} names the gateway's own keys")
        }
        Some(folder) => Ok(target_with(text, folder)?),
        None if is_file => of_config(Path::new(text)),
        None if text.ends_with(".toml") => {
            bail_value!("there is no file {text}; give the gateway's configuration, or its admin address")
        }
        None => match text.parse::<Target>() {
            Ok(target) => Ok(target),
            Err(error) => bail_value!("{error}"),
        },
    }
}

/// The port of the gateway with this configuration, on this machine.
fn of_config(path: &Path) -> anyhow::Result<Target> {
    let config = Config::load(path)?;
    let Some(mut admin) = config.admin.filter(|admin| admin.port() != 0) else {
        bail_value!(
            "{} names no admin port: add a line such as admin = \"127.0.0.1:10810\" and restart the gateway, or give the address that was \
             given to --admin",
            path.display()
        );
    };
    match admin.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => admin.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => admin.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let address = admin.to_string();
    match &config.keys {
        Some(folder) if !admin.ip().is_loopback() => Ok(target_of_gateway(&address, &Folder::at(folder))?),
        Some(folder) => target_of_gateway(&address, &Folder::at(folder)).with_context(|| {
            format!("this needs the gateway's key, which its user alone may read; 'flashmob status {address}' reads without, on this machine")
        }),
        None => Ok(address.parse()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_command_asks_in_the_same_way() {
        let with = |credentials: Option<&str>| {
            AdminArgs { target: "https://10.0.0.1:10810".into(), credentials: credentials.map(PathBuf::from) }.words()
        };
        assert_eq!(with(None), "https://10.0.0.1:10810");
        assert_eq!(with(Some("laptop")), "https://10.0.0.1:10810 --credentials laptop");
        assert_eq!(with(Some("my keys")), "https://10.0.0.1:10810 --credentials 'my keys'");
        assert_eq!(with(Some("it's")), r"https://10.0.0.1:10810 --credentials 'it'\''s'");
    }

    #[test]
    fn a_configuration_is_as_good_as_its_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.toml");
        let text = path.to_string_lossy().to_string();
        let volume = "[[volume]]\nname = \"pool\"\n[[volume.node]]\naddress = \"127.0.0.1:1\"\n";
        let named = |line: &str| {
            std::fs::write(&path, format!("{line}\n{volume}")).unwrap();
            open(&text, None).map(|target| target.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(named("admin = \"127.0.0.1:9100\""), Ok("127.0.0.1:9100".into()));
        assert_eq!(named("admin = \"0.0.0.0:9100\""), Ok("127.0.0.1:9100".into()));
        assert_eq!(named("admin = \"[::]:9100\""), Ok("[::1]:9100".into()));
        assert!(named("").unwrap_err().contains("names no admin port"));
        assert!(named("admin = \"127.0.0.1:0\"").unwrap_err().contains("names no admin port"));
        assert!(named("admin = \"127.0.0.1:9100\"\nkeys = \"k.keys\"").unwrap_err().contains("the gateway's key"));
        assert!(open(&text, Some(dir.path())).unwrap_err().to_string().contains("own keys"));
        assert!(open("missing.toml", None).unwrap_err().to_string().contains("no file missing.toml"));
        assert!(open("https://127.0.0.1:9100", None).unwrap_err().to_string().contains("--credentials"));
        assert!(open("https://127.0.0.1:9100", Some(dir.path())).unwrap_err().to_string().contains("ca-cert.pem"));
    }
}
