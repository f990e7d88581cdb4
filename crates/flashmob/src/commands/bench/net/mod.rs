//! `flashmob bench net`: its arguments.
//!
//! - [`args`]: the arguments, and the points that are combinations of their lists
//! - [`measure`]: points in rounds, and the exit status
//! - [`serve`]: the server
//! - [`path_args`], [`labs`], [`in_lab`]: modelled paths, a lab for each
//! - [`lines`]: output while it runs, as iperf3's
//! - [`table`]: the result as text
//! - [`record`]: the document, with reasons to doubt its figures

mod args;
mod lines;
mod measure;
mod record;
mod serve;
mod table;
#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub mod in_lab;
#[cfg(target_os = "linux")]
mod labs;
#[cfg(target_os = "linux")]
pub mod path_args;

use std::process::ExitCode;

pub use args::NetArgs;

/// Measures, or serves.
pub fn run(args: &NetArgs) -> anyhow::Result<ExitCode> {
    #[cfg(target_os = "linux")]
    if args.path.is_given() {
        return labs::run(args);
    }
    if args.server { serve::run(args) } else { measure::run(args) }
}
