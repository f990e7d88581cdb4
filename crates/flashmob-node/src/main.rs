//! The program for devices that serve and do nothing else.

use std::process::ExitCode;

use flashmob_node::command_line::NodeCli;

/// Runs before Rust's runtime and before `main`, for both make system calls that an Android may forbid.
// SAFETY: the loader calls what stands in this section with no argument that is used, and the function needs no runtime.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = flashmob_server::android::sigsys::install_first;

fn main() -> ExitCode {
    NodeCli::of_process().run()
}
