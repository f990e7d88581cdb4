//! Programs that create file systems.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::Kind;

/// Directories of root's programs, which may not be in PATH.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// The program, its package, and its arguments besides the device. File systems are initialised completely: deferred initialisation
/// would be in every trace.
fn recipe(kind: Kind) -> (&'static str, &'static str, &'static [&'static str]) {
    // Small file systems would otherwise have blocks of 1 KiB, unlike those of current devices.
    const WHOLE: &str = "lazy_itable_init=0,lazy_journal_init=0";
    match kind {
        Kind::Ext4 => ("mkfs.ext4", "e2fsprogs", &["-q", "-F", "-b", "4096", "-E", WHOLE]),
        Kind::Ext4NoJournal => {
            ("mkfs.ext4", "e2fsprogs", &["-q", "-F", "-b", "4096", "-O", "^has_journal", "-E", "lazy_itable_init=0"])
        }
        Kind::Xfs => ("mkfs.xfs", "xfsprogs", &["-q", "-f"]),
        Kind::F2fs => ("mkfs.f2fs", "f2fs-tools", &["-q", "-f"]),
    }
}

/// Fails if this kernel does not support it.
pub(super) fn check_kernel(kind: Kind) -> anyhow::Result<()> {
    let name = kind.filesystem();
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.trim() == name) {
        return Ok(());
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    // A module is loaded by mounting.
    let listed = |list: &str| {
        let text = std::fs::read_to_string(format!("/lib/modules/{release}/{list}")).unwrap_or_default();
        text.lines().any(|line| line.split(':').next().is_some_and(|path| path.contains(&format!("/{name}.ko"))))
    };
    if listed("modules.dep") {
        return Ok(());
    }
    bail!(
        "this kernel ({release}) has no {name}: it is neither in /proc/filesystems nor among its modules; choose another file system"
    )
}

/// The path of its program.
pub(super) fn tool(kind: Kind) -> anyhow::Result<PathBuf> {
    let (name, package, _) = recipe(kind);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is not installed; install its package: apt-get install {package}"))
}

/// Creates it on this device.
pub(super) fn make(kind: Kind, tool: &Path, device: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(tool);
    command.args(recipe(kind).2).arg(device).stdin(Stdio::null()).stdout(Stdio::null());
    // Ctrl-C goes to this process, which stops after the program has ended.
    let output = command.process_group(0).output().with_context(|| format!("cannot start {}", tool.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("{} failed ({}): {}", tool.display(), output.status, said.trim())
}
