//! Removes instances and probes if this process is killed before it can.
//!
//! A shell in its own session holds the read end of a pipe; only this process has the write end. When this process exits for any reason, the shell
//! reads end-of-file and cleans up. If the shell is killed too, the next run cleans up.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::owner::Owner;
use super::tracefs::Tracefs;

/// Time limit for the shell to exit: it has nothing left to remove, unless another process holds an instance open.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Arguments: name prefixes of the session's instances and of its probe groups. An instance stays busy until all its files are closed, both those of
/// the killed process and those opened by traced programs; the shell retries for ten minutes.
const WATCHER: &str = r#"
trap '' INT TERM HUP QUIT PIPE
while read -r _; do :; done
tries=0
while [ $tries -lt 600 ]; do
  left=
  for instance in "instances/$1"*; do
    [ -d "$instance" ] || continue
    rmdir "$instance" 2>/dev/null || left=yes
  done
  [ -n "$left" ] || break
  tries=$((tries + 1))
  sleep 1
done
probes=
[ -r uprobe_events ] && while read -r probe _; do probes="$probes $probe"; done <uprobe_events
for probe in $probes; do
  case "$probe" in *:"$2"*) echo "-:${probe#*:}" >>uprobe_events ;; esac
done
"#;

#[derive(Debug)]
pub struct Guardian {
    child: Child,
}

impl Guardian {
    pub fn start(tracefs: &Tracefs, owner: &Owner) -> io::Result<Guardian> {
        let start = |shell: &str| {
            let mut command = Command::new(shell);
            command.args(["-c", WATCHER, "sh", &owner.instance(""), &owner.group_prefix()]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(tracefs.root());
            // SAFETY: between fork and exec only setsid(2) is called, which takes no lock and allocates nothing.
            unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
            command.spawn()
        };
        let child = match start("sh") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => start("/system/bin/sh"),
            started => started,
        }?;
        Ok(Guardian { child })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if begun.elapsed() > ENDS_WITHIN {
                // A traced program still has the marker open; the shell removes the instance when it exits.
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
