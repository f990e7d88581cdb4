//! The maps of volumes with copies: opened, or made, when the gateway starts; made durable while it runs.
//!
//! Each start counts itself in the map before it links to a node, so that nodes know which gateway is in charge.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use flashmob_core::copies::{MapError, MapImage, Marks, Member, Record, encode_batch, unknown_extent};
use flashmob_core::gateway::{CopiesSpec, Gateway, ScrubSpec};
use flashmob_core::units::{Bytes, Time};

use super::etcd_map::{EtcdMap, Keeper, Keys, MapKeys, Tenure, Trust, Unwritten};
use super::identity::home_of;
use super::map_file::{self, MapFile};
use super::map_store::MapStore;
use super::map_writer::{MapDone, MapWriter};
use super::memory::state_path;
use super::scrub_file::ScrubFile;
use super::server::load_keys;
use crate::config::{Config, CopiesConfig, LayoutKind, NodeConfig, NodeSource, VolumeConfig, file_name_of};
use crate::keys::GatewayKeys;
use crate::net::Wake;
use crate::store::extent_id::unique_id;

/// The maps that are being written: by volume.
#[derive(Debug, Default)]
pub(super) struct Maps {
    writers: Vec<Option<MapWriter>>,
    /// What is known of scrubs, beside each map.
    scrubs: Vec<Option<ScrubFile>>,
    /// Renews the lease, where maps are in etcd. It is dropped last: until then no other gateway is in charge.
    keeper: Option<Keeper>,
}

/// The maps as they are at the start, by volume. Those in etcd are read, as nobody else changes them; files are not locked yet.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Renews the lease while the maps are read.
    keeper: Option<Keeper>,
    /// Whom that wakes.
    wake: Arc<OnceLock<Wake>>,
    in_etcd: Vec<Option<(EtcdMap, MapImage)>>,
}

/// The keys of a gateway, as far as maps in etcd need them.
fn map_keys(keys: &GatewayKeys) -> MapKeys {
    let (sign, verify) = (keys.mirror_signer(), Box::new(keys.mirror_verifier()));
    MapKeys { sign, generation: keys.granted.generation, verify }
}

/// The trust in a volume's map in etcd, in a cluster with keys.
fn trust_of(config_path: &Path, volume: &VolumeConfig, keys: Option<&GatewayKeys>) -> anyhow::Result<Option<Trust>> {
    let path = volume_path(config_path, volume, "signed");
    keys.map(|keys| Trust::open(map_keys(keys), &volume.id, path)).transpose()
}

impl Known {
    /// Reads the maps that are in etcd, if this gateway is in charge there. One that no gateway of the cluster has signed is refused, unless it
    /// `accepts_unsigned` maps of the volume with that name.
    pub fn read(
        config: &Config,
        config_path: &Path,
        tenure: Option<Tenure>,
        accepts_unsigned: &[String],
    ) -> anyhow::Result<Known> {
        let mut known = Known::default();
        if let (Some(tenure), Some(etcd)) = (&tenure, &config.etcd) {
            let slot = Arc::clone(&known.wake);
            let wake = move || slot.get().into_iter().for_each(Wake::wake);
            known.keeper = Some(tenure.keep(wake)?);
            let gateway_keys = load_keys(config)?;
            for volume in &config.volumes {
                let keys = Keys::new(&etcd.prefix, &volume.id);
                let trust = trust_of(config_path, volume, gateway_keys.as_ref())?;
                let found = EtcdMap::open(tenure.clone(), keys, trust, accepts_unsigned.contains(&volume.name));
                known.in_etcd.push(found.with_context(|| format!("volume '{}': its map cannot be used", volume.name))?);
            }
        }
        Ok(known)
    }

    /// The map of a volume; of a file as far as it can be read.
    pub fn image(&self, number: usize, config_path: &Path, volume: &VolumeConfig) -> Option<MapImage> {
        match self.in_etcd.get(number) {
            Some(Some((_, image))) => Some(image.clone()),
            // That of a file becomes the one in etcd.
            _ => map_file::look(&map_path(config_path, volume)),
        }
    }
}

impl Maps {
    /// Opens or makes the maps of the volumes with copies, beside the configuration. Returns what the state machine needs of each.
    pub fn open(
        config: &Config,
        config_path: Option<&Path>,
        takes_over: bool,
        known: Known,
        keys: Option<&GatewayKeys>,
        wake: &Wake,
    ) -> anyhow::Result<(Maps, Vec<Option<CopiesSpec>>)> {
        let (mut maps, mut specs) = (Maps::default(), Vec::new());
        let Known { keeper, wake: keepers_wake, in_etcd } = known;
        let tenure = keeper.as_ref().map(|keeper| keeper.tenure().clone());
        let _ = keepers_wake.set(wake.clone());
        maps.keeper = keeper;
        let mut in_etcd = in_etcd.into_iter();
        for volume in &config.volumes {
            let in_etcd = in_etcd.next().flatten();
            let Some(copies) = &volume.copies else {
                maps.writers.push(None);
                maps.scrubs.push(None);
                specs.push(None);
                continue;
            };
            let path = config_path.with_context(|| {
                let name = &volume.name;
                format!("volume '{name}' has copies: it needs a gateway with a configuration file, beside which its map lies")
            })?;
            let map_path = map_path(path, volume);
            let taken = match (&tenure, &config.etcd) {
                (Some(tenure), Some(etcd)) => {
                    let trust = trust_of(path, volume, keys)?;
                    let keys = Keys::new(&etcd.prefix, &volume.id);
                    take_charge_in_etcd(volume, copies, (tenure, keys, trust, in_etcd), (&map_path, takes_over))
                }
                _ => take_charge(volume, copies, &map_path, takes_over),
            };
            let (store, image) = taken.with_context(|| format!("volume '{}': its map cannot be used", volume.name))?;
            let wake = wake.clone();
            maps.writers.push(Some(MapWriter::start(store, move || wake.wake())?));
            let (scrubs, kept) = ScrubFile::open(volume_path(path, volume, "scrub"), image.map_id())?;
            maps.scrubs.push(Some(scrubs));
            let (min_current, evict_after) = (copies.min_current, copies.evict_after);
            let scrub = ScrubSpec { verify_every: copies.scrub, compare_every: copies.compare, kept };
            // How long the lease lasts is told in the first turn.
            let lease_until = tenure.as_ref().map(|_| Time::default());
            specs.push(Some(CopiesSpec { min_current, evict_after, scrub, lease_until, ..CopiesSpec::new(image) }));
        }
        tenure.iter().for_each(Tenure::serve);
        // They may have been replaced since the maps were read.
        keys.iter().for_each(|keys| maps.sign_with(keys));
        Ok((maps, specs))
    }

    /// Maps in etcd are signed with these keys from now on, and soon.
    pub fn sign_with(&mut self, keys: &GatewayKeys) {
        if self.keeper.is_some() {
            self.writers.iter().flatten().for_each(|writer| writer.sign_with(map_keys(keys)));
        }
    }

    /// Tries again what could not be written beside maps. Call it now and then.
    pub fn look(&self) {
        self.writers.iter().flatten().for_each(MapWriter::look);
    }

    /// Who is in charge, where maps are in etcd.
    pub fn tenure(&self) -> Option<&Tenure> {
        self.keeper.as_ref().map(Keeper::tenure)
    }

    /// Why the map of a volume cannot be written, or etcd not be reached, while that is so.
    pub fn trouble(&self, volume: usize) -> Option<String> {
        let writer = self.writers.get(volume).and_then(Option::as_ref);
        // An etcd that was full may be away since.
        let of_etcd = self.tenure().and_then(Tenure::trouble);
        of_etcd.or_else(|| writer.and_then(MapWriter::trouble).map(str::to_string))
    }

    /// Makes decisions durable: see [`Action::Commit`](flashmob_core::gateway::Action::Commit).
    pub fn commit(&mut self, gateway: &Gateway, volume: usize, number: u64, bytes: Vec<u8>, is_whole: bool) {
        let Some(writer) = self.writers.get_mut(volume).and_then(Option::as_mut) else { return };
        if is_whole {
            return writer.rewrite(number, bytes);
        }
        // A snapshot has all decisions, so it must not be told to have fewer.
        let is_latest = |image: &&MapImage| image.version() == number && writer.wants_compaction();
        match gateway.map(volume).filter(is_latest) {
            Some(image) => writer.rewrite(number, flashmob_core::copies::encode_snapshot(image)),
            None => writer.append(number, bytes),
        }
    }

    /// Keeps what is to be kept of scrubs, where it is time; all of it at the `end`.
    pub fn keep_scrubs(&mut self, gateway: &Gateway, now: Time, is_end: bool) {
        for (volume, file) in self.scrubs.iter_mut().enumerate() {
            if let Some(file) = file {
                file.keep(gateway, volume, now, is_end);
            }
        }
    }

    /// When to call that at the latest.
    pub fn scrubs_due(&self, gateway: &Gateway) -> Option<Time> {
        let files = self.scrubs.iter().enumerate();
        files.filter_map(|(volume, file)| file.as_ref()?.due(gateway, volume)).min()
    }

    /// Tells the state machine what is durable.
    pub fn take_done(&mut self, gateway: &mut Gateway, now: Time) {
        // What failed because another gateway is in charge fails for no client: the loop ends, and clients ask the other one.
        if self.tenure().is_some_and(|tenure| tenure.deposed().is_some()) {
            return;
        }
        for (volume, writer) in self.writers.iter_mut().enumerate() {
            while let Some(MapDone { number, result }) = writer.as_mut().and_then(MapWriter::take_done) {
                if let Err(failure) = &result {
                    log::error!(
                        "{}; changes of other chunks than those that are open fail until it can be written",
                        failure.text
                    );
                }
                gateway.committed(now, volume, number, result.map_err(|failure| failure.failure));
            }
            if writer.as_mut().is_some_and(MapWriter::take_wants_snapshot) {
                gateway.rewrite_map(volume);
            }
        }
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        // A change that waits for etcd would be waited for.
        if let Some(keeper) = &mut self.keeper {
            keeper.end();
        }
    }
}

/// Where a file of a volume is: its map, or what is known of its scrubs.
pub(super) fn volume_path(config_path: &Path, volume: &VolumeConfig, kind: &str) -> PathBuf {
    state_path(config_path, &format!(".{}.{kind}", file_name_of(&volume.id)))
}

/// Where the map of a volume is.
pub(super) fn map_path(config_path: &Path, volume: &VolumeConfig) -> PathBuf {
    volume_path(config_path, volume, "map")
}

/// Opens or makes a map, and counts this start in it. One that was last used elsewhere is refused, unless this gateway `takes_over`.
fn take_charge(
    volume: &VolumeConfig,
    copies: &CopiesConfig,
    path: &Path,
    takes_over: bool,
) -> anyhow::Result<(Box<dyn MapStore>, MapImage)> {
    let (mut file, mut image) = match open_fitting(volume, copies, path)? {
        Some(found) => found,
        None => {
            let image = new_image(volume, copies)?;
            (MapFile::create(path, &image)?, image)
        }
    };
    let first = image.version() + 1;
    let home = home_of(file.path());
    // A new home counts as another start, not as a decision: nodes refuse maps that lack decisions.
    let mut records = Vec::from_iter(image.lost_start(nonce()));
    let starts = 1 + records.len() as u64 + u64::from(image.home().is_some_and(|known| known != home));
    records.push(start_record(&image, starts));
    if image.home() != Some(home) {
        check_home(&file, &image, takes_over)?;
        records.push(Record::Home { home });
    }
    for record in &records {
        image.apply(record)?;
    }
    let mut batch = Vec::new();
    encode_batch(&mut batch, first, &records)?;
    file.append(&batch)?;
    Ok((Box::new(file), image))
}

/// The same in etcd, where this gateway is the one in charge. A map that is in a file only is put there.
fn take_charge_in_etcd(
    volume: &VolumeConfig,
    copies: &CopiesConfig,
    (tenure, keys, trust, found): (&Tenure, Keys, Option<Trust>, Option<(EtcdMap, MapImage)>),
    (path, takes_over): (&Path, bool),
) -> anyhow::Result<(Box<dyn MapStore>, MapImage)> {
    let file = open_fitting(volume, copies, path)?;
    let (mut store, mut image) = match (found, &file) {
        (Some((store, image)), _) => {
            check(volume, copies, &image)
                .with_context(|| format!("the map in {} does not fit the configuration", tenure.name()))?;
            (store, image)
        }
        (None, Some((file, image))) => {
            if image.home() != Some(home_of(file.path())) {
                check_home(file, image, takes_over)?;
            }
            log::info!("volume {}: its map, {}, is put in {}", volume.name, path.display(), tenure.name());
            (EtcdMap::create(tenure.clone(), keys, trust, image)?, image.clone())
        }
        (None, None) => {
            let image = new_image(volume, copies)?;
            (EtcdMap::create_first(tenure.clone(), keys, trust, &image)?, image)
        }
    };
    if let Some((file, known)) = file {
        put_aside(file, &known, &image)?;
    }
    let record = start_record(&image, 1);
    let number = image.version() + 1;
    image.apply(&record)?;
    let mut batch = Vec::new();
    encode_batch(&mut batch, number, &[record])?;
    store.append(number, &batch).map_err(Unwritten)?;
    Ok((Box::new(store), image))
}

/// Renames the file of a map that is in etcd now, so that no gateway starts with it by mistake.
fn put_aside(file: MapFile, known: &MapImage, in_etcd: &MapImage) -> anyhow::Result<()> {
    let path = file.path().to_path_buf();
    anyhow::ensure!(
        known.map_id() == in_etcd.map_id() && known.version() <= in_etcd.version(),
        "there is a map in etcd, and {} is another one, or a later state of it. Which of them is the volume's has to be decided by you: move \
         the file away if it is the one in etcd; otherwise remove that (etcdctl del --prefix, of its keys)",
        path.display()
    );
    let mut aside = path.clone();
    aside.as_mut_os_string().push(".in-etcd");
    std::fs::rename(&path, &aside).with_context(|| format!("cannot rename {}", path.display()))?;
    log::warn!("{} is out of use, as the map is in etcd: renamed to {}", path.display(), aside.display());
    Ok(())
}

/// The map in a file, if there is one.
fn open_fitting(
    volume: &VolumeConfig,
    copies: &CopiesConfig,
    path: &Path,
) -> anyhow::Result<Option<(MapFile, MapImage)>> {
    let found = MapFile::open(path)?;
    if let Some((_, image)) = &found {
        check(volume, copies, image).with_context(|| format!("{} does not fit the configuration", path.display()))?;
    }
    Ok(found)
}

/// A start of a gateway, which counts as so many.
fn start_record(image: &MapImage, starts: u64) -> Record {
    Record::Epoch { epoch: image.epoch() + starts, nonce: nonce() }
}

fn nonce() -> u64 {
    u64::from_be_bytes(std::array::from_fn(|at| unique_id()[at]))
}

/// Refuses a map that was last used elsewhere, unless this gateway `takes_over`.
fn check_home(file: &MapFile, image: &MapImage, takes_over: bool) -> anyhow::Result<()> {
    anyhow::ensure!(
        image.home().is_none() || takes_over,
        "{} was last used on another machine, or at another path. If it is a copy, it may lack what was decided since. Make \
         sure that no other gateway uses this volume and that no later map of it exists, then start once with --take-over",
        file.path().display()
    );
    Ok(())
}

/// The map of a new volume. What its extents hold is not known, so all copies are compared before they are used.
fn new_image(volume: &VolumeConfig, copies: &CopiesConfig) -> anyhow::Result<MapImage> {
    let LayoutKind::Mapped { chunk_bytes } = volume.layout else { anyhow::bail!("its layout has no copies") };
    let members = volume.nodes.iter().enumerate().map(|(number, node)| {
        let extent_id = node.extent.map_or_else(|| unknown_extent(number as u16), |id| id.0);
        new_member(node, extent_id, node.size_bytes.unwrap_or(0))
    });
    let (map_id, members) = (unique_id(), members.collect());
    let mut image = match copies.size_bytes {
        // At most CHUNKS_MAX chunks.
        Some(bytes) => {
            MapImage::with_chunks(map_id, chunk_bytes, copies.copies, members, (bytes / chunk_bytes) as u32)?
        }
        None => MapImage::new(map_id, chunk_bytes, copies.copies, members)?,
    };
    open_all(&mut image)?;
    Ok(image)
}

/// A node of which no start is known.
pub(super) fn new_member(node: &NodeConfig, extent_id: [u8; 16], size_bytes: u64) -> Member {
    let domain = node.domain.clone().unwrap_or_else(|| own_domain(&node.source));
    Member { extent_id, boot_id: None, seen: None, size_bytes, domain }
}

/// Takes all chunks of a new map for open: nobody knows what its nodes hold and have flushed.
pub(super) fn open_all(image: &mut MapImage) -> Result<(), MapError> {
    let marks = Marks { is_open: true, ..Marks::default() };
    image.apply(&Record::Marks { first_chunk: 0, count: image.chunks(), marks })
}

/// The domain of a node that fails alone.
pub(super) fn own_domain(source: &NodeSource) -> String {
    let name = match source {
        NodeSource::Remote { address } => format!("node {address}"),
        NodeSource::Local { path, .. } => format!("file {}", path.display()),
    };
    // The end of a long name tells more than its beginning.
    let mut from = name.len().saturating_sub(flashmob_core::copies::DOMAIN_BYTES_MAX);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    name[from..].to_string()
}

/// Refuses a configuration that is not the one that the map was made for.
pub(super) fn check(volume: &VolumeConfig, copies: &CopiesConfig, image: &MapImage) -> anyhow::Result<()> {
    let (known, members) = (image.members(), volume.nodes.len());
    anyhow::ensure!(
        known.len() == members,
        "the map has {} nodes, the configuration {members}; nodes are added with `flashmob volume add` and removed with `flashmob volume remove`",
        known.len()
    );
    anyhow::ensure!(
        image.copies() == copies.copies,
        "the map has {} copies, the configuration {}; their number cannot be changed yet",
        image.copies(),
        copies.copies
    );
    for (number, (member, node)) in known.iter().zip(&volume.nodes).enumerate() {
        anyhow::ensure!(
            node.is_gone || node.size_bytes.unwrap_or(0) == member.size_bytes,
            "node {number} has {} bytes in the map, and {} in the configuration",
            member.size_bytes,
            node.size_bytes.unwrap_or(0)
        );
    }
    // It may have been given another size since.
    if let Some(size_bytes) = copies.size_bytes.filter(|&bytes| bytes != image.size_bytes()) {
        log::warn!(
            "volume {}: the configuration says {}, and the map {}, which counts: flashmob volume resize changes it",
            volume.name,
            Bytes(size_bytes),
            Bytes(image.size_bytes())
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashmob_core::units::MIB;

    const CONFIG: &str = r#"
        [[volume]]
        name = "pool"
        layout = "mapped"
        copies = 2
        [[volume.node]]
        address = "192.0.2.1"
        size = "8MiB"
        [[volume.node]]
        address = "192.0.2.2"
        size = "8MiB"
    "#;

    /// Starts a gateway with the map at `path`: its epoch, and whether the map knows where it is.
    fn start(path: &Path, takes_over: bool) -> anyhow::Result<u64> {
        let config = Config::parse(CONFIG, "cluster.toml", Path::new("/"))?;
        let volume = &config.volumes[0];
        let copies = volume.copies.as_ref().expect("copies");
        let (_store, image) = take_charge(volume, copies, path, takes_over)?;
        assert_eq!((image.size_bytes(), image.home()), (8 * MIB, Some(home_of(path))));
        Ok(image.epoch())
    }

    #[test]
    fn a_new_volume_has_the_size_that_is_configured_and_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let start = |size: &str| {
            let text = CONFIG.replacen("copies = 2", &format!("copies = 2\nsize = \"{size}\""), 1);
            let config = Config::parse(&text, "cluster.toml", Path::new("/"))?;
            let volume = &config.volumes[0];
            let copies = volume.copies.as_ref().expect("copies");
            take_charge(volume, copies, &dir.path().join("pool.map"), false).map(|(_, image)| image.size_bytes())
        };
        let large = start("12MiB").unwrap_err().to_string();
        assert_eq!(large, "3 chunks of 4194304 bytes are not between 1 and the 2 that the members have room for");
        assert_eq!(start("4MiB").unwrap(), 4 * MIB);
        assert_eq!(start("8MiB").unwrap(), 4 * MIB, "what the map has counts from then on");
    }

    #[test]
    fn a_map_elsewhere_is_refused_unless_it_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["first.map", "second.map"].map(|name| dir.path().join(name));
        assert_eq!(start(&first, false).unwrap(), 1);
        assert_eq!(start(&first, false).unwrap(), 2);
        std::fs::copy(&first, &second).unwrap();
        let refused = start(&second, false).unwrap_err().to_string();
        assert!(refused.contains("was last used on another machine") && refused.contains("--take-over"), "{refused}");
        assert_eq!(start(&second, true).unwrap(), 4, "the refused start is not counted, the move is");
        assert_eq!(start(&second, false).unwrap(), 5, "it is at home there from now on");
        assert_eq!(start(&first, true).unwrap(), 3, "to be told to take over does no harm at home");
    }
}
