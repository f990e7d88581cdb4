//! The keys of a cluster, in a folder beside the gateway's configuration.
//!
//! | file | content |
//! |---|---|
//! | `cluster.key` | the key that signs grants; may be kept elsewhere |
//! | `cluster.pub` | its public half, 64 digits |
//! | `gateway.key` | the gateway's own key |
//! | `gateway.grant` | what it may do: [`super::grant`] |
//! | `previous.grant` | the same by the cluster's key before, until all nodes were given to the cluster of the present one |
//! | `nodes` | the keys of nodes: [`super::pins`] |
//! | `gateway-ca.key`, `client-ca.key` | the keys of the authorities for NBD and administration: [`super::authority`] |
//! | `clients` | who may use which volumes, and administer: [`super::clients`] |

use std::fs::{self, DirBuilder};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::authority::{Authority, Purpose};
use super::certified::{CertifiedKeys, CertifiedPort, KnownClients};
use super::clients::{Clients, ClientsError};
use super::grant::{BadGrant, GENERATION_MAX, GRANT_BYTES, Grant};
use super::key::{KeyError, PublicKey, SecretKey};
use super::pins::{PinError, Pins};
use crate::store::{Kind, Unsafe, Unusable, open_owned, open_owned_folder, put_file, read_owned, sync_parent};

/// What a connection is for that is a link, as TLS's ALPN names it. There is one name for each purpose.
pub const LINK_PURPOSE: &[u8] = b"flashmob-link/1";
/// The same of a connection of a node or the gateway's own machine to the gateway's administrative port.
pub const ADMIN_PURPOSE: &[u8] = b"flashmob-admin/1";

/// Files in the folder whose reader is, or becomes, somebody who is let in.
const SECRETS: [&str; 5] = ["cluster.key", "cluster.key.new", "gateway.key", "gateway-ca.key", "client-ca.key"];

/// Secrets that a gateway does not use.
const CLUSTER_SECRETS: [&str; 2] = ["cluster.key", "cluster.key.new"];

/// Why the keys of a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum FolderError {
    /// There are keys already.
    #[error("{0} exists: the cluster has keys; `flashmob key show` tells which")]
    Exists(PathBuf),
    /// There are none.
    #[error(
        "{0} is missing, and the configuration says that the cluster has keys: restore the folder from a backup; without it the nodes cannot be used"
    )]
    Missing(PathBuf),
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Others may change the folder, or a file in it.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// The nodes' keys.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The clients.
    #[error(transparent)]
    Clients(#[from] ClientsError),
    /// The grant.
    #[error(
        "{0} is missing or damaged ({1}): restore it from a backup, or make it again with `flashmob key rotate --generation N`, N larger than `flashmob status` shows at any node"
    )]
    Grant(PathBuf, BadGrant),
    /// The grant is of another gateway.
    #[error("{0} is not for the key in gateway.key; make it again with `flashmob key rotate`")]
    Foreign(PathBuf),
    /// The cluster's key is another one than that which signed before.
    #[error("{0} is the key of another cluster than the one in cluster.pub")]
    OtherCluster(PathBuf),
    /// What is there now cannot take the place of what is used.
    #[error(
        "{0} has changed into the keys of another cluster, or of an earlier generation: a gateway takes those up when it starts"
    )]
    NotLater(PathBuf),
    /// The cluster got another key, and that was not ended.
    #[error(
        "{0} exists: a rotation of the cluster's key is in progress; assign all nodes to the new cluster, then run `flashmob key rotate --cluster --end`"
    )]
    Rotating(PathBuf),
    /// The cluster is getting another key, and that was interrupted.
    #[error("{0} exists: a rotation of the cluster's key was interrupted; run `flashmob key rotate --cluster` again")]
    Begun(PathBuf),
    /// There is no later generation.
    #[error("there have been {GENERATION_MAX} generations: no more are possible")]
    Generations,
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Folder(pub(super) PathBuf);

impl Folder {
    /// The folder at `path`, whether it exists or not.
    #[must_use]
    pub fn at(path: &Path) -> Folder {
        Folder(path.to_path_buf())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Draws the keys of a new cluster and of its gateway. On the flash when this returns.
    ///
    /// # Errors
    /// See [`FolderError`]; nothing is ever overwritten.
    pub fn create(&self) -> Result<PublicKey, FolderError> {
        let io_failed = |source| FolderError::Io { action: "create", path: self.0.clone(), source };
        // Under another name until it is complete.
        let mut new_path = self.0.clone();
        new_path.as_mut_os_string().push(".new");
        if self.0.exists() {
            return Err(FolderError::Exists(self.0.clone()));
        }
        // One that is there may be somebody's.
        DirBuilder::new().mode(0o700).create(&new_path).map_err(io_failed)?;
        let new = Folder(new_path);
        let cluster = SecretKey::draw().map_err(io_failed)?;
        cluster.save_new(&new.path("cluster.key"))?;
        new.put("cluster.pub", format!("{}\n", cluster.public()).as_bytes())?;
        new.grant_anew(&cluster, 1)?;
        Pins::none(&new.path("nodes")).save()?;
        Authority::create(&new.0, Purpose::Gateway)?;
        Authority::create(&new.0, Purpose::Clients)?;
        Clients::none(&new.path("clients")).save()?;
        fs::rename(&new.0, &self.0).and_then(|()| sync_parent(&self.0)).map_err(io_failed)?;
        Ok(cluster.public())
    }

    /// Keeps others from changing what is in the folder, until the result is dropped: what is read, changed and written must not be changed meanwhile.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn lock(&self) -> Result<fs::File, FolderError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => FolderError::Missing(self.0.clone()),
            _ => FolderError::Io { action: "lock", path: self.0.clone(), source },
        };
        let folder = open_owned_folder(&self.0).map_err(|e| e.or(failed))?;
        rustix::fs::flock(&folder, rustix::fs::FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
        Ok(folder)
    }

    /// Whether its owner alone can change what is in it.
    fn check(&self) -> Result<(), FolderError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => FolderError::Missing(self.0.clone()),
            _ => FolderError::Io { action: "open", path: self.0.clone(), source },
        };
        open_owned_folder(&self.0).map(drop).map_err(|e| e.or(failed))
    }

    /// Whether the secrets in it are their owner's alone, also those that the gateway does not use itself.
    pub(super) fn check_secrets(&self) -> Result<(), FolderError> {
        for name in SECRETS {
            let path = self.path(name);
            match open_owned(&path, Kind::Secret) {
                Err(Unusable::Unsafe(why)) => return Err(why.into()),
                Err(Unusable::Io(source)) if !is_harmless(name, &source) => {
                    return Err(FolderError::Io { action: "read", path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the list of clients can be used, if there is one. Ports that need it say so if there is none.
    pub(super) fn check_clients(&self) -> Result<(), FolderError> {
        match self.clients() {
            Err(FolderError::Clients(ClientsError::Io { source, .. })) if source.kind() == io::ErrorKind::NotFound => {
                Ok(())
            }
            read => read.map(drop),
        }
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let path = self.path(name);
        let put = put_file(&path, bytes).and_then(|()| sync_parent(&path));
        put.map_err(|source| FolderError::Io { action: "write", path, source })
    }

    /// Draws a key for the gateway, and signs its grant.
    pub(super) fn grant_anew(&self, cluster: &SecretKey, generation: u64) -> Result<PublicKey, FolderError> {
        let failed = |source| FolderError::Io { action: "write", path: self.path("gateway.key"), source };
        let gateway = SecretKey::draw().map_err(failed)?;
        // If it ends between these two, `load` finds a grant for another key, and says so.
        self.put("gateway.grant", &Grant::sign(cluster, gateway.public(), generation))?;
        gateway.save_over(&self.path("gateway.key"))?;
        Ok(gateway.public())
    }

    /// The cluster's public key.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn cluster(&self) -> Result<PublicKey, FolderError> {
        self.check()?;
        let path = self.path("cluster.pub");
        let failed = |source| FolderError::Io { action: "read", path: path.clone(), source };
        let bytes = match read_owned(&path, Kind::Integrity, 100) {
            Err(Unusable::Io(e)) if e.kind() == io::ErrorKind::NotFound => {
                return Err(FolderError::Missing(self.0.clone()));
            }
            read => read.map_err(|e| e.or(failed))?,
        };
        let key = String::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
        key.ok_or(FolderError::Key(KeyError::Damaged(path)))
    }

    /// The grant, as bytes and read.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn granted(&self) -> Result<(Vec<u8>, Grant), FolderError> {
        let path = self.path("gateway.grant");
        let cluster = self.cluster()?;
        let (bytes, grant) = read_grant(&path)?;
        if grant.cluster != cluster {
            return Err(FolderError::OtherCluster(path));
        }
        Ok((bytes, grant))
    }

    /// The gateway's key, with the grant for it, as bytes and read.
    pub(super) fn gateway_key(&self) -> Result<(Vec<u8>, Grant, SecretKey), FolderError> {
        let (grant, granted) = self.granted()?;
        let key = SecretKey::load(&self.path("gateway.key"))?;
        if granted.gateway != key.public() {
            return Err(FolderError::Foreign(self.path("gateway.grant")));
        }
        Ok((grant, granted, key))
    }

    /// The nodes' keys.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn pins(&self) -> Result<Pins, FolderError> {
        self.check()?;
        Ok(Pins::load(&self.path("nodes"))?)
    }

    /// One of the two authorities.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn authority(&self, purpose: Purpose) -> Result<Authority, FolderError> {
        self.check()?;
        Ok(Authority::load(&self.0, purpose)?)
    }

    /// The list of clients.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn clients(&self) -> Result<Clients, FolderError> {
        self.check()?;
        Ok(Clients::load(&self.path("clients"))?)
    }

    /// What a gateway needs to let clients with certificates in at this port. `names` and `listens`: see
    /// [`CertifiedKeys`].
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn certified(
        &self,
        port: CertifiedPort,
        names: &[String],
        listens: &[IpAddr],
    ) -> Result<CertifiedKeys, FolderError> {
        let failed =
            |source| FolderError::Io { action: "make a certificate with", path: self.path("gateway-ca.key"), source };
        let (authority, _) =
            self.authority(Purpose::Clients)?.certificate().map_err(|e| failed(io::Error::other(e)))?;
        let clients = KnownClients { authority, list: Arc::new(Mutex::new(self.clients()?)), port };
        CertifiedKeys::new(self.authority(Purpose::Gateway)?, Some(clients), names, listens).map_err(failed)
    }
}

/// Whether a secret that cannot be opened is in nobody's way: one that is kept elsewhere, or the cluster's key where it is root's alone, as only rotations need it.
fn is_harmless(name: &str, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::PermissionDenied => CLUSTER_SECRETS.contains(&name),
        _ => false,
    }
}

pub(super) fn read_grant(path: &Path) -> Result<(Vec<u8>, Grant), FolderError> {
    let failed = |source| FolderError::Io { action: "read", path: path.to_path_buf(), source };
    let bytes = match read_owned(path, Kind::Integrity, GRANT_BYTES as u64) {
        Err(Unusable::Io(e)) if e.kind() == io::ErrorKind::NotFound => {
            return Err(FolderError::Grant(path.to_path_buf(), BadGrant::Form));
        }
        read => read.map_err(|e| e.or(failed))?,
    };
    let grant = Grant::parse(&bytes).map_err(|why| FolderError::Grant(path.to_path_buf(), why))?;
    Ok((bytes, grant))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_cluster_has_keys_of_its_owner_alone_and_they_are_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("keys"));
        assert!(matches!(folder.load(), Err(FolderError::Missing(_))));
        let cluster = folder.create().unwrap();
        assert!(matches!(folder.create(), Err(FolderError::Exists(_))));
        assert_eq!(fs::metadata(&folder.0).unwrap().mode() & 0o777, 0o700);
        for entry in fs::read_dir(&folder.0).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
        }
        let keys = folder.load().unwrap();
        assert_eq!((folder.cluster().unwrap(), keys.granted.cluster, keys.granted.generation), (cluster, cluster, 1));
    }

    #[test]
    fn what_others_may_read_or_change_is_refused_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("keys"));
        folder.create().unwrap();
        put_file(&folder.path("previous.grant"), &fs::read(folder.path("gateway.grant")).unwrap()).unwrap();
        put_file(&folder.path("cluster.key.new"), b"begun").unwrap();
        let is_refused = |path: &Path, mode: u32, good: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            let text = folder.load().map(drop).unwrap_err().to_string();
            let who = if mode & 0o022 == 0 { "others may read" } else { "others may" };
            assert!(text.contains(who) && text.contains(&path.display().to_string()), "{mode:o}: {text}");
            fs::set_permissions(path, fs::Permissions::from_mode(good)).unwrap();
            assert!(folder.load().is_ok());
        };
        for entry in fs::read_dir(&folder.0).unwrap() {
            is_refused(&entry.unwrap().path(), 0o620, 0o600);
        }
        for name in SECRETS {
            is_refused(&folder.path(name), 0o640, 0o600);
        }
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o770)).unwrap();
        let all = [
            folder.lock().err(),
            folder.cluster().err(),
            folder.granted().err(),
            folder.pins().err(),
            folder.clients().err(),
            folder.authority(Purpose::Gateway).err(),
        ];
        for error in all {
            assert!(matches!(error, Some(FolderError::Unsafe(Unsafe::Writable { .. }))), "{error:?}");
        }
    }

    #[test]
    fn what_is_lost_or_mixed_up_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, other) = (Folder::at(&dir.path().join("keys")), Folder::at(&dir.path().join("other")));
        folder.create().unwrap();
        other.create().unwrap();
        for name in ["gateway.key", "gateway.grant", "nodes", "cluster.pub"] {
            let (path, kept) = (folder.path(name), fs::read(folder.path(name)).unwrap());
            fs::remove_file(&path).unwrap();
            assert!(folder.load().is_err(), "without {name}");
            put_file(&path, b"damaged").unwrap();
            assert!(folder.load().is_err(), "{name} damaged");
            if name != "nodes" {
                put_file(&path, &fs::read(other.path(name)).unwrap()).unwrap();
                assert!(folder.load().is_err(), "{name} of another cluster");
            }
            put_file(&path, &kept).unwrap();
            assert!(folder.load().is_ok());
        }
    }

    mod privileged {
        use std::os::unix::fs::chown;

        use rustix::process::Uid;

        use super::*;

        const GATEWAY: u32 = 61_234;

        #[test]
        #[ignore = "needs root"]
        fn the_clusters_key_may_be_roots_alone_and_the_gateways_own_may_not() {
            let dir = tempfile::tempdir().unwrap();
            let folder = Folder::at(&dir.path().join("keys"));
            folder.create().unwrap();
            put_file(&folder.path("cluster.key.new"), b"begun").unwrap();
            for path in [dir.path().to_path_buf(), folder.0.clone()] {
                chown(path, Some(GATEWAY), None).unwrap();
            }
            for entry in fs::read_dir(&folder.0).unwrap() {
                chown(entry.unwrap().path(), Some(GATEWAY), None).unwrap();
            }
            let is_loaded = || {
                let loading = std::thread::scope(|scope| {
                    scope
                        .spawn(|| {
                            // Of this thread alone.
                            let user = Uid::from_raw(GATEWAY);
                            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                            folder.load().map(drop)
                        })
                        .join()
                });
                loading.unwrap().is_ok()
            };
            assert!(is_loaded());
            for name in CLUSTER_SECRETS {
                chown(folder.path(name), Some(0), None).unwrap();
            }
            assert!(is_loaded(), "only `key rotate` needs them");
            for name in ["gateway.key", "gateway-ca.key"] {
                chown(folder.path(name), Some(0), None).unwrap();
                assert!(!is_loaded(), "{name}");
                chown(folder.path(name), Some(GATEWAY), None).unwrap();
            }
        }
    }
}
