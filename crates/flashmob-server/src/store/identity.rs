//! The identity of an extent, in a small file beside its bytes.
//!
//! The data file has bare bytes only. The sidecar records their volume: `<file>.flashmob`, or for a block device
//! `<device name>.flashmob` in a state directory. It is readable TOML, with a checksum as its last line, so that a damaged or
//! shortened one is detected.
//!
//! An extent is free until a gateway adopts it for a place in a volume; from then on it refuses every other place, because
//! reads would return another volume's bytes. Every change is on the flash before a function returns, and an unreadable
//! sidecar is never overwritten. The store's lock on the data file protects the sidecar too, so open the store first.
//!
//! A gateway that takes charge, a node that starts and a grant that is revoked need a change of the sidecar, also on a full disk. So that of an extent
//! which belongs to a volume with copies, or to a cluster with keys, is filled up to what it can ever need, and has a spare of its size beside it: see
//! [`super::spare`].

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use flashmob_core::layout::LayoutKind;
use flashmob_core::node::{ACCEPTED_MAX, accept, check_charge, is_of_later_generation};
use flashmob_core::units::Bytes;
use flashmob_core::wire::hello::{CHARGE_NUMBER_MAX, Charge, Hello, RefuseReason};
use serde::{Deserialize, Serialize};

use super::extent_id::ExtentId;
use super::open::sync_parent;
use super::ownership::{Kind, Unsafe, read_owned};
use super::public_key::PublicKey;
use super::sealed::{read_bounded, replace_private, seal, seal_with_room, unseal};
use super::spare::{exchange, keep_small};
use super::stamp::SumsStamp;

/// Default directory of the sidecars of block devices.
pub const STATE_DIR_DEFAULT: &str = "/var/lib/flashmob";
/// The newest version of the sidecar's format: with the cluster that the extent belongs to, which has keys.
pub const FORMAT_VERSION: u32 = 4;
/// The version with the stamp of checksums, for an extent of a volume with copies.
const FORMAT_VERSION_SUMMED: u32 = 3;
/// The version with the charge of a gateway, and no checksums yet.
const FORMAT_VERSION_CHARGED: u32 = 2;
/// The version without: all other extents have it, so that earlier programs read them.
const FORMAT_VERSION_PLAIN: u32 = 1;
/// The longest name of a volume, in bytes.
pub const VOLUME_ID_BYTES_MAX: usize = 256;
/// The longest description of a layout, in bytes.
pub const LAYOUT_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of a sidecar, in bytes. Escaping can make each byte of a layout six.
const SIDECAR_BYTES_MAX: u64 = 256 * 1024;

const HEADING: &str =
    "# The identity of the data file beside it, written by flashmob. Keep the two together; do not edit.\n";

/// The place in a volume that an extent has been adopted for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The volume's id.
    pub volume_id: String,
    /// Which of the volume's extents it is, from 0.
    pub extent_index: u32,
    /// How many extents the volume has.
    pub extent_count: u32,
    /// The volume's layout, as the gateway describes it. Compared, never understood here.
    pub layout: String,
    /// When it was adopted, in seconds since 1970.
    pub adopted_at_unix_s: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    extent_id: ExtentId,
    size_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adopted: Option<Place>,
    /// The gateway that was last in charge of the volume, if that has copies.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::charge")]
    charge: Option<Charge>,
    /// Epochs and versions of the charges that were accepted last: see [`accept`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<(u64, u64)>,
    /// Its checksums, if that volume has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sums: Option<SumsStamp>,
    /// The cluster that it belongs to, if that has keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterPin>,
}

/// Whose gateways an extent serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterPin {
    /// The cluster's public key.
    pub key: PublicKey,
    /// The latest generation of grants that it has seen; those of earlier ones are void.
    pub generation: u64,
}

impl Record {
    /// That of a new extent, which gets an id.
    fn new(size_bytes: u64) -> Result<Record, IdentityError> {
        let mut random = [0u8; 16];
        let source = Path::new("/dev/urandom");
        File::open(source).and_then(|mut f| f.read_exact(&mut random)).map_err(|e| failed("read", source, e))?;
        let (version, extent_id) = (FORMAT_VERSION_PLAIN, ExtentId(random));
        let (adopted, charge, accepted, sums, cluster) = (None, None, Vec::new(), None, None);
        Ok(Record { version, extent_id, size_bytes, adopted, charge, accepted, sums, cluster })
    }

    /// The version that has what is in it.
    fn version_of(&self) -> u32 {
        match (&self.cluster, &self.charge, &self.sums) {
            (Some(_), _, _) => FORMAT_VERSION,
            (None, _, Some(_)) => FORMAT_VERSION_SUMMED,
            (None, Some(_), None) => FORMAT_VERSION_CHARGED,
            (None, None, None) => FORMAT_VERSION_PLAIN,
        }
    }

    /// Whether a change of it must not need new room.
    fn needs_room(&self) -> bool {
        self.charge.is_some() || self.cluster.is_some()
    }

    /// The largest that changes make it, as long as it has its place.
    fn largest(&self) -> Record {
        let id = ExtentId([0xff; 16]);
        let number = CHARGE_NUMBER_MAX;
        let key = self.cluster.map_or(PublicKey::ANY, |cluster| cluster.key);
        Record {
            version: FORMAT_VERSION,
            size_bytes: i64::MAX as u64,
            adopted: self.adopted.clone(),
            charge: Some(Charge { map_id: id.0, epoch: number, nonce: u64::MAX, version: number }),
            accepted: vec![(number, number); ACCEPTED_MAX],
            sums: Some(SumsStamp { nonce: id, before: Some(id) }),
            cluster: Some(ClusterPin { key, generation: number }),
            ..*self
        }
    }
}

/// Just the version, of a sidecar whose other fields may be unknown.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// Why the identity of an extent is not available.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum IdentityError {
    /// Unreadable: cut short, damaged or edited.
    #[error(
        "{path} is damaged: {why}; restore it from a backup. Start the node once with --forget only if the data beside it, and \
         what the extent was, may be given up"
    )]
    Corrupt { path: PathBuf, why: String },
    /// Others may change whose gateways are let in.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// Written by a newer program.
    #[error("{path} has format version {found}, and this program reads up to {FORMAT_VERSION}; use a newer flashmob")]
    Newer { path: PathBuf, found: u32 },
    /// The data is not of the size that was recorded.
    #[error(
        "according to {path} the extent has {recorded_bytes} bytes ({}), but the data has {found_bytes} ({}); {}",
        Bytes(*recorded_bytes), Bytes(*found_bytes), of_size(path, *recorded_bytes, *found_bytes)
    )]
    SizeDiffers { path: PathBuf, recorded_bytes: u64, found_bytes: u64 },
    /// It is to grow, and belongs to a volume whose size is fixed.
    #[error(
        "{path}: the extent belongs to a volume without copies, whose extents cannot grow; start the node without --grow"
    )]
    GrowsAlone { path: PathBuf },
    /// The sidecar cannot be read or written.
    #[error("cannot {action} {path}: {source}; check that its directory exists, is writable and has space")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// What to do about a size that differs.
fn of_size(path: &Path, recorded_bytes: u64, found_bytes: u64) -> String {
    let path = path.display();
    match recorded_bytes < found_bytes {
        true => format!(
            "if it was made larger, start the node once with --grow; if it is other data, start it once with --forget to give up \
             what {path} says"
        ),
        false => format!(
            "restore the data file, or start the node once with --forget to give up its data, and what {path} says"
        ),
    }
}

/// Why an extent does not take the place it is offered.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// It has another place, or the offered one is invalid.
    #[error("{0}")]
    Refused(String),
    /// The gateway is not the one that is in charge of the volume, which has copies.
    #[error("{1}")]
    NotInCharge(RefuseReason, String),
    /// It could not be recorded.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// How an extent took the place it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It was free and now has this place, on the flash.
    New,
    /// It had it already.
    Same,
    /// It had it already, and another charge of the gateway is on the flash now.
    Charged,
}

/// The identity of an extent. See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    path: PathBuf,
    record: Record,
    is_new: bool,
    /// What is on the flash is of another extent, which is given up with [`Identity::forget`].
    is_unwritten: bool,
}

/// The path of the sidecar of the extent in `data`: beside a file (beside the real one, if `data` is a symbolic link),
/// or in `state_dir` ([`STATE_DIR_DEFAULT`] for `None`) for a block device.
///
/// A device's sidecar has the name that the device was given by. Names like `sda1` can mean another device after a
/// restart; those under `/dev/disk/by-id` cannot.
#[must_use]
pub fn sidecar_path(data: &Path, state_dir: Option<&Path>) -> PathBuf {
    let is_device = fs::metadata(data).is_ok_and(|m| m.file_type().is_block_device());
    let mut path = if is_device {
        let name = data.file_name().unwrap_or(data.as_os_str());
        state_dir.unwrap_or(Path::new(STATE_DIR_DEFAULT)).join(name)
    } else {
        fs::canonicalize(data).unwrap_or_else(|_| data.to_path_buf())
    };
    path.as_mut_os_string().push(".flashmob");
    path
}

/// The path of the node's own key beside a sidecar.
#[must_use]
pub fn key_path(sidecar: &Path) -> PathBuf {
    sidecar.with_extension("key")
}

/// The path of the file with the checksums beside a sidecar.
fn sums_path(sidecar: &Path) -> PathBuf {
    sidecar.with_extension("sums")
}

/// The path of the mirror of its volume's map beside a sidecar.
fn mirror_path(sidecar: &Path) -> PathBuf {
    sidecar.with_extension("map")
}

/// The files beside a sidecar that only extents of volumes with copies have, those that are there.
#[must_use]
pub fn left_of_volume(sidecar: &Path) -> Vec<PathBuf> {
    let files = [sums_path(sidecar), mirror_path(sidecar)];
    files.into_iter().filter(|path| fs::symlink_metadata(path).is_ok()).collect()
}

/// Whether the sidecar at `path` names a cluster with keys; not if it is missing or cannot be used.
#[must_use]
pub fn names_cluster(path: &Path) -> bool {
    Identity::look(path).ok().flatten().is_some_and(|identity| identity.cluster().is_some())
}

/// Reads a sidecar that says whose gateways are let in.
fn read_deciding(path: &Path) -> Result<Vec<u8>, IdentityError> {
    read_owned(path, Kind::Integrity, SIDECAR_BYTES_MAX).map_err(|e| e.or(|e| failed("read", path, e)))
}

impl Identity {
    /// Refuses an extent that must not `grow`, before anything is changed: that of a volume without copies.
    pub fn check_growth(path: &Path) -> Result<(), IdentityError> {
        // What cannot be read is refused later.
        let identity = Identity::look(path).ok().flatten();
        match identity.is_some_and(|identity| identity.layout_without_copies().is_some()) {
            true => Err(IdentityError::GrowsAlone { path: path.to_path_buf() }),
            false => Ok(()),
        }
    }

    /// Reads the sidecar at `path` for an extent of `size_bytes`, or makes one with a new extent id if there is none. One that was smaller is that large
    /// from then on if it may `grow`.
    pub fn load_or_create(path: &Path, size_bytes: u64, grow: bool) -> Result<Identity, IdentityError> {
        let text = match read_bounded(path, SIDECAR_BYTES_MAX) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Identity::create(path, size_bytes),
            Err(e) => return Err(failed("read", path, e)),
        };
        let mut identity = Identity::parse(path, &text)?;
        if identity.cluster().is_some() {
            identity = Identity::parse(path, &read_deciding(path)?)?;
        }
        let recorded_bytes = identity.record.size_bytes;
        if recorded_bytes < size_bytes && grow {
            let (adopted, accepted) = (identity.record.adopted.clone(), identity.record.accepted.clone());
            identity.replace(Record { size_bytes, adopted, accepted, ..identity.record })?;
            let (path, from, to) = (path.display(), Bytes(recorded_bytes), Bytes(size_bytes));
            log::warn!("{path}: the extent had {from}, and has {to} from now on");
        } else if recorded_bytes != size_bytes {
            return Err(IdentityError::SizeDiffers {
                path: path.to_path_buf(),
                recorded_bytes,
                found_bytes: size_bytes,
            });
        }
        identity.keep_room(text.len());
        if identity.record.charge.is_some() {
            // An earlier process may have ended, or failed, between writing the charge and having it on the flash.
            let on_flash = File::open(path).and_then(|file| file.sync_all()).and_then(|()| sync_parent(path));
            on_flash.map_err(|e| failed("sync", path, e))?;
        }
        Ok(identity)
    }

    /// Makes room for later changes, where an earlier program, or a full disk, has left none. The sidecar has `found_bytes`.
    fn keep_room(&self, found_bytes: usize) {
        if !self.record.needs_room() {
            return;
        }
        let kept = encode(&self.path, &self.record).and_then(|text| {
            let is_full = text.len() == found_bytes;
            let kept =
                if is_full { keep_small(&self.path, text.as_bytes()) } else { exchange(&self.path, text.as_bytes()) };
            kept.map_err(|e| failed("write", &self.path, e))
        });
        if let Err(error) = kept {
            log::warn!("{error}. Until there is space, no gateway that is started anew can use this extent");
        }
    }

    /// The identity in the bytes of a sidecar, which lies at `path`.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Identity, IdentityError> {
        Ok(Identity { path: path.to_path_buf(), record: parse(path, text)?, is_new: false, is_unwritten: false })
    }

    /// What the sidecar at `path` says, if there is one. Nothing is made or changed.
    pub fn look(path: &Path) -> Result<Option<Identity>, IdentityError> {
        match read_bounded(path, SIDECAR_BYTES_MAX) {
            Ok(text) => Identity::parse(path, &text).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("read", path, e)),
        }
    }

    /// Reads or makes the sidecar of an extent that is to be given up: see [`Identity::forget`]. If it is damaged, or of data of another size, the extent
    /// gets a new id then, and stays with its cluster.
    pub fn load_to_forget(path: &Path, size_bytes: u64) -> Result<Identity, IdentityError> {
        let cluster = match Identity::load_or_create(path, size_bytes, false) {
            Err(IdentityError::SizeDiffers { .. }) => Identity::parse(path, &read_deciding(path)?)?.cluster(),
            Err(IdentityError::Corrupt { .. }) => None,
            other => return other,
        };
        let record = Record { cluster, ..Record::new(size_bytes)? };
        Ok(Identity { path: path.to_path_buf(), record, is_new: false, is_unwritten: true })
    }

    /// Gives up an extent whose data is lost, before new data of `size_bytes` is made in its place.
    pub fn forget_lost(path: &Path, size_bytes: u64) -> Result<(), IdentityError> {
        match fs::symlink_metadata(path) {
            Ok(_) => Identity::load_to_forget(path, size_bytes)?.forget(),
            Err(_) => Ok(()),
        }
    }

    /// The text of its sidecar.
    pub fn to_text(&self) -> Result<String, IdentityError> {
        encode(&self.path, &self.record)
    }

    fn create(path: &Path, size_bytes: u64) -> Result<Identity, IdentityError> {
        let record = Record::new(size_bytes)?;
        persist(path, &record)?;
        log::info!("{}: assigned extent identity {}", path.display(), record.extent_id);
        Ok(Identity { path: path.to_path_buf(), record, is_new: true, is_unwritten: false })
    }

    /// Whether it was made just now: there was none.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The extent's id, drawn at random when it was first served.
    #[must_use]
    pub fn extent_id(&self) -> ExtentId {
        self.record.extent_id
    }

    /// Bytes of the extent.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.record.size_bytes
    }

    /// The place that it has in a volume, if it was adopted.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.record.adopted.as_ref()
    }

    /// The layout of the volume that it belongs to, and how many extents that has, if it has no copies.
    #[must_use]
    pub fn layout_without_copies(&self) -> Option<(String, u32)> {
        let place = self.place().filter(|_| self.record.charge.is_none())?;
        Some((place.layout.clone(), place.extent_count))
    }

    /// The charge of the gateway that linked last, if it belongs to a volume with copies.
    #[must_use]
    pub fn charge(&self) -> Option<Charge> {
        self.record.charge
    }

    /// Epochs and versions of the charges that it accepted last, oldest first.
    #[must_use]
    pub fn accepted(&self) -> &[(u64, u64)] {
        &self.record.accepted
    }

    fn accepted_with(&self, charge: Option<&Charge>) -> Vec<(u64, u64)> {
        let mut accepted = self.record.accepted.clone();
        charge.into_iter().for_each(|charge| accept(&mut accepted, charge));
        accepted
    }

    /// The stamp of its checksums, if it has them.
    #[must_use]
    pub fn sums(&self) -> Option<SumsStamp> {
        self.record.sums
    }

    /// Records the stamp of its checksums, on the flash when this returns. Only for an extent with a charge.
    pub fn stamp_sums(&mut self, stamp: SumsStamp) -> Result<(), IdentityError> {
        let (adopted, accepted) = (self.record.adopted.clone(), self.record.accepted.clone());
        let record = Record { sums: Some(stamp), adopted, accepted, ..self.record };
        self.replace(record)
    }

    /// The cluster that it belongs to, if that has keys.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterPin> {
        self.record.cluster
    }

    /// Records the cluster that it belongs to, or a later generation of its grants; on the flash when this returns.
    pub fn pin_cluster(&mut self, pin: ClusterPin) -> Result<(), IdentityError> {
        let (adopted, accepted) = (self.record.adopted.clone(), self.record.accepted.clone());
        self.replace(Record { cluster: Some(pin), adopted, accepted, ..self.record })
    }

    /// The path of the node's own key: beside the sidecar.
    #[must_use]
    pub fn key_path(&self) -> PathBuf {
        key_path(&self.path)
    }

    /// The path of the file with the addresses that were let in: beside the sidecar.
    #[must_use]
    pub fn known_path(&self) -> PathBuf {
        self.path.with_extension("known")
    }

    /// The path of the folder with which others may ask the node for its status: beside the sidecar.
    #[must_use]
    pub fn admin_path(&self) -> PathBuf {
        self.path.with_extension("admin")
    }

    /// The path of the file with the checksums of the extent: beside the sidecar.
    #[must_use]
    pub fn sums_path(&self) -> PathBuf {
        sums_path(&self.path)
    }

    /// The path of the record of syncs that failed: beside the sidecar.
    #[must_use]
    pub fn syncs_path(&self) -> PathBuf {
        self.path.with_extension("syncs")
    }

    /// The path of the spare file for that record: beside the sidecar.
    #[must_use]
    pub fn spare_path(&self) -> PathBuf {
        self.path.with_extension("spare")
    }

    /// The path of the record of a process that ended in order: beside the sidecar.
    #[must_use]
    pub fn end_path(&self) -> PathBuf {
        self.path.with_extension("end")
    }

    /// The path of the mirror of its volume's map: beside the sidecar.
    #[must_use]
    pub fn mirror_path(&self) -> PathBuf {
        mirror_path(&self.path)
    }

    /// Drops the mirror, which a gateway of an earlier generation has written, whoever that was: its bytes would be believed with a later charge.
    fn drop_mirror(&self) -> Result<(), IdentityError> {
        let path = self.mirror_path();
        match fs::remove_file(&path).and_then(|()| sync_parent(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path, error)),
            _ => Ok(()),
        }
    }

    /// The path of the sidecar.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a place in a volume, or confirms the one it has, for a gateway with that charge if the volume has copies. Place and charge
    /// are on the flash when this returns.
    pub fn adopt(
        &mut self,
        volume_id: &str,
        index: u32,
        count: u32,
        layout: &str,
        charge: Option<&Charge>,
    ) -> Result<Adoption, AdoptError> {
        self.adopt_stamped((volume_id, index, count, layout), charge, self.record.sums)
    }

    /// Adopts an extent whose checksums have this stamp from now on if another charge is recorded, with it, in one write.
    pub fn adopt_stamped(
        &mut self,
        (volume_id, index, count, layout): (&str, u32, u32, &str),
        charge: Option<&Charge>,
        sums: Option<SumsStamp>,
    ) -> Result<Adoption, AdoptError> {
        let refuse = |why| Err(AdoptError::Refused(why));
        let len_bytes = volume_id.len();
        if !(1..=VOLUME_ID_BYTES_MAX).contains(&len_bytes) {
            return refuse(format!("a volume's id must have 1 to {VOLUME_ID_BYTES_MAX} bytes, not {len_bytes}"));
        }
        if layout.len() > LAYOUT_BYTES_MAX {
            let len_bytes = layout.len();
            return refuse(format!(
                "a layout's description must have at most {LAYOUT_BYTES_MAX} bytes, not {len_bytes}"
            ));
        }
        if index >= count {
            return refuse(format!("invalid extent number {index} of {count}"));
        }
        let known = self.record.charge;
        check_charge(known.as_ref(), charge).map_err(|(reason, text)| AdoptError::NotInCharge(reason, text))?;
        if let Some(place) = &self.record.adopted {
            if known.is_none() && charge.is_some() && place.volume_id == volume_id {
                return refuse(format!(
                    "volume '{volume_id}' had no copies when it adopted this extent, and has them now; a linear volume is converted \
                     with `flashmob volume convert`"
                ));
            }
            same_place(place, volume_id, index, count, layout)?;
            if known.as_ref() == charge {
                return Ok(Adoption::Same);
            }
            let adopted = Some(place.clone());
            let accepted = self.accepted_with(charge);
            if is_of_later_generation(known.as_ref(), charge) {
                self.drop_mirror()?;
            }
            self.replace(Record { adopted, charge: charge.copied(), accepted, sums, ..self.record })?;
            if let Some(charge) = charge.filter(|charge| known.is_none_or(|known| known.epoch < charge.epoch)) {
                let path = self.path.display();
                log::info!("{path}: a gateway took charge of volume '{volume_id}', epoch {}", charge.epoch);
            }
            return Ok(Adoption::Charged);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let place = Place {
            volume_id: volume_id.to_string(),
            extent_index: index,
            extent_count: count,
            layout: layout.to_string(),
            adopted_at_unix_s: now.as_secs(),
        };
        let accepted = self.accepted_with(charge);
        self.replace(Record { adopted: Some(place), charge: charge.copied(), accepted, ..self.record })?;
        let path = self.path.display();
        match charge {
            None => log::info!("{path}: adopted as extent {index} of {count} of volume '{volume_id}'"),
            Some(_) => log::info!("{path}: adopted as member {index} of volume '{volume_id}', which has copies"),
        }
        Ok(Adoption::New)
    }

    /// An extent of a linear volume becomes that of the volume with copies that is made of it, which has its bytes in the same place. Any other
    /// stays as it is: [`Identity::adopt`] judges it. On the flash when this returns.
    pub fn convert(&mut self, hello: &Hello) -> Result<(), IdentityError> {
        if !self.may_convert(hello) {
            return Ok(());
        }
        let layout = hello.layout.clone();
        let adopted = self.place().map(|place| Place { extent_count: hello.extents, layout, ..place.clone() });
        let accepted = self.accepted_with(hello.charge.as_ref());
        self.replace(Record { adopted, charge: hello.charge, accepted, ..self.record })?;
        let (path, extent, volume_id) = (self.path.display(), hello.extent, &hello.volume_id);
        log::info!("{path}: member {extent} of volume '{volume_id}', which was linear and has copies now");
        Ok(())
    }

    /// Whether it is the extent of a linear volume that is to be converted.
    #[must_use]
    pub fn may_convert(&self, hello: &Hello) -> bool {
        let (Some(from), Some(place)) = (hello.from_linear, self.place()) else { return false };
        let is_place = place.volume_id == hello.volume_id && place.extent_index == hello.extent;
        let is_linear = place.layout == LayoutKind::Linear.to_string() && place.extent_count == from.extents;
        let is_valid = hello.extent < hello.extents && hello.layout.len() <= LAYOUT_BYTES_MAX;
        let takes_charge = hello.charge.is_some() && self.record.charge.is_none();
        from.extent_id == self.record.extent_id.0 && is_place && is_linear && is_valid && takes_charge
    }

    /// Gives up the place, so that another volume can adopt the extent. The data is unchanged.
    pub fn forget(&mut self) -> Result<(), IdentityError> {
        if self.record.adopted.is_some() || self.is_unwritten {
            self.replace(Record { adopted: None, charge: None, accepted: Vec::new(), sums: None, ..self.record })?;
            log::info!("{}: removed from its volume", self.path.display());
        }
        Ok(())
    }

    fn replace(&mut self, record: Record) -> Result<(), IdentityError> {
        let record = Record { version: record.version_of(), ..record };
        persist(&self.path, &record)?;
        self.record = record;
        self.is_unwritten = false;
        Ok(())
    }
}

/// Compares an offered place with the recorded one, the most telling difference first.
fn same_place(place: &Place, volume_id: &str, index: u32, count: u32, layout: &str) -> Result<(), AdoptError> {
    let why = if place.volume_id != volume_id {
        format!("this extent belongs to volume '{}', not to '{volume_id}'", place.volume_id)
    } else if place.extent_index != index {
        format!("this extent is number {} of volume '{volume_id}', not number {index}", place.extent_index)
    } else if place.extent_count != count {
        format!("volume '{volume_id}' had {} extents when it adopted this one, not {count}", place.extent_count)
    } else if place.layout != layout {
        format!("volume '{volume_id}' had the layout '{}' when it adopted this extent, not '{layout}'", place.layout)
    } else {
        return Ok(());
    };
    Err(AdoptError::Refused(why))
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> IdentityError {
    IdentityError::Io { action, path: path.to_path_buf(), source }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Record, IdentityError> {
    let corrupt = |why: String| IdentityError::Corrupt { path: path.to_path_buf(), why };
    if bytes.len() as u64 > SIDECAR_BYTES_MAX {
        return Err(corrupt(format!("it is larger than {SIDECAR_BYTES_MAX} bytes")));
    }
    let body = unseal(bytes).map_err(|why| corrupt(why.into()))?;
    // The version comes first: what follows may be unknown here.
    let version: VersionOnly = toml::from_str(body).map_err(|e| corrupt(e.message().to_string()))?;
    if version.version > FORMAT_VERSION {
        return Err(IdentityError::Newer { path: path.to_path_buf(), found: version.version });
    }
    let record: Record = toml::from_str(body).map_err(|e| corrupt(e.message().to_string()))?;
    if record.version == 0 {
        return Err(corrupt("its version is invalid".into()));
    }
    if record.sums.is_some() && record.charge.is_none() {
        return Err(corrupt("it has checksums and no charge".into()));
    }
    if record.version != record.version_of() {
        return Err(corrupt("its version and its charge contradict each other".into()));
    }
    let last = record.charge.map(|charge| (charge.epoch, charge.version));
    if record.accepted.len() > ACCEPTED_MAX || (!record.accepted.is_empty() && record.accepted.last().copied() != last)
    {
        return Err(corrupt("its charge and those that it accepted contradict each other".into()));
    }
    if record.cluster.is_some_and(|cluster| cluster.generation > CHARGE_NUMBER_MAX) {
        return Err(corrupt("its generation is larger than any".into()));
    }
    if record.charge.is_some() && record.adopted.is_none() {
        return Err(corrupt("it has a charge and no volume".into()));
    }
    if record.adopted.as_ref().is_some_and(|p| p.extent_index >= p.extent_count) {
        return Err(corrupt("its extent index is not below its extent count".into()));
    }
    Ok(record)
}

fn encode(path: &Path, record: &Record) -> Result<String, IdentityError> {
    let body = |record: &Record| toml::to_string(record).map_err(|e| failed("encode", path, io::Error::other(e)));
    let text = format!("{HEADING}{}", body(record)?);
    if !record.needs_room() {
        return Ok(seal(text));
    }
    let room_bytes = seal_with_room(format!("{HEADING}{}", body(&record.largest())?), 0).len();
    Ok(seal_with_room(text, room_bytes))
}

/// Writes the sidecar atomically: after a power cut it is the old or the new one, and the new one once this returns.
fn persist(path: &Path, record: &Record) -> Result<(), IdentityError> {
    let text = encode(path, record)?;
    let written = match record.needs_room() {
        true => exchange(path, text.as_bytes()),
        // Which leaves no spare of an earlier one.
        false => replace_private(path, &text),
    };
    written.map_err(|e| failed("write", path, e))
}
