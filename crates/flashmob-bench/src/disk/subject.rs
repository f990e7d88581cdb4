//! The subject of a measurement: a file, or a model of a device.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use flashmob_lab::flash::{Profile, Scheduler};
use flashmob_results::device::Place;
use flashmob_results::disk::{Cache, Operation, Parameters, Sync};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::error::DiskError;
use crate::modelled::ModelledDisk;
use flashmob_host::place::Disk;

/// An existing file that may be used.
#[derive(Debug)]
pub struct FileSubject {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// It was made by the benchmark, now or earlier.
    pub made_by_benchmark: bool,
    /// Its place.
    pub place: Place,
    /// The disk below it, where there is one.
    pub disk: Option<Disk>,
    /// Its identity, see [`FileSubject::inode_of`]: the path may lead to another file later.
    pub inode: (u64, u64),
}

/// The target of a repetition's requests.
pub(super) enum Opened<'a> {
    File(File),
    Model(&'a ModelledDisk),
}

impl FileSubject {
    /// A file's identity: its device and inode number.
    #[must_use]
    pub fn inode_of(metadata: &Metadata) -> (u64, u64) {
        (metadata.dev(), metadata.ino())
    }

    /// Removes the file. A symbolic link to it stays.
    ///
    /// # Errors
    /// Another file has taken its place, or the system's error.
    pub fn remove(&self) -> io::Result<()> {
        let path = self.path.canonicalize()?;
        self.is_still(&path.symlink_metadata()?)?;
        std::fs::remove_file(path)
    }

    fn is_still(&self, metadata: &Metadata) -> io::Result<()> {
        if FileSubject::inode_of(metadata) == self.inode {
            return Ok(());
        }
        Err(io::Error::other("another file has taken its place since this began; measure again"))
    }

    /// Opens it for one point; for reads read-only, so that nothing can be damaged. A file that has taken its place since is refused.
    pub(super) fn open(&self, parameters: &Parameters) -> Result<File, DiskError> {
        let writes = parameters.operation == Operation::Write;
        let direct = parameters.cache == Cache::Direct;
        let mut flags = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        // A pipe in its place must not block.
        flags |= OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::DIRECT, direct);
        flags.set(OFlags::DSYNC, parameters.sync == Some(Sync::Dsync));
        let failed = |doing, source| DiskError::File { path: self.path.clone(), doing, source };
        let file = rustix::fs::open(&self.path, flags, Mode::empty()).map(File::from).map_err(|errno| {
            let doing = match (direct, errno) {
                (true, Errno::INVAL) => "this file system has no direct I/O; use --cache cold",
                _ if writes => "cannot be opened for writing",
                _ => "cannot be opened",
            };
            failed(doing, errno.into())
        })?;
        let checked = file.metadata().and_then(|metadata| self.is_still(&metadata));
        // io_uring treats non-blocking files differently.
        let checked = checked.and_then(|()| {
            let flags = rustix::fs::fcntl_getfl(&file)?;
            Ok(rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?)
        });
        checked.map(|()| file).map_err(|error| failed("cannot be used", error))
    }
}

/// A model of a device.
#[derive(Debug)]
pub struct ModelSubject {
    /// Its numbers.
    pub profile: Profile,
    /// Size of the modelled file.
    pub size_bytes: u64,
    /// One modelled device for each scheduler.
    disks: Vec<(Scheduler, ModelledDisk)>,
}

impl ModelSubject {
    /// The model of that name. Service times are drawn from `seed`.
    ///
    /// # Errors
    /// There is no such model, or it does not support that size.
    pub fn new(profile: &str, size_bytes: u64, seed: u64) -> Result<ModelSubject, DiskError> {
        let profile = Profile::named(profile)?;
        let disk = |scheduler| Ok((scheduler, ModelledDisk::new(&profile, scheduler, size_bytes, seed)?));
        let disks: Result<Vec<_>, DiskError> = Scheduler::ALL.into_iter().map(disk).collect();
        Ok(ModelSubject { disks: disks?, profile, size_bytes })
    }

    /// The device behind this scheduler; without a name, behind `none`.
    pub(super) fn disk(&self, scheduler: Option<&str>) -> &ModelledDisk {
        let wanted = scheduler.and_then(|name| name.parse().ok()).unwrap_or(Scheduler::None);
        let found = self.disks.iter().find(|(scheduler, _)| *scheduler == wanted);
        found.map(|(_, disk)| disk).unwrap_or(&self.disks[0].1)
    }
}
