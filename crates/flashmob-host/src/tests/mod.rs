//! Made-up hosts and real ones. Tests that need root are ignored by default:
//! `cargo test -p flashmob-host --lib -- --ignored`.

mod cache;
mod cache_lives;
mod emulation;
mod places;
mod power;
mod privileged;
mod scheduler;
mod trees;
mod watch;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The path passed by the test that started this process; `None` if no test did.
fn child_path() -> Option<PathBuf> {
    std::env::var_os(CHILD_PATH).map(PathBuf::from)
}

const CHILD_PATH: &str = "FLASHMOB_TEST_CHILD_PATH";

/// A command that runs the ignored test `name` of this program with `path`, prefixed with `before`.
fn again(before: &[&str], name: &str, path: &Path) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut words = before.iter().map(std::ffi::OsString::from).chain([this.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command.args(["--exact", &format!("tests::{name}"), "--ignored", "--nocapture"]).env(CHILD_PATH, path);
    command
}
