//! Instructions per request: what the core executes, counted by callgrind, and compared with figures that were accepted.
//!
//! Time on a machine that does other things as well varies by tens of percent; the number of instructions that a
//! deterministic state machine executes hardly varies at all, so a change of a few percent shows. What the numbers mean and what
//! they do not is told in docs/benchmarking.md. `harness` says how they are counted; flashmob-server counts the store's with it.

mod allocations;
mod callgrind;
mod cases;
mod codec;
mod figures;
mod harness;
mod host;
mod session;
mod world;

use std::process::ExitCode;

use harness::count_off;

fn main() -> ExitCode {
    harness::main(&cases::all(), "instructions.json")
}
