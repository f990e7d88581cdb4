//! How a node gets to a cluster with keys: with a code that is typed, or a token in a file.

use std::io::{IsTerminal, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use flashmob_server::discovery::join::Place;
use flashmob_server::keys::enroll::secret::read_line;
use flashmob_server::keys::enroll::{Invitation, Secret};
use flashmob_server::node::Enrollment;
use flashmob_server::store::trouble_of_secret;

/// The token's name in systemd's folder of credentials.
const CREDENTIAL: &str = "flashmob-token";

/// The options of `flashmob node` that say how it is enrolled.
#[derive(Debug, Args)]
#[command(next_help_heading = "Keys")]
pub struct JoiningArgs {
    /// Enroll this node in a cluster with keys, at a running 'flashmob join' (usually port 7413). The code that it shows is read from
    /// stdin. A node that is enrolled already needs no code.
    #[arg(long, alias = "enrol", value_name = "HOST:PORT", group = "assignment")]
    enroll: Option<Place>,
    /// The same with a token that 'flashmob join --token-out' wrote; '-' reads it from stdin. systemd's credential flashmob-token is
    /// used without this option.
    #[arg(long, value_name = "FILE", group = "assignment")]
    token_file: Option<PathBuf>,
}

impl JoiningArgs {
    /// How this node is enrolled, if it is to be. `has_cluster`: its cluster is named otherwise.
    pub fn enrollment(self, has_cluster: bool, name: String) -> anyhow::Result<Option<Enrollment>> {
        let is_typed = self.enroll.is_some();
        let invite: Arc<dyn Fn() -> anyhow::Result<Invitation> + Send + Sync> = match (self.enroll, self.token_file) {
            (Some(place), _) => {
                let target = place.target();
                let target = target.map_err(|why| crate::WrongValue(format!("--enroll: {why}")))?;
                let address = target.to_string();
                Arc::new(move || Ok(Invitation { address: address.clone(), cluster: None, secret: ask()? }))
            }
            (None, Some(path)) if path == Path::new("-") => {
                Arc::new(|| read_line(std::io::stdin().lock())?.parse().context("stdin"))
            }
            (None, Some(path)) => Arc::new(move || read(&path)),
            (None, None) => {
                let folder = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|_| !has_cluster);
                let path = folder.map(|folder| Path::new(&folder).join(CREDENTIAL)).filter(|path| path.exists());
                let Some(path) = path else { return Ok(None) };
                Arc::new(move || read(&path))
            }
        };
        // The server knows where it listens.
        let serves_at = (Ipv4Addr::UNSPECIFIED, 0).into();
        Ok(Some(Enrollment { invite, is_typed, serves_at, name }))
    }
}

fn read(path: &Path) -> anyhow::Result<Invitation> {
    let line = std::fs::File::open(path).and_then(|file| read_line(std::io::BufReader::new(file)));
    let line = line.with_context(|| format!("cannot read the token in {}", path.display()))?;
    if let Some(trouble) = trouble_of_secret(path) {
        log::warn!(
            "{}, the file with the token, {trouble}: who reads it can enroll a device in the place of this one, and who changes it chooses this one's cluster",
            path.display()
        );
    }
    line.parse().with_context(|| path.display().to_string())
}

/// Asks for the code, again if it is none.
fn ask() -> anyhow::Result<Secret> {
    let stdin = std::io::stdin();
    loop {
        if stdin.is_terminal() {
            let mut err = std::io::stderr();
            write!(err, "the code that 'flashmob join' shows: ")?;
            err.flush()?;
        }
        let line = read_line(stdin.lock())?;
        anyhow::ensure!(
            !line.is_empty(),
            "there is no code on stdin: type it as 'flashmob join' shows it, or use --token-file"
        );
        match Secret::of_code(&line) {
            Err(error) if stdin.is_terminal() => log::error!("{error}"),
            secret => return Ok(secret?),
        }
    }
}
