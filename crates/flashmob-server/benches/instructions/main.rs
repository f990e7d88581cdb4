//! Instructions per read that the store answers at once, with and without checksums, counted by callgrind.
//!
//! Those of this program: what the kernel does in a system call is not counted. docs/benchmarking.md says what the numbers mean.

#[path = "../../../flashmob-core/benches/instructions/allocations.rs"]
mod allocations;
#[path = "../../../flashmob-core/benches/instructions/callgrind.rs"]
mod callgrind;
#[path = "../../../flashmob-core/benches/instructions/figures.rs"]
mod figures;
#[path = "../../../flashmob-core/benches/instructions/harness.rs"]
mod harness;
mod hits;

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::main(&hits::all(), "instructions-store.json")
}
