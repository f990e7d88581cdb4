//! The whole program: reads the command line and hands over to the library.

use std::process::ExitCode;

/// Runs before Rust's runtime and before `main`, for both make system calls that an Android may forbid.
// SAFETY: the loader calls what stands in this section with no argument that is used, and the function needs no runtime.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = flashmob_server::android::sigsys::install_first;

fn main() -> ExitCode {
    #[cfg(feature = "planted")]
    plant();
    flashmob::commands::run(flashmob::commands::Cli::of_process())
}

/// Plants the bug that FLASHMOB_PLANTED names: for the canaries of slow tests.
#[cfg(feature = "planted")]
fn plant() {
    use flashmob_core::planted::{Bug, plant};
    let Ok(name) = std::env::var("FLASHMOB_PLANTED") else { return };
    let bug = Bug::named(&name);
    assert!(bug.is_some() || name.is_empty(), "FLASHMOB_PLANTED={name}: there is no such bug");
    plant(bug);
}
