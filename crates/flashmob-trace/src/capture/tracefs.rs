//! Access to tracefs: where it is mounted, or through a detached mount of this process, which is released with its descriptor.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Usual mount points; older Android kernels have it in debugfs only.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// More than the kernel returns from one read.
const READ_BYTES: usize = 64 << 10;
/// The inode of the initial PID namespace, fixed by the kernel (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE_INODE: u64 = 0xEFFF_FFFC;
const BY_HAND: &str = "mount -t tracefs none /sys/kernel/tracing";

#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// The detached mount, if `root` is a path through its descriptor.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds tracefs, or mounts it for this process alone. The error is a message with its remedy.
    pub fn find() -> Result<Tracefs, String> {
        if cfg!(target_endian = "big") {
            return Err("traces of big-endian machines are not supported".to_string());
        }
        // Trace events carry PIDs of the initial namespace, which match none of another one.
        if std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != INITIAL_PID_NAMESPACE_INODE)
        {
            return Err(
                "this process runs in a PID namespace of its own, as in a container, and the kernel's trace events carry the host's PIDs: \
                 run this on the host, or start the container with the host's PID namespace (docker run --pid=host)"
                    .to_string(),
            );
        }
        let mut is_forbidden = false;
        for place in PLACES {
            match std::fs::read_dir(Path::new(place).join("events")) {
                Ok(_) => return Tracefs { root: place.into(), _mount: None }.checked(),
                Err(error) => is_forbidden |= error.kind() == ErrorKind::PermissionDenied,
            }
        }
        match Tracefs::mount() {
            Ok(tracefs) => tracefs.checked(),
            Err(_) if is_forbidden => Err("tracing the kernel needs root: run this as root".to_string()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(format!("tracing the kernel needs root and tracefs: run this as root, or first: {BY_HAND}"))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                Err("the kernel was built without tracing (CONFIG_FTRACE); another kernel is needed".to_string())
            }
            Err(error) => Err(format!("tracefs is not mounted and cannot be ({error}); as root: {BY_HAND}")),
        }
    }

    fn mount() -> io::Result<Tracefs> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        // Not /proc/self: the path is given to processes that are traced.
        let root = format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd()).into();
        Ok(Tracefs { root, _mount: Some(mount) })
    }

    fn checked(self) -> Result<Tracefs, String> {
        if self.root.join("instances").is_dir() {
            return Ok(self);
        }
        Err(format!(
            "the kernel's tracing has no instances ({} is missing); it needs Linux 3.10 or later",
            self.root.join("instances").display()
        ))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }
}

/// Reads a file. Some of these files must be read with a single large read.
pub fn read(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let (mut bytes, mut used) = (vec![0; READ_BYTES], 0);
    loop {
        match file.read(&mut bytes[used..]) {
            Ok(0) => break,
            Ok(count) => used += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if bytes.len() - used < READ_BYTES {
            bytes.resize(bytes.len() * 2, 0);
        }
    }
    bytes.truncate(used);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a value, without truncating or creating the file.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Appends a line.
pub fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

/// An I/O error as a message with its remedy.
pub fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "not permitted: run this as root".to_string(),
        Some(libc::EROFS) => "tracefs is read-only here, as in a container: run this on the device itself".to_string(),
        Some(libc::ENOMEM) => "the kernel has no memory for it: ask for a smaller buffer".to_string(),
        _ => error.to_string(),
    }
}
