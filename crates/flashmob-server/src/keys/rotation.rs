//! The gateway's key, and the cluster's, are replaced.
//!
//! The cluster's is replaced in files whose order lets it be begun again wherever it was interrupted: the new key under another name, the grant by the one
//! before, the grant by the new one, the new one's public half, its name.

use std::fs;
use std::path::Path;

use super::folder::{Folder, FolderError, read_grant};
use super::grant::{GENERATION_MAX, Grant};
use super::key::{PublicKey, SecretKey};
use crate::store::sync_parent;

impl Folder {
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
            Some(_) => {
                // Somebody may have it since it was drawn.
                fs::remove_file(&staged).map_err(|source| failed("remove", source))?;
                draw_new(&staged)?
            }
            None => {
                self.check_ended()?;
                // Nothing is changed before all of it can be used.
                let (_, granted, _) = self.gateway_key()?;
                later_than(granted.generation)?;
                draw_new(&staged)?
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

    /// The grant of the cluster before, as bytes and read; none if there is none.
    pub(super) fn previous(&self) -> Result<Option<(Vec<u8>, Grant)>, FolderError> {
        let path = self.path("previous.grant");
        if path.exists() { read_grant(&path).map(Some) } else { Ok(None) }
    }

    /// The cluster before the present one, while nodes may be of it.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn previous_cluster(&self) -> Result<Option<PublicKey>, FolderError> {
        Ok(self.previous()?.map(|(_, grant)| grant.cluster))
    }
}

/// A new key, in a new file.
fn draw_new(path: &Path) -> Result<SecretKey, FolderError> {
    let failed = |source| FolderError::Io { action: "make", path: path.to_path_buf(), source };
    let key = SecretKey::draw().map_err(failed)?;
    key.save_new(path)?;
    Ok(key)
}

/// The generation after that one.
fn later_than(generation: u64) -> Result<u64, FolderError> {
    if generation < GENERATION_MAX { Ok(generation + 1) } else { Err(FolderError::Generations) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::grant::GRANT_BYTES;
    use super::super::key::KeyError;
    use super::*;
    use crate::store::put_file;

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
}
