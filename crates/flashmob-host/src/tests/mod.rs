//! Made-up hosts, and what is done for real. What needs root is ignored unless asked for:
//! `cargo test -p flashmob-host --lib -- --ignored`.

mod cache;
mod emulation;
mod places;
mod power;
mod privileged;
mod scheduler;
mod trees;
mod watch;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The path that a test handed to this process, which is its child; `None` in a test that nobody started that way.
fn child_path() -> Option<PathBuf> {
    std::env::var_os(CHILD_PATH).map(PathBuf::from)
}

const CHILD_PATH: &str = "FLASHMOB_TEST_CHILD_PATH";

/// This test program again, with the one ignored test `name` and `path` for it, behind `before`.
fn again(before: &[&str], name: &str, path: &Path) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut words = before.iter().map(std::ffi::OsString::from).chain([this.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command.args(["--exact", &format!("tests::{name}"), "--ignored", "--nocapture"]).env(CHILD_PATH, path);
    command
}
