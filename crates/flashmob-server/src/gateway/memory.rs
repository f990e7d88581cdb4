//! The file beside a gateway's configuration: the extents of its volumes, its identity, and its last session.
//!
//! A node whose data file was lost, or whose card is not mounted, comes back with an empty extent of the right size.
//! Without a record of the old extent, its zeros would be taken for data.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::maps::Known;
use super::members::with_members;
use crate::config::{Config, ExtentId, NodeConfig, VolumeConfig};
use crate::store::extent_id::unique_id;
use crate::store::identity::STATE_DIR_DEFAULT;
use crate::store::put_file;

/// The end of the file's name.
const SUFFIX: &str = ".extents";

/// The path of a file beside the configuration, or in systemd's state directory for a service that may not write there.
pub(super) fn state_path(config_path: &Path, suffix: &str) -> PathBuf {
    path_in(config_path, std::env::var_os("STATE_DIRECTORY"), suffix)
}

fn path_in(config_path: &Path, state_dir: Option<OsString>, suffix: &str) -> PathBuf {
    let mut path = match (state_dir, config_path.file_name()) {
        (Some(dir), Some(name)) => PathBuf::from(dir).join(name),
        _ => config_path.to_path_buf(),
    };
    path.as_mut_os_string().push(suffix);
    path
}

/// The contents of the file, and its path.
#[derive(Debug)]
pub(super) struct ExtentMemory {
    path: PathBuf,
    /// By node, counted over all volumes: volume's identity, number of the extent.
    places: Vec<(String, usize)>,
    /// By node: the extent that the configuration names.
    named: Vec<Option<ExtentId>>,
    document: Document,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    /// The gateway's identity in hexadecimal, unless the configuration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gateway_id: Option<String>,
    /// The number of its last session.
    #[serde(default)]
    session: u64,
    #[serde(default, rename = "extent")]
    extents: Vec<Remembered>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    /// The volume's identity.
    volume: String,
    /// Which of its extents.
    number: usize,
    id: ExtentId,
}

/// The extents of a configuration's volumes, as far as they are known, for other processes than their gateway: that one may be a service, and keep its
/// file in systemd's state directory.
pub fn extents_in_use(config: &Config, config_path: &Path) -> anyhow::Result<HashSet<ExtentId>> {
    let (config, _) = with_members(config, config_path, &Known::default())?;
    let config = &config;
    let mut known = HashSet::new();
    for path in [state_path(config_path, SUFFIX), path_in(config_path, Some(STATE_DIR_DEFAULT.into()), SUFFIX)] {
        let memory = ExtentMemory::load_from(config, path, false)?;
        known.extend(memory.extent_ids().into_iter().flatten().map(ExtentId));
    }
    Ok(known)
}

impl ExtentMemory {
    /// Loads the file for the configuration at `config_path`; empty if `forget` is set.
    pub fn load(config: &Config, config_path: &Path, forget: bool) -> anyhow::Result<ExtentMemory> {
        ExtentMemory::load_from(config, state_path(config_path, SUFFIX), forget)
    }

    fn load_from(config: &Config, path: PathBuf, forget: bool) -> anyhow::Result<ExtentMemory> {
        let document = match std::fs::read_to_string(&path) {
            Ok(text) if !forget => toml::from_str(&text).with_context(|| {
                let path = path.display();
                format!(
                    "{path} is damaged; restore it from a backup, or start with --forget to accept the current extents"
                )
            })?,
            Err(error) if !forget && error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
            _ => Document::default(),
        };
        // What was kept of a node that was removed is of another by now, perhaps.
        let number = |(n, node): (usize, &NodeConfig)| if node.is_gone { usize::MAX } else { n };
        let numbered =
            |v: &VolumeConfig| v.nodes.iter().enumerate().map(|it| (v.id.clone(), number(it))).collect::<Vec<_>>();
        let places = config.volumes.iter().flat_map(numbered).collect();
        let named = config.volumes.iter().flat_map(|v| &v.nodes).map(|node| node.extent).collect();
        let memory = ExtentMemory { path, places, named, document };
        memory.refuse_contradiction(config)?;
        Ok(memory)
    }

    /// Refuses a configuration that names another extent than the one with the volume's data, which would be lost silently.
    fn refuse_contradiction(&self, config: &Config) -> anyhow::Result<()> {
        let nodes = config.volumes.iter().flat_map(|v| v.nodes.iter().map(move |node| (v, node)));
        for ((place, named), (volume, node)) in self.places.iter().zip(&self.named).zip(nodes) {
            let kept = self.kept(place);
            if let (Some(named), Some(kept)) = (named, kept)
                && *named != kept
            {
                let (path, number) = (self.path.display(), place.1);
                let place = node.source.name();
                anyhow::bail!(
                    "volume '{}', node {number} ({place}): the configuration names extent {named}, but the volume's data is in extent {kept}, \
                     as recorded in {path}; correct `extent`, or start with --forget to give up that data",
                    volume.name
                );
            }
        }
        Ok(())
    }

    fn kept(&self, (volume, number): &(String, usize)) -> Option<ExtentId> {
        self.document.extents.iter().find(|e| e.volume == *volume && e.number == *number).map(|found| found.id)
    }

    /// The gateway's identity (`named`, or the stored one, or a new one), and the number of this session: greater than all
    /// before, even if the clock was set back. `derived` is used if the file cannot be written.
    pub fn begin_session(&mut self, named: Option<[u8; 16]>, derived: [u8; 16], clock_session: u64) -> ([u8; 16], u64) {
        let kept = self.document.gateway_id.as_ref().and_then(|id| u128::from_str_radix(id, 16).ok());
        let known = named.or(kept.map(u128::to_be_bytes));
        let id = known.unwrap_or_else(unique_id);
        self.document.gateway_id = Some(format!("{:032x}", u128::from_be_bytes(id)));
        self.document.session = clock_session.max(self.document.session.saturating_add(1));
        let is_kept = self.save_or_warn() || known.is_some();
        (if is_kept { id } else { derived }, self.document.session)
    }

    /// The known extents by node: those that the configuration names, and those recorded.
    pub fn extent_ids(&self) -> Vec<Option<[u8; 16]>> {
        let known = |(named, place): (&Option<ExtentId>, _)| named.or(self.kept(place)).map(|id| id.0);
        self.named.iter().zip(&self.places).map(known).collect()
    }

    /// One more node: that number of a volume.
    pub fn add(&mut self, volume: &str, number: usize) {
        self.places.push((volume.to_string(), number));
        self.named.push(None);
    }

    /// Whether the configuration names the extent of a node.
    pub fn names(&self, node: usize) -> bool {
        self.named.get(node).is_some_and(Option::is_some)
    }

    /// Records that a node serves an extent. A folder that is not writable does not prevent serving.
    pub fn remember(&mut self, node: usize, extent_id: [u8; 16]) {
        let Some(place) = self.places.get(node).cloned() else { return };
        let id = ExtentId(extent_id);
        if self.kept(&place) == Some(id) {
            return;
        }
        let (volume, number) = place;
        self.document.extents.retain(|e| e.volume != volume || e.number != number);
        self.document.extents.push(Remembered { volume, number, id });
        self.save_or_warn();
    }

    /// Saves the file, or logs why that failed.
    fn save_or_warn(&self) -> bool {
        let saved = self.save();
        if let Err(error) = &saved {
            let path = self.path.display();
            log::warn!("{path}: {error:#}; after a restart an empty node cannot be distinguished from the right one");
        }
        saved.is_ok()
    }

    fn save(&self) -> anyhow::Result<()> {
        let heading = "# The volumes' extents and the gateway's identity. Written and read by `flashmob gateway`.";
        let text = format!("{heading}\n\n{}\n", toml::to_string(&self.document)?);
        put_file(&self.path, text.as_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str =
        "[[volume]]\nname = 'pool'\n[[volume.node]]\naddress = 'a:1'\n[[volume.node]]\naddress = 'b:1'\n";

    fn config() -> Config {
        Config::parse(CONFIG, "gateway.toml", Path::new("/")).unwrap()
    }

    #[test]
    fn what_was_remembered_is_known_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.toml");
        let mut memory = ExtentMemory::load(&config(), &path, false).unwrap();
        assert_eq!(memory.extent_ids(), [None, None]);
        let (id, first) = memory.begin_session(None, [1; 16], 1000);
        memory.remember(1, [7; 16]);
        let mut memory = ExtentMemory::load(&config(), &path, false).unwrap();
        assert_eq!(memory.extent_ids(), [None, Some([7; 16])]);
        let (same, second) = memory.begin_session(None, [1; 16], 5);
        assert_eq!((same, first), (id, 1000));
        assert_eq!(second, 1001, "later, though the clock was set back");
        assert_eq!(ExtentMemory::load(&config(), &path, true).unwrap().extent_ids(), [None, None], "forgotten");
    }

    #[test]
    fn starts_are_numbered_upwards_whatever_the_clock_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.toml");
        let day = 86_400_000_000_000;
        // Not set, set by the network, 50 years ahead, right again, in 1970 once more.
        let clocks = [1, 1, 20_700 * day, 38_900 * day, 20_701 * day, 1];
        let sessions = clocks.map(|clock| {
            let mut memory = ExtentMemory::load(&config(), &path, false).unwrap();
            memory.begin_session(None, [1; 16], clock).1
        });
        assert!(sessions.is_sorted_by(|a, b| a < b), "{sessions:?}");
    }

    #[test]
    fn an_extent_that_the_configuration_names_is_known_and_must_not_contradict_what_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.toml");
        let named = |digit: &str| {
            let text = CONFIG.replace("'b:1'", &format!("'b:1'\nextent = '{}'", digit.repeat(32)));
            Config::parse(&text, "gateway.toml", Path::new("/")).unwrap()
        };
        let mut memory = ExtentMemory::load(&named("7"), &path, false).unwrap();
        assert_eq!(memory.extent_ids(), [None, Some([0x77; 16])]);
        memory.remember(1, [0x77; 16]);
        assert!(ExtentMemory::load(&named("7"), &path, false).is_ok());
        let text = ExtentMemory::load(&named("8"), &path, false).unwrap_err().to_string();
        assert!(text.contains("b:1") && text.contains(&"7".repeat(32)) && text.contains("--forget"), "{text}");
        let forgotten = ExtentMemory::load(&named("8"), &path, true).unwrap();
        assert_eq!(forgotten.extent_ids(), [None, Some([0x88; 16])]);
    }

    #[test]
    fn a_damaged_file_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.toml");
        std::fs::write(dir.path().join("gateway.toml.extents"), "[[extent]]\nvolume = 3").unwrap();
        let text = ExtentMemory::load(&config(), &path, false).unwrap_err().to_string();
        assert!(text.contains("gateway.toml.extents") && text.contains("--forget"), "{text}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_no_obstacle() {
        let mut memory = ExtentMemory::load(&config(), Path::new("/nowhere/at/all/gateway.toml"), false).unwrap();
        assert_eq!(memory.begin_session(None, [1; 16], 9), ([1; 16], 9), "who it is follows from where it is");
        memory.remember(0, [7; 16]);
        assert_eq!(memory.extent_ids(), [Some([7; 16]), None]);
    }

    #[test]
    fn a_service_keeps_it_in_its_own_folder() {
        let path = path_in(Path::new("/etc/flashmob/gateway.toml"), Some("/var/lib/flashmob".into()), SUFFIX);
        assert_eq!(path, Path::new("/var/lib/flashmob/gateway.toml.extents"));
    }
}
