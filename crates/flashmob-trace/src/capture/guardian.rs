//! Removes instances and probes when this process is killed and cannot do it.
//!
//! A shell of a session of its own holds the reading end of a pipe whose writing end only this process has: when it is gone, for whatever reason, the
//! shell reads the end. If the shell is killed too, the next run removes what is left.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::owner::Owner;
use super::tracefs::Tracefs;

/// It has nothing to do by then, unless somebody holds an instance open.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Arguments: how the names of the session's instances begin, and those of its groups of probes. An instance is busy for as long as the dead process's
/// files, and what traced programs opened of it, are not all closed; it tries for ten minutes.
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

/// The shell, until it is not needed any more.
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
            // SAFETY: between fork and exec only setsid(2) is called, which takes no lock and no memory.
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
                // Somebody writes to a marker still: the shell removes the instance when they have ended.
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
