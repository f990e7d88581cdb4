//! `flashmob reproduce`: repeats a paper's measurements, and checks whether its claims hold here.
//!
//! - `p1`, `p3`, `p4`, `p5`: the measurements of each paper, and how they are repeated here
//! - `runs`, `progress`: its parts as processes of this program, results so far, and progress
//! - `page`, `verdicts`: the output at the end

mod p1;
pub mod p3;
mod p4;
pub mod p5;
pub mod page;
mod progress;
pub mod runs;
mod verdicts;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Repeat a paper's measurements, and check its claims.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, Subcommand)]
enum Paper {
    P1(p1::P1Args),
    P3(p3::P3Args),
    P4(p4::P4Args),
    P5(p5::P5Args),
}

/// Measures, judges, and writes the page.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    match &args.paper {
        Paper::P1(args) => p1::run(args),
        Paper::P3(args) => p3::run(args),
        Paper::P4(args) => p4::run(args),
        Paper::P5(args) => p5::run(args),
    }
}
