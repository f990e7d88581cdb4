//! Which extents a gateway's volumes have, kept beside its configuration.
//!
//! A node whose data file was lost, or whose card is not mounted, comes back with an empty extent of the right size.
//! Only who remembers the old one can tell; without that its zeros would be taken for data.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::config::{Config, VolumeConfig};

/// What is remembered, and where.
#[derive(Debug)]
pub(super) struct ExtentMemory {
    path: PathBuf,
    /// By node, counted over all volumes: volume's identity, number of the extent.
    places: Vec<(String, usize)>,
    document: Document,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    #[serde(default, rename = "extent")]
    extents: Vec<Remembered>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    /// The volume's identity.
    volume: String,
    /// Which of its extents.
    number: usize,
    /// The extent's identity, in hexadecimal.
    id: String,
}

impl ExtentMemory {
    /// What is kept beside the configuration at `config_path`; nothing if `forget` is set.
    pub fn load(config: &Config, config_path: &Path, forget: bool) -> anyhow::Result<ExtentMemory> {
        let mut path = config_path.as_os_str().to_owned();
        path.push(".extents");
        let path = PathBuf::from(path);
        let document = match std::fs::read_to_string(&path) {
            Ok(text) if !forget => toml::from_str(&text).with_context(|| {
                let path = path.display();
                format!(
                    "{path} is damaged; bring it back from a copy, or start with --forget to learn the extents anew"
                )
            })?,
            Err(error) if !forget && error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
            _ => Document::default(),
        };
        let numbered = |v: &VolumeConfig| (0..v.nodes.len()).map(|n| (v.id.clone(), n)).collect::<Vec<_>>();
        Ok(ExtentMemory { path, places: config.volumes.iter().flat_map(numbered).collect(), document })
    }

    /// The extents that nodes are known to serve, by node.
    pub fn extent_ids(&self) -> Vec<Option<[u8; 16]>> {
        let known = |(volume, number): &(String, usize)| {
            let found = self.document.extents.iter().find(|e| e.volume == *volume && e.number == *number)?;
            u128::from_str_radix(&found.id, 16).ok().map(u128::to_be_bytes)
        };
        self.places.iter().map(known).collect()
    }

    /// Keeps in mind that a node serves an extent. A folder that cannot be written to is no reason not to serve.
    pub fn remember(&mut self, node: usize, extent_id: [u8; 16]) {
        let Some((volume, number)) = self.places.get(node).cloned() else { return };
        let id = format!("{:032x}", u128::from_be_bytes(extent_id));
        self.document.extents.retain(|e| e.volume != volume || e.number != number);
        self.document.extents.push(Remembered { volume, number, id });
        if let Err(error) = self.save() {
            let path = self.path.display();
            log::warn!("{path}: {error:#}; after a restart an empty node will not be told from the right one");
        }
    }

    fn save(&self) -> anyhow::Result<()> {
        let mut temporary = self.path.as_os_str().to_owned();
        temporary.push(".new");
        let heading = "# Which extents the volumes have. `flashmob gateway` writes and reads this.";
        let mut file = std::fs::File::create(&temporary)?;
        writeln!(file, "{heading}\n\n{}", toml::to_string(&self.document)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        Ok(())
    }
}
