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
use crate::store::{put_file, read_bounded, sync_parent};

/// What a connection is for that is a link, as TLS's ALPN names it. There is one name for each purpose.
pub const LINK_PURPOSE: &[u8] = b"flashmob-link/1";
/// The same of a connection of a node or the gateway's own machine to the gateway's administrative port.
pub const ADMIN_PURPOSE: &[u8] = b"flashmob-admin/1";

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
        "{0} is there: nodes may be of the cluster before; give them to the new one, and end that with `flashmob key rotate --cluster --end`"
    )]
    Rotating(PathBuf),
    /// The cluster is getting another key, and that was interrupted.
    #[error("{0} is there: the cluster is getting another key; go on with `flashmob key rotate --cluster`")]
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
pub struct Folder(PathBuf);

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
        let folder = fs::File::open(&self.0).map_err(failed)?;
        rustix::fs::flock(&folder, rustix::fs::FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
        Ok(folder)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let path = self.path(name);
        let put = put_file(&path, bytes).and_then(|()| sync_parent(&path));
        put.map_err(|source| FolderError::Io { action: "write", path, source })
    }

    /// Draws a key for the gateway, and signs its grant.
    fn grant_anew(&self, cluster: &SecretKey, generation: u64) -> Result<PublicKey, FolderError> {
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
        let path = self.path("cluster.pub");
        let failed = |source| FolderError::Io { action: "read", path: path.clone(), source };
        let bytes = match read_bounded(&path, 100) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(FolderError::Missing(self.0.clone())),
            read => read.map_err(failed)?,
        };
        let key = String::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
        key.ok_or(FolderError::Key(KeyError::Damaged(path)))
    }

    /// Gives the gateway another key, of the next generation, so that the one before is refused by each node that has seen it. `cluster_key`: where the
    /// cluster's key is, if not in the folder. `at_least`: if the grant is lost, or of an older copy of the folder. Returns the gateway's key and the generation.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn rotate_gateway(
        &self,
        cluster_key: Option<&Path>,
        at_least: Option<u64>,
    ) -> Result<(PublicKey, u64), FolderError> {
        self.check_ended()?;
        let cluster = self.cluster_key(cluster_key)?;
        let last = match (self.granted(), at_least) {
            (Ok((_, granted)), _) => granted.generation,
            (Err(_), Some(_)) => 0,
            (Err(error), None) => return Err(error),
        };
        let next = later_than(last)?.max(at_least.unwrap_or(0));
        if next > GENERATION_MAX {
            return Err(FolderError::Generations);
        }
        Ok((self.grant_anew(&cluster, next)?, next))
    }

    fn check_ended(&self) -> Result<(), FolderError> {
        let previous = self.path("previous.grant");
        if previous.exists() { Err(FolderError::Rotating(previous)) } else { Ok(()) }
    }

    /// Gives the cluster another key. The grant by the key before stays beside that by the new one until [`Folder::end_rotation`], as nodes are given to the
    /// new cluster one after another, each at its device. Begun again if it was interrupted. Returns the cluster's key and the generation.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn rotate_cluster(&self) -> Result<(PublicKey, u64), FolderError> {
        let (staged, previous) = (self.path("cluster.key.new"), self.path("previous.grant"));
        let failed = |action, source| FolderError::Io { action, path: staged.clone(), source };
        let gateway = SecretKey::load(&self.path("gateway.key"))?;
        let begun = if staged.exists() { Some(SecretKey::load(&staged)?) } else { None };
        let signed = read_grant(&self.path("gateway.grant"))?.1.cluster;
        let cluster = match begun {
            Some(cluster) if cluster.public() == signed => cluster,
            // Somebody may have it since it was drawn.
            Some(_) => self.stage_cluster_key(&staged, true)?,
            None => {
                self.check_ended()?;
                // Nothing is changed before all of it can be used.
                let (_, granted, _) = self.gateway_key()?;
                later_than(granted.generation)?;
                self.stage_cluster_key(&staged, false)?
            }
        };
        if !previous.exists() {
            self.put("previous.grant", &self.gateway_key()?.0)?;
        }
        let before = read_grant(&previous)?.1;
        let next = later_than(before.generation)?;
        self.put("gateway.grant", &Grant::sign(&cluster, gateway.public(), next))?;
        self.put("cluster.pub", format!("{}\n", cluster.public()).as_bytes())?;
        let path = self.path("cluster.key");
        fs::rename(&staged, &path).and_then(|()| sync_parent(&path)).map_err(|source| failed("rename", source))?;
        Ok((cluster.public(), next))
    }

    fn stage_cluster_key(&self, path: &Path, is_there: bool) -> Result<SecretKey, FolderError> {
        let failed = |action, source| FolderError::Io { action, path: path.to_path_buf(), source };
        if is_there {
            fs::remove_file(path).map_err(|source| failed("remove", source))?;
        }
        let cluster = SecretKey::draw().map_err(|source| failed("make", source))?;
        cluster.save_new(path)?;
        Ok(cluster)
    }

    /// Nodes of the cluster before are not used any more. The gateway gets another key: who had the cluster's key before probably has the gateway's, too,
    /// and the grant for it is no secret. `cluster_key`: see [`Folder::rotate_gateway`]. Returns the generation; `None` if there was no cluster before.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn end_rotation(&self, cluster_key: Option<&Path>) -> Result<Option<u64>, FolderError> {
        let path = self.path("previous.grant");
        if self.path("cluster.key.new").exists() {
            return Err(FolderError::Begun(self.path("cluster.key.new")));
        }
        if !path.exists() {
            return Ok(None);
        }
        // Nothing is changed before it can be.
        self.cluster_key(cluster_key)?;
        later_than(self.granted()?.1.generation)?;
        let removed = fs::remove_file(&path).and_then(|()| sync_parent(&path));
        removed.map_err(|source| FolderError::Io { action: "remove", path, source })?;
        Ok(Some(self.rotate_gateway(cluster_key, None)?.1))
    }

    /// The cluster's key: in the folder, if not elsewhere.
    fn cluster_key(&self, elsewhere: Option<&Path>) -> Result<SecretKey, FolderError> {
        let path = elsewhere.map_or_else(|| self.path("cluster.key"), Path::to_path_buf);
        let cluster = SecretKey::load(&path)?;
        if cluster.public() == self.cluster()? { Ok(cluster) } else { Err(FolderError::OtherCluster(path)) }
    }

    /// The grant of the cluster before for that key of the gateway, as bytes; none if there is none.
    pub(super) fn previous(&self, gateway: PublicKey) -> Result<Option<(Vec<u8>, Grant)>, FolderError> {
        let path = self.path("previous.grant");
        if !path.exists() {
            return Ok(None);
        }
        let (bytes, grant) = read_grant(&path)?;
        if grant.gateway != gateway {
            return Err(FolderError::Foreign(path));
        }
        Ok(Some((bytes, grant)))
    }

    /// The cluster before the present one, while nodes may be of it.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn previous_cluster(&self) -> Result<Option<PublicKey>, FolderError> {
        let path = self.path("previous.grant");
        Ok(if path.exists() { Some(read_grant(&path)?.1.cluster) } else { None })
    }

    /// The grant, as bytes and read.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn granted(&self) -> Result<(Vec<u8>, Grant), FolderError> {
        let path = self.path("gateway.grant");
        let (bytes, grant) = read_grant(&path)?;
        if grant.cluster != self.cluster()? {
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
        Ok(Pins::load(&self.path("nodes"))?)
    }

    /// One of the two authorities.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn authority(&self, purpose: Purpose) -> Result<Authority, FolderError> {
        Ok(Authority::load(&self.0, purpose)?)
    }

    /// The list of clients.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn clients(&self) -> Result<Clients, FolderError> {
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

fn read_grant(path: &Path) -> Result<(Vec<u8>, Grant), FolderError> {
    let failed = |source| FolderError::Io { action: "read", path: path.to_path_buf(), source };
    let bytes = match read_bounded(path, GRANT_BYTES as u64) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(FolderError::Grant(path.to_path_buf(), BadGrant::Form));
        }
        read => read.map_err(failed)?,
    };
    let grant = Grant::parse(&bytes).map_err(|why| FolderError::Grant(path.to_path_buf(), why))?;
    Ok((bytes, grant))
}

/// The generation after that one.
fn later_than(generation: u64) -> Result<u64, FolderError> {
    if generation < GENERATION_MAX { Ok(generation + 1) } else { Err(FolderError::Generations) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

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
    fn another_gateway_key_is_of_the_next_generation() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("keys"));
        folder.create().unwrap();
        let first = folder.load().unwrap().granted;
        // The cluster's key may be elsewhere.
        let away = dir.path().join("away.key");
        fs::rename(folder.path("cluster.key"), &away).unwrap();
        assert!(matches!(folder.rotate_gateway(None, None), Err(FolderError::Key(KeyError::Missing(_)))));
        let (key, generation) = folder.rotate_gateway(Some(&away), None).unwrap();
        let second = folder.load().unwrap().granted;
        assert_eq!((second.gateway, second.generation, generation), (key, 2, 2));
        assert!(second.gateway != first.gateway && second.cluster == first.cluster);
        let other = Folder::at(&dir.path().join("other"));
        other.create().unwrap();
        let foreign = folder.rotate_gateway(Some(&other.path("cluster.key")), None);
        assert!(matches!(foreign, Err(FolderError::OtherCluster(_))), "{foreign:?}");
        assert_eq!(folder.load().unwrap().granted, second);

        // A grant that is lost.
        fs::remove_file(folder.path("gateway.grant")).unwrap();
        let error = folder.rotate_gateway(Some(&away), None).unwrap_err().to_string();
        assert!(error.contains("--generation"), "{error}");
        assert_eq!(folder.rotate_gateway(Some(&away), Some(9)).unwrap().1, 9);
        assert_eq!(folder.rotate_gateway(Some(&away), Some(3)).unwrap().1, 10);
        let last = folder.rotate_gateway(Some(&away), Some(GENERATION_MAX)).unwrap().1;
        assert_eq!(last, GENERATION_MAX);
        assert!(matches!(folder.rotate_gateway(Some(&away), None), Err(FolderError::Generations)));
        assert!(matches!(folder.rotate_gateway(Some(&away), Some(u64::MAX)), Err(FolderError::Generations)));
    }

    #[test]
    fn a_cluster_gets_another_key_and_the_grant_before_stays_until_that_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("keys"));
        let first = folder.create().unwrap();
        let mut running = folder.load().unwrap();
        let shown = running.shown();
        assert_eq!(folder.end_rotation(None).unwrap(), None);
        let saved: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&folder.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        let (second, generation) = folder.rotate_cluster().unwrap();
        assert_ne!(first, second);
        assert_eq!(
            (generation, folder.cluster().unwrap(), folder.previous_cluster().unwrap()),
            (2, second, Some(first))
        );
        let before = running.refresh().unwrap().unwrap();
        assert_eq!((before.shown(), running.granted.cluster, running.granted.generation), (shown.clone(), second, 2));
        assert_eq!(crate::keys::shown::read(&running.shown(), first).unwrap().0.map(|grant| grant.generation), Ok(1));
        assert!(running.refresh().unwrap().is_none());
        assert_eq!(folder.load().unwrap().shown(), running.shown(), "also for a gateway that starts");
        for refused in [folder.rotate_cluster().map(|_| ()), folder.rotate_gateway(None, None).map(|_| ())] {
            assert!(matches!(refused, Err(FolderError::Rotating(_))), "{refused:?}");
        }
        let away = dir.path().join("away.key");
        fs::rename(folder.path("cluster.key"), &away).unwrap();
        assert!(matches!(folder.end_rotation(None), Err(FolderError::Key(_))));
        assert_eq!(folder.previous_cluster().unwrap(), Some(first), "nothing was changed");
        let gateway = running.granted.gateway;
        assert_eq!(folder.end_rotation(Some(&away)).unwrap(), Some(3));
        assert!(running.refresh().unwrap().is_some());
        assert_eq!((running.shown().len(), folder.previous_cluster().unwrap()), (GRANT_BYTES, None));
        assert_ne!(running.granted.gateway, gateway, "who had the folder before has that one");
        fs::rename(&away, folder.path("cluster.key")).unwrap();
        // Two changes between two looks.
        assert_eq!(folder.rotate_gateway(None, None).unwrap().1, 4);
        assert_eq!(folder.rotate_cluster().unwrap().1, 5);
        assert!(running.refresh().unwrap().is_some());

        // Interrupted at each of its files, it is begun again.
        for steps in 0..5 {
            for entry in fs::read_dir(&folder.0).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            saved.iter().for_each(|(path, bytes)| put_file(path, bytes).unwrap());
            let staged = SecretKey::draw().unwrap();
            let gateway = SecretKey::load(&folder.path("gateway.key")).unwrap().public();
            let done: [&dyn Fn(); 4] = [
                &|| staged.save_new(&folder.path("cluster.key.new")).unwrap(),
                &|| folder.put("previous.grant", &shown).unwrap(),
                &|| folder.put("gateway.grant", &Grant::sign(&staged, gateway, 2)).unwrap(),
                &|| folder.put("cluster.pub", format!("{}\n", staged.public()).as_bytes()).unwrap(),
            ];
            done[..steps].iter().for_each(|step| step());
            assert_eq!(matches!(folder.end_rotation(None), Err(FolderError::Begun(_))), steps > 0);
            let (cluster, generation) = folder.rotate_cluster().unwrap();
            assert_eq!((generation, folder.previous_cluster().unwrap()), (2, Some(first)), "{steps}");
            assert_eq!(cluster == staged.public(), steps > 2, "a key that lay about is not used");
            assert_eq!(folder.load().unwrap().granted.cluster, cluster);
            assert!(!folder.path("cluster.key.new").exists());
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
}
