//! The one binary: reads the command line and hands over to the library.

use std::process::ExitCode;

use clap::Parser;

/// Runs before Rust's runtime and before `main`, for both make system calls that an Android may forbid.
// SAFETY: the loader calls what stands in this section with no argument that is used, and the function needs no runtime.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = flashmob::android::sigsys::install_first;

fn main() -> ExitCode {
    flashmob::commands::run(flashmob::commands::Cli::parse())
}
